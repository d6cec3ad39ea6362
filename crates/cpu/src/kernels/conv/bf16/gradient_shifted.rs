//! Sweeps whose taps are shifts along the pixels.

use super::super::ConvGeometry;
use super::super::phases::Tap;
use super::super::windows::Sweep;
use std::ops::Range;

/// Positions in a block: enough to make loading and storing the sums cheap.
const POSITIONS: usize = 1024;

/// A sweep whose taps are shifts of classes of the input.
#[derive(Debug, Clone)]
pub(super) struct ShiftedSweep {
    pub sweep: Sweep,
    /// First row and column of each class, relative to the first window.
    pub classes: Vec<[usize; 2]>,
    pub taps: Vec<ShiftedTap>,
    /// Positions in a row.
    pub width: usize,
    /// Rows below the last output's that windows reach.
    pub extra_rows: usize,
    /// Output rows (of the phase) in a span, and spans in a block.
    span_rows: usize,
    pub block_spans: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ShiftedTap {
    /// Index in the stored kernel.
    pub kernel: usize,
    pub class: usize,
    /// Positions that it is ahead of the first tap of its class.
    pub shift: usize,
}

impl ShiftedSweep {
    pub fn new(conv: &ConvGeometry, sweep: Sweep) -> ShiftedSweep {
        let steps = [sweep.vertical.input_step as usize, sweep.horizontal.input_step as usize];
        let ahead = |taps: &[Tap], tap: usize| (taps[tap].input - taps[0].input) as usize;
        let reach = |taps: &[Tap], step: usize| match taps.len() {
            0 => 0,
            count => ahead(taps, count - 1) / step,
        };
        let width = sweep.horizontal.count + reach(&sweep.horizontal.taps, steps[1]);
        let extra_rows = reach(&sweep.vertical.taps, steps[0]);
        let mut classes = Vec::new();
        let mut taps = Vec::new();
        for (row, vertical) in sweep.vertical.taps.iter().enumerate() {
            for (column, horizontal) in sweep.horizontal.taps.iter().enumerate() {
                let ahead = [ahead(&sweep.vertical.taps, row), ahead(&sweep.horizontal.taps, column)];
                let class = [ahead[0] % steps[0], ahead[1] % steps[1]];
                let known = classes.iter().position(|other| *other == class);
                let class = known.unwrap_or_else(|| {
                    classes.push(class);
                    classes.len() - 1
                });
                let kernel = vertical.kernel * conv.kernel[1] + horizontal.kernel;
                taps.push(ShiftedTap { kernel, class, shift: ahead[0] / steps[0] * width + ahead[1] / steps[1] });
            }
        }
        let image = (sweep.vertical.count + extra_rows) * width;
        let (span_rows, block_spans) = match image <= POSITIONS {
            true => (sweep.vertical.count.max(1), POSITIONS / image.max(1)),
            false => ((POSITIONS / width).max(1), 1),
        };
        ShiftedSweep { sweep, classes, taps, width, extra_rows, span_rows, block_spans: block_spans.max(1) }
    }

    /// Spans of all images.
    pub fn spans(&self, conv: &ConvGeometry) -> usize {
        conv.batch * self.sweep.vertical.count.div_ceil(self.span_rows)
    }

    /// The image and the rows of a span.
    pub fn span(&self, index: usize) -> (usize, Range<usize>) {
        let per_image = self.sweep.vertical.count.div_ceil(self.span_rows);
        let first = index % per_image * self.span_rows;
        (index / per_image, first..(first + self.span_rows).min(self.sweep.vertical.count))
    }

    pub fn max_shift(&self) -> usize {
        self.taps.iter().map(|tap| tap.shift).max().unwrap_or(0)
    }
}
