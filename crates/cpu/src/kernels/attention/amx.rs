//! Heads of bf16 numbers in AMX tiles.
//!
//! Forward, rows of scores are queries. Backward they are keys, with queries across: then the weights and the cotangents of
//! the scores are operands of the products with the cotangents and queries as they are written, and nothing of the size of
//! the scores has to be transposed.

mod pack;
mod weights;

use super::super::amx::{Ahead, BLOCK_LEN, COLUMNS, MAX_STEPS, Products, ROWS, Tiles, quarters};
use super::super::{Stored, scratch};
use super::rows::{Copied, ScoreRow, copy, exponentials};
use super::{BackwardRows, ForwardResults, Head};
use crate::simd::{Bf16Unit, Simd};
use half::bf16;
use pack::{pack_across, pack_down, transpose, transpose_sums};
use weights::{Square, weights_and_cotangents};

/// Whether the machine has the unit.
pub(super) fn fits(head: &Head<'_, bf16>) -> bool {
    head.simd.bf16() == Bf16Unit::Amx
}

/// Numbers of a packed B.
fn packed_len(steps: usize, columns: usize) -> usize {
    steps.div_ceil(MAX_STEPS) * columns.div_ceil(COLUMNS) * BLOCK_LEN
}

/// Rows of a matrix of bf16 numbers, padded to whole tiles.
#[derive(Clone, Copy)]
struct Dense {
    data: *const u16,
    /// Numbers of a row.
    row: usize,
}

/// Copies rows, zeros in all padding.
unsafe fn dense<S: Stored>(
    simd: Simd,
    (from, from_row): (*const S, usize),
    [rows, columns]: [usize; 2],
    to: &mut [bf16],
) -> Dense {
    let row = columns.next_multiple_of(MAX_STEPS);
    let (target, factors) = (to.as_mut_ptr(), std::ptr::null());
    // SAFETY: the caller's rows exist, and `to` has room for them.
    unsafe { copy(simd, &Copied { from, from_row, to: target, to_row: row, rows, columns, padded: row, factors }) };
    to[rows * row..rows.next_multiple_of(ROWS) * row].fill(bf16::ZERO);
    Dense { data: target.cast(), row }
}

/// `c = a · b`, or `c += a · b`: `rows × columns` sums, both whole tiles.
unsafe fn multiply(
    tiles: &Tiles,
    a: Dense,
    b: *const u16,
    [rows, steps, columns]: [usize; 3],
    (c, c_row): (*mut f32, usize),
    accumulate: bool,
) {
    let (blocks, segment) = (steps / MAX_STEPS, 0usize);
    for row in (0..rows).step_by(ROWS) {
        for column in (0..columns).step_by(COLUMNS) {
            let first = a.data.wrapping_add(row * a.row);
            let products = Products {
                a: [first, first.wrapping_add(16 * a.row), first, first],
                c: quarters(c.wrapping_add(row * c_row + column), c_row),
                step_bytes: 2 * MAX_STEPS,
                blocks,
                accumulate: accumulate as usize,
                a_stride: 2 * a.row,
                segments: &segment,
                segment_count: 1,
                b: b.wrapping_add(column / COLUMNS * blocks * BLOCK_LEN),
                c_stride: 4 * c_row,
                ahead: Ahead::nothing(),
            };
            // SAFETY: the caller's matrices have whole tiles.
            unsafe { tiles.square(&products) };
        }
    }
}

/// Takes `len` numbers off the front of some working memory.
fn take<'a, T>(memory: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let (taken, rest) = std::mem::take(memory).split_at_mut(len);
    *memory = rest;
    taken
}

/// Computes a head.
///
/// # Safety
/// See [`super::AttentionElement::forward`]; the machine has the unit.
pub(super) unsafe fn forward(head: &Head<'_, bf16>, results: &ForwardResults<bf16>) {
    let (simd, kernel) = (head.simd, head.inputs.kernel);
    let (queries, keys, features) = (kernel.queries, kernel.keys, kernel.features);
    let (across, padded) = (keys.next_multiple_of(MAX_STEPS), features.next_multiple_of(MAX_STEPS));
    let narrow =
        [across * padded, packed_len(padded, across), packed_len(across, padded), ROWS * padded, ROWS * across];
    let sums = ROWS * (across + padded + 1);
    scratch::borrow(narrow.iter().sum(), |memory: &mut [bf16]| {
        scratch::borrow(sums, |sums: &mut [f32]| {
            let (mut memory, mut sums) = (memory, sums);
            let [rows, packed_keys, packed_values, block, weights] = narrow.map(|len| take(&mut memory, len));
            let [scores, mixed, factors] = [ROWS * across, ROWS * padded, ROWS].map(|len| take(&mut sums, len));
            let [q, k, v] = head.operands();
            // SAFETY: the pointers are inside of the operands, the results and the memory taken above; the unit is there.
            unsafe {
                let tiles = Tiles::configure(MAX_STEPS);
                let k = dense(simd, k, [keys, features], rows);
                pack_across(simd, k, [across, padded], packed_keys.as_mut_ptr().cast());
                let v = dense(simd, v, [keys, features], rows);
                pack_down(simd, v, [across, padded], packed_values.as_mut_ptr().cast());
                for first in (0..queries).step_by(ROWS) {
                    let live = ROWS.min(queries - first);
                    let q = dense(simd, (q.0.add(first * q.1), q.1), [live, features], block);
                    let packed_keys = packed_keys.as_ptr().cast();
                    multiply(&tiles, q, packed_keys, [ROWS, padded, across], (scores.as_mut_ptr(), across), false);
                    for row in 0..live {
                        let query = first + row;
                        head.fetch_next(query);
                        let scores = ScoreRow {
                            scores: scores.as_mut_ptr().add(row * across),
                            visible: head.visible(query),
                            padded: across,
                            scale: kernel.scale as f32,
                            bias: head.bias_row(query),
                        };
                        let (max, sum) = exponentials(simd, &scores);
                        factors[row] = 1.0 / sum;
                        *results.log_sums.add(query) = max + sum.ln();
                    }
                    let weights = dense(simd, (scores.as_ptr(), across), [live, across], weights);
                    let packed_values = packed_values.as_ptr().cast();
                    multiply(
                        &tiles,
                        weights,
                        packed_values,
                        [ROWS, across, padded],
                        (mixed.as_mut_ptr(), padded),
                        false,
                    );
                    let to = results.result.add(first * results.row);
                    let (from, factors) = (mixed.as_ptr(), factors.as_ptr());
                    copy(
                        simd,
                        &Copied {
                            from,
                            from_row: padded,
                            to,
                            to_row: results.row,
                            rows: live,
                            columns: features,
                            padded: features,
                            factors,
                        },
                    );
                }
            }
        });
    });
}

/// Scores and cotangents of a square, whose rows begin at cache lines.
#[repr(align(64))]
struct Squares([[f32; ROWS * COLUMNS]; 2]);

/// Queries at a time in the backward direction.
const BLOCK: usize = 128;

/// Computes the gradients of a head.
///
/// # Safety
/// See [`super::AttentionElement::backward`]; the machine has the unit.
pub(super) unsafe fn backward(head: &Head<'_, bf16>, rows: &BackwardRows<bf16>) {
    let (simd, kernel) = (head.simd, head.inputs.kernel);
    let (queries, keys, features) = (kernel.queries, kernel.keys, kernel.features);
    let (down, padded) = (keys.next_multiple_of(ROWS), features.next_multiple_of(MAX_STEPS));
    let block = BLOCK.min(queries.next_multiple_of(COLUMNS));
    let narrow = [down * padded, down * padded, down * padded, block * padded, block * padded];
    let packed = [block * padded; 4];
    let scores = [down * block; 3];
    let sums = [down * padded, down * padded, padded * block, block * padded, 2 * block];
    let narrow_total: usize = narrow.iter().chain(&packed).chain(&scores).sum();
    scratch::borrow(narrow_total, |memory: &mut [bf16]| {
        scratch::borrow(sums.iter().sum(), |all_sums: &mut [f32]| {
            let (mut memory, mut all_sums) = (memory, all_sums);
            let [k_rows, v_rows, k_columns, q_rows, given_rows] = narrow.map(|len| take(&mut memory, len));
            let [q_across, given_across, q_down, given_down] = packed.map(|len| take(&mut memory, len));
            let [weights, cotangents, cotangents_down] = scores.map(|len| take(&mut memory, len));
            let [key_sums, value_sums, query_columns, query_sums, of_query] = sums.map(|len| take(&mut all_sums, len));
            let [q, k, v] = head.operands();
            // SAFETY: the pointers are inside of the operands, the gradients and the memory taken above; the unit is there.
            unsafe {
                let tiles = Tiles::configure(MAX_STEPS);
                let mut squares = Squares([[0.0; ROWS * COLUMNS]; 2]);
                let k = dense(simd, k, [keys, features], k_rows);
                let v = dense(simd, v, [keys, features], v_rows);
                let k_transposed = transpose(simd, k, [down, padded], k_columns.as_mut_ptr().cast());
                for first in (0..queries).step_by(block) {
                    let live = block.min(queries - first);
                    let columns = live.next_multiple_of(COLUMNS);
                    let q = dense(simd, (q.0.add(first * q.1), q.1), [live, features], q_rows);
                    let of_result = rows.of_result.add(first * rows.row);
                    let given = dense(simd, (of_result, rows.row), [live, features], given_rows);
                    pack_across(simd, q, [columns, padded], q_across.as_mut_ptr().cast());
                    pack_across(simd, given, [columns, padded], given_across.as_mut_ptr().cast());
                    pack_down(simd, q, [columns, padded], q_down.as_mut_ptr().cast());
                    pack_down(simd, given, [columns, padded], given_down.as_mut_ptr().cast());
                    let (log_sums, centers) = of_query.split_at_mut(block);
                    for query in 0..live {
                        let at = first + query;
                        head.fetch_next(at);
                        let [result, of_result] = [rows.result, rows.of_result].map(|all| all.add(at * rows.row));
                        let center = super::rows::dot(simd, result, of_result, features);
                        log_sums[query] = *rows.log_sums.add(at);
                        centers[query] = center - *rows.of_log_sums.add(at);
                    }
                    let blocks = padded / MAX_STEPS;
                    for key in (0..down).step_by(ROWS) {
                        for column in (0..columns).step_by(COLUMNS) {
                            for (rows, packed, square) in [(k, &*q_across, 0), (v, &*given_across, 1)] {
                                let a = Dense { data: rows.data.add(key * rows.row), ..rows };
                                let b = packed.as_ptr().cast::<u16>().add(column / COLUMNS * blocks * BLOCK_LEN);
                                let c = (squares.0[square].as_mut_ptr(), COLUMNS);
                                multiply(&tiles, a, b, [ROWS, padded, COLUMNS], c, false);
                            }
                            let down_block = column / COLUMNS * (down / MAX_STEPS) + key / MAX_STEPS;
                            let square = Square {
                                scores: squares.0[0].as_ptr(),
                                cotangents: squares.0[1].as_ptr(),
                                log_sums: log_sums.as_ptr().add(column),
                                centers: centers.as_ptr().add(column),
                                scale: kernel.scale as f32,
                                weights: weights.as_mut_ptr().cast::<u16>().add(key * block + column),
                                of_scores: cotangents.as_mut_ptr().cast::<u16>().add(key * block + column),
                                row: block,
                                of_scores_down: cotangents_down.as_mut_ptr().cast::<u16>().add(down_block * BLOCK_LEN),
                            };
                            let at = [key, first + column];
                            weights_and_cotangents(head, &square, at, rows.bias_gradient);
                        }
                    }
                    let accumulate = first > 0;
                    let weights = Dense { data: weights.as_ptr().cast(), row: block };
                    let cotangents = Dense { data: cotangents.as_ptr().cast(), row: block };
                    let sizes = [down, columns, padded];
                    let [values, keys] = [(value_sums.as_mut_ptr(), padded), (key_sums.as_mut_ptr(), padded)];
                    multiply(&tiles, weights, given_down.as_ptr().cast(), sizes, values, accumulate);
                    multiply(&tiles, cotangents, q_down.as_ptr().cast(), sizes, keys, accumulate);
                    let transposed = (query_columns.as_mut_ptr(), block);
                    multiply(
                        &tiles,
                        k_transposed,
                        cotangents_down.as_ptr().cast(),
                        [padded, down, columns],
                        transposed,
                        false,
                    );
                    transpose_sums(simd, transposed, [padded, columns], query_sums.as_mut_ptr());
                    let (to, to_row) = rows.gradients[0];
                    store(simd, (query_sums, padded), (to.add(first * to_row), to_row), [live, features]);
                }
                store(simd, (key_sums, padded), rows.gradients[1], [keys, features]);
                store(simd, (value_sums, padded), rows.gradients[2], [keys, features]);
            }
        });
    });
}

/// Rounds finished sums to where they belong.
unsafe fn store(
    simd: Simd,
    (from, from_row): (&[f32], usize),
    (to, to_row): (*mut bf16, usize),
    [rows, columns]: [usize; 2],
) {
    let (from, factors) = (from.as_ptr(), std::ptr::null());
    // SAFETY: the caller's rows exist.
    unsafe { copy(simd, &Copied { from, from_row, to, to_row, rows, columns, padded: columns, factors }) }
}
