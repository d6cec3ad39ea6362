//! Plain 3×3 convolutions of few channels, where cuDNN leaves the tensor cores idle, and the gradients of kernels. Numbers are
//! rounded to the 11 bits of TF32, but multiplied as scaled f16 numbers, which is twice as fast, and summed in f32.
//!
//! Measured on an H200 at batch 32, in µs against cuDNN's: 16→16 at 256² 82 against 283, the gradient of the kernel 75
//! against 698; 48→16 203 against 651, 148 against 1,344; 32→32 at 128² 52 against 82 (forward) and 89 (backward), 51
//! against 382; 96→32 123 against 230; the gradient at 64→64, 64² 49 against 108, at 128→128, 32² 50 against 73, at 256→256,
//! 16² 53 against 71. Products alone, without any memory, would reach 603 TFLOP/s; the gradients reach 125 to 250.
//!
//! `choose` says where they pay, `tile` how work is divided. What surrounds a convolution is fused into its call where it can
//! be: `pairs`, `norm_relu`, `moments`, `cotangents`.

mod affine;
mod choose;
pub mod cotangents;
pub mod moments;
pub mod norm_relu;
pub mod pairs;
mod tile;

pub use affine::ChannelAffine;
pub use choose::{choose, choose_fused};

use super::conv::descriptor::{ConvDescriptor, Images, Pointwise};
use super::conv::{ConvKernel, WINDOW_HEADER};
use crate::GpuFacts;
use crate::runtime::compiler::{Header, Source, source, text};
use crate::runtime::driver::Grid;
use crate::runtime::launch::enough;
use tile::{BLOCK, ForwardTile, GradientTile, WARPS};

const HEADERS: &[Header] = &[
    WINDOW_HEADER,
    (c"tensor_core.h", text!("tensor_core.h")),
    (c"convolution.h", text!("convolution.h")),
    (c"tally.h", text!("tally.h")),
    (c"cotangent.h", text!("cotangent.h")),
    (c"convolution_gradient.h", text!("convolution_gradient.h")),
];

/// `NAME=value` for every macro.
fn macros<const N: usize>(numbers: [(&str, i64); N]) -> Vec<String> {
    numbers.map(|(name, value)| format!("{name}={value}")).to_vec()
}

/// A convolution, or the gradient with respect to its input. The operands and results are those of
/// [`call`](super::conv::call::call).
pub struct TensorCoreForward;

impl ConvKernel for TensorCoreForward {
    const NAME: &'static str = "octant.convolution";
    const SOURCE: Source = source!("convolution.cu", c"octant_convolution", HEADERS);
    const GRADIENT: bool = false;

    fn buffers(descriptor: &ConvDescriptor) -> [usize; 2] {
        let [norm_relu, moments, cotangent] =
            [descriptor.norm_relu, descriptor.moments, descriptor.cotangent].map(usize::from);
        let (pointwise, outputs) = match descriptor.pointwise {
            Pointwise::None => (0, 1),
            Pointwise::Beside => (1, 2),
            Pointwise::Added => (2, 1),
        };
        [2 + 2 * norm_relu + pointwise + 4 * cotangent, outputs * (1 + moments) + cotangent]
    }

    fn defines(descriptor: &ConvDescriptor) -> Vec<String> {
        let tile = ForwardTile::of(descriptor.inputs, descriptor.outputs);
        macros([
            ("SIDE", descriptor.side),
            ("INPUTS", descriptor.inputs),
            ("OUTPUTS", tile.outputs),
            ("EIGHTS", tile.eights),
            ("STAGES", tile.stages),
            ("RESIDENT", tile.resident),
            ("WARPS", WARPS),
            ("TRANSPOSED", descriptor.transposed.into()),
            ("BESIDE", (descriptor.pointwise == Pointwise::Beside).into()),
            ("ADDED", (descriptor.pointwise == Pointwise::Added).into()),
            ("NORM_RELU", descriptor.norm_relu.into()),
            ("MOMENTS", descriptor.moments.into()),
            ("COTANGENT", descriptor.cotangent.into()),
        ])
    }

    fn shared(descriptor: &ConvDescriptor) -> u32 {
        ForwardTile::of(descriptor.inputs, descriptor.outputs).shared(descriptor) as u32
    }

    /// Every warp writes a part of the sums: columns that did not divide them would leave some unwritten.
    fn check(descriptor: &ConvDescriptor, &[_, _, width, _]: &Images, parts: i64) -> Result<(), String> {
        let across = ForwardTile::of(descriptor.inputs, descriptor.outputs).across(width);
        let blocks = [descriptor.inputs, descriptor.outputs].iter().all(|channels| channels % BLOCK == 0);
        if !blocks || descriptor.bits != 32 || !descriptor.is_plain() {
            return Err(format!("{} takes plain convolutions of f32 with channels in sixteens", Self::NAME));
        }
        match !descriptor.has_sums() || parts % across == 0 {
            true => Ok(()),
            false => Err(format!("sums in {parts} parts do not fall into {across} columns of pixels")),
        }
    }

    fn grid(descriptor: &ConvDescriptor, output: &Images, parts: i64, gpu: &GpuFacts) -> Grid {
        let [images, height, width, _] = *output;
        let tile = ForwardTile::of(descriptor.inputs, descriptor.outputs);
        let across = tile.across(width);
        let columns = images * across;
        // A call with sums says in how many parts, every warp's being one of them.
        let bands = match descriptor.has_sums() {
            true => (parts / across).max(1),
            false => tile.bands(descriptor, columns, height, gpu),
        };
        let blocks = [enough(columns, WARPS), (descriptor.outputs / tile.outputs) as u32, bands as u32];
        Grid { blocks, threads: [32, WARPS as u32] }
    }
}

/// `(input, cotangent) -> sums`, the kernel's gradient in parts.
pub struct TensorCoreWeightGradient;

impl ConvKernel for TensorCoreWeightGradient {
    const NAME: &'static str = "octant.convolution_gradient";
    const SOURCE: Source = source!("convolution_gradient.cu", c"octant_convolution_gradient", HEADERS);
    const GRADIENT: bool = true;

    fn buffers(descriptor: &ConvDescriptor) -> [usize; 2] {
        let beside = usize::from(descriptor.pointwise == Pointwise::Beside);
        [2 + 2 * usize::from(descriptor.norm_relu) + beside, 1 + beside]
    }

    fn defines(descriptor: &ConvDescriptor) -> Vec<String> {
        let tile = GradientTile::of(descriptor.inputs, descriptor.outputs);
        macros([
            ("SIDE", descriptor.side),
            ("INPUT_PAIRS", tile.inputs),
            ("OUTPUT_PAIRS", tile.outputs),
            ("SHARES", tile.shares),
            ("RESIDENT", tile.resident()),
            ("BESIDE", (descriptor.pointwise == Pointwise::Beside).into()),
            ("NORM_RELU", descriptor.norm_relu.into()),
        ])
    }

    fn shared(descriptor: &ConvDescriptor) -> u32 {
        GradientTile::of(descriptor.inputs, descriptor.outputs).shared(descriptor) as u32
    }

    fn grid(descriptor: &ConvDescriptor, _: &Images, parts: i64, _: &GpuFacts) -> Grid {
        let tile = GradientTile::of(descriptor.inputs, descriptor.outputs);
        let blocks = descriptor.inputs / (BLOCK * tile.inputs) * (descriptor.outputs / (BLOCK * tile.outputs));
        Grid { blocks: [blocks as u32, parts as u32, 1], threads: [32, (tile.owners() * tile.shares) as u32] }
    }
}

#[cfg(test)]
mod tests;
