//! Where our depthwise kernels serve.

use super::{Chosen, Task};

/// Channels that a thread of the convolution reads at once, in bytes.
const VECTOR: usize = 16;
/// Channels that a lane and a warp of the gradient own at most, and warps of a block.
const LANE_CHANNELS: usize = 4;
const WARP_CHANNELS: usize = 128;
const WARPS: usize = 8;
/// Blocks of the gradient that fill a large GPU.
const BLOCKS: usize = 600;

pub fn choose(task: &Task) -> Option<Chosen> {
    let channels = task.inputs();
    let is_depthwise = task.groups == channels && task.outputs() == channels && !task.is_turned && channels > 1;
    if !is_depthwise || !matches!(task.side, 3 | 5 | 7) {
        return None;
    }
    if task.is_gradient {
        let &[images, height, ..] = task.output.dims() else { return None };
        // A warp of a plain gradient takes two rows at once.
        let bands = images * if task.is_plain() { height.div_ceil(2) } else { height };
        // Every block takes as many turns of rows as keep the GPU full, so that there are few parts to add up.
        let turns = (bands * channels.div_ceil(WARP_CHANNELS)).div_ceil(BLOCKS * WARPS);
        let parts = bands.div_ceil(WARPS * turns);
        let whole = channels.is_multiple_of(LANE_CHANNELS);
        return whole.then_some(Chosen { name: "octant.depthwise_gradient", parts });
    }
    let whole = (channels * task.conv.dtype.size()).is_multiple_of(VECTOR);
    whole.then_some(Chosen { name: "octant.depthwise", parts: 1 })
}
