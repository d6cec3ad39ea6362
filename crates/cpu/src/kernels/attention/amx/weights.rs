//! The element-wise part of the backward direction: a square of 32 keys × 32 queries.

use super::super::super::Stored;
use super::super::super::amx::{BLOCK_LEN, COLUMNS, ROWS};
use super::super::Head;
use super::pack::interleave;
use crate::math;
use crate::simd::{Kernel, Vector};
use half::bf16;

const LANES: usize = 16;

/// Scores and cotangents of weights of 32 keys (rows) and 32 queries, and where weights and cotangents of scores go.
pub(super) struct Square {
    pub scores: *const f32,
    pub cotangents: *const f32,
    /// By query.
    pub log_sums: *const f32,
    pub centers: *const f32,
    pub scale: f32,
    /// Rows of keys, with a stride of `row` numbers.
    pub weights: *mut u16,
    pub of_scores: *mut u16,
    pub row: usize,
    /// The cotangents once more, as B of a product over keys.
    pub of_scores_down: *mut u16,
}

/// Arguments of the kernel: the square, what is added to its scores, where the cotangents of that go, and how many of its
/// keys and queries exist. A query sees keys up to `diagonal + query` if there is one.
struct Arguments<'a> {
    square: &'a Square,
    bias: Option<&'a [f32; ROWS * COLUMNS]>,
    bias_gradient: Option<&'a mut [f32; ROWS * COLUMNS]>,
    live: [usize; 2],
    diagonal: Option<isize>,
}

/// Computes weights and cotangents of the square that begins at that key and query.
///
/// # Safety
/// The square's pointers are valid; `bias_gradient` is null or as in [`super::super::BackwardRows`].
pub(super) unsafe fn weights_and_cotangents(
    head: &Head<'_, bf16>,
    square: &Square,
    [key, query]: [usize; 2],
    bias_gradient: *mut f32,
) {
    let kernel = head.inputs.kernel;
    let live = [(kernel.keys - key).min(ROWS), (kernel.queries - query).min(COLUMNS)];
    let bias = kernel.bias.map(|_| {
        let mut bias = [0.0; ROWS * COLUMNS];
        for column in 0..live[1] {
            let row = head.bias_row(query + column);
            // SAFETY: the row has a number for every key.
            (0..live[0]).for_each(|at| bias[at * COLUMNS + column] = unsafe { *row.add(key + at) });
        }
        bias
    });
    let mut gradient = (!bias_gradient.is_null()).then_some([0.0; ROWS * COLUMNS]);
    let mut arguments = Arguments {
        square,
        bias: bias.as_ref(),
        bias_gradient: gradient.as_mut(),
        live,
        diagonal: kernel.causal.then_some(query as isize - key as isize),
    };
    // SAFETY: the caller's promise.
    unsafe {
        head.simd.entry::<WeightsAndCotangents<'_>>()(&mut arguments);
        if let Some(gradient) = &gradient {
            for (at, column) in (0..live[0]).flat_map(|at| (0..live[1]).map(move |column| (at, column))) {
                *bias_gradient.add((query + column) * kernel.keys + key + at) += gradient[at * COLUMNS + column];
            }
        }
    }
}

struct WeightsAndCotangents<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Kernel for WeightsAndCotangents<'a> {
    type Args = *mut Arguments<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(arguments: *mut Arguments<'a>) {
        // SAFETY: the caller's promise; nobody else has the arguments.
        unsafe {
            let arguments = &mut *arguments;
            let square = arguments.square;
            for key in 0..ROWS {
                row::<V>(arguments, key);
            }
            for (key, column) in (0..ROWS / 2).flat_map(|pair| [(2 * pair, 0), (2 * pair, LANES)]) {
                let first = square.of_scores.add(key * square.row + column);
                let at = column / LANES * (BLOCK_LEN / 2) + key * LANES;
                interleave(first, first.add(square.row), square.of_scores_down.add(at));
            }
        }
    }
}

/// One key and 32 queries. Plain loops over arrays: those are what the compiler makes vector code of.
#[inline(always)]
unsafe fn row<V: Vector>(arguments: &mut Arguments<'_>, key: usize) {
    type Numbers = [f32; COLUMNS];
    // SAFETY: the square has 32 × 32 numbers, and 32 lie behind every row of the results.
    unsafe {
        let square = arguments.square;
        let (log_sums, centers) = (&*square.log_sums.cast::<Numbers>(), &*square.centers.cast::<Numbers>());
        let mut weights = square.scores.add(key * COLUMNS).cast::<Numbers>().read_unaligned();
        let mut of_scores = square.cotangents.add(key * COLUMNS).cast::<Numbers>().read_unaligned();
        let bias = arguments.bias.map(|bias| &bias[key * COLUMNS..]);
        match bias {
            Some(bias) => weights.iter_mut().zip(bias).for_each(|(score, bias)| *score = *score * square.scale + bias),
            None => weights.iter_mut().for_each(|score| *score *= square.scale),
        }
        weights.iter_mut().zip(log_sums).for_each(|(weight, sum)| *weight = math::exp::<V>(*weight - sum));
        for ((of_score, weight), center) in of_scores.iter_mut().zip(&weights).zip(centers) {
            *of_score = weight * (*of_score - center);
        }
        let [keys, queries] = arguments.live;
        if key >= keys || queries < COLUMNS || arguments.diagonal.is_some() {
            let reach =
                |query: usize| arguments.diagonal.is_none_or(|diagonal| key as isize <= diagonal + query as isize);
            for query in (0..COLUMNS).filter(|&query| key >= keys || query >= queries || !reach(query)) {
                (weights[query], of_scores[query]) = (0.0, 0.0);
            }
        }
        if let Some(gradient) = arguments.bias_gradient.as_mut() {
            gradient[key * COLUMNS..(key + 1) * COLUMNS].copy_from_slice(&of_scores);
        }
        let results = [(square.weights, &weights, 1.0), (square.of_scores, &of_scores, square.scale)];
        for (to, values, factor) in results {
            let to = std::slice::from_raw_parts_mut(to.add(key * square.row), COLUMNS);
            to.iter_mut().zip(values).for_each(|(to, value)| *to = bf16::rounded(value * factor).to_bits());
        }
    }
}
