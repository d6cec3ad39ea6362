//! Convolutions of bf16 pictures with f32 sums.
//!
//! With AMX the pictures are multiplied as they are. Its tiles want rows of A equally far apart, so a chunk's input rows
//! are copied once with the zeros of the padding around them (unless there is no padding), and the outputs are
//! enumerated in an order in which windows are equally spaced: either row by row, or straight through the padded rows,
//! computing a few positions that are no outputs. Without AMX everything is widened to f32 first.

#[cfg(target_arch = "x86_64")]
mod gradient;
#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(target_arch = "x86_64")]
mod tiled;
#[cfg(target_arch = "x86_64")]
mod transpose;

use super::{Convolution, Epilogue, Weights, WeightsGradient};
use crate::kernels::bf16::{Output, SharedOutput, narrow_all, widen_all};
use crate::kernels::{Machine, Shared, scratch};
#[cfg(target_arch = "x86_64")]
use crate::simd::Bf16Unit;
use half::bf16;

#[cfg(target_arch = "x86_64")]
pub(super) use {gradient::TiledGradient, tiled::TiledPlan};

impl Convolution {
    /// [`Convolution::run`] for bf16 pictures and weights. The epilogue sees the f32 sums before they are rounded.
    ///
    /// # Panics
    /// When a slice does not have the size that the description says.
    pub fn run_bf16(
        &self,
        machine: &Machine,
        x: &[bf16],
        w: Weights<'_, bf16>,
        mut y: Output<'_>,
        epilogue: Option<&Epilogue<'_>>,
    ) {
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(y.len(), self.conv.output_len(), "the output's size must match {:?}", self.conv);
        w.check(&self.conv);
        if y.is_empty() {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let (Bf16Unit::Amx, Some(plan)) = (machine.simd.bf16(), &self.tiled) {
            return plan.run(machine, &self.conv, x, w, y.shared(), epilogue);
        }
        self.run_widened(machine, x, w, &mut y, epilogue);
    }

    fn run_widened(
        &self,
        machine: &Machine,
        x: &[bf16],
        w: Weights<'_, bf16>,
        y: &mut Output<'_>,
        epilogue: Option<&Epilogue<'_>>,
    ) {
        scratch::borrow(x.len() + w.data.len(), |wide: &mut [f32]| {
            let (wide_x, wide_w) = wide.split_at_mut(x.len());
            widen_all(machine, x, wide_x);
            widen_all(machine, w.data, wide_w);
            let w = Weights {
                data: &*wide_w,
                row: w.row,
                column: w.column,
                input: w.input,
                output: w.output,
                group: w.group,
            };
            match y {
                Output::F32(y) => self.run(machine, wide_x, w, y, epilogue),
                Output::Bf16(y) => scratch::borrow(y.len(), |wide_y: &mut [f32]| {
                    let target = SharedOutput::Bf16(Shared(y.as_mut_ptr()));
                    let finish = |first: usize, values: &mut [f32]| {
                        if let Some(epilogue) = epilogue {
                            epilogue(first, values);
                        }
                        // SAFETY: epilogues are called with disjoint blocks of the output.
                        unsafe { target.store(machine.simd, first, values) };
                    };
                    self.run(machine, wide_x, w, wide_y, Some(&finish));
                }),
            }
        });
    }
}

impl WeightsGradient {
    /// [`WeightsGradient::run`] for bf16 pictures; the gradient stays f32.
    ///
    /// # Panics
    /// When a slice does not have the size that the description says.
    pub fn run_bf16(&self, machine: &Machine, x: &[bf16], dy: &[bf16], dw: Output<'_>) {
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(dy.len(), self.conv.output_len(), "the output gradient's size must match {:?}", self.conv);
        assert_eq!(dw.len(), self.conv.weights_len(), "the weights' size must match {:?}", self.conv);
        match dw {
            Output::F32(dw) => self.sum_bf16(machine, x, dy, dw),
            Output::Bf16(dw) => scratch::borrow(dw.len(), |sums: &mut [f32]| {
                self.sum_bf16(machine, x, dy, sums);
                narrow_all(machine, sums, dw);
            }),
        }
    }

    fn sum_bf16(&self, machine: &Machine, x: &[bf16], dy: &[bf16], dw: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if let (Bf16Unit::Amx, Some(plan)) = (machine.simd.bf16(), &self.tiled) {
            return plan.run(machine, &self.conv, x, dy, dw);
        }
        scratch::borrow(x.len() + dy.len(), |wide: &mut [f32]| {
            let (wide_x, wide_dy) = wide.split_at_mut(x.len());
            widen_all(machine, x, wide_x);
            widen_all(machine, dy, wide_dy);
            self.run(machine, wide_x, wide_dy, dw);
        });
    }
}
