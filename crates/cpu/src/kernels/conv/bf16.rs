//! Convolutions of bf16 images with f32 sums.
//!
//! With AMX the images are multiplied as they are. Its tiles need rows of A with a constant stride, so a chunk's input rows
//! are copied once with the zeros of the padding around them (unless there is no padding), and the outputs are
//! enumerated in an order in which windows are equally spaced: either row by row, or straight through the padded rows,
//! computing a few positions that are no outputs. Without AMX everything is widened to f32 first.

#[cfg(target_arch = "x86_64")]
mod gradient;
#[cfg(target_arch = "x86_64")]
mod gradient_job;
#[cfg(target_arch = "x86_64")]
mod gradient_shifted;
#[cfg(target_arch = "x86_64")]
mod gradient_taps;
#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(target_arch = "x86_64")]
mod sweep;
#[cfg(target_arch = "x86_64")]
mod tiled;
#[cfg(not(target_arch = "x86_64"))]
#[path = "bf16/untiled.rs"]
mod tiled;
#[cfg(target_arch = "x86_64")]
mod tiled_cut;
#[cfg(target_arch = "x86_64")]
mod tiled_multiply;
#[cfg(target_arch = "x86_64")]
mod tiled_span;
#[cfg(target_arch = "x86_64")]
mod tiled_store;
#[cfg(target_arch = "x86_64")]
mod transpose;

use super::gradient::block::Gradients;
use super::planar::{self, planar_gradient};
use super::strategy::{ConvStrategy, Part};
use super::{Finished, ForwardConv, Weights, WeightsGradient};
use crate::kernels::bf16::{Output, SharedOutput, narrow_all, widen, widen_all};
use crate::kernels::{Machine, Shared, scratch};
use crate::simd::Bf16Unit;
use half::bf16;

#[cfg(target_arch = "x86_64")]
pub(super) use gradient::TiledGradient;
pub(super) use tiled::TiledPlan;

impl ForwardConv {
    /// [`ForwardConv::run`] for bf16 images and weights; `finished` is called with every part of the result once it is stored.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn run_bf16(
        &self,
        machine: &Machine,
        x: &[bf16],
        w: Weights<'_, bf16>,
        mut y: Output<'_>,
        finished: Option<&Finished<'_>>,
    ) {
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(y.len(), self.conv.output_len(), "the output's size must match {:?}", self.conv);
        w.check(&self.conv);
        if y.is_empty() {
            return;
        }
        if self.strategy == ConvStrategy::Planar {
            return self.run_planar(machine, x, w, y.shared(), finished);
        }
        if let Some(plan) = self.tiles(machine) {
            return plan.with_packed(machine, w, |packed| {
                plan.run(machine, x, packed, y.shared(), finished);
            });
        }
        match self.strategy == ConvStrategy::Winograd {
            true => self.run_widened(machine, x, w, &mut y, finished),
            false => self.run_widened_chunks(machine, x, w, y.shared(), finished),
        }
    }

    /// Numbers of the packed weights that [`ForwardConv::run_packed_bf16`] takes; none where weights are not packed.
    pub fn packed_bf16_len(&self, machine: &Machine) -> Option<usize> {
        self.tiles(machine).map(TiledPlan::packed_len)
    }

    /// Packs weights to be used again and again.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn pack_bf16(&self, machine: &Machine, w: Weights<'_, bf16>, packed: &mut [u16]) {
        w.check(&self.conv);
        assert_eq!(Some(packed.len()), self.packed_bf16_len(machine), "the packed weights must have their size");
        if let Some(plan) = self.tiles(machine) {
            plan.pack(machine, w, packed);
        }
    }

    /// [`ForwardConv::run_bf16`] with weights that were packed for the same machine.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn run_packed_bf16(
        &self,
        machine: &Machine,
        x: &[bf16],
        packed: &[u16],
        mut y: Output<'_>,
        finished: &Finished<'_>,
    ) {
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(y.len(), self.conv.output_len(), "the output's size must match {:?}", self.conv);
        assert_eq!(Some(packed.len()), self.packed_bf16_len(machine), "the packed weights must have their size");
        if let (Some(plan), false) = (self.tiles(machine), y.is_empty()) {
            plan.run(machine, x, packed, y.shared(), Some(finished));
        }
    }

    /// The plan for AMX tiles, if they compute this.
    fn tiles(&self, machine: &Machine) -> Option<&TiledPlan> {
        let has_tiles = machine.simd.bf16() == Bf16Unit::Amx && self.strategy != ConvStrategy::Planar;
        self.tiled.as_deref().filter(|_| has_tiles)
    }

    /// Images are widened where they are copied onto planes.
    fn run_planar(
        &self,
        machine: &Machine,
        x: &[bf16],
        w: Weights<'_, bf16>,
        y: SharedOutput,
        finished: Option<&Finished<'_>>,
    ) {
        let conv = &self.conv;
        let (rows, row_len) = (conv.batch * conv.output[0], conv.output[1] * conv.out_channels);
        scratch::borrow(w.data.len() + conv.weights_len(), |wide: &mut [f32]| {
            let (wide_w, packed) = wide.split_at_mut(w.data.len());
            widen(machine.simd, w.data, wide_w);
            planar::pack(conv, w.with_data(&*wide_w), packed);
            machine.pool.run(rows.div_ceil(planar::BAND_ROWS), &|chunk| {
                let rows = chunk * planar::BAND_ROWS..((chunk + 1) * planar::BAND_ROWS).min(rows);
                let first = rows.start * row_len;
                scratch::borrow(rows.len() * row_len, |sums: &mut [f32]| {
                    let whole = Shared(sums.as_mut_ptr().wrapping_sub(first));
                    planar::planar_rows(machine.simd, conv, x, packed, whole, rows);
                    // SAFETY: chunks are disjoint ranges of output rows.
                    unsafe { y.store(machine.simd, first, sums) };
                    if let Some(finished) = finished {
                        finished(first, sums.len());
                    }
                });
            });
        });
    }

    /// Every chunk widens the input rows that it reads, so that f32 numbers do not leave the cache.
    fn run_widened_chunks(
        &self,
        machine: &Machine,
        x: &[bf16],
        w: Weights<'_, bf16>,
        y: SharedOutput,
        finished: Option<&Finished<'_>>,
    ) {
        let conv = &self.conv;
        let (line_len, row_len) = (conv.input[1] * conv.in_channels, conv.output[1] * conv.out_channels);
        scratch::borrow(w.data.len(), |wide_w: &mut [f32]| {
            widen(machine.simd, w.data, wide_w);
            self.with_packed(machine, w.with_data(&*wide_w), |packed| {
                self.each_chunk(machine, &|rows| {
                    let lines = conv.input_lines(&rows);
                    let (first_x, first_y) = (lines.start * line_len, rows.start * row_len);
                    scratch::borrow(lines.len() * line_len, |wide_x: &mut [f32]| {
                        widen(machine.simd, &x[first_x..][..wide_x.len()], wide_x);
                        scratch::borrow(rows.len() * row_len, |sums: &mut [f32]| {
                            let (x, y_rows) = (wide_x.as_ptr().wrapping_sub(first_x), sums.as_mut_ptr());
                            let y_rows = Shared(y_rows.wrapping_sub(first_y));
                            self.run_sweeps(machine.simd, x, packed, y_rows, rows.clone(), Part::WHOLE);
                            // SAFETY: chunks are disjoint ranges of output rows.
                            unsafe { y.store(machine.simd, first_y, sums) };
                            if let Some(finished) = finished {
                                finished(first_y, sums.len());
                            }
                        });
                    });
                });
            });
        });
    }

    fn run_widened(
        &self,
        machine: &Machine,
        x: &[bf16],
        w: Weights<'_, bf16>,
        y: &mut Output<'_>,
        finished: Option<&Finished<'_>>,
    ) {
        scratch::borrow(x.len() + w.data.len(), |wide: &mut [f32]| {
            let (wide_x, wide_w) = wide.split_at_mut(x.len());
            widen_all(machine, x, wide_x);
            widen_all(machine, w.data, wide_w);
            let w = w.with_data(&*wide_w);
            let report = |first: usize, count: usize| {
                if let Some(finished) = finished {
                    finished(first, count);
                }
            };
            match y {
                Output::F32(y) => self.run(machine, wide_x, w, y, Some(&|first, sums| report(first, sums.len()))),
                Output::Bf16(y) => scratch::borrow(y.len(), |wide_y: &mut [f32]| {
                    let target = SharedOutput::Bf16(Shared(y.as_mut_ptr()));
                    let store = |first: usize, sums: &mut [f32]| {
                        // SAFETY: epilogues are called with disjoint blocks of the output.
                        unsafe { target.store(machine.simd, first, sums) };
                        report(first, sums.len());
                    };
                    self.run(machine, wide_x, w, wide_y, Some(&store));
                }),
            }
        });
    }
}

impl WeightsGradient {
    /// [`WeightsGradient::run`] for bf16 images; the gradient stays f32.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn run_bf16(&self, machine: &Machine, x: &[bf16], dy: &[bf16], dw: Output<'_>) {
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(dy.len(), self.conv.output_len(), "the output gradient's size must match {:?}", self.conv);
        assert_eq!(dw.len(), self.conv.weights_len(), "the weights' size must match {:?}", self.conv);
        #[cfg(target_arch = "x86_64")]
        if let (Bf16Unit::Amx, Some(plan), false) =
            (machine.simd.bf16(), &self.tiled, self.strategy == ConvStrategy::Planar)
        {
            let mut dw = dw;
            return plan.run(machine, &self.conv, x, dy, dw.shared());
        }
        match dw {
            Output::F32(dw) => self.sum_bf16(machine, x, dy, dw),
            Output::Bf16(dw) => scratch::borrow(dw.len(), |sums: &mut [f32]| {
                self.sum_bf16(machine, x, dy, sums);
                narrow_all(machine, sums, dw);
            }),
        }
    }

    fn sum_bf16(&self, machine: &Machine, x: &[bf16], dy: &[bf16], dw: &mut [f32]) {
        if self.strategy == ConvStrategy::Planar {
            return planar_gradient(machine, &self.conv, x, dy, dw);
        }
        // The input is widened at once, for it is read once per tap; the output's gradient row by row, when it is wanted.
        scratch::borrow(x.len(), |wide_x: &mut [f32]| {
            widen_all(machine, x, wide_x);
            let row_len = self.conv.output[1] * self.conv.out_channels;
            let widen_row = |row: usize, to: &mut [f32]| widen(machine.simd, &dy[row * row_len..][..row_len], to);
            self.run_with(machine, wide_x, &Gradients::Made(&widen_row), dw);
        });
    }
}
