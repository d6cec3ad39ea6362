//! Where our kernels for tensor cores are faster than cuDNN's, by what was measured (`octant-cuda`, `tensor_core`): with 16
//! channels on one side or 32 on both, for gradients of kernels up to 64, and with enough pixels to fill the GPU.

use super::{Chosen, Task};
use crate::Precision;
use octant_graph::DType;

const SIDE: usize = 3;
/// Channels come in blocks.
const BLOCK: usize = 16;
/// The weights of so many input channels fit into shared memory.
const INPUTS: usize = 48;
const OUTPUTS: usize = 64;
/// Channels up to which gradients of kernels are faster.
const GRADIENT: usize = 64;
const PIXELS: usize = 1 << 17;
/// Pixels that a warp of the gradient takes at once, and warps that fill a large GPU.
const COLUMN: usize = 8;
const ROWS: usize = 16;
const WARPS: usize = 132 * 12;

pub fn choose(task: &Task, precision: Precision) -> Option<Chosen> {
    let (inputs, outputs) = (task.inputs(), task.outputs());
    let &[pictures, height, width, _] = task.output.dims() else { return None };
    let rounds = task.conv.dtype == DType::F32 && precision == Precision::Fast;
    let serves = task.groups == 1 && task.is_plain() && task.side == SIDE && pictures * height * width >= PIXELS;
    let blocks = inputs.is_multiple_of(BLOCK) && outputs.is_multiple_of(BLOCK);
    if !rounds || !serves || !blocks {
        return None;
    }
    if !task.is_gradient {
        let narrow = inputs.min(outputs) == BLOCK && inputs <= INPUTS && outputs <= OUTPUTS;
        let pays = narrow || [inputs, outputs] == [2 * BLOCK; 2];
        return pays.then_some(Chosen { name: "octant.convolution", parts: 1 });
    }
    // Warps of a block own different channels first, and share the pixels otherwise.
    let pairs =
        |channels: usize, most: usize| (2..=most).find(|pairs| channels.is_multiple_of(pairs * BLOCK)).unwrap_or(1);
    let (across_inputs, across_outputs) = (pairs(inputs, 3), pairs(outputs, 2));
    let owners = across_inputs * across_outputs;
    let shares = 4usize.div_ceil(owners);
    let across = inputs * outputs / (owners * BLOCK * BLOCK);
    let jobs = pictures * width.div_ceil(COLUMN * shares) * height.div_ceil(ROWS);
    // Every block takes as many turns as keep the GPU full, so that there are few parts to add up.
    let turns = jobs.div_ceil((WARPS / (owners * shares)).div_ceil(across));
    let parts = jobs.div_ceil(turns);
    (inputs.min(outputs) <= GRADIENT).then_some(Chosen { name: "octant.convolution_gradient", parts })
}
