//! Convolutions into very few channels: lanes run along the rows of the image instead of its channels.
//!
//! A tile across output channels would leave most lanes of its registers empty. So a few rows of the input are copied with
//! each channel on a plane of its own and zeros around them; there, the pixels that meet the same weight lie side by side.

mod gradient;

pub(super) use gradient::planar_gradient;

use super::{ConvGeometry, Weights};
use crate::kernels::{Shared, Stored, scratch};
use crate::simd::{Kernel, Simd, Vector};
use std::marker::PhantomData;
use std::ops::Range;

/// Registers along a row.
const VECTORS: usize = 2;
/// Rows times output channels of a tile.
const TILE: usize = 8;

/// Some rows of an image, each channel on a plane of its own: `[channel][line][width]`.
struct Planes {
    channels: usize,
    lines: usize,
    width: usize,
}

impl Planes {
    fn len(&self) -> usize {
        self.channels * self.lines * self.width
    }

    /// Copies the lines from `first_line` on, shifted so that column 0 of the plane is `first_column`; zeros outside.
    fn fill<T: Stored>(
        &self,
        simd: Simd,
        image: &[T],
        size: [usize; 2],
        first_line: i64,
        first_column: i64,
        to: &mut [f32],
    ) {
        to.fill(0.0);
        let [height, width] = size;
        let begin = (-first_column).clamp(0, self.width as i64) as usize;
        let end = (width as i64 - first_column).clamp(begin as i64, self.width as i64) as usize;
        let from = (begin as i64 + first_column) as usize;
        for line in 0..self.lines {
            let source = first_line + line as i64;
            if !(0..height as i64).contains(&source) || begin == end {
                continue;
            }
            let start = (source as usize * width + from) * self.channels;
            let pixels = &image[start..][..(end - begin) * self.channels];
            for channel in 0..self.channels {
                let to = &mut to[(channel * self.lines + line) * self.width..][begin..end];
                // SAFETY: the entry was chosen for this machine.
                unsafe { simd.entry::<TakeChannel<'_, T>>()((pixels, self.channels, channel, to)) };
            }
        }
    }
}

/// Copies one channel of a row of pixels.
struct TakeChannel<'a, T>(PhantomData<&'a T>);

impl<'a, T: Stored> Kernel for TakeChannel<'a, T> {
    type Args = (&'a [T], usize, usize, &'a mut [f32]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((pixels, channels, channel, to): Self::Args) {
        // Known distances let the compiler shuffle registers instead of reading number by number.
        match channels {
            1 => to.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = pixel.wide()),
            2 => take::<T, 2>(pixels, channel, to),
            4 => take::<T, 4>(pixels, channel, to),
            _ => to.iter_mut().zip(pixels.chunks_exact(channels)).for_each(|(to, pixel)| *to = pixel[channel].wide()),
        }
    }
}

#[inline(always)]
fn take<T: Stored, const N: usize>(pixels: &[T], channel: usize, to: &mut [f32]) {
    to.iter_mut().zip(pixels.as_chunks::<N>().0).for_each(|(to, pixel)| *to = pixel[channel % N].wide());
}

/// The weights in the order in which the tiles read them: `[input][row][column][output]`.
pub(super) fn pack(conv: &ConvGeometry, w: Weights<'_>, packed: &mut [f32]) {
    let [rows, columns] = conv.kernel;
    let mut packed = packed.iter_mut();
    for input in 0..conv.in_channels {
        for row in 0..rows {
            for column in 0..columns {
                let (row, column) = if conv.reversed { (rows - 1 - row, columns - 1 - column) } else { (row, column) };
                for (output, packed) in (0..conv.out_channels).zip(&mut packed) {
                    *packed = w.data[row * w.row + column * w.column + input * w.input + output * w.output];
                }
            }
        }
    }
}

/// Output rows that are computed from one copy of the input.
pub(super) const BAND_ROWS: usize = 16;

/// Computes some output rows, counted through all images, of the result that begins at `y`.
pub(super) fn planar_rows<T: Stored>(
    simd: Simd,
    conv: &ConvGeometry,
    x: &[T],
    packed: &[f32],
    y: Shared<f32>,
    rows: Range<usize>,
) {
    let (height, image_len) = (conv.output[0], conv.input[0] * conv.input[1] * conv.in_channels);
    let mut first = rows.start;
    while first < rows.end {
        let (image, row) = (first / height, first % height);
        let count = BAND_ROWS.min(rows.end - first).min(height - row);
        // Whole tiles are read, whether all of their rows and columns exist or not.
        let tile_rows = TILE / conv.out_channels;
        let planes = Planes {
            channels: conv.in_channels,
            lines: count.next_multiple_of(tile_rows) + conv.kernel[0] - 1,
            width: conv.output[1].next_multiple_of(VECTORS * simd.lanes()) + conv.kernel[1] - 1,
        };
        let x = &x[image * image_len..][..image_len];
        scratch::borrow(planes.len(), |copy: &mut [f32]| {
            planes.fill(simd, x, conv.input, row as i64 - conv.pad_low[0], -conv.pad_low[1], copy);
            let entry = match conv.out_channels {
                1 => simd.entry::<Band<'_, 1, 8>>(),
                2 => simd.entry::<Band<'_, 2, 4>>(),
                3 => simd.entry::<Band<'_, 3, 2>>(),
                _ => simd.entry::<Band<'_, 4, 2>>(),
            };
            let to = y.at(first * conv.output[1] * conv.out_channels);
            // SAFETY: the entry was chosen for this machine; the rows belong to the caller's chunk.
            unsafe { entry(BandWork { conv, planes: &planes, copy, packed, count, to }) };
        });
        first += count;
    }
}

struct BandWork<'a> {
    conv: &'a ConvGeometry,
    planes: &'a Planes,
    copy: &'a [f32],
    packed: &'a [f32],
    /// Output rows.
    count: usize,
    to: *mut f32,
}

struct Band<'a, const OUTPUTS: usize, const ROWS: usize>(PhantomData<&'a ()>);

impl<'a, const OUTPUTS: usize, const ROWS: usize> Kernel for Band<'a, OUTPUTS, ROWS> {
    type Args = BandWork<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(work: BandWork<'a>) {
        let width = work.conv.output[1];
        for row in (0..work.count).step_by(ROWS) {
            for column in (0..width).step_by(VECTORS * V::LANES) {
                // SAFETY: V's instruction set is enabled; the planes are as large as whole tiles.
                unsafe {
                    let sums = tile::<V, OUTPUTS, ROWS>(&work, row, column);
                    for (below, sums) in sums.iter().enumerate().take(work.count - row) {
                        let to = work.to.add(((row + below) * width + column) * OUTPUTS);
                        store::<V, OUTPUTS>(sums, (width - column).min(VECTORS * V::LANES), to);
                    }
                }
            }
        }
    }
}

/// The sums of `ROWS` rows of pixels.
#[inline(always)]
unsafe fn tile<V: Vector, const OUTPUTS: usize, const ROWS: usize>(
    work: &BandWork<'_>,
    row: usize,
    column: usize,
) -> [[[V; VECTORS]; OUTPUTS]; ROWS] {
    let (planes, kernel) = (work.planes, work.conv.kernel);
    // SAFETY: every window of the tile lies inside of the planes, and there is a weight for each of its taps.
    unsafe {
        let mut sums = [[[V::splat(0.0); VECTORS]; OUTPUTS]; ROWS];
        let mut weight = work.packed.as_ptr();
        for channel in 0..planes.channels {
            for down in 0..kernel[0] {
                let line = work.copy.as_ptr().add((channel * planes.lines + row + down) * planes.width + column);
                for across in 0..kernel[1] {
                    let weights: [V; OUTPUTS] = std::array::from_fn(|output| V::splat(*weight.add(output)));
                    for below in 0..ROWS {
                        for vector in 0..VECTORS {
                            let x = V::load(line.add(below * planes.width + across + vector * V::LANES));
                            for output in 0..OUTPUTS {
                                sums[below][output][vector] =
                                    sums[below][output][vector].plus_product(x, weights[output]);
                            }
                        }
                    }
                    weight = weight.add(OUTPUTS);
                }
            }
        }
        sums
    }
}

/// Writes `live` pixels.
#[inline(always)]
unsafe fn store<V: Vector, const OUTPUTS: usize>(sums: &[[V; VECTORS]; OUTPUTS], live: usize, to: *mut f32) {
    // The widest register has 16 lanes.
    let mut planes = [[0.0f32; VECTORS * 16]; OUTPUTS];
    // SAFETY: `live` pixels of `OUTPUTS` numbers are the caller's.
    unsafe {
        if OUTPUTS == 1 {
            for vector in 0..VECTORS {
                let live = live.saturating_sub(vector * V::LANES).min(V::LANES);
                sums[0][vector].store_first(to.add(vector * V::LANES), live);
            }
            return;
        }
        for output in 0..OUTPUTS {
            for vector in 0..VECTORS {
                sums[output][vector].store(planes[output].as_mut_ptr().add(vector * V::LANES));
            }
        }
        for pixel in 0..live {
            for output in 0..OUTPUTS {
                *to.add(pixel * OUTPUTS + output) = planes[output][pixel];
            }
        }
    }
}
