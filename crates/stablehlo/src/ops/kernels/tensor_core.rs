//! Where our kernels for tensor cores are faster than cuDNN's, by what was measured (`octant-cuda`, `tensor_core`): with 16
//! channels on one side, for gradients of kernels up to 32, and with enough pixels to fill the GPU.

use super::{BLOCKS, Chosen, Task};
use crate::Precision;
use octant_graph::DType;

const SIDE: usize = 3;
/// Channels come in blocks.
const BLOCK: usize = 16;
/// The weights of so many input channels fit into shared memory.
const INPUTS: usize = 48;
const OUTPUTS: usize = 64;
const PIXELS: usize = 1 << 17;
/// Pixels that a warp of the gradient takes at once, and warps of a block.
const COLUMN: usize = 8;
const ROWS: usize = 16;
const WARPS: usize = 4;

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
        let pays = inputs.min(outputs) == BLOCK && inputs <= INPUTS && outputs <= OUTPUTS;
        return pays.then_some(Chosen { name: "octant.convolution", parts: 1 });
    }
    // Warps of a block own different channels first, and share the pixels otherwise.
    let pairs = [inputs, outputs].map(|channels| if channels.is_multiple_of(2 * BLOCK) { 2 } else { 1 });
    let across = inputs / (BLOCK * pairs[0]) * (outputs / (BLOCK * pairs[1]));
    let shares = WARPS / (pairs[0] * pairs[1]);
    let jobs = pictures * width.div_ceil(COLUMN) * height.div_ceil(ROWS);
    let parts = BLOCKS.div_ceil(across).min(jobs.div_ceil(shares));
    (inputs.min(outputs) <= 2 * BLOCK).then_some(Chosen { name: "octant.convolution_gradient", parts })
}
