//! Pooling: maximum, minimum or sum over windows of NHWC images, and their gradients.
//!
//! Vectors run across channels. Loops are plain Rust over slices of channels: inside a [`Kernel`] they are compiled for the
//! whole instruction set. A closure that a function outside of the kernel calls is not, so working memory is borrowed before
//! the kernel is entered. Images are f32 or bf16, sums are f32. `extreme` finds maxima and minima; `gradient` is the backward
//! pass for any windows; `tiling` is the faster algorithm for windows that do not overlap, as those of most networks.

mod extreme;
mod gradient;
pub(super) mod tiling;

#[cfg(test)]
mod tests;

pub use gradient::{max_pool2d_gradient, sum_pool2d_gradient};
pub use tiling::scatter_selected;

use super::{Machine, Shared, Stored, scratch};
use crate::simd::{Kernel, Vector};
use extreme::Ranked;
use std::marker::PhantomData;
use std::ops::Range;

/// A pooling window moving over NHWC images; the padding on the high side is implied by `output`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pool2d {
    /// Images.
    pub batch: usize,
    /// Height and width of the input.
    pub input: [usize; 2],
    /// Height and width of the output.
    pub output: [usize; 2],
    /// Channels.
    pub channels: usize,
    /// Height and width of the window.
    pub window: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
    /// Distance between the window's elements; 1 is no dilation.
    pub dilation: [usize; 2],
    /// Initial elements before the input; negative cuts pixels off.
    pub pad_low: [i64; 2],
}

/// What a window is reduced to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolReduction {
    /// The sum, added to the initial value.
    Sum,
    /// The maximum; NaN if any element is NaN.
    Max,
    /// The minimum; NaN if any element is NaN.
    Min,
}

impl Pool2d {
    /// A window with equal sides, without dilation.
    pub fn square(
        batch: usize,
        input: [usize; 2],
        channels: usize,
        window: usize,
        stride: usize,
        padding: usize,
    ) -> Self {
        let output = input.map(|size| (size + 2 * padding + stride).saturating_sub(window) / stride);
        let pad_low = [padding as i64; 2];
        Pool2d { batch, input, output, channels, window: [window; 2], stride: [stride; 2], dilation: [1; 2], pad_low }
    }

    /// Whether windows lie side by side and inside of the image, so that an element belongs to one of them or none.
    pub fn is_tiling(&self) -> bool {
        let side_by_side = |axis: usize| {
            self.window[axis] == self.stride[axis]
                && (self.dilation[axis] == 1 || self.window[axis] == 1)
                && self.pad_low[axis] == 0
                && self.output[axis] * self.stride[axis] <= self.input[axis]
        };
        side_by_side(0) && side_by_side(1) && self.window[0] * self.window[1] <= tiling::MOST_TAPS
    }

    pub(super) fn input_len(&self) -> usize {
        self.batch * self.input[0] * self.input[1] * self.channels
    }

    pub(super) fn output_len(&self) -> usize {
        self.batch * self.output[0] * self.output[1] * self.channels
    }

    /// The input indices along an axis that the window at `output` covers.
    #[inline(always)]
    fn covered(&self, axis: usize, output: usize) -> impl Iterator<Item = usize> + Clone {
        let origin = (output * self.stride[axis]) as i64 - self.pad_low[axis];
        let (dilation, input) = (self.dilation[axis] as i64, self.input[axis] as i64);
        let positions = (0..self.window[axis] as i64).map(move |tap| origin + tap * dilation);
        positions.filter(move |position| (0..input).contains(position)).map(|position| position as usize)
    }

    /// Writes the pixels (counted within the image) that a window covers to `pixels`; returns those written.
    #[inline(always)]
    fn pixels<'a>(&self, window: [usize; 2], pixels: &'a mut [u32]) -> &'a [u32] {
        let mut count = 0;
        for line in self.covered(0, window[0]) {
            for column in self.covered(1, window[1]) {
                pixels[count] = (line * self.input[1] + column) as u32;
                count += 1;
            }
        }
        &pixels[..count]
    }

    /// Calls `body` with every chunk of output rows, on all threads.
    fn each_chunk(&self, machine: &Machine, body: &(dyn Fn(Range<usize>) + Sync)) {
        let (rows, step) = (self.batch * self.output[0], self.chunk_rows(256 * 1024));
        machine.pool.run(rows.div_ceil(step), &|chunk| body(chunk * step..((chunk + 1) * step).min(rows)));
    }

    /// Output rows per chunk, by shape.
    fn chunk_rows(&self, bytes: usize) -> usize {
        let row = 4 * (self.output[1] + self.input[1] * self.stride[0]) * self.channels;
        (bytes / row.max(1)).clamp(1, (self.batch * self.output[0]).max(1))
    }
}

/// Computes `y[o] = reduction(initial, x over the window at o)`.
///
/// # Panics
/// When a slice does not have the size of the geometry.
pub fn pool2d<T: Ranked>(
    machine: &Machine,
    pool: &Pool2d,
    reduction: PoolReduction,
    initial: f32,
    x: &[T],
    y: &mut [T],
) {
    assert_eq!(x.len(), pool.input_len(), "the input's size must match {pool:?}");
    assert_eq!(y.len(), pool.output_len(), "the output's size must match {pool:?}");
    if y.is_empty() {
        return;
    }
    let row_len = pool.output[1] * pool.channels;
    let target = Shared(y.as_mut_ptr());
    pool.each_chunk(machine, &|rows| {
        // SAFETY: chunks are disjoint ranges of output rows.
        let y = unsafe { std::slice::from_raw_parts_mut(target.at(rows.start * row_len), rows.len() * row_len) };
        match reduction {
            PoolReduction::Sum => scratch::borrow(pool.window[0] * pool.window[1], |pixels: &mut [u32]| {
                // SAFETY: the entry was chosen for this machine.
                unsafe { machine.simd.entry::<Sum<'_, T>>()(SumRows { pool, initial, x, y, rows, pixels }) };
            }),
            PoolReduction::Max => extreme::rows::<T, false>(machine.simd, pool, initial, x, y, rows),
            PoolReduction::Min => extreme::rows::<T, true>(machine.simd, pool, initial, x, y, rows),
        }
    });
}

struct SumRows<'a, T> {
    pool: &'a Pool2d,
    initial: f32,
    x: &'a [T],
    y: &'a mut [T],
    rows: Range<usize>,
    /// Room for the pixels of a window.
    pixels: &'a mut [u32],
}

/// The sums of some output rows.
struct Sum<'a, T>(PhantomData<&'a T>);

impl<'a, T: Stored> Kernel for Sum<'a, T> {
    type Args = SumRows<'a, T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(work: SumRows<'a, T>) {
        let SumRows { pool, initial, x, y, rows, pixels } = work;
        let channels = pool.channels;
        let image_len = pool.input[0] * pool.input[1] * channels;
        for (index, y) in y.chunks_exact_mut(channels).enumerate() {
            let row = rows.start + index / pool.output[1];
            let x = &x[row / pool.output[0] * image_len..][..image_len];
            let pixels = pool.pixels([row % pool.output[0], index % pool.output[1]], pixels);
            let (whole, rest) = y.as_chunks_mut::<LANES>();
            for (block, y) in whole.iter_mut().enumerate() {
                sum_window::<T, LANES>(x, pixels, channels, block * LANES, initial, y);
            }
            let first = channels - rest.len();
            for (channel, y) in rest.iter_mut().enumerate() {
                sum_window::<T, 1>(x, pixels, channels, first + channel, initial, std::array::from_mut(y));
            }
        }
    }
}

/// Channels that are computed at once: a register, or a few.
const LANES: usize = 16;

/// `N` channels of one window, from `first` on.
#[inline(always)]
fn sum_window<T: Stored, const N: usize>(
    x: &[T],
    pixels: &[u32],
    channels: usize,
    first: usize,
    initial: f32,
    y: &mut [T; N],
) {
    let mut sums = [initial; N];
    for &pixel in pixels {
        let x = &x[pixel as usize * channels + first..][..N];
        for lane in 0..N {
            sums[lane] += x[lane].wide();
        }
    }
    for lane in 0..N {
        y[lane] = T::rounded(sums[lane]);
    }
}
