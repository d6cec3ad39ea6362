//! Convolutions with three taps along a row into as many channels as one register holds.
//!
//! A tile one register wide spreads a number of the input over a register for every single product. But with taps side by
//! side, the same number meets the weights of all three of them, for three neighbouring outputs: here it does so at once. Rows
//! of the input are copied with each channel on a line of its own and zeros around it, so that the numbers of neighbouring
//! pixels are neighbours. `gradient` does the same for the gradient of the weights, where three neighbouring output gradients
//! are at hand.

mod gradient;

pub(super) use gradient::{is_narrow_gradient, narrow_gradient};

use super::{Conv2d, Weights};
use crate::kernels::panels::pack_rows;
use crate::kernels::{Shared, scratch};
use crate::simd::{Kernel, Simd, Vector};
use std::ops::Range;

/// Taps of a kernel row.
const TAPS: usize = 3;

/// Whether a convolution is one that is faster this way.
pub(super) fn is_narrow(simd: Simd, conv: &Conv2d) -> bool {
    conv.groups == 1
        && conv.kernel[1] == TAPS
        && [conv.stride, conv.input_dilation, conv.kernel_dilation] == [[1; 2]; 3]
        && (simd.lanes() / 2 + 1..=simd.lanes()).contains(&conv.out_channels)
        && conv.input_len() * conv.output_len() > 0
}

/// Numbers of the packed weights.
pub(super) fn packed_len(simd: Simd, conv: &Conv2d) -> usize {
    conv.kernel[0] * conv.in_channels * TAPS * simd.lanes()
}

/// Lays the weights out as the tiles read them: `[row][input][column][lane]`, zeros in lanes without an output.
pub(super) fn pack(simd: Simd, conv: &Conv2d, w: Weights<'_>, packed: &mut [f32]) {
    let steps = packed.chunks_exact_mut(simd.lanes()).enumerate();
    for (step, lanes) in steps.take(conv.kernel[0] * conv.in_channels * TAPS) {
        let (row, input, column) = (step / TAPS / conv.in_channels, step / TAPS % conv.in_channels, step % TAPS);
        let (row, column) = match conv.reversed {
            true => (conv.kernel[0] - 1 - row, TAPS - 1 - column),
            false => (row, column),
        };
        let from = row * w.row + column * w.column + input * w.input;
        lanes.fill(0.0);
        for (output, lane) in lanes.iter_mut().enumerate().take(conv.out_channels) {
            *lane = w.data[from + output * w.output];
        }
    }
}

/// Pixels of a tile. As many sums, the weights of a kernel row and one number of the input share the registers.
fn tile_pixels(simd: Simd) -> usize {
    if simd.lanes() == 16 { 16 } else { 8 }
}

/// Computes some output rows, counted through all pictures, of the result that begins at `y`.
pub(super) fn narrow_rows(simd: Simd, conv: &Conv2d, x: &[f32], packed: &[f32], y: Shared<f32>, rows: Range<usize>) {
    let height = conv.output[0];
    let mut first = rows.start;
    while first < rows.end {
        let (picture, row) = (first / height, first % height);
        let count = (height - row).min(rows.end - first);
        let picture_len = conv.input[0] * conv.input[1] * conv.in_channels;
        let band = Band { simd, conv, x: &x[picture * picture_len..][..picture_len], packed };
        band.run(row..row + count, y.at(picture * height * conv.output[1] * conv.out_channels));
        first += count;
    }
}

/// A picture and its weights.
struct Band<'a> {
    simd: Simd,
    conv: &'a Conv2d,
    x: &'a [f32],
    packed: &'a [f32],
}

impl Band<'_> {
    /// Computes some output rows of the picture whose result begins at `y`.
    fn run(&self, rows: Range<usize>, y: *mut f32) {
        let conv = self.conv;
        let inside = |row: i64| row.clamp(0, conv.input[0] as i64) as usize;
        let origin = rows.start as i64 - conv.pad_low[0];
        let lines = inside(origin)..inside(origin + (rows.len() + conv.kernel[0] - 1) as i64);
        // Zeros before each line are those that end the line before it.
        let lead = conv.pad_low[1].max(0) as usize;
        let pixels = conv.output[1].next_multiple_of(tile_pixels(self.simd)) + TAPS - 1;
        let pitch = (lead + conv.input[1]).max(pixels + (-conv.pad_low[1]).max(0) as usize).next_multiple_of(16) + 16;
        let line = conv.in_channels * pitch;
        scratch::borrow(lines.len() * line + lead, |copy: &mut [f32]| {
            copy[..lead].fill(0.0);
            for (index, row) in lines.clone().enumerate() {
                let from = self.x[row * conv.input[1] * conv.in_channels..].as_ptr();
                let to = copy[index * line + lead..].as_mut_ptr();
                let (channels, width) = (conv.in_channels, conv.input[1]);
                // SAFETY: the row has all channels of all pixels; the copy has room for a line of each channel.
                unsafe { pack_rows(self.simd, from, 1, channels, channels, width, pitch, to) };
            }
            for row in rows {
                let origin = row as i64 - conv.pad_low[0];
                let own = inside(origin)..inside(origin + conv.kernel[0] as i64);
                let first_tap = (own.start as i64 - origin).clamp(0, conv.kernel[0] as i64) as usize;
                // The first window begins `lead` before the first pixel, or behind it where pixels are cut off.
                let start = (own.start - lines.start) * line + (lead as i64 - conv.pad_low[1]) as usize;
                let source = Source {
                    lines: copy[start.min(copy.len())..].as_ptr(),
                    rows: own.len(),
                    row: line,
                    inputs: conv.in_channels,
                    pitch,
                    weights: self.packed[first_tap * conv.in_channels * TAPS * self.simd.lanes()..].as_ptr(),
                };
                self.run_row(source, y.wrapping_add(row * conv.output[1] * conv.out_channels));
            }
        });
    }

    /// Computes one output row.
    fn run_row(&self, source: Source, y: *mut f32) {
        let (width, outputs) = (self.conv.output[1], self.conv.out_channels);
        let kernel = self.simd.entry::<Forward>();
        for first in (0..width).step_by(tile_pixels(self.simd)) {
            let tile = NarrowTile {
                source: Source { lines: source.lines.wrapping_add(first), ..source },
                out: y.wrapping_add(first * outputs),
                outputs,
                live: (width - first).min(tile_pixels(self.simd)),
            };
            // SAFETY: lines go on for a tile and its taps behind the last pixel; the output row is the caller's.
            unsafe { kernel(&tile) };
        }
    }
}

/// What a row of outputs is computed from.
#[derive(Clone, Copy)]
struct Source {
    /// The first window's first number.
    lines: *const f32,
    /// Kernel rows, and the distance between their lines.
    rows: usize,
    row: usize,
    /// Channels, and the distance between their lines.
    inputs: usize,
    pitch: usize,
    weights: *const f32,
}

struct NarrowTile {
    source: Source,
    out: *mut f32,
    outputs: usize,
    /// Pixels that exist.
    live: usize,
}

struct Forward;

impl Kernel for Forward {
    type Args = *const NarrowTile;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(tile: *const NarrowTile) {
        // SAFETY: as described at `NarrowTile`; V's instruction set is enabled.
        unsafe {
            match V::LANES {
                16 => run_tile::<V, 16>(&*tile),
                _ => run_tile::<V, 8>(&*tile),
            }
        }
    }
}

#[inline(always)]
unsafe fn run_tile<V: Vector, const PIXELS: usize>(tile: &NarrowTile) {
    // SAFETY: as in `Forward::run`.
    unsafe {
        let mut sums = [V::splat(0.0); PIXELS];
        let mut weights = tile.source.weights;
        for row in 0..tile.source.rows {
            for input in 0..tile.source.inputs {
                let line = tile.source.lines.add(row * tile.source.row + input * tile.source.pitch);
                let mut taps = [V::splat(0.0); TAPS];
                for tap in 0..TAPS {
                    taps[tap] = V::load(weights.add(tap * V::LANES));
                }
                weights = weights.add(TAPS * V::LANES);
                for pixel in 0..PIXELS + TAPS - 1 {
                    let x = V::splat(*line.add(pixel));
                    for tap in 0..TAPS {
                        if pixel >= tap && pixel - tap < PIXELS {
                            sums[pixel - tap] = sums[pixel - tap].plus_product(x, taps[tap]);
                        }
                    }
                }
            }
        }
        for pixel in 0..PIXELS {
            if pixel < tile.live {
                let out = tile.out.add(pixel * tile.outputs);
                match tile.outputs == V::LANES {
                    true => sums[pixel].store(out),
                    false => sums[pixel].store_first(out, tile.outputs),
                }
            }
        }
    }
}
