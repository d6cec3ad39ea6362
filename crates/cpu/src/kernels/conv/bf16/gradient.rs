//! The gradient of the weights from bf16 pictures, on AMX tiles.
//!
//! The reduced axis is the pixels, so the tiles want each input channel's pixels side by side: a block of the input is
//! transposed once. Windows then differ only by where they begin: a tap is a shift along that axis, if the rows of
//! all pictures follow each other with the same width. Positions that are no output have a gradient of zero. With
//! strides, the input falls into classes of rows and columns (even and odd, say), and within a class a tap is a
//! shift again.

mod interleave;

use super::super::Conv2d;
use super::super::windows::Sweep;
use super::transpose::transpose_block;
use crate::kernels::amx::{BLOCK_LEN, Block, COLUMNS, Column, NARROW, ROWS, Tiles};
use crate::kernels::partial::clear;
use crate::kernels::{Machine, Shared, scratch};
use crate::simd::Simd;
use half::bf16;
use interleave::Interleave;
use std::ops::Range;

/// Steps of the reduced axis in a tile.
const STEPS: usize = 32;
/// Positions in a block: enough to make loading and storing the sums cheap.
const POSITIONS: usize = 1024;
/// Weights of a job: its sums stay in the second-level cache.
const JOB_WEIGHTS: usize = 128 * 1024;
/// Jobs that are wanted before the pixels are cut.
const JOBS: usize = 32;

/// The gradient planned for AMX.
#[derive(Debug, Clone)]
pub(in crate::kernels::conv) struct TiledGradient {
    sweeps: Vec<ShiftedSweep>,
    /// Input and output channels of a job.
    job: [usize; 2],
    slices: usize,
    /// Numbers of the gradient with channels rounded up to whole tiles.
    padded: [usize; 3],
}

/// A sweep whose taps are shifts of classes of the input.
#[derive(Debug, Clone)]
struct ShiftedSweep {
    sweep: Sweep,
    /// First row and column of each class, relative to the first window.
    classes: Vec<[usize; 2]>,
    taps: Vec<ShiftedTap>,
    /// Positions in a row.
    width: usize,
    /// Rows below the last output's that windows reach.
    extra_rows: usize,
    /// Output rows (of the phase) in a span, and spans in a block.
    span_rows: usize,
    block_spans: usize,
}

#[derive(Debug, Clone, Copy)]
struct ShiftedTap {
    /// Index in the stored kernel.
    kernel: usize,
    class: usize,
    /// Positions that it is ahead of the first tap of its class.
    shift: usize,
}

impl ShiftedSweep {
    fn new(conv: &Conv2d, sweep: Sweep) -> ShiftedSweep {
        let steps = [sweep.vertical.input_step as usize, sweep.horizontal.input_step as usize];
        let ahead = |taps: &[super::super::phases::Tap], tap: usize| (taps[tap].input - taps[0].input) as usize;
        let reach = |taps: &[super::super::phases::Tap], step: usize| match taps.len() {
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
        let picture = (sweep.vertical.count + extra_rows) * width;
        let (span_rows, block_spans) = match picture <= POSITIONS {
            true => (sweep.vertical.count.max(1), POSITIONS / picture.max(1)),
            false => ((POSITIONS / width).max(1), 1),
        };
        ShiftedSweep { sweep, classes, taps, width, extra_rows, span_rows, block_spans: block_spans.max(1) }
    }

    /// Spans of all pictures.
    fn spans(&self, conv: &Conv2d) -> usize {
        conv.batch * self.sweep.vertical.count.div_ceil(self.span_rows)
    }

    /// The picture and the rows of a span.
    fn span(&self, index: usize) -> (usize, Range<usize>) {
        let per_picture = self.sweep.vertical.count.div_ceil(self.span_rows);
        let first = index % per_picture * self.span_rows;
        (index / per_picture, first..(first + self.span_rows).min(self.sweep.vertical.count))
    }

    fn max_shift(&self) -> usize {
        self.taps.iter().map(|tap| tap.shift).max().unwrap_or(0)
    }
}

impl TiledGradient {
    /// The plan; none for several groups or so few channels that tiles would be nearly empty.
    pub fn new(conv: &Conv2d) -> Option<TiledGradient> {
        if conv.groups != 1 || conv.in_channels < 12 || conv.out_channels == 0 {
            return None;
        }
        let sweeps: Vec<_> = Sweep::all(conv, false).into_iter().map(|sweep| ShiftedSweep::new(conv, sweep)).collect();
        let padded = [
            conv.kernel[0] * conv.kernel[1],
            conv.in_channels.next_multiple_of(ROWS),
            conv.out_channels.next_multiple_of(COLUMNS),
        ];
        let outputs = padded[2].min(256);
        let inputs = (JOB_WEIGHTS / (padded[0].max(1) * outputs)).next_multiple_of(ROWS).clamp(ROWS, padded[1]);
        let jobs = padded[1].div_ceil(inputs) * padded[2].div_ceil(outputs);
        let blocks = sweeps.iter().map(|sweep| sweep.spans(conv).div_ceil(sweep.block_spans)).max().unwrap_or(1);
        let slices = JOBS.div_ceil(jobs).min(blocks / 2).max(1);
        Some(TiledGradient { sweeps, job: [inputs, outputs], slices, padded })
    }

    pub fn run(&self, machine: &Machine, conv: &Conv2d, x: &[bf16], dy: &[bf16], dw: &mut [f32]) {
        let slice_len = self.padded.iter().product::<usize>();
        let [inputs, outputs] = self.job;
        let (input_jobs, output_jobs) = (self.padded[1].div_ceil(inputs), self.padded[2].div_ceil(outputs));
        scratch::borrow(self.slices * slice_len, |partial: &mut [f32]| {
            clear(machine, partial);
            let target = Shared(partial.as_mut_ptr());
            machine.pool.run(self.slices * input_jobs * output_jobs, &|job| {
                let (slice, job) = (job / (input_jobs * output_jobs), job % (input_jobs * output_jobs));
                let (input, output) = (job / output_jobs * inputs, job % output_jobs * outputs);
                let job = Job {
                    simd: machine.simd,
                    conv,
                    inputs: input..(input + inputs).min(conv.in_channels),
                    outputs: output..(output + outputs).min(conv.out_channels),
                    padded: self.padded,
                    x: x.as_ptr().cast(),
                    dy: dy.as_ptr().cast(),
                    dw: target.at(slice * slice_len),
                };
                // SAFETY: this plan only runs where AMX was granted.
                let tiles = unsafe { Tiles::configure(STEPS) };
                for sweep in &self.sweeps {
                    let blocks = sweep.spans(conv).div_ceil(sweep.block_spans);
                    for block in slice * blocks / self.slices..(slice + 1) * blocks / self.slices {
                        let spans = block * sweep.block_spans..((block + 1) * sweep.block_spans).min(sweep.spans(conv));
                        job.add_block(sweep, spans, &tiles);
                    }
                }
            });
            self.add_up(machine, conv, partial, dw);
        });
    }

    /// Adds the slices in order and drops the padding.
    fn add_up(&self, machine: &Machine, conv: &Conv2d, partial: &[f32], dw: &mut [f32]) {
        let slice_len = self.padded.iter().product::<usize>();
        let outputs = conv.out_channels;
        let target = Shared(dw.as_mut_ptr());
        machine.pool.run(self.padded[0], &|tap| {
            for input in 0..conv.in_channels {
                let to = (tap * conv.in_channels + input) * outputs;
                // SAFETY: every job writes the rows of its own tap.
                let to = unsafe { std::slice::from_raw_parts_mut(target.at(to), outputs) };
                let from = (tap * self.padded[1] + input) * self.padded[2];
                to.copy_from_slice(&partial[from..from + outputs]);
                for slice in partial.chunks_exact(slice_len).skip(1) {
                    to.iter_mut().zip(&slice[from..from + outputs]).for_each(|(sum, value)| *sum += value);
                }
            }
        });
    }
}

/// Some input and output channels of a slice.
struct Job<'a> {
    simd: Simd,
    conv: &'a Conv2d,
    inputs: Range<usize>,
    outputs: Range<usize>,
    padded: [usize; 3],
    x: *const u16,
    dy: *const u16,
    dw: *mut f32,
}

impl Job<'_> {
    fn add_block(&self, sweep: &ShiftedSweep, spans: Range<usize>, tiles: &Tiles) {
        if sweep.taps.is_empty() || sweep.width == 0 || self.inputs.is_empty() || self.outputs.is_empty() {
            return;
        }
        let rows = |index: usize| sweep.span(index).1.len() + sweep.extra_rows;
        let used: usize = spans.clone().map(rows).sum::<usize>() * sweep.width;
        // The rows below the last span are only reached by shifts.
        let steps = (used - sweep.extra_rows * sweep.width).next_multiple_of(STEPS);
        // An odd number of cache lines between rows spreads them over the cache's sets.
        let stride = (steps + sweep.max_shift()).max(used).next_multiple_of(STEPS) | STEPS;
        let channels = self.inputs.len().next_multiple_of(ROWS);
        let class_len = channels * stride;
        scratch::borrow(self.conv.in_channels.max(self.conv.out_channels) + 32, |zeros: &mut [u16]| {
            zeros.fill(0);
            scratch::borrow(stride, |pointers: &mut [*const u16]| {
                scratch::borrow(sweep.classes.len() * class_len, |turned: &mut [u16]| {
                    for (class, turned) in turned.chunks_exact_mut(class_len).enumerate() {
                        self.input_pointers(sweep, spans.clone(), class, zeros.as_ptr(), pointers);
                        transpose_block(self.simd, pointers, self.inputs.clone(), turned, stride);
                    }
                    self.gradient_pointers(sweep, spans.clone(), zeros.as_ptr(), pointers);
                    let panels = self.outputs.len().div_ceil(COLUMNS);
                    let panel_len = steps / STEPS * BLOCK_LEN;
                    scratch::borrow(panels * panel_len, |packed: &mut [u16]| {
                        for (panel, packed) in packed.chunks_exact_mut(panel_len).enumerate() {
                            let first = self.outputs.start + panel * COLUMNS;
                            let columns = COLUMNS.min(self.outputs.end - first);
                            let rows = &pointers[..steps];
                            // SAFETY: the entry was chosen for this machine; pixels have `first + columns` channels.
                            unsafe { self.simd.entry::<Interleave<'_>>()((rows, first, columns, packed)) };
                        }
                        self.add_taps(sweep, steps, turned, class_len, stride, packed, tiles);
                    });
                });
            });
        });
    }

    /// Where the pixel of each position lies in the input; `zeros` outside.
    fn input_pointers(
        &self,
        sweep: &ShiftedSweep,
        spans: Range<usize>,
        class: usize,
        zeros: *const u16,
        pointers: &mut [*const u16],
    ) {
        let (vertical, horizontal) = (&sweep.sweep.vertical, &sweep.sweep.horizontal);
        let [first_row, first_column] = sweep.classes[class].map(|first| first as i64);
        let [height, width] = self.conv.input;
        let mut slots = pointers.iter_mut();
        for (picture, rows) in spans.map(|span| sweep.span(span)) {
            for row in rows.start..rows.end + sweep.extra_rows {
                let line = vertical.origin(row) + first_row;
                let inside = (0..vertical.input).contains(&line);
                let line = (picture * height + line.max(0) as usize) * width;
                for (column, slot) in (0..sweep.width).zip(&mut slots) {
                    let at = horizontal.origin(column) + first_column;
                    *slot = match inside && (0..horizontal.input).contains(&at) {
                        true => self.x.wrapping_add((line + at as usize) * self.conv.in_channels),
                        false => zeros,
                    };
                }
            }
        }
        slots.for_each(|slot| *slot = zeros);
    }

    /// Where the gradient of each position lies; `zeros` where there is no output.
    fn gradient_pointers(
        &self,
        sweep: &ShiftedSweep,
        spans: Range<usize>,
        zeros: *const u16,
        pointers: &mut [*const u16],
    ) {
        let (vertical, horizontal) = (&sweep.sweep.vertical, &sweep.sweep.horizontal);
        let mut slots = pointers.iter_mut();
        for (picture, rows) in spans.map(|span| sweep.span(span)) {
            for row in rows.start..rows.end + sweep.extra_rows {
                let line = picture * self.conv.output[0] + vertical.first + row * vertical.step;
                for (column, slot) in (0..sweep.width).zip(&mut slots) {
                    let place = line * self.conv.output[1] + horizontal.first + column * horizontal.step;
                    *slot = match row < rows.end && column < horizontal.count {
                        true => self.dy.wrapping_add(place * self.conv.out_channels),
                        false => zeros,
                    };
                }
            }
        }
        slots.for_each(|slot| *slot = zeros);
    }

    fn add_taps(
        &self,
        sweep: &ShiftedSweep,
        steps: usize,
        turned: &[u16],
        class_len: usize,
        stride: usize,
        packed: &[u16],
        tiles: &Tiles,
    ) {
        if self.inputs.len() <= NARROW || self.outputs.len() <= NARROW {
            return self.add_taps_by_four(sweep, steps, turned, class_len, stride, packed, tiles);
        }
        let panel_len = steps / STEPS * BLOCK_LEN;
        for tap in &sweep.taps {
            for row in (0..self.inputs.len()).step_by(ROWS) {
                let a = turned[tap.class * class_len + row * stride + tap.shift..].as_ptr();
                for panel in 0..packed.len() / panel_len {
                    let to = (tap.kernel * self.padded[1] + self.inputs.start + row) * self.padded[2];
                    let block = Block {
                        a: [a, a.wrapping_add(16 * stride)],
                        a_stride: 2 * stride,
                        segments: &0,
                        segment_count: 1,
                        blocks: steps / STEPS,
                        step_bytes: 2 * STEPS,
                        b: packed[panel * panel_len..].as_ptr(),
                        c: self.dw.wrapping_add(to + self.outputs.start + panel * COLUMNS),
                        c_stride: 4 * self.padded[2],
                        accumulate: 1,
                    };
                    // SAFETY: 32 rows of `stride` numbers lie behind `a`, of which `shift + steps` are read; the
                    // padded gradient has room for whole tiles, and these channels belong to this job.
                    unsafe { tiles.block(&block) };
                }
            }
        }
    }
}

impl Job<'_> {
    /// The same for so few channels that tiles of 32 × 32 would be half empty: four tiles of taps and input channels at a
    /// time meet one tile of output channels.
    fn add_taps_by_four(
        &self,
        sweep: &ShiftedSweep,
        steps: usize,
        turned: &[u16],
        class_len: usize,
        stride: usize,
        packed: &[u16],
        tiles: &Tiles,
    ) {
        let panel_len = steps / STEPS * BLOCK_LEN;
        let row_tiles = self.inputs.len().div_ceil(NARROW);
        let count = sweep.taps.len() * row_tiles;
        // Where A lies for a tile, and C without its columns.
        let tile = |index: usize| {
            let (tap, row) = (&sweep.taps[index / row_tiles], index % row_tiles * NARROW);
            let a = turned[tap.class * class_len + row * stride + tap.shift..].as_ptr();
            let c = (tap.kernel * self.padded[1] + self.inputs.start + row) * self.padded[2] + self.outputs.start;
            (a, self.dw.wrapping_add(c))
        };
        // What is left of the last four tiles adds to nothing.
        scratch::borrow(NARROW * self.padded[2], |nothing: &mut [f32]| {
            for half in 0..self.outputs.len().div_ceil(NARROW) {
                let b = packed[half / 2 * panel_len + half % 2 * BLOCK_LEN / 2..].as_ptr();
                for first in (0..count).step_by(4) {
                    let four: [_; 4] = std::array::from_fn(|at| match first + at < count {
                        true => {
                            let (a, c) = tile(first + at);
                            (a, c.wrapping_add(half * NARROW))
                        }
                        false => (tile(first).0, nothing.as_mut_ptr()),
                    });
                    let column = Column {
                        a: four.map(|(a, _)| a),
                        c: four.map(|(_, c)| c),
                        step_bytes: 2 * STEPS,
                        blocks: steps / STEPS,
                        accumulate: 1,
                        a_stride: 2 * stride,
                        segments: &0,
                        segment_count: 1,
                        b,
                        c_stride: 4 * self.padded[2],
                    };
                    // SAFETY: 16 rows of `stride` numbers lie behind each `a`, of which `shift + steps` are read; the
                    // padded gradient has room for whole tiles, and these channels belong to this job.
                    unsafe { tiles.column(&column) };
                }
            }
        });
    }
}
