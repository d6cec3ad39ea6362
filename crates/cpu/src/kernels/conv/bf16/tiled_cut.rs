//! How the result of a convolution on tiles is cut into jobs. Results do not depend on it.

use super::super::{ChunkRule, ConvGeometry};
use crate::kernels::Machine;
use crate::kernels::amx::{COLUMNS, ROWS};
use crate::simd::second_level_bytes;
use std::ops::Range;

/// Ranges of output rows, counted through all images, or ranges of panels of output channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// All of them.
    rows: usize,
    panels: usize,
    /// Those of a job.
    job_rows: usize,
    job_panels: usize,
}

impl Cut {
    /// Every job reads the weights of its channels. Where they do not stay in the cache, there are only as many jobs as threads;
    /// if the images are small besides, jobs differ in their channels, so that all weights are read once. Matrices with
    /// several blocks of rows per thread are cut by rows all the same, whose epilogue then finds them in the cache.
    pub fn new(conv: &ConvGeometry, packed_len: usize, threads: usize) -> Cut {
        let (rows, panels) = (conv.batch * conv.output[0], conv.out_channels.div_ceil(COLUMNS));
        let cut = Cut { rows, panels, job_rows: rows, job_panels: panels };
        let cache = second_level_bytes();
        let [input, output] = [conv.input_len(), conv.output_len()].map(|numbers| 2 * numbers);
        let is_matrix = conv.output[1] == 1;
        // Outputs that no pixel of a dilated image reaches are cleared row by row, so rows must be whole.
        let streams = 2 * packed_len > cache / 2 && conv.input_dilation == [1, 1];
        let is_small = input <= cache / 4 && !(is_matrix && rows > 2 * threads * ROWS);
        if streams && is_small && panels >= threads {
            return Cut { job_panels: panels.div_ceil(threads), ..cut };
        }
        if streams && !is_matrix {
            let jobs = (input + output).div_ceil(cache / 2).next_multiple_of(threads);
            return Cut { job_rows: rows.div_ceil(jobs), ..cut };
        }
        Cut { job_rows: chunk_rows(conv, threads), ..cut }
    }

    pub fn jobs(&self) -> usize {
        self.rows.div_ceil(self.job_rows) * self.panels.div_ceil(self.job_panels)
    }

    /// Rows and panels of a job.
    pub fn job(&self, job: usize) -> (Range<usize>, Range<usize>) {
        let part = |job: usize, each: usize, all: usize| job * each..((job + 1) * each).min(all);
        match self.has_whole_rows() {
            true => (part(job, self.job_rows, self.rows), 0..self.panels),
            false => (0..self.rows, part(job, self.job_panels, self.panels)),
        }
    }

    /// Whether a job computes all channels of its rows.
    pub fn has_whole_rows(&self) -> bool {
        self.job_panels == self.panels
    }

    /// Calls `body` with a part of the rows per thread.
    pub fn each_share_of_rows(&self, machine: &Machine, body: &(dyn Fn(Range<usize>) + Sync)) {
        let each = self.rows.div_ceil(machine.pool.threads());
        machine.pool.run(self.rows.div_ceil(each), &|share| body(share * each..((share + 1) * each).min(self.rows)));
    }
}

/// Output rows per job where weights stay in the cache, and of matrices: the unit is fast, so chunks are larger than for f32.
/// Rows of one pixel are cut where blocks of tiles end, into as few chunks as the threads allow.
fn chunk_rows(conv: &ConvGeometry, threads: usize) -> usize {
    let rule = ChunkRule { element_bytes: 2, min_flops: 2e7, min_pixels: 32, streaming_pixels: 192 };
    if conv.output[1] != 1 {
        return rule.rows(conv);
    }
    let blocks = (conv.batch * conv.output[0]).div_ceil(ROWS);
    let wanted = rule.wanted(conv) as usize;
    let chunks = blocks.div_ceil(wanted.div_ceil(ROWS)).next_multiple_of(threads);
    ROWS * blocks.div_ceil(chunks)
}
