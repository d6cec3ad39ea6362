//! From the sums of a block of tiles to output pixels.
//!
//! Machines with AMX have AVX512-BF16, which rounds 32 numbers in one instruction; masks cut off channels that do not exist.

use super::tiled_span::PixelRun;
use crate::kernels::amx::{COLUMNS, NARROW};
use crate::kernels::bf16::SharedOutput;
use std::arch::x86_64::*;

/// Where the channels of a block of tiles belong.
pub(super) struct Target {
    /// The first of these channels of the span's first pixel.
    pub to: SharedOutput,
    /// Numbers of a pixel, and from one pixel of a run to the next.
    pub pixel: usize,
    pub distance: usize,
    /// Channels of the block that exist.
    pub columns: usize,
}

impl Target {
    /// Stores rows of [`COLUMNS`] sums as the pixels of a run.
    ///
    /// # Safety
    /// The machine must have AVX512-BF16; the run must be pixels of the result that the caller owns.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub unsafe fn store_wide(&self, sums: &[f32], run: PixelRun) {
        let mask = u32::MAX >> (32 - self.columns);
        for (sums, first) in self.rows::<COLUMNS>(sums, run) {
            // SAFETY: a row has 32 sums; only channels that exist are stored.
            unsafe {
                let (low, high) = (_mm512_loadu_ps(sums.as_ptr()), _mm512_loadu_ps(sums[16..].as_ptr()));
                match self.to {
                    SharedOutput::Bf16(to) => {
                        let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
                        _mm512_mask_storeu_epi16(to.at(first).cast(), mask, both);
                    }
                    SharedOutput::F32(to) => {
                        _mm512_mask_storeu_ps(to.at(first), mask as u16, low);
                        _mm512_mask_storeu_ps(to.at(first + 16), (mask >> 16) as u16, high);
                    }
                }
            }
        }
    }

    /// Stores rows of [`NARROW`] sums.
    ///
    /// # Safety
    /// As [`Target::store_wide`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub unsafe fn store_narrow(&self, sums: &[f32], run: PixelRun) {
        let mask = u16::MAX >> (16 - self.columns);
        for (sums, first) in self.rows::<NARROW>(sums, run) {
            // SAFETY: a row has 16 sums; only channels that exist are stored.
            unsafe {
                let sums = _mm512_loadu_ps(sums.as_ptr());
                match self.to {
                    SharedOutput::Bf16(to) => {
                        let rounded = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(sums));
                        _mm256_mask_storeu_epi16(to.at(first).cast(), mask, rounded);
                    }
                    SharedOutput::F32(to) => _mm512_mask_storeu_ps(to.at(first), mask, sums),
                }
            }
        }
    }

    /// The rows of a run, with the first element of each.
    #[inline(always)]
    fn rows<'a, const N: usize>(
        &self,
        sums: &'a [f32],
        run: PixelRun,
    ) -> impl Iterator<Item = (&'a [f32], usize)> + use<'a, N> {
        let (first, distance) = (run.first * self.pixel, self.distance);
        let rows = sums[run.row * N..][..run.count * N].chunks_exact(N).enumerate();
        rows.map(move |(row, sums)| (sums, first + row * distance))
    }
}
