//! Where our kernels for few channels serve: all weights must fit into the registers of a thread.

use super::{BLOCKS, Chosen, Task};
use octant_graph::DType;

const WEIGHTS: usize = 100;
const CHANNELS: usize = 4;
/// Pixels that a warp of the gradient takes at once, and warps of a block.
const COLUMN: usize = 32;
const ROWS: usize = 4;
const WARPS: usize = 4;

pub fn choose(task: &Task) -> Option<Chosen> {
    let (inputs, outputs) = (task.inputs(), task.outputs());
    let few = inputs <= CHANNELS && outputs <= CHANNELS && inputs * outputs * task.side * task.side <= WEIGHTS;
    let serves = few && task.groups == 1 && task.is_plain() && matches!(task.side, 3 | 5 | 7);
    if !serves || task.conv.dtype != DType::F32 {
        return None;
    }
    if !task.is_gradient {
        return Some(Chosen { name: "octant.few_channels", parts: 1 });
    }
    let &[images, height, width, _] = task.input.dims() else { return None };
    let jobs = images * width.div_ceil(COLUMN) * height.div_ceil(ROWS);
    Some(Chosen { name: "octant.few_channels_gradient", parts: jobs.div_ceil(WARPS).min(BLOCKS) })
}
