//! Attention per head, forward and backward, without a matrix of queries × keys in memory: a block of queries at a time,
//! whose scores stay in the cache. Every head of every element of the batch is a job; a gradient of the bias is summed in an
//! order that depends on shapes only.

#[cfg(target_arch = "x86_64")]
mod amx;
mod products;
mod rows;
mod wide;

#[cfg(test)]
mod tests;

use super::{Machine, Shared, Stored, scratch};
use crate::simd::{Simd, prefetch_to_second_level};
use octant_graph::AttentionKernel;

/// Where the rows of one operand lie, in elements; the features of a row follow each other.
#[derive(Clone, Copy)]
pub(crate) struct Tokens {
    first: usize,
    batch: usize,
    token: usize,
    head: usize,
}

impl Tokens {
    /// Queries, keys and values, each in an operand of its own or all in one.
    pub fn of_operands(kernel: &AttentionKernel) -> [Tokens; 3] {
        let width = kernel.heads * kernel.features;
        match kernel.joint {
            true => [0, 1, 2].map(|part| Tokens {
                first: part * width,
                batch: kernel.queries * 3 * width,
                token: 3 * width,
                head: kernel.features,
            }),
            false => [kernel.queries, kernel.keys, kernel.keys].map(|tokens| Tokens::dense(kernel, tokens)),
        }
    }

    /// `[batch, tokens, heads, features]`
    fn dense(kernel: &AttentionKernel, tokens: usize) -> Tokens {
        let width = kernel.heads * kernel.features;
        Tokens { first: 0, batch: tokens * width, token: width, head: kernel.features }
    }

    /// The first row of a head.
    fn head(&self, batch: usize, head: usize) -> usize {
        self.first + batch * self.batch + head * self.head
    }
}

/// What both directions read.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a, T> {
    pub kernel: &'a AttentionKernel,
    /// Queries, keys and values; the same slice three times if they are one operand.
    pub operands: [&'a [T]; 3],
    pub bias: Option<&'a [f32]>,
}

/// What the backward direction reads besides.
#[derive(Clone, Copy)]
pub(crate) struct Cotangents<'a, T> {
    pub result: &'a [T],
    pub log_sums: &'a [f32],
    pub of_result: &'a [T],
    pub of_log_sums: &'a [f32],
}

/// One head of one element of the batch.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a, T> {
    simd: Simd,
    inputs: Inputs<'a, T>,
    batch: usize,
    head: usize,
    /// The rows that the same thread reads next: where they begin, and the distance between them. Heads are small and lie
    /// scattered in memory, so that nothing else fetches them in time.
    next: [Option<(*const T, usize)>; 5],
}

impl<'a, T: Stored> Head<'a, T> {
    fn new(simd: Simd, inputs: Inputs<'a, T>, batch: usize, head: usize) -> Head<'a, T> {
        Head { simd, inputs, batch, head, next: [None; 5] }
    }

    /// Prefetches a row of what the next head reads.
    #[inline(always)]
    fn fetch_next(&self, row: usize) {
        const LINE: usize = 64;
        for (first, distance) in self.next.into_iter().flatten() {
            let row = first.wrapping_add(row * distance).cast::<u8>();
            for line in (0..self.inputs.kernel.features * size_of::<T>()).step_by(LINE) {
                prefetch_to_second_level(row.wrapping_add(line));
            }
        }
    }

    /// The first row of queries, keys and values, and the distance to the next.
    fn operands(&self) -> [(*const T, usize); 3] {
        let tokens = Tokens::of_operands(self.inputs.kernel);
        [0, 1, 2].map(|part| {
            let first = tokens[part].head(self.batch, self.head);
            (self.inputs.operands[part].as_ptr().wrapping_add(first), tokens[part].token)
        })
    }

    /// The row of the bias for a query; null if there is none.
    fn bias_row(&self, query: usize) -> *const f32 {
        let kernel = self.inputs.kernel;
        let (Some(bias), Some([groups, heads, queries])) = (self.inputs.bias, kernel.bias) else {
            return std::ptr::null();
        };
        let (head, query) = (if heads == 1 { 0 } else { self.head }, if queries == 1 { 0 } else { query });
        let row = (self.batch % groups * heads + head) * queries + query;
        bias.as_ptr().wrapping_add(row * kernel.keys)
    }

    /// How many keys a query sees, counted from the first.
    fn visible(&self, query: usize) -> usize {
        let kernel = self.inputs.kernel;
        if kernel.causal { kernel.keys.min(query + 1) } else { kernel.keys }
    }

    /// Where this head's rows of `[batch, queries, heads, features]` begin, and the distance between them.
    fn result_rows(&self) -> (usize, usize) {
        let tokens = Tokens::dense(self.inputs.kernel, self.inputs.kernel.queries);
        (tokens.head(self.batch, self.head), tokens.token)
    }

    /// Where this head's numbers of `[batch, heads, queries]` begin.
    fn sums_row(&self) -> usize {
        let kernel = self.inputs.kernel;
        (self.batch * kernel.heads + self.head) * kernel.queries
    }
}

/// Where a head's results go.
pub(crate) struct ForwardResults<T> {
    /// Rows of the result, with a stride of `row` elements.
    result: *mut T,
    row: usize,
    log_sums: *mut f32,
}

/// A head's share of [`Cotangents`] and where its gradients go.
pub(crate) struct BackwardRows<T> {
    result: *const T,
    of_result: *const T,
    /// Between rows of both.
    row: usize,
    log_sums: *const f32,
    of_log_sums: *const f32,
    /// The first row of the gradients of queries, keys and values, and the distance to the next.
    gradients: [(*mut T, usize); 3],
    /// `[queries, keys]`, added to; null if it is not wanted.
    bias_gradient: *mut f32,
}

/// An element type that heads are computed for.
pub(crate) trait AttentionElement: Stored {
    /// Computes a head.
    ///
    /// # Safety
    /// The slices have the sizes of the descriptor, and the results are this head's alone.
    unsafe fn forward(head: &Head<'_, Self>, results: &ForwardResults<Self>);
    /// Computes the gradients of a head.
    ///
    /// # Safety
    /// As [`AttentionElement::forward`].
    unsafe fn backward(head: &Head<'_, Self>, rows: &BackwardRows<Self>);
}

impl AttentionElement for f32 {
    unsafe fn forward(head: &Head<'_, f32>, results: &ForwardResults<f32>) {
        // SAFETY: the caller's promise.
        unsafe { wide::forward(head, results) }
    }
    unsafe fn backward(head: &Head<'_, f32>, rows: &BackwardRows<f32>) {
        // SAFETY: the caller's promise.
        unsafe { wide::backward(head, rows) }
    }
}

impl AttentionElement for half::bf16 {
    unsafe fn forward(head: &Head<'_, half::bf16>, results: &ForwardResults<half::bf16>) {
        // SAFETY: the caller's promise; tiles are used where the machine has them.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if amx::fits(head) {
                return amx::forward(head, results);
            }
            wide::forward(head, results);
        }
    }
    unsafe fn backward(head: &Head<'_, half::bf16>, rows: &BackwardRows<half::bf16>) {
        // SAFETY: the caller's promise; tiles are used where the machine has them.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if amx::fits(head) {
                return amx::backward(head, rows);
            }
            wide::backward(head, rows);
        }
    }
}

fn check<T>(inputs: &Inputs<'_, T>, result: usize, sums: usize) {
    let kernel = inputs.kernel;
    let width = kernel.heads * kernel.features;
    let parts = if kernel.joint { 3 } else { 1 };
    let tokens = [kernel.queries, kernel.keys, kernel.keys];
    for (operand, tokens) in inputs.operands.iter().zip(tokens) {
        assert!(operand.len() >= kernel.batch * tokens * parts * width, "an operand of {kernel:?} is too short");
    }
    let bias: usize = kernel.bias.map_or(0, |dims| dims.iter().product::<usize>() * kernel.keys);
    assert!(inputs.bias.map_or(0, <[f32]>::len) >= bias, "the bias of {kernel:?} is too short");
    assert!(result >= kernel.batch * kernel.queries * width, "the result of {kernel:?} is too short");
    assert!(sums >= kernel.batch * kernel.heads * kernel.queries, "the sums of {kernel:?} are too short");
}

/// Computes the result and the log-sum-exp of the scores.
pub(crate) fn attention<T: AttentionElement>(
    machine: &Machine,
    inputs: Inputs<'_, T>,
    result: &mut [T],
    log_sums: &mut [f32],
) {
    check(&inputs, result.len(), log_sums.len());
    let kernel = inputs.kernel;
    let (result, log_sums) = (Shared(result.as_mut_ptr()), Shared(log_sums.as_mut_ptr()));
    let head_of = |index: usize| Head::new(machine.simd, inputs, index / kernel.heads, index % kernel.heads);
    let (heads, together) = (kernel.batch * kernel.heads, heads_together(kernel));
    machine.pool.run(heads.div_ceil(together), &|job| {
        let end = ((job + 1) * together).min(heads);
        for index in job * together..end {
            let mut head = head_of(index);
            if index + 1 < end {
                let [q, k, v] = head_of(index + 1).operands();
                head.next = [Some(q), Some(k), Some(v), None, None];
            }
            let (first, row) = head.result_rows();
            let results = ForwardResults { result: result.at(first), row, log_sums: log_sums.at(head.sums_row()) };
            // SAFETY: `check` has seen that all elements exist; a head's results are its job's alone.
            unsafe { T::forward(&head, &results) };
        }
    });
}

/// Heads that one job computes, so that it knows which it will read next.
fn heads_together(kernel: &AttentionKernel) -> usize {
    const JOBS: usize = 32;
    const HEADS: usize = 8;
    (kernel.batch * kernel.heads / JOBS).clamp(1, HEADS)
}

/// Jobs that are wanted per group and head, when the gradient of the bias sums over the batch.
const BIAS_PARTS: usize = 8;

/// Computes the gradients of the operands, where [`Tokens::of_operands`] has their rows, and of the bias if it is wanted.
pub(crate) fn attention_gradient<T: AttentionElement>(
    machine: &Machine,
    inputs: Inputs<'_, T>,
    cotangents: Cotangents<'_, T>,
    gradients: [*mut T; 3],
    bias_gradient: Option<&mut [f32]>,
) {
    check(&inputs, cotangents.result.len(), cotangents.log_sums.len());
    check(&inputs, cotangents.of_result.len(), cotangents.of_log_sums.len());
    let kernel = inputs.kernel;
    let gradients = gradients.map(Shared);
    let run = |[batch, head]: [usize; 2], next: Option<[usize; 2]>, bias_gradient: *mut f32| {
        let mut head = Head::new(machine.simd, inputs, batch, head);
        if let Some([batch, number]) = next {
            let next = Head::new(machine.simd, inputs, batch, number);
            let ([q, k, v], (first, row)) = (next.operands(), next.result_rows());
            let [result, of_result] =
                [cotangents.result, cotangents.of_result].map(|rows| (rows.as_ptr().wrapping_add(first), row));
            head.next = [q, k, v, result, of_result].map(Some);
        }
        let (first, row) = head.result_rows();
        let (tokens, sums) = (Tokens::of_operands(kernel), head.sums_row());
        let rows = BackwardRows {
            result: cotangents.result.as_ptr().wrapping_add(first),
            of_result: cotangents.of_result.as_ptr().wrapping_add(first),
            row,
            log_sums: cotangents.log_sums.as_ptr().wrapping_add(sums),
            of_log_sums: cotangents.of_log_sums.as_ptr().wrapping_add(sums),
            gradients: [0, 1, 2]
                .map(|part| (gradients[part].at(tokens[part].head(batch, head.head)), tokens[part].token)),
            bias_gradient,
        };
        // SAFETY: `check` has seen that all elements exist; a head's gradients are its job's alone.
        unsafe { T::backward(&head, &rows) };
    };
    let (Some(sum), Some([groups, ..])) = (bias_gradient, kernel.bias) else {
        let (heads, together) = (kernel.batch * kernel.heads, heads_together(kernel));
        return machine.pool.run(heads.div_ceil(together), &|job| {
            let end = ((job + 1) * together).min(heads);
            let head = |index: usize| [index / kernel.heads, index % kernel.heads];
            for index in job * together..end {
                run(head(index), (index + 1 < end).then(|| head(index + 1)), std::ptr::null_mut());
            }
        });
    };
    // Every part sums over some elements of the batch; then the parts are added in order.
    let (each, size) = (groups * kernel.heads, kernel.queries * kernel.keys);
    let repeats = kernel.batch / groups;
    let parts = if each >= 2 * BIAS_PARTS { 1 } else { repeats.min(BIAS_PARTS) };
    scratch::borrow(parts * each * size, |partial: &mut [f32]| {
        partial.fill(0.0);
        let to = Shared(partial.as_mut_ptr());
        machine.pool.run(parts * each, &|job| {
            let (part, group, head) = (job / each, job % each / kernel.heads, job % kernel.heads);
            let end = (part + 1) * repeats / parts;
            for repeat in part * repeats / parts..end {
                let next = (repeat + 1 < end).then(|| [(repeat + 1) * groups + group, head]);
                run([repeat * groups + group, head], next, to.at(job * size));
            }
        });
        let (first, others) = partial.split_at(each * size);
        sum[..each * size].copy_from_slice(first);
        for other in others.chunks_exact(each * size) {
            sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        }
    });
}
