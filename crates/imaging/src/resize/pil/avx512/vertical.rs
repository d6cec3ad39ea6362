//! The vertical pass: the same byte of four rows side by side, times four weights.

use super::super::{FRACTION_BITS, HALF};
use super::{DIGITS, QUAD, WIDTH, digits, is_available, joined};
use std::arch::x86_64::*;

/// Weights of four rows, four bytes for each digit.
type Quad = [i32; DIGITS];

/// The weights of a whole axis, made ready once per picture.
pub(in super::super) struct VerticalPass {
    quads: Vec<Quad>,
    per_output: usize,
}

impl VerticalPass {
    /// `None` when the processor lacks the instructions or a weight is too large.
    pub fn new(weights: &[i32], taps: usize) -> Option<VerticalPass> {
        if !is_available() {
            return None;
        }
        let per_output = taps.div_ceil(QUAD);
        let mut quads = Vec::with_capacity(weights.len() / taps * per_output);
        for row in weights.chunks_exact(taps) {
            for four in row.chunks(QUAD) {
                let mut quad = [[0u8; QUAD]; DIGITS];
                for (tap, &weight) in four.iter().enumerate() {
                    let digits = digits(weight)?;
                    (0..DIGITS).for_each(|digit| quad[digit][tap] = digits[digit] as u8);
                }
                quads.push(quad.map(i32::from_le_bytes));
            }
        }
        Some(VerticalPass { quads, per_output })
    }

    /// One row of the result from the rows that it is made of.
    pub fn run(&self, output: usize, sources: &[&[u8]], target: &mut [u8]) {
        let quads = &self.quads[output * self.per_output..][..self.per_output];
        assert!(
            sources.iter().all(|source| source.len() >= target.len()) && sources.len().div_ceil(QUAD) == quads.len()
        );
        // SAFETY: `new` found the instructions, and the lengths were just compared.
        unsafe { convolve(quads, sources, target) }
    }
}

/// # Safety
/// The processor has AVX-512 with BW, VBMI and VNNI; every source is as long as the target; there is a quad for every
/// four sources.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn convolve(quads: &[Quad], sources: &[&[u8]], target: &mut [u8]) {
    for first in (0..target.len()).step_by(WIDTH) {
        let left = target.len() - first;
        let mask: __mmask64 = if left >= WIDTH { !0 } else { (1 << left) - 1 };
        let mut sums = [[_mm512_setzero_si512(); DIGITS]; 4];
        for sums in &mut sums {
            sums[0] = _mm512_set1_epi32(HALF);
        }
        for (quad, rows) in quads.iter().zip(sources.chunks(QUAD)) {
            // A row that is missing in the last four has weight zero; the first stands in for it.
            let mut four = [_mm512_setzero_si512(); QUAD];
            for (number, bytes) in four.iter_mut().enumerate() {
                let row = rows.get(number).unwrap_or(&rows[0]);
                // SAFETY: the mask keeps the load inside the row, which is at least as long as the target.
                *bytes = unsafe { _mm512_maskz_loadu_epi8(mask, row.as_ptr().add(first).cast()) };
            }
            let [a, b, c, d] = four;
            let (ab_low, ab_high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
            let bytes = [
                _mm512_unpacklo_epi16(ab_low, cd_low),
                _mm512_unpackhi_epi16(ab_low, cd_low),
                _mm512_unpacklo_epi16(ab_high, cd_high),
                _mm512_unpackhi_epi16(ab_high, cd_high),
            ];
            for digit in 0..DIGITS {
                let weights = _mm512_set1_epi32(quad[digit]);
                for part in 0..4 {
                    sums[part][digit] = _mm512_dpbusd_epi32(sums[part][digit], bytes[part], weights);
                }
            }
        }
        let mut rounded = [_mm512_setzero_si512(); 4];
        for part in 0..4 {
            rounded[part] = _mm512_srai_epi32::<FRACTION_BITS>(joined(sums[part]));
        }
        // Packing undoes what unpacking did to the order.
        let low = _mm512_packus_epi32(rounded[0], rounded[1]);
        let packed = _mm512_packus_epi16(low, _mm512_packus_epi32(rounded[2], rounded[3]));
        // SAFETY: the mask keeps the store inside the target.
        unsafe { _mm512_mask_storeu_epi8(target.as_mut_ptr().add(first).cast(), mask, packed) };
    }
}
