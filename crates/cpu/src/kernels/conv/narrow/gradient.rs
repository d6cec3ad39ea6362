//! The gradient of the weights: a number of the input meets the three output gradients whose windows it lies in.

use super::{TAPS, is_narrow};
use crate::kernels::conv::Conv2d;
use crate::simd::{Kernel, Simd, Vector};

/// Input channels whose sums share the registers.
const INPUTS: usize = 8;

/// Whether the gradient of a convolution's weights is one that is faster this way.
pub(in crate::kernels::conv) fn is_narrow_gradient(simd: Simd, conv: &Conv2d) -> bool {
    is_narrow(simd, conv) && conv.in_channels.is_multiple_of(INPUTS) && !conv.reversed
}

/// Adds the gradient of the weights over an output row, counted through all pictures, to `dw`.
pub(in crate::kernels::conv) fn narrow_gradient(
    simd: Simd,
    conv: &Conv2d,
    x: *const f32,
    dy: *const f32,
    dw: *mut f32,
    row: usize,
) {
    let kernel = simd.entry::<Gradient>();
    let [height, width] = conv.output;
    let (picture, origin) = (row / height, (row % height) as i64 - conv.pad_low[0]);
    for tap in 0..conv.kernel[0] {
        let line = origin + tap as i64;
        if !(0..conv.input[0] as i64).contains(&line) {
            continue;
        }
        let line = (picture * conv.input[0] + line as usize) * conv.input[1] * conv.in_channels;
        for input in (0..conv.in_channels).step_by(INPUTS) {
            let part = RowPart {
                x: x.wrapping_add(line + input),
                pixels: conv.input[1],
                inputs: conv.in_channels,
                dy: dy.wrapping_add(row * width * conv.out_channels),
                width: width as i64,
                outputs: conv.out_channels,
                shift: conv.pad_low[1],
                dw: dw.wrapping_add((tap * TAPS * conv.in_channels + input) * conv.out_channels),
            };
            // SAFETY: both rows lie in their pictures, and the taps of this kernel row are rows of `dw`, which belongs to the
            // caller's job.
            unsafe { kernel(&part) };
        }
    }
}

/// One row of the input, one of the output gradient, and [`INPUTS`] channels of a kernel row.
struct RowPart {
    x: *const f32,
    /// Pixels of the input row, `inputs` numbers apart.
    pixels: usize,
    inputs: usize,
    dy: *const f32,
    /// Pixels of the output row, `outputs` numbers apart.
    width: i64,
    outputs: usize,
    /// The output that meets the input of the same index with the first tap is so much further.
    shift: i64,
    dw: *mut f32,
}

struct Gradient;

impl Kernel for Gradient {
    type Args = *const RowPart;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(part: *const RowPart) {
        // SAFETY: as described at `RowPart`; only pixels of the output row are read. V's instruction set is enabled.
        unsafe {
            let part = &*part;
            let mut sums = [[V::splat(0.0); TAPS]; INPUTS];
            // The output gradients that the pixel before would meet.
            let mut dy = [V::splat(0.0); TAPS];
            for tap in 0..TAPS {
                dy[tap] = output_gradient(part, part.shift - 1 - tap as i64);
            }
            let mut x = part.x;
            for pixel in 0..part.pixels {
                dy = [output_gradient(part, pixel as i64 + part.shift), dy[0], dy[1]];
                for input in 0..INPUTS {
                    let x = V::splat(*x.add(input));
                    for tap in 0..TAPS {
                        sums[input][tap] = sums[input][tap].plus_product(x, dy[tap]);
                    }
                }
                x = x.wrapping_add(part.inputs);
            }
            for tap in 0..TAPS {
                for input in 0..INPUTS {
                    let dw = part.dw.add((tap * part.inputs + input) * part.outputs);
                    match part.outputs == V::LANES {
                        true => V::load(dw).plus(sums[input][tap]).store(dw),
                        false => {
                            let sum = V::load_first(dw, part.outputs).plus(sums[input][tap]);
                            sum.store_first(dw, part.outputs);
                        }
                    }
                }
            }
        }
    }
}

/// The gradient of an output pixel, zeros outside the row.
#[inline(always)]
unsafe fn output_gradient<V: Vector>(part: &RowPart, pixel: i64) -> V {
    // SAFETY: only pixels of the row are read.
    unsafe {
        if !(0..part.width).contains(&pixel) {
            return V::splat(0.0);
        }
        let from = part.dy.add(pixel as usize * part.outputs);
        if part.outputs == V::LANES { V::load(from) } else { V::load_first(from, part.outputs) }
    }
}
