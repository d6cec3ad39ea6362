//! The gradients of poolings, for windows that may meet, leave gaps, or reach over the edge.

use super::super::{Machine, Shared, Stored, scratch};
use super::{Pool2d, tiling};
use crate::simd::{Kernel, Vector};
use std::marker::PhantomData;
use std::ops::Range;

/// The gradient of a maximum pooling: `dx = initial + Σ dy[o]` at the element that each window selects.
///
/// A window selects its first maximum: an element replaces the selected one unless `selected >= element`. This is
/// StableHLO's select-and-scatter with `GE` and addition; padding is never selected.
///
/// # Panics
/// When a slice does not have the size of the geometry.
pub fn max_pool2d_gradient<T: Stored>(machine: &Machine, pool: &Pool2d, initial: f32, x: &[T], dy: &[T], dx: &mut [T]) {
    assert_eq!(x.len(), pool.input_len(), "the input's size must match {pool:?}");
    if pool.is_tiling() {
        return tiling::select_and_scatter(machine, pool, initial, x, dy, dx);
    }
    run_gradient::<T, true>(machine, pool, initial, x, dy, dx);
}

/// The gradient of a sum pooling: `dx[i] = Σ dy[o]` over the windows that cover `i`.
///
/// # Panics
/// When a slice does not have the size of the geometry.
pub fn sum_pool2d_gradient<T: Stored>(machine: &Machine, pool: &Pool2d, dy: &[T], dx: &mut [T]) {
    run_gradient::<T, false>(machine, pool, 0.0, &[], dy, dx);
}

/// Chunks own input rows. A window that reaches into two chunks is looked at by both, and each adds to its own rows, in
/// the order of the outputs: the sums do not depend on where the cuts are.
fn run_gradient<T: Stored, const SELECT: bool>(
    machine: &Machine,
    pool: &Pool2d,
    initial: f32,
    x: &[T],
    dy: &[T],
    dx: &mut [T],
) {
    assert_eq!(dy.len(), pool.output_len(), "the output gradient's size must match {pool:?}");
    assert_eq!(dx.len(), pool.input_len(), "the input gradient's size must match {pool:?}");
    if dx.is_empty() {
        return;
    }
    let row_len = pool.input[1] * pool.channels;
    // Whole multiples of the stride keep windows from being cut more often than needed.
    let step = (128 * 1024 / (4 * row_len)).next_multiple_of(pool.stride[0]).max(4 * pool.stride[0]);
    let per_image = pool.input[0].div_ceil(step);
    let target = Shared(dx.as_mut_ptr());
    machine.pool.run(pool.batch * per_image, &|chunk| {
        let (image, first) = (chunk / per_image, chunk % per_image * step);
        let rows = first..(first + step).min(pool.input[0]);
        let start = (image * pool.input[0] + rows.start) * row_len;
        // SAFETY: chunks are disjoint ranges of input rows.
        let dx = unsafe { std::slice::from_raw_parts_mut(target.at(start), rows.len() * row_len) };
        T::from_sums(machine.simd, dx, |dx| {
            scratch::borrow(pool.window[0] * pool.window[1], |pixels: &mut [u32]| {
                let entry = machine.simd.entry::<Gradient<'_, T, SELECT>>();
                // SAFETY: the entry was chosen for this machine.
                unsafe { entry(GradientRows { pool, initial, x, dy, dx, image, rows, pixels }) };
            });
        });
    });
}

struct GradientRows<'a, T> {
    pool: &'a Pool2d,
    initial: f32,
    x: &'a [T],
    dy: &'a [T],
    /// The rows of `dx` that the chunk owns.
    dx: &'a mut [f32],
    image: usize,
    rows: Range<usize>,
    /// Room for the pixels of a window.
    pixels: &'a mut [u32],
}

struct Gradient<'a, T, const SELECT: bool>(PhantomData<&'a T>);

/// Channels whose selections are kept at once.
const BLOCK: usize = 64;

impl<'a, T: Stored, const SELECT: bool> Kernel for Gradient<'a, T, SELECT> {
    type Args = GradientRows<'a, T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(work: GradientRows<'a, T>) {
        let GradientRows { pool, initial, x, dy, dx, image, rows, pixels } = work;
        dx.fill(initial);
        let channels = pool.channels;
        let first_pixel = rows.start * pool.input[1];
        let from = image * pool.input[0] * pool.input[1] * channels;
        let x = if SELECT { &x[from..] } else { x };
        for row in (0..pool.output[0]).filter(|&row| pool.covered(0, row).any(|line| rows.contains(&line))) {
            for column in 0..pool.output[1] {
                let pixels = pool.pixels([row, column], pixels);
                let pixel = (image * pool.output[0] + row) * pool.output[1] + column;
                let dy = &dy[pixel * channels..][..channels];
                for (block, dy) in dy.chunks(BLOCK).enumerate() {
                    scatter::<T, SELECT>(x, dy, dx, pixels, first_pixel, channels, block * BLOCK);
                }
            }
        }
    }
}

/// Adds one window's gradient, for the channels from `first` on, where it belongs; `dx` begins with `first_pixel`.
#[inline(always)]
fn scatter<T: Stored, const SELECT: bool>(
    x: &[T],
    dy: &[T],
    dx: &mut [f32],
    pixels: &[u32],
    first_pixel: usize,
    channels: usize,
    first: usize,
) {
    let mut selected = [0i32; BLOCK];
    let selected = &mut selected[..dy.len()];
    if SELECT {
        let mut best = [0.0f32; BLOCK];
        let best = &mut best[..dy.len()];
        for (tap, &pixel) in pixels.iter().enumerate() {
            let x = &x[pixel as usize * channels + first..][..dy.len()];
            for ((best, selected), x) in best.iter_mut().zip(selected.iter_mut()).zip(x) {
                let x = x.wide();
                let keep = tap > 0 && *best >= x;
                *best = if keep { *best } else { x };
                *selected = if keep { *selected } else { tap as i32 };
            }
        }
    }
    for (tap, &pixel) in pixels.iter().enumerate() {
        let own = (pixel as usize).checked_sub(first_pixel).map(|pixel| pixel * channels + first);
        let Some(dx) = own.and_then(|at| dx.get_mut(at..at + dy.len())) else { continue };
        for ((dx, dy), &selected) in dx.iter_mut().zip(dy).zip(selected.iter()) {
            *dx += if !SELECT || selected == tap as i32 { dy.wide() } else { 0.0 };
        }
    }
}
