//! The element-wise part of attention, a row of scores at a time.

use super::super::Stored;
use crate::math;
use crate::simd::{Kernel, Simd, Vector};
use std::any::TypeId;
use std::array::from_fn;
use std::marker::PhantomData;

/// Rows are whole groups of numbers long.
pub(super) const GROUP: usize = 16;

/// A score that no other reaches.
const HIDDEN: f32 = -1e30;

/// The numbers of the widest register.
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

/// Scores as `score · scale + bias`; hidden keys get a score that no other reaches. Plain loops over slices, here and below:
/// those are what the compiler makes vector code of.
#[inline(always)]
unsafe fn scaled<'a>(row: &ScoreRow) -> &'a mut [f32] {
    // SAFETY: the row has that many numbers, and the bias one for every visible key.
    let (scores, bias) = unsafe {
        let bias = match row.bias.is_null() {
            true => &[][..],
            false => std::slice::from_raw_parts(row.bias, row.visible),
        };
        (std::slice::from_raw_parts_mut(row.scores, row.padded), bias)
    };
    let (visible, hidden) = scores.split_at_mut(row.visible);
    match bias.is_empty() {
        true => visible.iter_mut().for_each(|score| *score *= row.scale),
        false => visible.iter_mut().zip(bias).for_each(|(score, bias)| *score = *score * row.scale + bias),
    }
    hidden.fill(HIDDEN);
    scores
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
        // SAFETY: the caller's promise; rows are whole groups long, and so whole registers.
        unsafe {
            let row = &*row;
            let max = scale_for_max::<V>(row);
            let scores = std::slice::from_raw_parts_mut(row.scores, row.padded);
            scores.iter_mut().for_each(|score| *score = math::exp_or_zero::<V>(*score - max));
            scores[row.visible..].fill(0.0);
            let mut sum = V::splat(0.0);
            for first in (0..row.padded).step_by(V::LANES) {
                sum = sum.plus(V::load(scores.as_ptr().add(first)));
            }
            (max, folded(sum.lanes(), |a, b| a + b))
        }
    }
}

/// Scores as [`scaled`] makes them; returns the max. A row of a few dozen keys would be mostly remainder for a loop over a
/// slice, which is computed number by number.
#[inline(always)]
unsafe fn scale_for_max<V: Vector>(row: &ScoreRow) -> f32 {
    const INDICES: Group = {
        let (mut indices, mut at) = ([0.0; GROUP], 0);
        while at < GROUP {
            indices[at] = at as f32;
            at += 1;
        }
        indices
    };
    // SAFETY: the row has that many numbers, whole registers, and the bias one for every visible key.
    unsafe {
        let (scale, hidden) = (V::splat(row.scale), V::splat(HIDDEN));
        let mut largest = hidden;
        for first in (0..row.padded).step_by(V::LANES) {
            let live = row.visible.saturating_sub(first).min(V::LANES);
            let at = row.scores.add(first);
            if live == 0 {
                hidden.store(at);
                continue;
            }
            let mut score = V::load(at).times(scale);
            if !row.bias.is_null() {
                score = score.plus(V::load_first(row.bias.add(first), live));
            }
            if live < V::LANES {
                score = V::load(INDICES.as_ptr()).if_at_least(V::splat(live as f32), hidden, score);
            }
            score.store(at);
            largest = score.if_at_least(largest, score, largest);
        }
        let mut lanes = largest.lanes();
        lanes[V::LANES..].fill(HIDDEN);
        folded(lanes, |a, b| if a >= b { a } else { b })
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
            let weights = scaled(&row);
            weights.iter_mut().for_each(|score| *score = math::exp_or_zero::<V>(*score - log_sum));
            weights[row.visible..].fill(0.0);
            let cotangents = std::slice::from_raw_parts_mut(cotangents, row.padded);
            let (visible, hidden) = cotangents.split_at_mut(row.visible);
            visible
                .iter_mut()
                .zip(&*weights)
                .for_each(|(cotangent, weight)| *cotangent = weight * (*cotangent - center));
            hidden.fill(0.0);
            if !bias_gradient.is_null() {
                let sums = std::slice::from_raw_parts_mut(bias_gradient, row.visible);
                sums.iter_mut().zip(&*visible).for_each(|(sum, cotangent)| *sum += cotangent);
            }
            visible.iter_mut().for_each(|cotangent| *cotangent *= row.scale);
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
                let (live, rest) = to.split_at_mut(copied.columns);
                rest.fill(D::rounded(0.0));
                if copied.factors.is_null() && TypeId::of::<S>() == TypeId::of::<D>() {
                    copy_same(from.as_ptr().cast(), live);
                    continue;
                }
                let factor = if copied.factors.is_null() { 1.0 } else { *copied.factors.add(row) };
                for (to, from) in live.iter_mut().zip(from) {
                    *to = D::rounded(from.wide() * factor);
                }
            }
        }
    }
}

/// Copies a row of the same type: heads have so few features that a call for each of their rows would take longer.
#[inline(always)]
unsafe fn copy_same<T: Stored>(from: *const T, to: &mut [T]) {
    const AT_ONCE: usize = 32;
    let (chunks, rest) = to.as_chunks_mut::<AT_ONCE>();
    let copied = chunks.len() * AT_ONCE;
    // SAFETY: as many numbers lie behind `from` as there are in `to`.
    unsafe {
        for (index, chunk) in chunks.iter_mut().enumerate() {
            *chunk = from.add(index * AT_ONCE).cast::<[T; AT_ONCE]>().read_unaligned();
        }
        rest.iter_mut().enumerate().for_each(|(index, to)| *to = *from.add(copied + index));
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
