//! What the next block of pixels will read.

use super::Block;
use std::ops::Range;

/// Memory that the next block will read, fetched while this one computes: the output gradient, then the input.
pub(super) struct Ahead {
    /// Where each part begins, and its numbers.
    parts: [(*const f32, usize); 2],
    /// Elements of the gradient that one block updates.
    work: usize,
    /// Those that were handed to tiles so far.
    done: std::cell::Cell<usize>,
}

impl Ahead {
    /// What follows after `rows`. Jobs that see only a part of the channels compute long enough for each number anyway.
    pub fn new(block: &Block<'_>, x: *const f32, rows: &Range<usize>, depth: usize) -> Ahead {
        let conv = block.conv;
        let whole = block.columns.len() == conv.out_channels;
        let part = |from: *const f32, extents: [usize; 2], channels: usize| {
            let row_len = extents[1] * channels;
            let height = conv.output[0].max(1);
            let row = rows.end / height * extents[0] + rows.end % height * extents[0] / height;
            let count = rows.len() * extents[0].div_ceil(height) * row_len;
            (from.wrapping_add(row * row_len), if whole { count } else { 0 })
        };
        let parts = [part(block.dy, conv.output, conv.out_channels), part(x, conv.input, conv.in_channels)];
        Ahead { parts, work: depth * block.columns.len(), done: std::cell::Cell::new(0) }
    }

    /// What a tile that updates `elements` in `steps` should fetch: a place, and its distance from step to step.
    pub fn next(&self, elements: usize, steps: usize) -> (*const f32, usize) {
        let total = self.parts[0].1 + self.parts[1].1;
        let done = self.done.replace(self.done.get() + elements);
        let share = |done: usize| (total as u64 * done as u64 / self.work.max(1) as u64) as usize;
        let (begin, end) = (share(done), share(done + elements));
        let from = match begin < self.parts[0].1 {
            true => self.parts[0].0.wrapping_add(begin),
            false => self.parts[1].0.wrapping_add(begin - self.parts[0].1),
        };
        (from, (end - begin).div_ceil(steps.max(1)))
    }
}
