//! Sweeps whose reduced axis fills AMX tiles.

use super::super::ConvGeometry;
use super::super::windows::Sweep;
use crate::kernels::amx::{BLOCK_LEN, MAX_STEPS};

/// A sweep with its reduced axis cut into blocks that fill tiles.
#[derive(Debug, Clone)]
pub(super) struct TiledSweep {
    pub sweep: Sweep,
    /// Channels of a pixel in the copied rows; the weights of those that do not exist are zeros.
    pub channels: usize,
    /// Steps in a block.
    pub steps: usize,
    /// Blocks in a segment.
    pub blocks: usize,
}

impl TiledSweep {
    /// Whole kernel rows as segments if they can be cut into equal blocks, single taps otherwise: whichever needs
    /// fewer blocks.
    pub fn new(conv: &ConvGeometry, index: usize) -> Option<TiledSweep> {
        let merged = Sweep::all(conv, true).into_iter().nth(index)?;
        let single = Sweep::all(conv, false).into_iter().nth(index)?;
        let blocks = conv.in_channels.div_ceil(MAX_STEPS).max(1);
        let steps = conv.in_channels.div_ceil(blocks).next_multiple_of(2);
        let single = TiledSweep { sweep: single, channels: blocks * steps, steps, blocks };
        let channels = conv.in_channels.next_multiple_of(2);
        let length = merged.horizontal.taps.len() * channels;
        let cut = |blocks: &usize| length.is_multiple_of(2 * blocks) && length / blocks <= MAX_STEPS;
        let limit = single.blocks * single.sweep.horizontal.taps.len();
        match (length.div_ceil(MAX_STEPS).max(1)..=limit).find(cut) {
            Some(blocks) if merged.merged && length > 0 => {
                Some(TiledSweep { sweep: merged, channels, steps: length / blocks, blocks })
            }
            _ => Some(single),
        }
    }

    /// Numbers of the packed weights of 32 output channels.
    pub fn panel_len(&self) -> usize {
        self.sweep.segments * self.blocks * BLOCK_LEN
    }

    /// What is added to a window's first number for each segment, in bytes, for rows of `width` pixels.
    pub fn segment_offsets(&self, width: usize, offsets: &mut [usize]) {
        let (vertical, horizontal) = (&self.sweep.vertical.taps, &self.sweep.horizontal.taps);
        let per_row = if self.sweep.merged { 1 } else { horizontal.len() };
        for (segment, offset) in offsets.iter_mut().enumerate() {
            let down = (vertical[segment / per_row].input - vertical[0].input) as usize;
            let across = (horizontal[segment % per_row].input - horizontal[0].input) as usize;
            *offset = 2 * (down * width + across) * self.channels;
        }
    }
}
