//! The gradient of the weights from bf16 images, on AMX tiles.
//!
//! The reduced axis is the pixels, so the tiles need each input channel's pixels next to each other: a block of the input is
//! transposed once. Windows then differ only by where they begin: a tap is a shift along that axis, if the rows of
//! all images follow each other with the same width. Positions that are no output have a gradient of zero. With
//! strides, the input falls into classes of rows and columns (even and odd, say), and within a class a tap is a
//! shift again.

use super::super::ConvGeometry;
use super::super::windows::Sweep;
use super::gradient_job::Job;
use super::gradient_shifted::ShiftedSweep;
use crate::kernels::amx::{COLUMNS, ROWS, Tiles};
use crate::kernels::bf16::SharedOutput;
use crate::kernels::scratch::clear;
use crate::kernels::{Machine, Shared, scratch};
use half::bf16;

/// Steps of the reduced axis in a tile.
pub(super) const STEPS: usize = 32;
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

impl TiledGradient {
    /// The plan; none for several groups or so few channels that tiles would be nearly empty.
    pub fn new(conv: &ConvGeometry) -> Option<TiledGradient> {
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

    pub fn run(&self, machine: &Machine, conv: &ConvGeometry, x: &[bf16], dy: &[bf16], dw: SharedOutput) {
        let slice_len = self.padded.iter().product::<usize>();
        let [inputs, outputs] = self.job;
        let (input_jobs, output_jobs) = (self.padded[1].div_ceil(inputs), self.padded[2].div_ceil(outputs));
        let begins_with_all = self.begins_with_all(conv);
        scratch::borrow(self.slices * slice_len, |partial: &mut [f32]| {
            if !begins_with_all {
                clear(machine, partial);
            }
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
                    let own = slice * blocks / self.slices..(slice + 1) * blocks / self.slices;
                    for block in own.clone() {
                        let spans = block * sweep.block_spans..((block + 1) * sweep.block_spans).min(sweep.spans(conv));
                        job.add_block(sweep, spans, &tiles, block > own.start || !begins_with_all);
                    }
                }
            });
            self.add_up(machine, conv, target, dw);
        });
    }

    /// Whether the first block of every slice meets every element of the gradient, which it then writes instead of adding
    /// to it.
    fn begins_with_all(&self, conv: &ConvGeometry) -> bool {
        let [sweep] = &self.sweeps[..] else { return false };
        let blocks = sweep.spans(conv).div_ceil(sweep.block_spans);
        sweep.taps.len() == self.padded[0] && sweep.width > 0 && blocks >= self.slices
    }

    /// Adds the slices in order, drops the padding and rounds.
    fn add_up(&self, machine: &Machine, conv: &ConvGeometry, partial: Shared<f32>, dw: SharedOutput) {
        const CHUNK: usize = 32 * 1024;
        let slice_len = self.padded.iter().product::<usize>();
        let (outputs, rows) = (conv.out_channels, self.padded[0] * conv.in_channels);
        let at_once = (CHUNK / outputs).max(1);
        machine.pool.run(rows.div_ceil(at_once), &|chunk| {
            for row in chunk * at_once..((chunk + 1) * at_once).min(rows) {
                let (tap, input) = (row / conv.in_channels, row % conv.in_channels);
                let from = (tap * self.padded[1] + input) * self.padded[2];
                // SAFETY: every chunk has rows of its own, of all slices and of the result.
                unsafe {
                    let sum = std::slice::from_raw_parts_mut(partial.at(from), outputs);
                    for slice in 1..self.slices {
                        let part = std::slice::from_raw_parts(partial.at(slice * slice_len + from), outputs);
                        sum.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
                    }
                    dw.store(machine.simd, row * outputs, sum);
                }
            }
        });
    }
}
