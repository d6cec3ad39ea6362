//! The gradient of the weights: `dw[tap, i, o] = Σ x[window pixel, i] · dy[pixel, o]`.
//!
//! Summed over pixels in outer products. The pixels are cut into slices by shape; each slice sums into its own copy of
//! the gradient, and the copies are added in order.

mod ahead;
pub(super) mod block;

use super::ConvGeometry;
use super::depthwise::depthwise_gradient;
use super::planar::planar_gradient;
use super::strategy::ConvStrategy;
use super::windows::Sweep;
use super::winograd;
use crate::kernels::scratch::{add_up, clear};
use crate::kernels::{Gemm, Machine, MatrixStrides, Shared, gemm, scratch};
use block::{Block, Gradients};

/// The gradient of a convolution's weights, ready to run.
#[derive(Debug, Clone)]
pub struct WeightsGradient {
    pub(super) conv: ConvGeometry,
    pub(super) strategy: ConvStrategy,
    /// The plan for bf16 images on AMX.
    #[cfg(target_arch = "x86_64")]
    pub(super) tiled: Option<super::bf16::TiledGradient>,
    /// Each with the rows of the gradient that its windows' numbers belong to.
    sweeps: Vec<(Sweep, Vec<u32>)>,
    split: Split,
}

/// How the work is cut into jobs.
#[derive(Debug, Clone, Copy)]
struct Split {
    /// Slices of the pixels, each with a gradient of its own.
    slices: usize,
    /// Parts of the gradient's rows (taps and input channels).
    row_jobs: usize,
    /// Output channels of a job.
    columns: usize,
}

/// Computes the gradient once; see [`WeightsGradient`].
pub fn conv2d_weights_gradient(machine: &Machine, forward: &ConvGeometry, x: &[f32], dy: &[f32], dw: &mut [f32]) {
    WeightsGradient::new(forward).run(machine, x, dy, dw);
}

impl WeightsGradient {
    /// Plans the gradient of the weights of `forward`.
    ///
    /// # Panics
    /// When the description contradicts itself.
    pub fn new(forward: &ConvGeometry) -> WeightsGradient {
        forward.check();
        let strategy = ConvStrategy::choose(forward);
        // Merged kernel rows fill the tiles better when there are few channels; separate taps need no copies at edges.
        let merge = (forward.groups == 1 && forward.in_channels < 64) || strategy == ConvStrategy::Depthwise;
        let with_rows = |sweep| {
            let rows = weight_rows(forward, &sweep);
            (sweep, rows)
        };
        let sweeps = Sweep::all(forward, merge).into_iter().map(with_rows).collect();
        WeightsGradient {
            conv: forward.clone(),
            strategy,
            #[cfg(target_arch = "x86_64")]
            tiled: super::bf16::TiledGradient::new(forward),
            sweeps,
            split: split(forward),
        }
    }

    /// The convolution whose weights' gradient is computed.
    pub fn description(&self) -> &ConvGeometry {
        &self.conv
    }

    /// Computes `dw`, stored as (row, column, input within the group, output).
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn run(&self, machine: &Machine, x: &[f32], dy: &[f32], dw: &mut [f32]) {
        assert_eq!(dy.len(), self.conv.output_len(), "the output gradient's size must match {:?}", self.conv);
        self.run_with(machine, x, &Gradients::Stored(dy), dw);
    }

    pub(super) fn run_with(&self, machine: &Machine, x: &[f32], dy: &Gradients<'_>, dw: &mut [f32]) {
        let len = self.conv.weights_len();
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(dw.len(), len, "the weights' size must match {:?}", self.conv);
        match (self.strategy, dy) {
            (ConvStrategy::Planar, Gradients::Stored(dy)) => {
                return planar_gradient(machine, &self.conv, x, dy, dw);
            }
            (ConvStrategy::Winograd, Gradients::Stored(dy)) => {
                return winograd::weights_gradient(machine, &self.conv, x, dy, dw);
            }
            // Cotangents that a pooling scatters are made row by row, as tiles read them.
            (ConvStrategy::Planar | ConvStrategy::Winograd, _) => {}
            (ConvStrategy::Tiles | ConvStrategy::Depthwise, _) => {}
        }
        if let (Gradients::Stored(dy), Some(product)) = (dy, pointwise_product(&self.conv)) {
            return gemm(machine, &product, x, dy, dw);
        }
        if self.split.slices == 1 {
            self.clear(machine, dw);
            return self.run_slices(machine, x, dy, dw);
        }
        scratch::borrow(self.split.slices * len, |partial: &mut [f32]| {
            self.clear(machine, partial);
            self.run_slices(machine, x, dy, partial);
            add_up(machine, partial, Shared(dw.as_mut_ptr()), 1, len, len);
        });
    }

    /// Whether the first block of pixels meets every element of the gradient, which it then writes instead of adding to it.
    fn begins_with_all(&self) -> bool {
        self.strategy != ConvStrategy::Depthwise && self.conv.input_dilation == [1; 2] && self.conv.output_len() > 0
    }

    fn clear(&self, machine: &Machine, partial: &mut [f32]) {
        if !self.begins_with_all() {
            clear(machine, partial);
        }
    }

    /// Sums slice `s` of the pixels into part `s` of `partial`.
    fn run_slices(&self, machine: &Machine, x: &[f32], dy: &Gradients<'_>, partial: &mut [f32]) {
        let Split { slices, row_jobs, columns } = self.split;
        let len = self.conv.weights_len();
        let rows = self.conv.batch * self.conv.output[0];
        if self.strategy == ConvStrategy::Depthwise {
            let target = Shared(partial.as_mut_ptr());
            return machine.pool.run(slices, &|slice| {
                let rows = slice * rows / slices..(slice + 1) * rows / slices;
                dy.with_rows(&self.conv, rows.clone(), |dy| {
                    for (sweep, _) in &self.sweeps {
                        let dw = target.at(slice * len);
                        depthwise_gradient(machine.simd, &self.conv, sweep, x.as_ptr(), dy, dw, rows.clone());
                    }
                });
            });
        }
        let outputs = self.conv.group_outputs();
        let column_jobs = outputs.div_ceil(columns);
        let group_jobs = row_jobs * column_jobs;
        let target = Shared(partial.as_mut_ptr());
        machine.pool.run(slices * self.conv.groups * group_jobs, &|job| {
            let (slice, job) = (job / (self.conv.groups * group_jobs), job % (self.conv.groups * group_jobs));
            let (group, job) = (job / group_jobs, job % group_jobs);
            let (row_job, first) = (job / column_jobs, job % column_jobs * columns);
            let (simd, conv, dw) = (machine.simd, &self.conv, target.at(slice * len));
            let columns = first..(first + columns).min(outputs);
            let slice = slice * rows / slices..(slice + 1) * rows / slices;
            // Blocks of equal size: a short one at the end would add to all of the gradient for a few pixels only.
            let step = (BLOCK_PIXELS / self.conv.output[1].max(1)).max(1);
            let blocks = slice.len().div_ceil(step);
            for block in 0..blocks {
                let rows = slice.start + block * slice.len() / blocks..slice.start + (block + 1) * slice.len() / blocks;
                dy.with_rows(conv, rows.clone(), |dy| {
                    let accumulate = block > 0 || !self.begins_with_all();
                    let block = Block { simd, conv, group, columns: columns.clone(), dy, dw, accumulate };
                    for (sweep, rows_of) in &self.sweeps {
                        let depth = row_job * sweep.depth() / row_jobs..(row_job + 1) * sweep.depth() / row_jobs;
                        block.add(sweep, rows_of, depth, x.as_ptr(), rows.clone());
                    }
                });
            }
        });
    }
}

/// The gradient of a 1×1 convolution's weights as a product, `xᵀ · dy`, if it is large enough to be worth packing all pixels.
fn pointwise_product(conv: &ConvGeometry) -> Option<Gemm> {
    const MIN_WEIGHTS: usize = 64 * 1024;
    let is_pointwise = conv.kernel == [1; 2]
        && conv.groups == 1
        && conv.input == conv.output
        && conv.pad_low == [0; 2]
        && [conv.stride, conv.input_dilation] == [[1; 2]; 2];
    let (inputs, outputs) = (conv.in_channels, conv.out_channels);
    let pixels = conv.batch * conv.output[0] * conv.output[1];
    (is_pointwise && inputs * outputs >= MIN_WEIGHTS).then(|| Gemm {
        a: MatrixStrides::row_major(pixels, inputs).transposed(),
        ..Gemm::row_major(inputs, outputs, pixels)
    })
}

/// Pixels whose windows and gradients are swept together, so that they are still in the cache for the next tile.
const BLOCK_PIXELS: usize = 128;

/// For each step of a sweep's reduced axis: the row of `dw`, seen as a matrix with one column per output channel.
fn weight_rows(conv: &ConvGeometry, sweep: &Sweep) -> Vec<u32> {
    let inputs = conv.group_inputs();
    let rows_of_tap = |(row, column): (usize, usize)| {
        let first = (row * conv.kernel[1] + column) * inputs;
        (first..first + inputs).map(|row| row as u32)
    };
    sweep.taps().flat_map(rows_of_tap).collect()
}

/// A large gradient is cut by its rows and columns, which costs nothing; a small one by pixels, each slice with a copy
/// of the gradient that has to be added up later.
fn split(conv: &ConvGeometry) -> Split {
    const JOBS: usize = 32;
    // A block of pixels is copied for every job: larger jobs copy less, as long as their part of the gradient stays in the
    // second-level cache.
    const JOB_WEIGHTS: usize = 128 * 1024;
    const JOB_COLUMNS: usize = 512;
    const COLUMNS_STEP: usize = 64;
    // A slice of a depthwise gradient costs next to nothing: its copy is as small as a few pixels.
    let slice_pixels = if conv.is_depthwise() { 64 } else { 1024 };
    // Three jobs would leave one of two threads idle for a third of the time.
    let even = |jobs: usize| if jobs > 1 { jobs.next_multiple_of(2) } else { 1 };
    let rows = conv.kernel[0] * conv.kernel[1] * conv.group_inputs();
    let outputs = conv.group_outputs().max(1);
    let column_jobs = even(outputs.div_ceil(JOB_COLUMNS));
    let columns = outputs.div_ceil(column_jobs).next_multiple_of(COLUMNS_STEP).min(outputs);
    let row_jobs = even((rows * columns).div_ceil(JOB_WEIGHTS));
    let jobs = if conv.is_depthwise() { 1 } else { (conv.groups * column_jobs * row_jobs).max(1) };
    let output_rows = conv.batch * conv.output[0];
    let slices = even((output_rows * conv.output[1]).div_ceil(slice_pixels)).min(JOBS.div_ceil(jobs));
    Split { slices: slices.clamp(1, output_rows.max(1)), row_jobs, columns }
}
