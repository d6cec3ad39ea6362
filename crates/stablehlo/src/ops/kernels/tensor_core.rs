//! Where our kernels for tensor cores are faster than cuDNN's, by what was measured (`octant-cuda`, `tensor_core`): with up to
//! 32 channels on one side, for all gradients of kernels, and with enough to do to fill the GPU.

use super::{Chosen, Task};
use crate::Precision;
use octant_graph::DType;

const SIDE: usize = 3;
/// Channels come in blocks.
const BLOCK: usize = 16;
/// Channels on the narrower and on the wider side of a convolution. The weights fit into shared memory.
const NARROW: usize = 32;
const WIDE: usize = 96;
const PIXELS: usize = 1 << 17;
/// Pixels times blocks of channels on both sides that are enough for the gradient of a kernel.
const WORK: usize = 1 << 17;
/// Pixels that a warp of the gradient takes at once, rows that are worth a block's while, and processors of a large GPU.
const COLUMN: usize = 16;
const ROWS: usize = 16;
const PROCESSORS: usize = 132;

pub fn choose(task: &Task, precision: Precision) -> Option<Chosen> {
    choose_up_to(task, precision, NARROW)
}

/// The same for a task that spares the program to write a rectified norm, so that more of them pay.
pub fn choose_rectified(task: &Task, precision: Precision) -> Option<Chosen> {
    choose_up_to(task, precision, 2 * NARROW)
}

fn choose_up_to(task: &Task, precision: Precision, narrow: usize) -> Option<Chosen> {
    let (inputs, outputs) = (task.inputs(), task.outputs());
    let &[images, height, width, _] = task.output.dims() else { return None };
    let rounds = task.conv.dtype == DType::F32 && precision == Precision::Fast;
    let serves = task.groups == 1 && task.is_plain() && task.side == SIDE;
    let blocks = is_in_blocks(inputs) && is_in_blocks(outputs);
    if !rounds || !serves || !blocks {
        return None;
    }
    let pixels = images * height * width;
    if !task.is_gradient {
        let pays = inputs.min(outputs) <= narrow && inputs.max(outputs) <= WIDE && pixels >= PIXELS;
        return pays.then_some(Chosen { name: "octant.convolution", parts: 1 });
    }
    let [owners, shares] = shares(task);
    let across = inputs * outputs / (owners * BLOCK * BLOCK);
    // As many blocks as run at once: they share the rows of pixels evenly.
    let resident = if shares == 1 { 12 / owners } else { 2 };
    let rows = images * width.div_ceil(COLUMN * shares) * height;
    let parts = (PROCESSORS * resident / across).clamp(1, rows.div_ceil(ROWS));
    let pays = pixels * inputs * outputs >= WORK * BLOCK * BLOCK;
    pays.then_some(Chosen { name: "octant.convolution_gradient", parts })
}

/// Whether so many channels come in blocks.
pub fn is_in_blocks(channels: usize) -> bool {
    channels.is_multiple_of(BLOCK)
}

/// Whether there is a call that also computes a pointwise convolution of as many channels. Gradients of 16 channels on both
/// sides, for which all warps share the pixels, have no room for another cotangent.
pub fn serves_pairs(task: &Task, precision: Precision) -> bool {
    choose(task, precision).is_some() && (!task.is_gradient || shares(task)[0] > 1)
}

/// Warps of a block that own different channels, as far as there are any, and warps that share the pixels.
fn shares(task: &Task) -> [usize; 2] {
    let pairs =
        |channels: usize, most: usize| (2..=most).find(|pairs| channels.is_multiple_of(pairs * BLOCK)).unwrap_or(1);
    let owners = pairs(task.inputs(), 3) * pairs(task.outputs(), 2);
    [owners, (4 / owners).max(1)]
}

/// The parts of every image in which a convolution takes moments: one for every warp, whose columns are 16 pixels wide
/// with 16 channels on both sides and 32 otherwise, and as high as keeps a large GPU busy.
pub fn moment_parts(task: &Task) -> usize {
    let &[_, height, width, _] = task.output.dims() else { return 1 };
    let wide = if [task.inputs(), task.outputs()] == [BLOCK; 2] { 16 } else { 32 };
    let most = if task.inputs() == BLOCK { 32 } else { 16 };
    width.div_ceil(wide) * height.div_ceil((height / 8).clamp(8, most))
}
