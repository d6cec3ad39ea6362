//! Depthwise convolutions and the gradients of their kernels. cuDNN builds a plan of a third of a second for every one of
//! them; these kernels are compiled once per element type and size.

use super::conv::descriptor::{ConvDescriptor, Images};
use super::conv::task::{Choice, ConvTask, GpuProfile};
use super::conv::{ConvKernel, HEADERS};
use crate::GpuFacts;
use crate::runtime::compiler::{Source, source};
use crate::runtime::driver::Grid;
use crate::runtime::launch::enough;

/// The widest load.
const VECTOR_BITS: i64 = 128;
/// Threads of a block of the convolution.
const THREADS: u32 = 256;
/// Pixels of a row that a thread of a plain convolution makes.
const PIXELS: i64 = 4;
/// Lanes of a warp and warps of a block of the gradient.
const LANES: i64 = 32;
const WARPS: u32 = 8;
/// Channels that a lane and a warp of the gradient own at most.
const LANE_CHANNELS: usize = 4;
const WARP_CHANNELS: usize = 128;
/// Blocks of the gradient that keep eleven multiprocessors busy.
const BLOCKS_PER_ELEVEN: usize = 50;

/// The kernel for a depthwise task.
pub fn choose(task: &ConvTask, device: &GpuProfile) -> Option<Choice> {
    let channels = task.inputs();
    let is_depthwise = task.groups == channels && task.outputs() == channels && !task.transposed && channels > 1;
    if !is_depthwise || !matches!(task.side, 3 | 5 | 7) {
        return None;
    }
    if !task.is_gradient {
        let whole = (channels * 8 * task.conv.dtype.size()).is_multiple_of(VECTOR_BITS as usize);
        return whole.then_some(Choice::whole(<DepthwiseForward as ConvKernel>::NAME));
    }
    let &[images, height, ..] = task.output.dims() else { return None };
    // A warp of a plain gradient takes two rows at once.
    let bands = images * if task.is_plain() { height.div_ceil(2) } else { height };
    // Every block takes as many turns of rows as keep the GPU full, so that there are few parts to add up.
    let (blocks, warps) = (device.gpu.multiprocessors * BLOCKS_PER_ELEVEN / 11, WARPS as usize);
    let turns = (bands * channels.div_ceil(WARP_CHANNELS)).div_ceil(blocks * warps);
    let parts = bands.div_ceil(warps * turns);
    channels
        .is_multiple_of(LANE_CHANNELS)
        .then_some(Choice { name: <DepthwiseWeightGradient as ConvKernel>::NAME, parts })
}

fn defines(descriptor: &ConvDescriptor, channels: i64) -> Vec<String> {
    vec![
        format!("NUMBER={}", if descriptor.bits == 16 { "bf16" } else { "float" }),
        format!("SIDE={}", descriptor.side),
        format!("PLAIN={}", descriptor.is_plain() as i32),
        format!("CHANNELS={channels}"),
    ]
}

/// `(input, kernel) -> output`, and the gradient with respect to the input.
pub struct DepthwiseForward;

impl ConvKernel for DepthwiseForward {
    const NAME: &'static str = "octant.depthwise";
    const SOURCE: Source = source!("depthwise.cu", c"octant_depthwise", HEADERS);
    const GRADIENT: bool = false;

    fn defines(descriptor: &ConvDescriptor) -> Vec<String> {
        defines(descriptor, VECTOR_BITS / descriptor.bits)
    }

    fn grid(descriptor: &ConvDescriptor, output: &Images, _: i64, _: &GpuFacts) -> Grid {
        let [images, height, width, channels] = *output;
        let pixels = if descriptor.is_plain() { PIXELS } else { 1 };
        let vectors = channels * descriptor.bits / VECTOR_BITS;
        let threads = images * height * i64::from(enough(width, pixels)) * vectors;
        Grid { blocks: [enough(threads, THREADS.into()), 1, 1], threads: [THREADS, 1] }
    }
}

/// `(input, cotangent) -> sums`, the kernel's gradient in parts.
pub struct DepthwiseWeightGradient;

impl DepthwiseWeightGradient {
    /// Channels that a lane owns: as many as there are registers for all sums.
    fn channels(descriptor: &ConvDescriptor) -> i64 {
        if descriptor.side == 3 { 4 } else { 2 }
    }
}

impl ConvKernel for DepthwiseWeightGradient {
    const NAME: &'static str = "octant.depthwise_gradient";
    const SOURCE: Source = source!("depthwise_gradient.cu", c"octant_depthwise_gradient", HEADERS);
    const GRADIENT: bool = true;

    fn defines(descriptor: &ConvDescriptor) -> Vec<String> {
        defines(descriptor, DepthwiseWeightGradient::channels(descriptor))
    }

    fn grid(descriptor: &ConvDescriptor, output: &Images, parts: i64, _: &GpuFacts) -> Grid {
        let warp = LANES * DepthwiseWeightGradient::channels(descriptor);
        Grid { blocks: [enough(output[3], warp), parts as u32, 1], threads: [LANES as u32, WARPS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::conv::descriptor::tests::plain;

    #[test]
    fn plain_convolutions_make_four_pixels_per_thread() {
        let blocks = |descriptor: &ConvDescriptor| {
            <DepthwiseForward as ConvKernel>::grid(descriptor, &[2, 7, 6, 64], 2, &GpuFacts::H200).blocks[0]
        };
        // Rows of 6 pixels are two strips of four; 64 channels in bf16 are 8 vectors.
        assert_eq!(blocks(&plain(3, 16, 64, 64)), (2u32 * 7 * 2 * 8).div_ceil(256));
        let strided = ConvDescriptor { strides: [2, 2], ..plain(3, 16, 64, 64) };
        assert_eq!(blocks(&strided), (2u32 * 7 * 6 * 8).div_ceil(256));
    }
}
