//! Depthwise kernels of usual sizes over windows that move by one or two pixels: what neighboring windows share is loaded once.

use super::super::ConvGeometry;
use super::super::windows::Sweep;
use crate::kernels::Shared;
use crate::simd::{Kernel, Simd, Vector};
use std::array::from_fn;
use std::ops::Range;

/// Neighboring pixels that are computed together.
const PIXELS: usize = 4;

/// Computes the sweep's pixels in the given output rows, as `depthwise_rows` does and in the same order of sums. False where
/// windows do not overlap like that.
pub(super) fn dense_rows(
    simd: Simd,
    conv: &ConvGeometry,
    sweep: &Sweep,
    x: *const f32,
    weights: &[f32],
    y: Shared<f32>,
    rows: Range<usize>,
) -> bool {
    let (vertical, horizontal) = (&sweep.vertical, &sweep.horizontal);
    let is_dense = horizontal.is_dense() && [vertical.step, horizontal.step] == [1; 2] && horizontal.count >= PIXELS;
    if !is_dense {
        return false;
    }
    let entry = match (horizontal.taps.len(), horizontal.input_step) {
        (3, 1) => simd.entry::<Dense<3, 1>>(),
        (3, 2) => simd.entry::<Dense<3, 2>>(),
        (5, 1) => simd.entry::<Dense<5, 1>>(),
        (5, 2) => simd.entry::<Dense<5, 2>>(),
        (7, 1) => simd.entry::<Dense<7, 1>>(),
        _ => return false,
    };
    let rows = DenseRows { conv, sweep, x, weights: weights.as_ptr(), y: y.at(0), rows };
    // SAFETY: the input rows under these windows exist, the weights have a row per tap, and the output rows are the caller's.
    unsafe { entry(&rows) };
    true
}

/// Raw pointers, for the entry outlives no call.
struct DenseRows {
    conv: *const ConvGeometry,
    sweep: *const Sweep,
    x: *const f32,
    weights: *const f32,
    y: *mut f32,
    rows: Range<usize>,
}

/// `TAPS` columns, and windows `STEP` pixels from each other.
struct Dense<const TAPS: usize, const STEP: usize>;

impl<const TAPS: usize, const STEP: usize> Kernel for Dense<TAPS, STEP> {
    type Args = *const DenseRows;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(rows: *const DenseRows) {
        // SAFETY: the caller's promise at `dense_rows`; V's instruction set is enabled.
        unsafe {
            let rows = &*rows;
            let channels = (*rows.conv).in_channels;
            let mut channel = 0;
            // Two registers of sums and of weights per pixel and tap fit only large register files.
            while V::LANES >= 16 && channel + 2 * V::LANES <= channels {
                rows_of_channels::<V, TAPS, STEP, 2, true>(rows, channel, V::LANES);
                channel += 2 * V::LANES;
            }
            while channel < channels {
                match channel + V::LANES <= channels {
                    true => rows_of_channels::<V, TAPS, STEP, 1, true>(rows, channel, V::LANES),
                    false => rows_of_channels::<V, TAPS, STEP, 1, false>(rows, channel, channels - channel),
                }
                channel += V::LANES;
            }
        }
    }
}

/// All rows of `VECTORS` registers of channels from `channel` on; without `FULL` only the first `live` lanes exist.
#[inline(always)]
unsafe fn rows_of_channels<V: Vector, const TAPS: usize, const STEP: usize, const VECTORS: usize, const FULL: bool>(
    rows: &DenseRows,
    channel: usize,
    live: usize,
) {
    // SAFETY: as in `Dense::run`; pixels and lines outside of the image are not touched.
    unsafe {
        let (conv, sweep) = (&*rows.conv, &*rows.sweep);
        let (channels, [height, width]) = (conv.in_channels, conv.input);
        let weights = rows.weights.wrapping_add(channel);
        let count = sweep.horizontal.count;
        for row in rows.rows.clone() {
            let (image, index) = (row / conv.output[0], row % conv.output[0]);
            let out = rows.y.wrapping_add(row * count * channels + channel);
            let mut first = 0;
            loop {
                // The last tile of a row may compute some pixels again.
                let column = first.min(count - PIXELS);
                let origin = sweep.horizontal.origin(column);
                let mut sums = [[V::splat(0.0); VECTORS]; PIXELS];
                for (tap, vertical) in sweep.vertical.taps.iter().enumerate() {
                    let line = vertical.input + index as i64 * sweep.vertical.input_step;
                    if !(0..height as i64).contains(&line) {
                        continue;
                    }
                    let line = (image * height + line as usize) * width;
                    let segment = Segment {
                        line: rows.x.wrapping_add(line * channels + channel),
                        weights: weights.wrapping_add(tap * TAPS * channels),
                        columns: -origin..width as i64 - origin,
                        origin,
                        channels,
                        live,
                    };
                    let last = origin + ((PIXELS - 1) * STEP + TAPS) as i64;
                    match origin >= 0 && last <= width as i64 {
                        true => segment.add::<V, TAPS, STEP, VECTORS, FULL, true>(&mut sums),
                        false => segment.add::<V, TAPS, STEP, VECTORS, FULL, false>(&mut sums),
                    }
                }
                for (pixel, sums) in sums.iter().enumerate() {
                    for (v, sum) in sums.iter().enumerate() {
                        let out = out.wrapping_add((column + pixel) * channels + v * V::LANES);
                        if FULL { sum.store(out) } else { sum.store_first(out, live) }
                    }
                }
                first += PIXELS;
                if first >= count {
                    break;
                }
            }
        }
    }
}

/// A row of the kernel over neighboring windows.
struct Segment {
    /// The channels of the first pixel of the input row.
    line: *const f32,
    weights: *const f32,
    /// The columns that exist, counted from the first window's first.
    columns: Range<i64>,
    origin: i64,
    channels: usize,
    live: usize,
}

impl Segment {
    /// Adds its products. With `INSIDE` all columns exist.
    #[inline(always)]
    unsafe fn add<
        V: Vector,
        const TAPS: usize,
        const STEP: usize,
        const VECTORS: usize,
        const FULL: bool,
        const INSIDE: bool,
    >(
        &self,
        sums: &mut [[V; VECTORS]; PIXELS],
    ) {
        // SAFETY: as in `Dense::run`.
        unsafe {
            let load = |from: *const f32| if FULL { V::load(from) } else { V::load_first(from, self.live) };
            let weights: [[V; VECTORS]; TAPS] =
                from_fn(|tap| from_fn(|v| load(self.weights.add(tap * self.channels + v * V::LANES))));
            let first = self.line.wrapping_offset(self.origin as isize * self.channels as isize);
            for column in 0..(PIXELS - 1) * STEP + TAPS {
                if !INSIDE && !self.columns.contains(&(column as i64)) {
                    continue;
                }
                let x: [V; VECTORS] = from_fn(|v| load(first.wrapping_add(column * self.channels + v * V::LANES)));
                for pixel in 0..PIXELS {
                    // The window's own tap that lies at this column, if there is one.
                    let Some(tap) = column.checked_sub(pixel * STEP) else { continue };
                    if tap < TAPS {
                        for v in 0..VECTORS {
                            sums[pixel][v] = sums[pixel][v].plus_product(x[v], weights[tap][v]);
                        }
                    }
                }
            }
        }
    }
}
