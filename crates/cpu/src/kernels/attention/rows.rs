//! The element-wise part of attention, a row of scores at a time.

use super::super::Stored;
use crate::math;
use crate::simd::{Kernel, Simd, Vector};
use std::array::from_fn;
use std::marker::PhantomData;

/// Rows are whole groups of numbers long.
pub(super) const GROUP: usize = 16;

/// A score that no other reaches.
const HIDDEN: f32 = -1e30;

type Group = [f32; GROUP];

/// One row of scores.
#[derive(Clone, Copy)]
pub(super) struct ScoreRow {
    /// The products of the query with all keys; groups of [`GROUP`] up to `padded`.
    pub scores: *mut f32,
    /// Keys that the query sees, from the first.
    pub visible: usize,
    /// Numbers of the row, a multiple of [`GROUP`].
    pub padded: usize,
    pub scale: f32,
    /// One number per key, or null.
    pub bias: *const f32,
}

/// `score · scale + bias` of one group; hidden keys get a score that no other reaches.
#[inline(always)]
unsafe fn scaled(row: &ScoreRow, first: usize) -> Group {
    // SAFETY: the group lies inside of the row; the bias is read at visible keys only.
    unsafe {
        let scores = row.scores.add(first).cast::<Group>().read_unaligned();
        if first + GROUP <= row.visible {
            if row.bias.is_null() {
                return from_fn(|i| scores[i] * row.scale);
            }
            let bias = row.bias.add(first).cast::<Group>().read_unaligned();
            return from_fn(|i| scores[i] * row.scale + bias[i]);
        }
        from_fn(|i| match first + i < row.visible {
            true if row.bias.is_null() => scores[i] * row.scale,
            true => scores[i] * row.scale + *row.bias.add(first + i),
            false => HIDDEN,
        })
    }
}

#[inline(always)]
fn folded(lanes: Group, combine: impl Fn(f32, f32) -> f32) -> f32 {
    let eight: [f32; 8] = from_fn(|i| combine(lanes[i], lanes[i + 8]));
    let four: [f32; 4] = from_fn(|i| combine(eight[i], eight[i + 4]));
    combine(combine(four[0], four[2]), combine(four[1], four[3]))
}

/// Turns scores into exponentials less the max; returns the max and the sum. Keys that are not seen get 0.
///
/// # Safety
/// The row is as described at [`ScoreRow`].
pub(super) unsafe fn exponentials(simd: Simd, row: &ScoreRow) -> (f32, f32) {
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<Exponentials>()(row) }
}

struct Exponentials;

impl Kernel for Exponentials {
    type Args = *const ScoreRow;
    type Output = (f32, f32);

    #[inline(always)]
    unsafe fn run<V: Vector>(row: *const ScoreRow) -> (f32, f32) {
        // SAFETY: the caller's promise.
        unsafe {
            let row = &*row;
            let mut lanes = [HIDDEN; GROUP];
            for first in (0..row.padded).step_by(GROUP) {
                let scores = scaled(row, first);
                lanes = from_fn(|i| if scores[i] > lanes[i] || scores[i].is_nan() { scores[i] } else { lanes[i] });
                row.scores.add(first).cast::<Group>().write_unaligned(scores);
            }
            let max = folded(lanes, |a, b| if a > b || a.is_nan() { a } else { b });
            let mut sums = [0.0; GROUP];
            for first in (0..row.padded).step_by(GROUP) {
                let scores = row.scores.add(first).cast::<Group>().read_unaligned();
                let mut values: Group = from_fn(|i| math::exp::<V>(scores[i] - max));
                if first + GROUP > row.visible {
                    values = from_fn(|i| if first + i < row.visible { values[i] } else { 0.0 });
                }
                sums = from_fn(|i| sums[i] + values[i]);
                row.scores.add(first).cast::<Group>().write_unaligned(values);
            }
            (max, folded(sums, |a, b| a + b))
        }
    }
}

/// A row of the backward direction.
#[derive(Clone, Copy)]
pub(super) struct GradientRow {
    pub row: ScoreRow,
    /// The cotangents of the weights; become those of the scores, times the scale.
    pub cotangents: *mut f32,
    pub log_sum: f32,
    /// What is subtracted from every cotangent.
    pub center: f32,
    /// One number per key, added to; or null.
    pub bias_gradient: *mut f32,
}

/// Turns scores into weights and cotangents of weights into those of scores, times the scale.
///
/// # Safety
/// The row is as described at [`GradientRow`].
pub(super) unsafe fn weights_and_cotangents(simd: Simd, row: &GradientRow) {
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<WeightsAndCotangents>()(row) }
}

struct WeightsAndCotangents;

impl Kernel for WeightsAndCotangents {
    type Args = *const GradientRow;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(row: *const GradientRow) {
        // SAFETY: the caller's promise.
        unsafe {
            let GradientRow { row, cotangents, log_sum, center, bias_gradient } = *row;
            for first in (0..row.padded).step_by(GROUP) {
                let scores = scaled(&row, first);
                let mut weights: Group = from_fn(|i| math::exp::<V>(scores[i] - log_sum));
                if first + GROUP > row.visible {
                    weights = from_fn(|i| if first + i < row.visible { weights[i] } else { 0.0 });
                }
                let given = cotangents.add(first).cast::<Group>().read_unaligned();
                let live = (row.visible.max(first) - first).min(GROUP);
                let mut of_scores: Group = from_fn(|i| weights[i] * (given[i] - center));
                if live < GROUP {
                    of_scores = from_fn(|i| if i < live { of_scores[i] } else { 0.0 });
                }
                if !bias_gradient.is_null() {
                    for i in 0..live {
                        *bias_gradient.add(first + i) += of_scores[i];
                    }
                }
                row.scores.add(first).cast::<Group>().write_unaligned(weights);
                let scaled: Group = from_fn(|i| of_scores[i] * row.scale);
                cotangents.add(first).cast::<Group>().write_unaligned(scaled);
            }
        }
    }
}

/// Rows that are copied to another type.
pub(super) struct Copied<S, D> {
    pub from: *const S,
    pub from_row: usize,
    pub to: *mut D,
    pub to_row: usize,
    pub rows: usize,
    pub columns: usize,
    /// Columns of the target; those beyond `columns` become zeros.
    pub padded: usize,
    /// What every number is multiplied with, by row, or null.
    pub factors: *const f32,
}

/// Copies rows.
///
/// # Safety
/// All elements that the strides reach exist.
pub(super) unsafe fn copy<S: Stored, D: Stored>(simd: Simd, copied: &Copied<S, D>) {
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<Copy<S, D>>()(copied) }
}

struct Copy<S, D>(PhantomData<(S, D)>);

impl<S: Stored, D: Stored> Kernel for Copy<S, D> {
    type Args = *const Copied<S, D>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(copied: *const Copied<S, D>) {
        // SAFETY: the caller's promise.
        unsafe {
            let copied = &*copied;
            for row in 0..copied.rows {
                let from = std::slice::from_raw_parts(copied.from.add(row * copied.from_row), copied.columns);
                let to = std::slice::from_raw_parts_mut(copied.to.add(row * copied.to_row), copied.padded);
                let factor = if copied.factors.is_null() { 1.0 } else { *copied.factors.add(row) };
                let (live, rest) = to.split_at_mut(copied.columns);
                for (to, from) in live.iter_mut().zip(from) {
                    *to = D::rounded(from.wide() * factor);
                }
                rest.fill(D::rounded(0.0));
            }
        }
    }
}

/// The sum of products of two rows.
///
/// # Safety
/// Both have `count` elements.
pub(super) unsafe fn dot<T: Stored>(simd: Simd, a: *const T, b: *const T, count: usize) -> f32 {
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<Dot<T>>()((a, b, count)) }
}

struct Dot<T>(PhantomData<T>);

impl<T: Stored> Kernel for Dot<T> {
    type Args = (*const T, *const T, usize);
    type Output = f32;

    #[inline(always)]
    unsafe fn run<V: Vector>((a, b, count): Self::Args) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut lanes, mut done) = ([0.0; GROUP], 0);
            while done + GROUP <= count {
                let (a, b) = (a.add(done).cast::<[T; GROUP]>(), b.add(done).cast::<[T; GROUP]>());
                let (a, b) = (a.read_unaligned(), b.read_unaligned());
                lanes = from_fn(|i| lanes[i] + a[i].wide() * b[i].wide());
                done += GROUP;
            }
            for i in 0..count - done {
                lanes[i] += (*a.add(done + i)).wide() * (*b.add(done + i)).wide();
            }
            folded(lanes, |a, b| a + b)
        }
    }
}
