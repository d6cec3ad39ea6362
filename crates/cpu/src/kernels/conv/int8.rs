//! Depthwise convolutions of 8-bit images: every chunk widens the rows that it reads to f32, which holds such sums exactly.

use super::strategy::Part;
use super::{Epilogue, ForwardConv, Weights};
use crate::kernels::{Machine, Shared, scratch};
use crate::simd::{Kernel, Simd, Vector};
use std::marker::PhantomData;

impl ForwardConv {
    /// [`ForwardConv::pack_f32`] of 8-bit weights.
    pub(in crate::kernels) fn pack_int8(&self, machine: &Machine, w: Weights<'_, i8>, packed: &mut [f32]) {
        let wide: Vec<f32> = w.data.iter().map(|&weight| f32::from(weight)).collect();
        self.pack_f32(machine, w.with_data(&wide), packed);
    }

    /// Sums of an image whose number for 0 is `zero`; `finished` takes them, they are nowhere else.
    pub(in crate::kernels) fn run_int8(
        &self,
        machine: &Machine,
        x: &[u8],
        zero: u8,
        packed: &[f32],
        finished: &Epilogue<'_>,
    ) {
        let conv = &self.conv;
        let (line_len, row_len) = (conv.input[1] * conv.in_channels, conv.output[1] * conv.out_channels);
        self.each_chunk(machine, &|rows| {
            let lines = conv.input_lines(&rows);
            let (first_x, first_y) = (lines.start * line_len, rows.start * row_len);
            scratch::borrow(lines.len() * line_len, |wide: &mut [f32]| {
                widen(machine.simd, &x[first_x..][..wide.len()], zero, wide);
                scratch::borrow(rows.len() * row_len, |sums: &mut [f32]| {
                    let x = wide.as_ptr().wrapping_sub(first_x);
                    let y = Shared(sums.as_mut_ptr().wrapping_sub(first_y));
                    self.run_sweeps(machine.simd, x, packed, y, rows.clone(), Part::WHOLE);
                    finished(first_y, sums);
                });
            });
        });
    }
}

/// Distances from `zero`.
fn widen(simd: Simd, from: &[u8], zero: u8, to: &mut [f32]) {
    // SAFETY: the entry was chosen for this machine.
    unsafe { simd.entry::<Widen<'_>>()((from, zero, to)) }
}

struct Widen<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Widen<'a> {
    type Args = (&'a [u8], u8, &'a mut [f32]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((from, zero, to): Self::Args) {
        let zero = i32::from(zero);
        for (to, &from) in to.iter_mut().zip(from) {
            *to = (i32::from(from) - zero) as f32;
        }
    }
}
