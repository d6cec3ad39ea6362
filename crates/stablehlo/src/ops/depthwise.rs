//! Depthwise convolutions and the gradients of their kernels as calls of kernels of our own (`octant-cuda`).
//!
//! The calls take channels-last pictures and a square kernel; everything else stays a convolution.

use super::reduce;
use crate::function::{Function, Named};
use crate::types;
use octant_graph::op::{ImageAxes, KernelAxes};
use octant_graph::{Convolution, DType, Reduction, Shape};

/// Channels that a thread of the convolution reads at once, in bytes.
const VECTOR: usize = 16;
/// Channels that a lane and a warp of the gradient own at most, and rows of pixels that a block takes at once.
const LANE_CHANNELS: usize = 4;
const WARP_CHANNELS: usize = 128;
const BLOCK_ROWS: usize = 8;
/// Blocks that fill a large GPU.
const BLOCKS: usize = 600;

/// The call that computes a convolution, if one of ours does.
pub fn call(f: &mut Function, input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> Option<Named> {
    let dtype = conv.dtype;
    let same_type = input.dtype() == dtype && kernel.dtype() == dtype && matches!(dtype, DType::BF16 | DType::F32);
    if !same_type || input.shape.rank() != 4 || shape.elements() == 0 || input.shape.elements() == 0 {
        return None;
    }
    forward(f, input, kernel, conv, shape).or_else(|| kernel_gradient(f, input, kernel, conv, shape))
}

fn pictures() -> ImageAxes {
    ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] }
}

/// The side of a kernel `[side, side, 1, channels]` that the calls take.
fn side(kernel: &Shape) -> Option<usize> {
    match *kernel.dims() {
        [height, width, 1, _] if height == width && matches!(height, 3 | 5 | 7) => Some(height),
        _ => None,
    }
}

fn forward(f: &mut Function, input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> Option<Named> {
    let channels = input.shape.dims()[3];
    let axes = conv.input == pictures()
        && conv.output == pictures()
        && conv.kernel == KernelAxes { input: 2, output: 3, spatial: vec![0, 1] };
    let depthwise = conv.feature_groups == channels && kernel.shape.dims()[3] == channels && conv.batch_groups == 1;
    let whole = (channels * conv.dtype.size()).is_multiple_of(VECTOR);
    let side = side(&kernel.shape).filter(|_| axes && depthwise && whole)?;
    let window = window(side, conv, &conv.strides, &conv.kernel_dilation);
    Some(custom_call(f, "octant.depthwise", [input, kernel], &window, shape))
}

fn kernel_gradient(f: &mut Function, input: &Named, ct: &Named, conv: &Convolution, shape: &Shape) -> Option<Named> {
    let channels = input.shape.dims()[3];
    let axes = conv.input == ImageAxes { batch: 3, feature: 0, spatial: vec![1, 2] }
        && conv.kernel == KernelAxes { input: 0, output: 3, spatial: vec![1, 2] }
        && conv.output == ImageAxes { batch: 2, feature: 3, spatial: vec![0, 1] };
    let depthwise = conv.batch_groups == channels && ct.shape.dims()[3] == channels && conv.feature_groups == 1;
    let direct = !conv.reversed && conv.input_dilation.iter().all(|&dilation| dilation == 1);
    let side = side(shape).filter(|_| axes && depthwise && direct && channels.is_multiple_of(LANE_CHANNELS))?;
    // The gradient's windows step as the convolution's kernel is dilated, and the other way round.
    let window = window(side, conv, &conv.kernel_dilation, &conv.strides);
    // Every block takes as many turns of rows as keep the GPU full, so that there are few parts to add up.
    let rows = ct.shape.dims()[0] * ct.shape.dims()[1];
    let turns = (rows * channels.div_ceil(WARP_CHANNELS)).div_ceil(BLOCKS * BLOCK_ROWS);
    let parts = rows.div_ceil(BLOCK_ROWS * turns);
    let sums = custom_call(
        f,
        "octant.depthwise_gradient",
        [input, ct],
        &window,
        &Shape::new(DType::F32, [parts, side, side, channels]),
    );
    let sum = reduce::reduce(f, &sums, Reduction::Sum, &[0], &Shape::new(DType::F32, [side, side, channels]));
    let gradient = f.convert(&sum, conv.dtype);
    Some(f.typed("reshape", &[&gradient], "", shape))
}

/// The attribute that tells a kernel what to compute, in the order that `octant-cuda` reads.
fn window(side: usize, conv: &Convolution, strides: &[usize], kernel_dilation: &[usize]) -> Vec<i64> {
    let low = conv.padding.iter().map(|&(low, _)| low);
    let whole = |values: &[usize]| values.iter().map(|&value| value as i64).collect::<Vec<_>>();
    let head = [side as i64, 8 * conv.dtype.size() as i64].into_iter().chain(whole(strides)).chain(low);
    let tail = whole(&conv.input_dilation).into_iter().chain(whole(kernel_dilation));
    head.chain(tail).chain([conv.reversed as i64]).collect()
}

fn custom_call(f: &mut Function, target: &str, operands: [&Named; 2], window: &[i64], shape: &Shape) -> Named {
    let [left, right] = operands;
    let text = format!(
        "stablehlo.custom_call @{target}({left}, {right}) {{api_version = 4 : i32, \
         backend_config = {{window = array<i64: {}>}}}} : {} -> {}",
        types::join(window),
        types::tuple(&[&left.shape, &right.shape]),
        types::tensor(shape)
    );
    f.op(shape, text)
}
