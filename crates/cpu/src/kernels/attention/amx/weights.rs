//! The element-wise part of the backward direction: a square of 32 keys × 32 queries.

use super::super::super::Stored;
use super::super::super::amx::{BLOCK_LEN, COLUMNS, ROWS, interleave, transpose_pairs};
use super::super::Head;
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

/// Arguments of the kernel: the square that begins at this key and query, how many of its keys and queries exist, and where
/// cotangents are added to those of the bias, as in [`super::super::BackwardRows`].
struct Arguments<'a> {
    head: &'a Head<'a, bf16>,
    square: &'a Square,
    key: usize,
    query: usize,
    live: [usize; 2],
    bias_gradient: *mut f32,
}

/// Numbers of a square: rows are keys.
#[repr(align(64))]
struct Numbers([f32; ROWS * COLUMNS]);

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
    // SAFETY: the caller's promise.
    unsafe {
        head.simd.entry::<WeightsAndCotangents<'_>>()(&Arguments { head, square, key, query, live, bias_gradient });
    }
}

struct WeightsAndCotangents<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Kernel for WeightsAndCotangents<'a> {
    type Args = *const Arguments<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(arguments: *const Arguments<'a>) {
        // SAFETY: the caller's promise.
        unsafe {
            let arguments = &*arguments;
            let square = arguments.square;
            let mut bias = Numbers([0.0; ROWS * COLUMNS]);
            let has_bias = arguments.head.inputs.kernel.bias.is_some();
            if has_bias {
                load_bias::<V>(arguments, &mut bias);
            }
            let mut cotangents = Numbers([0.0; ROWS * COLUMNS]);
            for key in 0..ROWS {
                let bias = has_bias.then(|| &bias.0[key * COLUMNS..]);
                row::<V>(arguments, key, bias, &mut cotangents.0[key * COLUMNS..][..COLUMNS]);
            }
            for (key, column) in (0..ROWS / 2).flat_map(|pair| [(2 * pair, 0), (2 * pair, LANES)]) {
                let first = square.of_scores.add(key * square.row + column);
                let at = column / LANES * (BLOCK_LEN / 2) + key * LANES;
                interleave(first, first.add(square.row), square.of_scores_down.add(at));
            }
            if !arguments.bias_gradient.is_null() {
                add_to_bias::<V>(arguments, &cotangents);
            }
        }
    }
}

/// Quarters of a square, by their first key and query, and whether all of their keys and queries exist.
fn quarters(live: [usize; 2]) -> impl Iterator<Item = ([usize; 2], bool)> {
    let corners = [[0, 0], [0, LANES], [LANES, 0], [LANES, LANES]];
    corners.into_iter().map(move |corner| (corner, (0..2).all(|axis| corner[axis] + LANES <= live[axis])))
}

/// Brings what is added to scores from rows of queries into rows of keys.
#[inline(always)]
unsafe fn load_bias<V: Vector>(arguments: &Arguments<'_>, bias: &mut Numbers) {
    let &Arguments { head, key, query, live, .. } = arguments;
    let kernel = head.inputs.kernel;
    let distance = if kernel.bias.is_some_and(|[.., queries]| queries == 1) { 0 } else { kernel.keys };
    // SAFETY: a row of the bias has a number for every key, and there is one for every query.
    unsafe {
        let first = head.bias_row(query).add(key);
        for ([row, column], whole) in quarters(live) {
            let (from, to) = (first.wrapping_add(column * distance + row), row * COLUMNS + column);
            if whole {
                transpose_pairs::<V>(from, distance, bias.0[to..].as_mut_ptr(), COLUMNS);
                continue;
            }
            for at in 0..live[0].saturating_sub(row).min(LANES) {
                for of_query in 0..live[1].saturating_sub(column).min(LANES) {
                    bias.0[to + at * COLUMNS + of_query] = *from.add(of_query * distance + at);
                }
            }
        }
    }
}

/// Adds cotangents of scores to rows of queries.
#[inline(always)]
unsafe fn add_to_bias<V: Vector>(arguments: &Arguments<'_>, cotangents: &Numbers) {
    let &Arguments { head, key, query, live, bias_gradient, .. } = arguments;
    let keys = head.inputs.kernel.keys;
    // SAFETY: the gradient has a row of `keys` numbers for every query.
    unsafe {
        for ([row, column], whole) in quarters(live) {
            let (from, to) = (row * COLUMNS + column, bias_gradient.wrapping_add((query + column) * keys + key + row));
            if whole {
                let mut by_query = [[0.0f32; LANES]; LANES];
                transpose_pairs::<V>(cotangents.0[from..].as_ptr(), COLUMNS, by_query.as_mut_ptr().cast(), LANES);
                for (of_query, cotangents) in by_query.iter().enumerate() {
                    let sums = std::slice::from_raw_parts_mut(to.add(of_query * keys), LANES);
                    sums.iter_mut().zip(cotangents).for_each(|(sum, cotangent)| *sum += cotangent);
                }
                continue;
            }
            for at in 0..live[0].saturating_sub(row).min(LANES) {
                for of_query in 0..live[1].saturating_sub(column).min(LANES) {
                    *to.add(of_query * keys + at) += cotangents.0[from + at * COLUMNS + of_query];
                }
            }
        }
    }
}

/// One key and 32 queries, whose cotangents of scores without the scale are left in `cotangents`. Plain loops over arrays:
/// those are what the compiler makes vector code of.
#[inline(always)]
unsafe fn row<V: Vector>(arguments: &Arguments<'_>, key: usize, bias: Option<&[f32]>, cotangents: &mut [f32]) {
    type Row = [f32; COLUMNS];
    // SAFETY: the square has 32 × 32 numbers, and 32 lie behind every row of the results.
    unsafe {
        let (square, [keys, queries]) = (arguments.square, arguments.live);
        let [to_weights, to_cotangents] =
            [square.weights, square.of_scores].map(|to| &mut *to.add(key * square.row).cast::<[u16; COLUMNS]>());
        if key >= keys {
            (*to_weights, *to_cotangents) = ([0; COLUMNS], [0; COLUMNS]);
            return;
        }
        let (log_sums, centers) = (&*square.log_sums.cast::<Row>(), &*square.centers.cast::<Row>());
        let mut weights = square.scores.add(key * COLUMNS).cast::<Row>().read_unaligned();
        let mut of_scores = square.cotangents.add(key * COLUMNS).cast::<Row>().read_unaligned();
        match bias {
            Some(bias) => weights.iter_mut().zip(bias).for_each(|(score, bias)| *score = *score * square.scale + bias),
            None => weights.iter_mut().for_each(|score| *score *= square.scale),
        }
        weights.iter_mut().zip(log_sums).for_each(|(weight, sum)| *weight = math::exp_or_zero::<V>(*weight - sum));
        for ((of_score, weight), center) in of_scores.iter_mut().zip(&weights).zip(centers) {
            *of_score = weight * (*of_score - center);
        }
        let seen = first_query(arguments, key)..queries as u32;
        if seen != (0..COLUMNS as u32) {
            for ((query, weight), of_score) in (0..COLUMNS as u32).zip(&mut weights).zip(&mut of_scores) {
                let sees = seen.start <= query && query < seen.end;
                (*weight, *of_score) = (if sees { *weight } else { 0.0 }, if sees { *of_score } else { 0.0 });
            }
        }
        cotangents.copy_from_slice(&of_scores);
        for ((to, weight), (to_cotangent, of_score)) in
            to_weights.iter_mut().zip(&weights).zip(to_cotangents.iter_mut().zip(&of_scores))
        {
            *to = bf16::rounded(*weight).to_bits();
            *to_cotangent = bf16::rounded(of_score * square.scale).to_bits();
        }
    }
}

/// The first query of the square that sees a key of the square.
fn first_query(arguments: &Arguments<'_>, key: usize) -> u32 {
    match arguments.head.inputs.kernel.causal {
        true => (arguments.key + key).saturating_sub(arguments.query).min(COLUMNS) as u32,
        false => 0,
    }
}
