//! Windows that lie side by side: each element belongs to one window at most, so that gradients are written, not summed.
//!
//! The element that a window selected can be stored in one byte, so that the backward pass does not read the images
//! themselves.

use super::super::{Machine, Shared, Stored};
use super::{LANES, Pool2d};
use crate::simd::{Kernel, Simd, Vector};
use std::marker::PhantomData;

/// Elements of a window at most: their positions are kept in registers.
pub(super) const MOST_TAPS: usize = 16;

/// Where the elements of a window lie behind its first.
#[derive(Clone, Copy)]
struct Taps {
    offsets: [usize; MOST_TAPS],
    count: usize,
}

impl Taps {
    #[inline(always)]
    fn of(pool: &Pool2d) -> Taps {
        let mut taps = Taps { offsets: [0; MOST_TAPS], count: pool.window[0] * pool.window[1] };
        for (tap, offset) in taps.offsets.iter_mut().enumerate().take(taps.count) {
            *offset = (tap / pool.window[1] * pool.input[1] + tap % pool.window[1]) * pool.channels;
        }
        taps
    }
}

/// `N` channels of the window whose first element is `x[first]`: its maximum (NaN if there is one), and which tap is
/// selected: the first unless a later one is greater. `TAPS` is the number of taps, or 0 if only `taps` knows it.
#[inline(always)]
fn select<T: Stored, const N: usize, const TAPS: usize>(taps: &Taps, x: &[T], first: usize) -> ([f32; N], [u32; N]) {
    let mut best = [0.0f32; N];
    let mut selected = [0u32; N];
    let x_of = |tap: usize| &x[first + taps.offsets[tap]..][..N];
    let x = x_of(0);
    for lane in 0..N {
        best[lane] = x[lane].wide();
    }
    let mut largest = best;
    for tap in 1..if TAPS > 0 { TAPS } else { taps.count } {
        let x = x_of(tap);
        for lane in 0..N {
            let x = x[lane].wide();
            let keep = best[lane] >= x;
            best[lane] = if keep { best[lane] } else { x };
            selected[lane] = if keep { selected[lane] } else { tap as u32 };
            let greater = if largest[lane] > x { largest[lane] } else { x };
            largest[lane] = if largest[lane].is_nan() { largest[lane] } else { greater };
        }
    }
    (largest, selected)
}

/// Calls `$body` for all channels, sixteen and then one at a time, with `$N` of them from `$first` on.
macro_rules! for_channels {
    ($channels:expr, $N:ident, $first:ident => $body:expr) => {
        let whole = $channels / LANES * LANES;
        for $first in (0..whole).step_by(LANES) {
            const $N: usize = LANES;
            $body
        }
        for $first in whole..$channels {
            const $N: usize = 1;
            $body
        }
    };
}

/// The gradient of a maximum pooling whose windows lie side by side.
pub(super) fn select_and_scatter<T: Stored>(
    machine: &Machine,
    pool: &Pool2d,
    initial: f32,
    x: &[T],
    dy: &[T],
    dx: &mut [T],
) {
    each_band(machine, pool, initial, dy, dx, |window_row, dy, dx| {
        let x = &x[pool.band_start(window_row)..][..dx.len()];
        // SAFETY: the entry was chosen for this machine.
        unsafe { machine.simd.entry::<SelectAndScatter<'_, T>>()(Scattered { pool, initial, x, dy, dx }) };
    });
}

/// The gradient of a maximum pooling from the tap that every window selected: `dx = dy` there and 0 elsewhere.
///
/// # Panics
/// When a slice does not have the size that the description says, or windows do not lie side by side.
pub fn scatter_selected<T: Stored>(machine: &Machine, pool: &Pool2d, selected: &[u8], dy: &[T], dx: &mut [T]) {
    assert!(pool.is_tiling(), "selections are known for windows that lie side by side: {pool:?}");
    assert_eq!(selected.len(), pool.output_len(), "there must be a selection for every window of {pool:?}");
    let row_len = pool.output[1] * pool.channels;
    each_band(machine, pool, 0.0, dy, dx, |window_row, dy, dx| {
        let selected = &selected[window_row * row_len..][..row_len];
        for (line, dx) in dx.chunks_exact_mut(pool.input[1] * pool.channels).enumerate() {
            unpool_row(machine.simd, pool, line, selected, dy, dx);
        }
    });
}

/// Calls `body` with every row of windows, its gradients and the input rows that it covers; fills the input rows
/// below them.
fn each_band<T: Stored>(
    machine: &Machine,
    pool: &Pool2d,
    uncovered: f32,
    dy: &[T],
    dx: &mut [T],
    body: impl Fn(usize, &[T], &mut [T]) + Sync,
) {
    assert_eq!(dy.len(), pool.output_len(), "the output gradient's size must match {pool:?}");
    assert_eq!(dx.len(), pool.input_len(), "the input gradient's size must match {pool:?}");
    if dx.is_empty() {
        return;
    }
    let (row_len, line_len) = (pool.output[1] * pool.channels, pool.input[1] * pool.channels);
    let band_len = pool.stride[0] * line_len;
    let target = Shared(dx.as_mut_ptr());
    let rows = pool.batch * pool.output[0];
    let step = pool.chunk_rows(256 * 1024);
    machine.pool.run(rows.div_ceil(step).max(1), &|chunk| {
        for row in chunk * step..((chunk + 1) * step).min(rows) {
            // SAFETY: every row of windows covers input rows of its own.
            let dx = unsafe { std::slice::from_raw_parts_mut(target.at(pool.band_start(row)), band_len) };
            body(row, &dy[row * row_len..][..row_len], dx);
        }
    });
    let covered = pool.output[0] * pool.stride[0] * line_len;
    let image_len = pool.input[0] * line_len;
    for image in dx.chunks_exact_mut(image_len) {
        image[covered..].fill(T::rounded(uncovered));
    }
}

impl Pool2d {
    /// Where the input rows of a row of windows (counted through all images) begin.
    fn band_start(&self, window_row: usize) -> usize {
        let (image, row) = (window_row / self.output[0], window_row % self.output[0]);
        (image * self.input[0] + row * self.stride[0]) * self.input[1] * self.channels
    }
}

struct Scattered<'a, T> {
    pool: &'a Pool2d,
    initial: f32,
    x: &'a [T],
    dy: &'a [T],
    dx: &'a mut [T],
}

struct SelectAndScatter<'a, T>(PhantomData<&'a T>);

impl<'a, T: Stored> Kernel for SelectAndScatter<'a, T> {
    type Args = Scattered<'a, T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(work: Scattered<'a, T>) {
        let taps = Taps::of(work.pool);
        match taps.count {
            4 => select_and_scatter_row::<T, 4>(work, &taps),
            _ => select_and_scatter_row::<T, 0>(work, &taps),
        }
    }
}

#[inline(always)]
fn select_and_scatter_row<T: Stored, const TAPS: usize>(work: Scattered<'_, T>, taps: &Taps) {
    let Scattered { pool, initial, x, dy, dx } = work;
    let channels = pool.channels;
    for (column, dy) in dy.chunks_exact(channels).enumerate() {
        let start = column * pool.stride[1] * channels;
        for_channels!(channels, N, first => {
            let (_, selected) = select::<T, N, TAPS>(taps, x, start + first);
            let dy = &dy[first..][..N];
            for tap in 0..if TAPS > 0 { TAPS } else { taps.count } {
                let dx = &mut dx[start + first + taps.offsets[tap]..][..N];
                for lane in 0..N {
                    let own = if selected[lane] == tap as u32 { dy[lane].wide() } else { 0.0 };
                    dx[lane] = T::rounded(initial + own);
                }
            }
        });
    }
    let covered = pool.output[1] * pool.stride[1] * channels;
    for line in dx.chunks_exact_mut(pool.input[1] * channels) {
        line[covered..].fill(T::rounded(initial));
    }
}

/// One row of windows of a maximum pooling over f32 numbers that are still in the cache: the maxima, and the tap that each
/// window selects.
pub(in crate::kernels) fn pool_row<T: Stored>(simd: Simd, pool: &Pool2d, x: &[f32], y: &mut [T], selected: &mut [u8]) {
    // SAFETY: the entry was chosen for this machine.
    unsafe { simd.entry::<PoolRow<'_, T>>()((pool, x, y, selected)) }
}

struct PoolRow<'a, T>(PhantomData<&'a T>);

impl<'a, T: Stored> Kernel for PoolRow<'a, T> {
    type Args = (&'a Pool2d, &'a [f32], &'a mut [T], &'a mut [u8]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((pool, x, y, chosen): Self::Args) {
        let taps = Taps::of(pool);
        match taps.count {
            4 => pool_windows::<T, 4>(pool, &taps, x, y, chosen),
            _ => pool_windows::<T, 0>(pool, &taps, x, y, chosen),
        }
    }
}

#[inline(always)]
fn pool_windows<T: Stored, const TAPS: usize>(pool: &Pool2d, taps: &Taps, x: &[f32], y: &mut [T], chosen: &mut [u8]) {
    let channels = pool.channels;
    for (column, (y, chosen)) in y.chunks_exact_mut(channels).zip(chosen.chunks_exact_mut(channels)).enumerate() {
        let start = column * pool.stride[1] * channels;
        for_channels!(channels, N, first => {
            let (largest, selected) = select::<f32, N, TAPS>(taps, x, start + first);
            let (y, chosen) = (&mut y[first..][..N], &mut chosen[first..][..N]);
            for lane in 0..N {
                y[lane] = T::rounded(largest[lane]);
                chosen[lane] = selected[lane] as u8;
            }
        });
    }
}

/// The input gradient of one line of a row of windows, from the tap that each of them selected.
pub(in crate::kernels) fn unpool_row<T: Stored, R: Stored>(
    simd: Simd,
    pool: &Pool2d,
    line: usize,
    selected: &[u8],
    dy: &[T],
    dx: &mut [R],
) {
    // SAFETY: the entry was chosen for this machine.
    unsafe { simd.entry::<UnpoolRow<'_, T, R>>()((pool, line, selected, dy, dx)) }
}

struct UnpoolRow<'a, T, R>(PhantomData<&'a (T, R)>);

impl<'a, T: Stored, R: Stored> Kernel for UnpoolRow<'a, T, R> {
    type Args = (&'a Pool2d, usize, &'a [u8], &'a [T], &'a mut [R]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((pool, line, selected, dy, dx): Self::Args) {
        let (channels, width) = (pool.channels, pool.window[1]);
        let windows = dy.chunks_exact(channels).zip(selected.chunks_exact(channels));
        for ((dy, selected), dx) in windows.zip(dx.chunks_exact_mut(width * channels)) {
            for (tap, dx) in dx.chunks_exact_mut(channels).enumerate() {
                let tap = (line * width + tap) as u8;
                for ((dx, dy), &selected) in dx.iter_mut().zip(dy).zip(selected) {
                    *dx = R::rounded(if selected == tap { dy.wide() } else { 0.0 });
                }
            }
        }
        dx[pool.output[1] * width * channels..].fill(R::rounded(0.0));
    }
}
