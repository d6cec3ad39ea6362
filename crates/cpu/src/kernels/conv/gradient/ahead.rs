//! What the next block of pixels will read.

use super::Block;
use crate::kernels::conv::windows::Sweep;
use std::ops::Range;

/// Memory that the next block will read, fetched while this one computes: the output gradient, then the input.
pub(super) struct Ahead {
    parts: [Part; 2],
    /// Elements of the gradient that one block updates.
    work: usize,
    /// Those that were given to tiles so far.
    done: std::cell::Cell<usize>,
}

/// Runs of numbers, each `stride` behind the one before.
#[derive(Clone, Copy)]
struct Part {
    first: *const f32,
    run: usize,
    stride: usize,
    runs: usize,
}

impl Part {
    /// Numbers in all runs.
    fn len(&self) -> usize {
        self.run * self.runs
    }

    /// Where `count` numbers from `index` on lie. If they belong to two runs, it is the one with the larger part.
    fn address(&self, index: usize, count: usize) -> *const f32 {
        let run = self.run.max(1);
        let left = run - index % run;
        let index = if 2 * left < count { index + left } else { index };
        self.first.wrapping_add(index / run * self.stride + index % run)
    }
}

impl Ahead {
    /// What follows after `rows`, for a job that has `depth` of the gradient's rows.
    pub fn new(block: &Block<'_>, sweep: &Sweep, x: *const f32, rows: &Range<usize>, depth: &Range<usize>) -> Ahead {
        let conv = block.conv;
        // The channels from `own.start` to `own.end` of the pixels in the rows that correspond to `rows`.
        let part = |from: *const f32, extents: [usize; 2], channels: usize, own: Range<usize>| {
            let height = conv.output[0].max(1);
            let row = rows.end / height * extents[0] + rows.end % height * extents[0] / height;
            let pixels = rows.len() * extents[0].div_ceil(height) * extents[1];
            let first = from.wrapping_add(row * extents[1] * channels + own.start);
            match own.len() == channels {
                true => Part { first, run: pixels * channels, stride: 0, runs: 1 },
                false => Part { first, run: own.len(), stride: channels, runs: pixels },
            }
        };
        let group = block.group * conv.group_outputs();
        let columns = group + block.columns.start..group + block.columns.end;
        // Where there are several taps, each number of the input is used long enough to be waited for, unless the job has
        // all channels of the output and so reads everything.
        let inputs = match (sweep.segments, columns.len() == conv.out_channels) {
            (1, _) if conv.groups == 1 && sweep.length == conv.in_channels => depth.clone(),
            (_, true) => 0..conv.in_channels,
            (_, false) => 0..0,
        };
        let parts =
            [part(block.dy, conv.output, conv.out_channels, columns), part(x, conv.input, conv.in_channels, inputs)];
        Ahead { parts, work: depth.len() * block.columns.len(), done: std::cell::Cell::new(0) }
    }

    /// What a tile that updates `elements` in `steps` should prefetch: an address, and its distance from step to step.
    pub fn next(&self, elements: usize, steps: usize) -> (*const f32, usize) {
        let [gradient, input] = &self.parts;
        let total = gradient.len() + input.len();
        let done = self.done.replace(self.done.get() + elements);
        let share = |done: usize| (total as u64 * done as u64 / self.work.max(1) as u64) as usize;
        let (begin, end) = (share(done), share(done + elements));
        let from = match begin < gradient.len() {
            true => gradient.address(begin, end - begin),
            false => input.address(begin - gradient.len(), end - begin),
        };
        (from, (end - begin).div_ceil(steps.max(1)))
    }
}
