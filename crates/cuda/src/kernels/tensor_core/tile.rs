//! How images and channels are divided among blocks and warps: what was fastest.

use crate::GpuFacts;
use crate::kernels::conv::descriptor::{ConvDescriptor, Pointwise};
use crate::runtime::launch::enough;

/// Channels come in blocks.
pub const BLOCK: i64 = 16;
/// Warps of a block of the convolution.
pub const WARPS: i64 = 4;
/// Bytes that a warp's lanes copy at once.
const COPY: i64 = 32 * 16;
/// Pixels that a warp of the gradient takes at once.
pub const COLUMN: i64 = 16;
/// What is left of shared memory, at its alignment.
const ALIGNMENT: i64 = 16;

/// How a convolution is divided.
pub struct ForwardTile {
    /// Output channels of a block.
    pub outputs: i64,
    /// Columns of pixels of a warp, in eights.
    pub eights: i64,
    /// Rows whose copies are in flight.
    pub stages: i64,
    /// Blocks that share a multiprocessor.
    pub resident: i64,
}

impl ForwardTile {
    pub fn of(inputs: i64, outputs: i64) -> ForwardTile {
        match (inputs, outputs) {
            // All weights stay in registers.
            (BLOCK, BLOCK) => ForwardTile { outputs: 16, eights: 2, stages: 3, resident: 4 },
            (BLOCK, outputs) if outputs % 48 == 0 => ForwardTile { outputs: 48, eights: 4, stages: 4, resident: 2 },
            (32, outputs) if outputs % 48 == 0 => ForwardTile { outputs: 48, eights: 4, stages: 3, resident: 2 },
            (_, outputs) if outputs % 32 == 0 => ForwardTile { outputs: 32, eights: 4, stages: 3, resident: 2 },
            _ => ForwardTile { outputs: 16, eights: 4, stages: 3, resident: 3 },
        }
    }

    /// The columns that images are divided into, side by side.
    pub fn across(&self, width: i64) -> i64 {
        enough(width, 8 * self.eights).into()
    }

    /// The bands that images are divided into, one below the other: those with which the last blocks end soonest, when each
    /// row costs the same and so do the rows that a band shares with its neighbors.
    pub fn bands(&self, descriptor: &ConvDescriptor, columns: i64, height: i64, gpu: &GpuFacts) -> i64 {
        let at_once = gpu.multiprocessors as i64 * self.resident * WARPS;
        let cost = |rows: i64| {
            let warps = columns * i64::from(enough(height, rows)) * (descriptor.outputs / self.outputs);
            i64::from(enough(warps, at_once)) * (rows + descriptor.side - 1)
        };
        let rows = [8, 16, 32].into_iter().min_by_key(|&rows| cost(rows)).unwrap_or(16);
        enough(height, rows).into()
    }

    /// Bytes of shared memory: the weights in f16, and for every warp a ring of rows of 16 channels as they come, and one in
    /// f16.
    pub fn shared(&self, descriptor: &ConvDescriptor) -> i64 {
        let taps = descriptor.side * descriptor.side + i64::from(descriptor.pointwise != Pointwise::None);
        let weights = 2 * taps * descriptor.inputs * self.outputs;
        let copies = (8 * self.eights + descriptor.side - 1 + 7) / 8;
        let factors = 2 * 4 * descriptor.inputs;
        weights + WARPS * (self.stages * COPY + COPY / 2) * copies + factors + ALIGNMENT
    }

    /// In how many parts of every image sums are taken: one for every warp, whose columns are as high as keeps the GPU busy.
    pub fn parts(inputs: usize, outputs: usize, height: usize, width: usize) -> usize {
        let across = ForwardTile::of(inputs as i64, outputs as i64).across(width as i64) as usize;
        let most = if inputs == BLOCK as usize { 32 } else { 16 };
        across * height.div_ceil((height / 8).clamp(8, most))
    }
}

/// How the gradient of a kernel is divided.
pub struct GradientTile {
    /// Blocks of input and of output channels that the warps of one block own.
    pub inputs: i64,
    pub outputs: i64,
    /// Warps that share their pixels.
    pub shares: i64,
}

impl GradientTile {
    pub fn of(inputs: i64, outputs: i64) -> GradientTile {
        let inputs = [2, 3].into_iter().find(|pairs| inputs % (pairs * BLOCK) == 0).unwrap_or(1);
        let outputs = if outputs % (2 * BLOCK) == 0 { 2 } else { 1 };
        GradientTile { inputs, outputs, shares: (4 / (inputs * outputs)).max(1) }
    }

    /// Warps that own different channels.
    pub fn owners(&self) -> i64 {
        self.inputs * self.outputs
    }

    /// Blocks that share a multiprocessor. Registers suffice for twelve warps; those that share pixels copy more and need more.
    pub fn resident(&self) -> i64 {
        if self.shares == 1 { 12 / self.owners() } else { 2 }
    }

    /// Bytes of shared memory: a ring of three times two rows of the input and of the cotangents as they come, and twice two in
    /// f16.
    pub fn shared(&self, descriptor: &ConvDescriptor) -> i64 {
        let width = COLUMN * self.shares;
        let row = |pixels: i64, channels: i64| 6 * pixels * channels * 4 + 4 * pixels * (channels + 8) * 2;
        let cotangents = 1 + i64::from(descriptor.pointwise == Pointwise::Beside);
        let factors = 2 * 4 * BLOCK * self.inputs;
        let input = row(width + descriptor.side - 1, BLOCK * self.inputs);
        input + cotangents * row(width, BLOCK * self.outputs) + factors + ALIGNMENT
    }
}
