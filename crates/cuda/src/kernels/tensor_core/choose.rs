//! Where our kernels for tensor cores are faster than cuDNN's, by what was measured: with up to 32 channels on one side, for
//! all gradients of kernels, and with enough to do to fill the GPU.

use super::tile::{BLOCK, COLUMN, ForwardTile, GradientTile};
use super::{TensorCoreForward, TensorCoreWeightGradient};
use crate::kernels::conv::ConvKernel;
use crate::kernels::conv::task::{Choice, ConvTask, GpuProfile};
use octant_graph::DType;

const SIDE: usize = 3;
/// Channels on the narrower and on the wider side of a convolution. The weights fit into shared memory.
const NARROW: usize = 32;
const WIDE: usize = 96;
/// Pixels that are enough for a multiprocessor, and for the gradient of a kernel pixels times blocks of channels on both sides.
const PIXELS: usize = 992;
const WORK: usize = 992;
/// Rows of pixels that are worth a block of the gradient.
const ROWS: usize = 16;

/// The kernel for a task by itself.
pub fn choose(task: &ConvTask, device: &GpuProfile) -> Option<Choice> {
    choose_up_to(task, device, NARROW)
}

/// The kernel for a task that a norm + ReLU is fused into: the normalized activation is not written, so that wider ones pay.
pub fn choose_fused(task: &ConvTask, device: &GpuProfile) -> Option<Choice> {
    choose_up_to(task, device, 2 * NARROW)
}

fn choose_up_to(task: &ConvTask, device: &GpuProfile, narrow: usize) -> Option<Choice> {
    let (inputs, outputs) = (task.inputs(), task.outputs());
    let &[images, height, width, _] = task.output.dims() else { return None };
    let rounds = task.conv.dtype == DType::F32 && device.fast_products;
    let serves = task.groups == 1 && task.is_plain() && task.side == SIDE;
    let block = BLOCK as usize;
    if !rounds || !serves || !inputs.is_multiple_of(block) || !outputs.is_multiple_of(block) {
        return None;
    }
    let (pixels, multiprocessors) = (images * height * width, device.gpu.multiprocessors);
    if !task.is_gradient {
        let pays = inputs.min(outputs) <= narrow && inputs.max(outputs) <= WIDE && pixels >= PIXELS * multiprocessors;
        return pays.then_some(Choice::whole(<TensorCoreForward as ConvKernel>::NAME));
    }
    let tile = GradientTile::of(inputs as i64, outputs as i64);
    let [owners, shares, resident] = [tile.owners(), tile.shares, tile.resident()].map(|number| number as usize);
    let across = inputs * outputs / (owners * block * block);
    // As many blocks as run at once: they share the rows of pixels evenly.
    let rows = images * width.div_ceil(COLUMN as usize * shares) * height;
    let parts = (multiprocessors * resident / across).clamp(1, rows.div_ceil(ROWS));
    let pays = pixels * inputs * outputs >= WORK * multiprocessors * block * block;
    pays.then_some(Choice { name: <TensorCoreWeightGradient as ConvKernel>::NAME, parts })
}

/// Whether there is a call that also computes a 1×1 convolution of as many channels. Gradients of 16 channels on both sides,
/// for which all warps share the pixels, have no room for another cotangent.
pub fn serves_pairs(task: &ConvTask, device: &GpuProfile) -> bool {
    let tile = GradientTile::of(task.inputs() as i64, task.outputs() as i64);
    choose(task, device).is_some() && (!task.is_gradient || tile.owners() > 1)
}

/// In how many parts of every image a convolution takes sums of its output.
pub fn sum_parts(task: &ConvTask) -> usize {
    let &[_, height, width, _] = task.output.dims() else { return 1 };
    ForwardTile::parts(task.inputs(), task.outputs(), height, width)
}
