//! Plain 3×3 convolutions of 16 channels, where cuDNN leaves the tensor cores idle, and the gradients of kernels of few
//! channels. Numbers are rounded to TF32 and summed in f32.
//!
//! Measured on an H200 at 16→16, 256², batch 32, in µs: 91 against cuDNN's 283, the gradient of the kernel 126 against
//! 698; 48→16: 245 against 651, 339 against 1,344; the gradient at 32→32, 128²: 124 against 382. At 64→64 and more cuDNN
//! is as good or better.

use crate::call::{Call, enough};
use crate::compiler::{Source, source};
use crate::driver::Grid;
use crate::window::{Pictures, Window};

/// Warps of a block.
const WARPS: u32 = 4;
/// Channels that a warp owns.
const BLOCK: i64 = 16;
/// Columns and rows of pixels that a warp of the convolution makes.
const COLUMN: i64 = 32;
const ROWS: i64 = 16;

/// `(input, kernel) -> output`, and the gradient with respect to the input.
pub struct Convolution;

impl Call for Convolution {
    const NAME: &'static str = "octant.convolution";
    const SOURCE: Source = source!("convolution.cu", c"octant_convolution");
    const GRADIENT: bool = false;

    fn defines(window: &Window) -> Vec<String> {
        vec![format!("SIDE={}", window.side), format!("INPUTS={}", window.inputs), format!("TURNED={}", window.turned)]
    }

    fn grid(window: &Window, _: &Pictures, output: &Pictures, _: i64) -> Grid {
        let [pictures, height, width, _] = *output;
        let columns = pictures * i64::from(enough(width, COLUMN)) * i64::from(enough(height, ROWS));
        Grid { blocks: [enough(columns, WARPS.into()), (window.outputs / BLOCK) as u32], threads: [32, WARPS] }
    }
}

/// `(input, cotangent) -> sums`, the kernel's gradient in parts.
pub struct Gradient;

impl Gradient {
    /// Blocks of input and of output channels that the warps of one block own.
    fn pairs(window: &Window) -> [i64; 2] {
        [window.inputs, window.outputs].map(|channels| if channels % (2 * BLOCK) == 0 { 2 } else { 1 })
    }
}

impl Call for Gradient {
    const NAME: &'static str = "octant.convolution_gradient";
    const SOURCE: Source = source!("convolution_gradient.cu", c"octant_convolution_gradient");
    const GRADIENT: bool = true;

    fn defines(window: &Window) -> Vec<String> {
        let [inputs, outputs] = Gradient::pairs(window);
        vec![format!("SIDE={}", window.side), format!("INPUT_PAIRS={inputs}"), format!("OUTPUT_PAIRS={outputs}")]
    }

    fn grid(window: &Window, _: &Pictures, _: &Pictures, parts: i64) -> Grid {
        let [inputs, outputs] = Gradient::pairs(window);
        let blocks = window.inputs / (BLOCK * inputs) * (window.outputs / (BLOCK * outputs));
        Grid { blocks: [blocks as u32, parts as u32], threads: [32, WARPS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::tests::plain;

    #[test]
    fn the_warps_of_a_block_own_different_channels_as_far_as_there_are_any() {
        let blocks = |inputs, outputs| Gradient::grid(&plain(3, 32, inputs, outputs), &[0; 4], &[0; 4], 7).blocks;
        assert_eq!([blocks(16, 16), blocks(48, 16), blocks(32, 32), blocks(96, 32)], [[1, 7], [3, 7], [1, 7], [3, 7]]);
    }
}
