//! Heads in f32 vectors, on every instruction set; bf16 rows are widened first.

use super::super::{Stored, scratch};
use super::products::{MAX_STEPS, Packed, add_transposed};
use super::rows::{Copied, GROUP, GradientRow, ScoreRow, copy, dot, exponentials, weights_and_cotangents};
use super::{BackwardRows, ForwardResults, Head};
use crate::simd::Simd;

/// Queries at a time: their scores stay in the cache.
const BLOCK: usize = MAX_STEPS;

/// Takes `len` numbers off the front of some working memory.
fn take<'a>(memory: &mut &'a mut [f32], len: usize) -> &'a mut [f32] {
    let (taken, rest) = std::mem::take(memory).split_at_mut(len);
    *memory = rest;
    taken
}

/// Rows as f32 that are readable to the next whole register: where they lie, or widened to `to`.
unsafe fn widened<T: Stored>(
    simd: Simd,
    (from, from_row): (*const T, usize),
    [rows, columns, padded]: [usize; 3],
    to: &mut [f32],
) -> (*const f32, usize) {
    if size_of::<T>() == size_of::<f32>() && columns == padded {
        return (from.cast(), from_row);
    }
    let (target, factors) = (to.as_mut_ptr(), std::ptr::null());
    let copied = Copied { from, from_row, to: target, to_row: padded, rows, columns, padded, factors };
    // SAFETY: the caller's rows exist, and `to` has room for them.
    unsafe { copy(simd, &copied) };
    (target, padded)
}

/// Computes a head.
///
/// # Safety
/// See [`super::AttentionElement::forward`].
pub(super) unsafe fn forward<T: Stored>(head: &Head<'_, T>, results: &ForwardResults<T>) {
    let (simd, kernel) = (head.simd, head.inputs.kernel);
    let (queries, keys, features) = (kernel.queries, kernel.keys, kernel.features);
    let lanes = simd.lanes();
    let (padded_keys, padded_features) = (keys.next_multiple_of(GROUP), features.next_multiple_of(lanes));
    let packed = [Packed::len(simd, features, keys), Packed::len(simd, keys, features)];
    let wide = queries.max(keys) * padded_features;
    let block = BLOCK.min(queries);
    let total = packed[0] + packed[1] + wide + block * (padded_keys + padded_features + 1);
    scratch::borrow(total, |memory: &mut [f32]| {
        let mut memory = memory;
        let [packed_keys, packed_values, wide] = [packed[0], packed[1], wide].map(|len| take(&mut memory, len));
        let [scores, mixed, factors] =
            [block * padded_keys, block * padded_features, block].map(|len| take(&mut memory, len));
        let [q, k, v] = head.operands();
        // SAFETY: the pointers are inside of the operands, the results and the memory taken above.
        unsafe {
            let (k, k_row) = widened(simd, k, [keys, features, padded_features], wide);
            let key_panels = Packed::pack(simd, k, [1, k_row], [features, keys], packed_keys.as_mut_ptr());
            let (v, v_row) = widened(simd, v, [keys, features, padded_features], wide);
            let value_panels = Packed::pack(simd, v, [v_row, 1], [keys, features], packed_values.as_mut_ptr());
            let (q, q_row) = widened(simd, q, [queries, features, padded_features], wide);
            for first in (0..queries).step_by(block) {
                let rows = block.min(queries - first);
                key_panels.multiply(simd, q.add(first * q_row), q_row, rows, scores.as_mut_ptr(), padded_keys);
                for row in 0..rows {
                    let query = first + row;
                    head.fetch_next(query);
                    let scores = ScoreRow {
                        scores: scores.as_mut_ptr().add(row * padded_keys),
                        visible: head.visible(query),
                        padded: padded_keys,
                        scale: kernel.scale as f32,
                        bias: head.bias_row(query),
                    };
                    let (max, sum) = exponentials(simd, &scores);
                    factors[row] = 1.0 / sum;
                    *results.log_sums.add(query) = max + sum.ln();
                }
                value_panels.multiply(simd, scores.as_ptr(), padded_keys, rows, mixed.as_mut_ptr(), padded_features);
                copy(
                    simd,
                    &Copied {
                        from: mixed.as_ptr(),
                        from_row: padded_features,
                        to: results.result.add(first * results.row),
                        to_row: results.row,
                        rows,
                        columns: features,
                        padded: features,
                        factors: factors.as_ptr(),
                    },
                );
            }
        }
    });
}

/// Computes the gradients of a head.
///
/// # Safety
/// See [`super::AttentionElement::backward`].
pub(super) unsafe fn backward<T: Stored>(head: &Head<'_, T>, rows: &BackwardRows<T>) {
    let (simd, kernel) = (head.simd, head.inputs.kernel);
    let (queries, keys, features) = (kernel.queries, kernel.keys, kernel.features);
    let (padded_keys, padded) = (keys.next_multiple_of(GROUP), features.next_multiple_of(simd.lanes()));
    let block = BLOCK.min(queries);
    let across = Packed::len(simd, features, keys);
    let sizes = [across, across, Packed::len(simd, keys, features)];
    let (of_queries, of_keys) = (queries * padded, keys * padded);
    let total =
        sizes.iter().sum::<usize>() + 2 * of_queries + 2 * of_keys + of_keys + block * (2 * padded_keys + padded);
    scratch::borrow(total, |memory: &mut [f32]| {
        let mut memory = memory;
        let [keys_across, values_across, keys_down] = sizes.map(|len| take(&mut memory, len));
        let [wide_q, wide_cotangent] = [of_queries; 2].map(|len| take(&mut memory, len));
        let [key_sums, value_sums, wide] = [of_keys; 3].map(|len| take(&mut memory, len));
        let [scores, cotangents] = [block * padded_keys; 2].map(|len| take(&mut memory, len));
        let query_sums = take(&mut memory, block * padded);
        key_sums.fill(0.0);
        value_sums.fill(0.0);
        let [q, k, v] = head.operands();
        // SAFETY: the pointers are inside of the operands, the gradients and the memory taken above.
        unsafe {
            let (k, k_row) = widened(simd, k, [keys, features, padded], wide);
            let keys_across = Packed::pack(simd, k, [1, k_row], [features, keys], keys_across.as_mut_ptr());
            let keys_down = Packed::pack(simd, k, [k_row, 1], [keys, features], keys_down.as_mut_ptr());
            let (v, v_row) = widened(simd, v, [keys, features, padded], wide);
            let values_across = Packed::pack(simd, v, [1, v_row], [features, keys], values_across.as_mut_ptr());
            let (q, q_row) = widened(simd, q, [queries, features, padded], wide_q);
            let of_result = (rows.of_result, rows.row);
            let (given, given_row) = widened(simd, of_result, [queries, features, padded], wide_cotangent);
            for first in (0..queries).step_by(block) {
                let count = block.min(queries - first);
                let (q, given) = (q.add(first * q_row), given.add(first * given_row));
                keys_across.multiply(simd, q, q_row, count, scores.as_mut_ptr(), padded_keys);
                values_across.multiply(simd, given, given_row, count, cotangents.as_mut_ptr(), padded_keys);
                for row in 0..count {
                    let query = first + row;
                    head.fetch_next(query);
                    let [result, of_result] =
                        [rows.result, rows.of_result].map(|rows_of| rows_of.add(query * rows.row));
                    let bias_gradient = match rows.bias_gradient.is_null() {
                        true => std::ptr::null_mut(),
                        false => rows.bias_gradient.add(query * keys),
                    };
                    let scores = ScoreRow {
                        scores: scores.as_mut_ptr().add(row * padded_keys),
                        visible: head.visible(query),
                        padded: padded_keys,
                        scale: kernel.scale as f32,
                        bias: head.bias_row(query),
                    };
                    let gradient = GradientRow {
                        row: scores,
                        cotangents: cotangents.as_mut_ptr().add(row * padded_keys),
                        log_sum: *rows.log_sums.add(query),
                        center: dot(simd, result, of_result, features) - *rows.of_log_sums.add(query),
                        bias_gradient,
                    };
                    weights_and_cotangents(simd, &gradient);
                }
                let sizes = [count, keys, features];
                let (weights, cotangents) = ((scores.as_ptr(), padded_keys), (cotangents.as_ptr(), padded_keys));
                add_transposed(simd, sizes, weights, (given, given_row), (value_sums.as_mut_ptr(), padded));
                add_transposed(simd, sizes, cotangents, (q, q_row), (key_sums.as_mut_ptr(), padded));
                keys_down.multiply(simd, cotangents.0, padded_keys, count, query_sums.as_mut_ptr(), padded);
                let (to, to_row) = rows.gradients[0];
                store(simd, (query_sums, padded), (to.add(first * to_row), to_row), [count, features]);
            }
            store(simd, (key_sums, padded), rows.gradients[1], [keys, features]);
            store(simd, (value_sums, padded), rows.gradients[2], [keys, features]);
        }
    });
}

/// Rounds finished sums to where they belong.
unsafe fn store<T: Stored>(
    simd: Simd,
    (from, from_row): (&[f32], usize),
    (to, to_row): (*mut T, usize),
    [rows, columns]: [usize; 2],
) {
    let (from, factors) = (from.as_ptr(), std::ptr::null());
    // SAFETY: the caller's rows exist.
    unsafe { copy(simd, &Copied { from, from_row, to, to_row, rows, columns, padded: columns, factors }) }
}
