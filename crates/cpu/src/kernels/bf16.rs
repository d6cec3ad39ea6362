//! bf16 storage: conversions, and where the result of a product with f32 sums goes.

use super::{Machine, Shared, scratch};
use crate::simd::{Kernel, Simd, Vector};
use half::bf16;
use std::ops::Range;

/// A number as images hold it; kernels that do not multiply are written once for all of them and compute in f32.
pub trait Stored: Copy + Send + Sync + 'static {
    /// Its exact value.
    fn wide(self) -> f32;
    /// The nearest number of this type, ties to even.
    fn rounded(value: f32) -> Self;
    /// Lets `sum` write f32 sums that then become `to`: in place, or by way of working memory.
    fn from_sums(simd: Simd, to: &mut [Self], sum: impl FnOnce(&mut [f32]));
}

impl Stored for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
    #[inline(always)]
    fn rounded(value: f32) -> f32 {
        value
    }
    fn from_sums(_: Simd, to: &mut [f32], sum: impl FnOnce(&mut [f32])) {
        sum(to);
    }
}

impl Stored for bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    #[inline(always)]
    fn rounded(value: f32) -> bf16 {
        let bits = value.to_bits();
        // Half a unit in the last place, or just less than half where the kept part is even: ties go to even.
        let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1))) >> 16;
        let nan = bits >> 16 | 0x40;
        bf16::from_bits(if value.is_nan() { nan } else { rounded } as u16)
    }
    fn from_sums(simd: Simd, to: &mut [bf16], sum: impl FnOnce(&mut [f32])) {
        scratch::borrow(to.len(), |sums: &mut [f32]| {
            sum(sums);
            narrow(simd, sums, to);
        });
    }
}

impl Stored for u8 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn rounded(value: f32) -> u8 {
        value.round_ties_even() as u8
    }
    fn from_sums(_: Simd, to: &mut [u8], sum: impl FnOnce(&mut [f32])) {
        scratch::borrow(to.len(), |sums: &mut [f32]| {
            sum(sums);
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = u8::rounded(*sum));
        });
    }
}

/// Where a product of bf16 operands is stored; the sums themselves are always f32.
#[derive(Debug)]
pub enum Output<'a> {
    /// Rounded to the nearest bf16, ties to even.
    Bf16(&'a mut [bf16]),
    /// As it was summed.
    F32(&'a mut [f32]),
}

impl Output<'_> {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Output::Bf16(values) => values.len(),
            Output::F32(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of the elements.
    pub(crate) fn part(&mut self, range: Range<usize>) -> Output<'_> {
        match self {
            Output::Bf16(values) => Output::Bf16(&mut values[range]),
            Output::F32(values) => Output::F32(&mut values[range]),
        }
    }

    /// The same pointer, for chunks to share.
    pub(super) fn shared(&mut self) -> SharedOutput {
        match self {
            Output::Bf16(values) => SharedOutput::Bf16(Shared(values.as_mut_ptr())),
            Output::F32(values) => SharedOutput::F32(Shared(values.as_mut_ptr())),
        }
    }
}

/// An [`Output`] that several chunks write to, each its own elements.
#[derive(Clone, Copy)]
pub(super) enum SharedOutput {
    Bf16(Shared<bf16>),
    F32(Shared<f32>),
}

impl SharedOutput {
    /// The pointer advanced by some elements.
    pub fn after(self, elements: usize) -> SharedOutput {
        match self {
            SharedOutput::Bf16(to) => SharedOutput::Bf16(Shared(to.at(elements))),
            SharedOutput::F32(to) => SharedOutput::F32(Shared(to.at(elements))),
        }
    }

    /// Stores `values` from element `first` on.
    ///
    /// # Safety
    /// The elements must exist and belong to the calling chunk.
    pub unsafe fn store(self, simd: Simd, first: usize, values: &[f32]) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                SharedOutput::F32(to) => std::ptr::copy_nonoverlapping(values.as_ptr(), to.at(first), values.len()),
                SharedOutput::Bf16(to) => {
                    narrow(simd, values, std::slice::from_raw_parts_mut(to.at(first), values.len()));
                }
            }
        }
    }

    /// Makes the first `len` elements zeros.
    ///
    /// # Safety
    /// As [`SharedOutput::store`].
    pub unsafe fn clear(self, len: usize) {
        // SAFETY: the caller's promise; zero bytes are the number zero.
        unsafe {
            match self {
                SharedOutput::F32(to) => std::ptr::write_bytes(to.at(0), 0, len),
                SharedOutput::Bf16(to) => std::ptr::write_bytes(to.at(0), 0, len),
            }
        }
    }
}

/// Rounds f32 numbers to bf16, ties to even.
pub(super) fn narrow(simd: Simd, from: &[f32], to: &mut [bf16]) {
    // SAFETY: the entry was chosen for this machine.
    unsafe { simd.entry::<Narrow<'_>>()((from, to)) }
}

/// Widens bf16 numbers to f32.
pub(super) fn widen(simd: Simd, from: &[bf16], to: &mut [f32]) {
    // SAFETY: the entry was chosen for this machine.
    unsafe { simd.entry::<Widen<'_>>()((from, to)) }
}

/// Numbers that one thread converts at a time.
const CHUNK: usize = 64 * 1024;

/// [`widen`] by all threads.
pub(crate) fn widen_all(machine: &Machine, from: &[bf16], to: &mut [f32]) {
    let target = Shared(to.as_mut_ptr());
    machine.pool.run(from.len().div_ceil(CHUNK), &|chunk| {
        let from = &from[chunk * CHUNK..((chunk + 1) * CHUNK).min(from.len())];
        // SAFETY: chunks are disjoint ranges of `to`.
        widen(machine.simd, from, unsafe { std::slice::from_raw_parts_mut(target.at(chunk * CHUNK), from.len()) });
    });
}

/// [`narrow`] by all threads.
pub(crate) fn narrow_all(machine: &Machine, from: &[f32], to: &mut [bf16]) {
    let target = Shared(to.as_mut_ptr());
    machine.pool.run(from.len().div_ceil(CHUNK), &|chunk| {
        let from = &from[chunk * CHUNK..((chunk + 1) * CHUNK).min(from.len())];
        // SAFETY: chunks are disjoint ranges of `to`.
        narrow(machine.simd, from, unsafe { std::slice::from_raw_parts_mut(target.at(chunk * CHUNK), from.len()) });
    });
}

struct Narrow<'a>(std::marker::PhantomData<&'a ()>);
struct Widen<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Kernel for Narrow<'a> {
    type Args = (&'a [f32], &'a mut [bf16]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((from, to): Self::Args) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = bf16::rounded(*from);
        }
    }
}

impl<'a> Kernel for Widen<'a> {
    type Args = (&'a [bf16], &'a mut [f32]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((from, to): Self::Args) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.wide();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_agree_with_the_half_crate() {
        let edges = [0.0, -0.0, 1.0, f32::MAX, f32::MIN_POSITIVE, 1e-40, f32::INFINITY, f32::NEG_INFINITY];
        let ties = (0..200).map(|step| f32::from_bits(0x3f80_0000 + step * 0x2000));
        let values: Vec<f32> = edges.into_iter().chain(ties).collect();
        for simd in Simd::all() {
            let mut narrowed = vec![bf16::ZERO; values.len()];
            narrow(simd, &values, &mut narrowed);
            let expected: Vec<bf16> = values.iter().map(|&value| bf16::from_f32(value)).collect();
            assert_eq!(narrowed, expected, "{:?}", simd.level());
            let mut widened = vec![0.0; values.len()];
            widen(simd, &narrowed, &mut widened);
            assert!(widened.iter().zip(&expected).all(|(widened, expected)| *widened == expected.to_f32()));
            narrow(simd, &[f32::NAN], &mut narrowed[..1]);
            assert!(narrowed[0].is_nan());
        }
    }
}
