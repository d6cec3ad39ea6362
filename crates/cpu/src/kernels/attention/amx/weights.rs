//! The element-wise part of the backward direction: a square of 32 keys × 32 queries.

use super::super::super::Stored;
use super::super::super::amx::{BLOCK_LEN, COLUMNS, ROWS};
use super::super::Head;
use crate::math;
use crate::simd::{Kernel, Vector};
use half::bf16;
use std::array::from_fn;

const LANES: usize = 16;

/// Scores and cotangents of weights of 32 keys (rows) and 32 queries, and where weights and cotangents of scores go.
pub(super) struct Square {
    pub scores: *const f32,
    pub cotangents: *const f32,
    /// By query.
    pub log_sums: *const f32,
    pub centers: *const f32,
    pub scale: f32,
    /// Rows of keys, `row` numbers apart.
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
    let mut gradient = (!bias_gradient.is_null()).then(|| [0.0; ROWS * COLUMNS]);
    let arguments = Arguments {
        square,
        bias: bias.as_ref(),
        bias_gradient: gradient.as_mut(),
        live,
        diagonal: kernel.causal.then_some(query as isize - key as isize),
    };
    // SAFETY: the caller's promise.
    unsafe {
        head.simd.entry::<WeightsAndCotangents<'_>>()(&arguments);
        if let Some(gradient) = &gradient {
            for (at, column) in (0..live[0]).flat_map(|at| (0..live[1]).map(move |column| (at, column))) {
                *bias_gradient.add((query + column) * kernel.keys + key + at) += gradient[at * COLUMNS + column];
            }
        }
    }
}

struct WeightsAndCotangents<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Kernel for WeightsAndCotangents<'a> {
    type Args = *const Arguments<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(arguments: *const Arguments<'a>) {
        // SAFETY: the caller's promise; nobody else has the arguments.
        unsafe {
            let arguments = &mut *arguments.cast_mut();
            for column in (0..COLUMNS).step_by(LANES) {
                for key in (0..ROWS).step_by(2) {
                    let first = row::<V>(arguments, key, column);
                    let second = row::<V>(arguments, key + 1, column);
                    let pairs: [u32; LANES] = from_fn(|i| u32::from(first[i]) | u32::from(second[i]) << 16);
                    let at = column / LANES * (BLOCK_LEN / 2) + key / 2 * 2 * LANES;
                    arguments.square.of_scores_down.add(at).cast::<[u32; LANES]>().write_unaligned(pairs);
                }
            }
        }
    }
}

/// One key and 16 queries; returns the cotangents of their scores.
#[inline(always)]
unsafe fn row<V: Vector>(arguments: &mut Arguments<'_>, key: usize, column: usize) -> [u16; LANES] {
    // SAFETY: the square has 32 × 32 numbers.
    unsafe {
        let square = arguments.square;
        let at = key * COLUMNS + column;
        let load = |from: *const f32| from.cast::<[f32; LANES]>().read_unaligned();
        let mut scores = load(square.scores.add(at)).map(|score| score * square.scale);
        if let Some(bias) = arguments.bias {
            let bias = load(bias.as_ptr().add(at));
            scores = from_fn(|i| scores[i] + bias[i]);
        }
        let (log_sums, centers) = (load(square.log_sums.add(column)), load(square.centers.add(column)));
        let given = load(square.cotangents.add(at));
        let mut weights: [f32; LANES] = from_fn(|i| math::exp::<V>(scores[i] - log_sums[i]));
        let mut of_scores: [f32; LANES] = from_fn(|i| weights[i] * (given[i] - centers[i]));
        let [keys, queries] = arguments.live;
        if key >= keys || column + LANES > queries || arguments.diagonal.is_some() {
            let sees = |i: usize| {
                let in_reach =
                    arguments.diagonal.is_none_or(|diagonal| key as isize <= diagonal + (column + i) as isize);
                key < keys && column + i < queries && in_reach
            };
            weights = from_fn(|i| if sees(i) { weights[i] } else { 0.0 });
            of_scores = from_fn(|i| if sees(i) { of_scores[i] } else { 0.0 });
        }
        if let Some(gradient) = arguments.bias_gradient.as_mut() {
            gradient[at..at + LANES].copy_from_slice(&of_scores);
        }
        let narrow = |values: [f32; LANES]| values.map(|value| bf16::rounded(value).to_bits());
        let (weights, of_scores) = (narrow(weights), narrow(of_scores.map(|value| value * square.scale)));
        let at = key * square.row + column;
        square.weights.add(at).cast::<[u16; LANES]>().write_unaligned(weights);
        square.of_scores.add(at).cast::<[u16; LANES]>().write_unaligned(of_scores);
        of_scores
    }
}
