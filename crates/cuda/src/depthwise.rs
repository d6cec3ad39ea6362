//! Depthwise convolutions and the gradients of their kernels. cuDNN builds a plan of a third of a second for every one of
//! them; these kernels are compiled once per element type and size.

use crate::call::{Call, enough};
use crate::compiler::{Source, source};
use crate::driver::Grid;
use crate::window::{Images, Window};

/// The widest load.
const VECTOR_BITS: i64 = 128;
/// Threads of a block of the convolution.
const THREADS: u32 = 256;
/// Places in a row that a thread of a plain convolution makes.
const PLACES: i64 = 4;
/// Lanes of a warp and warps of a block of the gradient.
const LANES: i64 = 32;
const WARPS: u32 = 8;

fn defines(window: &Window, channels: i64) -> Vec<String> {
    vec![
        format!("NUMBER={}", if window.bits == 16 { "bf16" } else { "float" }),
        format!("SIDE={}", window.side),
        format!("PLAIN={}", window.is_plain() as i32),
        format!("CHANNELS={channels}"),
    ]
}

/// `(input, kernel) -> output`, and the gradient with respect to the input.
pub struct Convolution;

impl Call for Convolution {
    const NAME: &'static str = "octant.depthwise";
    const SOURCE: Source = source!("depthwise.cu", c"octant_depthwise");
    const GRADIENT: bool = false;

    fn defines(window: &Window) -> Vec<String> {
        defines(window, VECTOR_BITS / window.bits)
    }

    fn grid(window: &Window, _: &Images, output: &Images, _: i64) -> Grid {
        let [images, height, width, channels] = *output;
        let places = if window.is_plain() { PLACES } else { 1 };
        let vectors = channels * window.bits / VECTOR_BITS;
        let threads = images * height * i64::from(enough(width, places)) * vectors;
        Grid { blocks: [enough(threads, THREADS.into()), 1, 1], threads: [THREADS, 1] }
    }
}

/// `(input, cotangent) -> sums`, the kernel's gradient in parts.
pub struct Gradient;

impl Gradient {
    /// Channels that a lane owns: as many as there are registers for all sums.
    fn channels(window: &Window) -> i64 {
        if window.side == 3 { 4 } else { 2 }
    }
}

impl Call for Gradient {
    const NAME: &'static str = "octant.depthwise_gradient";
    const SOURCE: Source = source!("depthwise_gradient.cu", c"octant_depthwise_gradient");
    const GRADIENT: bool = true;

    fn defines(window: &Window) -> Vec<String> {
        defines(window, Gradient::channels(window))
    }

    fn grid(window: &Window, _: &Images, output: &Images, parts: i64) -> Grid {
        let warp = LANES * Gradient::channels(window);
        Grid { blocks: [enough(output[3], warp), parts as u32, 1], threads: [LANES as u32, WARPS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::tests::plain;

    #[test]
    fn plain_convolutions_make_four_places_per_thread() {
        let output = [2, 7, 6, 64];
        let blocks = |window: &Window| Convolution::grid(window, &output, &output, 2).blocks[0];
        // Rows of 6 places are two strips of four; 64 channels in bf16 are 8 vectors.
        assert_eq!(blocks(&plain(3, 16, 64, 64)), (2u32 * 7 * 2 * 8).div_ceil(256));
        let strided = Window { strides: [2, 2], ..plain(3, 16, 64, 64) };
        assert_eq!(blocks(&strided), (2u32 * 7 * 6 * 8).div_ceil(256));
    }
}
