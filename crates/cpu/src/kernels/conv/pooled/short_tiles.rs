//! One row of pooling windows, in registers.

use crate::kernels::bf16::Stored;
use crate::simd::{Kernel, Vector};
use std::array::from_fn;
use std::marker::PhantomData;

/// Pixels of a pooling window.
pub(super) const PIXELS: usize = 4;
/// Numbers of a convolution's window at most.
pub(super) const MOST_NUMBERS: usize = 32;
/// Output channels come in multiples of the widest register.
pub(super) const LANES: usize = 16;

/// Where things lie in the copied input rows.
pub(super) struct Short {
    /// The numbers of a convolution's window, in the order of its weights, behind the first.
    pub(super) offsets: [usize; MOST_NUMBERS],
    pub(super) numbers: usize,
    /// The convolution's windows of the pixels of a pooling window, behind the first.
    pub(super) pixels: [usize; PIXELS],
    /// From one pooling window to the next.
    pub(super) window_step: usize,
    /// Input rows that a row of pooling windows needs.
    pub(super) lines: usize,
    /// From one row of pooling windows to the next, in input rows.
    pub(super) line_step: usize,
    /// Pixels of a copied row.
    pub(super) width: usize,
}

/// Weights whose gradients are summed in registers at once.
const GRADIENTS: usize = 9;

/// What a row of windows is convolved and pooled from, and where to.
pub(super) struct ForwardRow<'a> {
    pub short: &'a Short,
    pub lines: &'a [f32],
    pub weights: &'a [f32],
    pub y: &'a mut [f32],
    pub selected: &'a mut [u8],
}

pub(super) struct Forward<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Forward<'a> {
    type Args = ForwardRow<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(mut row: ForwardRow<'a>) {
        let channels = row.weights.len() / row.short.numbers;
        let mut column = 0;
        while column < channels {
            let left = channels - column;
            // SAFETY: the caller's promise; the columns of the tile exist.
            unsafe {
                column += match V::LANES {
                    16 if left >= 64 => forward_columns::<V, 4>(&mut row, channels, column),
                    16 if left >= 32 => forward_columns::<V, 2>(&mut row, channels, column),
                    16 => forward_columns::<V, 1>(&mut row, channels, column),
                    8 => forward_columns::<V, 2>(&mut row, channels, column),
                    _ => forward_columns::<V, 4>(&mut row, channels, column),
                };
            }
        }
    }
}

/// Some output channels of all windows of a row; returns how many.
///
/// # Safety
/// They must exist, and the instruction set of `V` must be enabled.
#[inline(always)]
unsafe fn forward_columns<V: Vector, const VECTORS: usize>(
    row: &mut ForwardRow<'_>,
    channels: usize,
    column: usize,
) -> usize {
    let (short, columns) = (row.short, VECTORS * V::LANES);
    let windows = row.y.chunks_exact_mut(channels).zip(row.selected.chunks_exact_mut(channels));
    for (window, (y, selected)) in windows.enumerate() {
        let (y, selected) = (&mut y[column..][..columns], &mut selected[column..][..columns]);
        // SAFETY: offsets and pixels stay inside of the lines, columns inside of the weights and results.
        unsafe {
            let x = row.lines.as_ptr().add(window * short.window_step);
            let mut tile = [[V::splat(0.0); VECTORS]; PIXELS];
            for number in 0..short.numbers {
                let x = x.add(short.offsets[number]);
                let w = row.weights.as_ptr().add(number * channels + column);
                let w: [V; VECTORS] = from_fn(|vector| V::load(w.add(vector * V::LANES)));
                for (tile, &pixel) in tile.iter_mut().zip(&short.pixels) {
                    let x = V::splat(*x.add(pixel));
                    for vector in 0..VECTORS {
                        tile[vector] = tile[vector].plus_product(x, w[vector]);
                    }
                }
            }
            for vector in 0..VECTORS {
                let (best, tap) = select(from_fn(|pixel| tile[pixel][vector]));
                best.store(y.as_mut_ptr().add(vector * V::LANES));
                tap.store_bytes(selected.as_mut_ptr().add(vector * V::LANES));
            }
        }
    }
    columns
}

/// The largest of a window's pixels, NaN if there is one, and which of them is selected: the first unless a later one is
/// greater.
///
/// # Safety
/// The instruction set of `V` must be enabled.
#[inline(always)]
unsafe fn select<V: Vector>(pixels: [V; PIXELS]) -> (V, V) {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut best, mut selected) = (pixels[0], V::splat(0.0));
        for (tap, &pixel) in pixels.iter().enumerate().skip(1) {
            selected = best.if_at_least(pixel, selected, V::splat(tap as f32));
            best = best.if_at_least(pixel, best, pixel);
        }
        // Only NaN is not at least itself.
        let largest = pixels.iter().fold(best, |largest, &pixel| pixel.if_at_least(pixel, largest, pixel));
        (largest, selected)
    }
}

/// What of a pooled gradient belongs to each pixel of its window, by the pixel that was selected.
///
/// # Safety
/// The instruction set of `V` must be enabled.
#[inline(always)]
unsafe fn unselect<V: Vector>(pooled: V, selected: V) -> [V; PIXELS] {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(0.0);
        let mut own = [zero; PIXELS];
        for (pixel, own) in own.iter_mut().enumerate() {
            let below = selected.if_at_least(V::splat(pixel as f32 + 1.0), zero, pooled);
            *own = selected.if_at_least(V::splat(pixel as f32), below, zero);
        }
        own
    }
}

/// What a row of windows adds to the gradient of the weights.
pub(super) struct GradientRow<'a, T> {
    pub short: &'a Short,
    pub lines: &'a [f32],
    pub pooled: &'a [T],
    pub selected: &'a [u8],
    pub channels: usize,
    pub dw: &'a mut [f32],
}

pub(super) struct Gradient<'a, T>(PhantomData<&'a T>);

impl<'a, T: Stored> Kernel for Gradient<'a, T> {
    type Args = GradientRow<'a, T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(mut row: GradientRow<'a, T>) {
        for first in (0..row.short.numbers).step_by(GRADIENTS) {
            let mut column = 0;
            while column < row.channels {
                // Two registers across share what is read of the image, where sums for both fit.
                let wide = V::LANES == 16 && row.channels - column >= 32;
                // SAFETY: the caller's promise; the columns exist.
                column += unsafe {
                    match wide {
                        true => gradient_columns::<V, T, 2>(&mut row, first, column),
                        false => gradient_columns::<V, T, 1>(&mut row, first, column),
                    }
                };
            }
        }
    }
}

/// Adds to the gradients of the weights `first..` for some output channels; returns how many.
///
/// # Safety
/// They must exist, and the instruction set of `V` must be enabled.
#[inline(always)]
unsafe fn gradient_columns<V: Vector, T: Stored, const VECTORS: usize>(
    row: &mut GradientRow<'_, T>,
    first: usize,
    column: usize,
) -> usize {
    let (short, columns, channels) = (row.short, VECTORS * V::LANES, row.channels);
    let live = GRADIENTS.min(short.numbers - first);
    let offsets: [usize; GRADIENTS] = from_fn(|gradient| short.offsets[(first + gradient).min(MOST_NUMBERS - 1)]);
    let dw = row.dw[first * channels..].as_mut_ptr().wrapping_add(column);
    // SAFETY: the caller's promise; the columns exist in the rows of the gradient that are live.
    let mut sums = unsafe {
        let mut sums = [[V::splat(0.0); VECTORS]; GRADIENTS];
        for (gradient, sums) in sums.iter_mut().enumerate().take(live) {
            for (vector, sum) in sums.iter_mut().enumerate() {
                *sum = V::load(dw.add(gradient * channels + vector * V::LANES));
            }
        }
        sums
    };
    let mut wide = [0.0f32; 2 * LANES];
    let windows = row.pooled.chunks_exact(channels).zip(row.selected.chunks_exact(channels));
    for (window, (pooled, selected)) in windows.enumerate() {
        let (pooled, selected) = (&pooled[column..][..columns], &selected[column..][..columns]);
        wide.iter_mut().zip(pooled).for_each(|(wide, pooled)| *wide = pooled.wide());
        // SAFETY: offsets and pixels stay inside of the lines, vectors inside of the columns.
        unsafe {
            let mut own = [[V::splat(0.0); PIXELS]; VECTORS];
            for (vector, own) in own.iter_mut().enumerate() {
                let first = vector * V::LANES;
                *own = unselect(V::load(wide.as_ptr().add(first)), V::load_bytes(selected.as_ptr().add(first)));
            }
            for (pixel, &offset) in short.pixels.iter().enumerate() {
                let x = row.lines.as_ptr().add(window * short.window_step + offset);
                for (sums, &offset) in sums.iter_mut().zip(&offsets) {
                    let x = V::splat(*x.add(offset));
                    for vector in 0..VECTORS {
                        sums[vector] = sums[vector].plus_product(x, own[vector][pixel]);
                    }
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        for (gradient, sums) in sums.iter().enumerate().take(live) {
            for (vector, sum) in sums.iter().enumerate() {
                sum.store(dw.add(gradient * channels + vector * V::LANES));
            }
        }
    }
    columns
}
