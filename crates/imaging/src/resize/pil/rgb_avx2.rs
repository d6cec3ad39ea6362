//! The horizontal pass for three channels with AVX2, giving exactly what the portable loop gives.
//!
//! Multiplying 32-bit numbers is slow in vectors, multiplying and adding pairs of 16-bit numbers is fast. A weight of 24
//! bits does not fit 16, but its two halves do: sums over the upper and the lower 12 bits are kept separately and put
//! together at the end, which loses nothing.

use super::{FRACTION_BITS, HALF};
use crate::filters::Rows;
use std::arch::x86_64::*;

const LOW_BITS: u32 = 12;
/// Pixels per step.
const GROUP: usize = 4;
/// Bytes loaded per step; the last four belong to pixels beyond the group and are ignored.
const LOADED: usize = 16;

/// Weights of four neighboring inputs: two pairs of upper halves, two pairs of lower halves.
#[derive(Clone, Copy)]
struct WeightGroup {
    upper: u64,
    lower: u64,
}

/// The weights of a whole axis, made ready once per image.
pub(super) struct RgbRows<'a> {
    rows: &'a Rows,
    groups: Vec<WeightGroup>,
    per_output: usize,
    /// Bytes that must be readable from the start of a row.
    reach: usize,
}

impl<'a> RgbRows<'a> {
    /// `None` when the processor has no AVX2.
    pub fn new(rows: &'a Rows, weights: &[i32]) -> Option<RgbRows<'a>> {
        if !std::is_x86_feature_detected!("avx2") {
            return None;
        }
        let per_output = rows.taps().div_ceil(GROUP);
        let mut groups = Vec::with_capacity(rows.output() * per_output);
        for row in weights.chunks_exact(rows.taps()) {
            for group in row.chunks(GROUP) {
                let pack = |part: fn(i32) -> i32| {
                    let halves = group.iter().enumerate();
                    halves.fold(0, |sum, (position, &weight)| sum | (part(weight) as u16 as u64) << (16 * position))
                };
                let upper = pack(|weight| weight >> LOW_BITS);
                let lower = pack(|weight| weight & ((1 << LOW_BITS) - 1));
                groups.push(WeightGroup { upper, lower });
            }
        }
        let last_start = (0..rows.output()).map(|output| rows.start(output)).max().unwrap_or(0);
        let reach = (last_start + (per_output - 1) * GROUP) * 3 + LOADED;
        Some(RgbRows { rows, groups, per_output, reach })
    }

    /// Convolves one row. `source` begins with it and may continue with the rows below. False, and nothing done, when too
    /// little follows: the last rows of an image.
    pub fn convolve(&self, source: &[u8], target: &mut [u8]) -> bool {
        if source.len() < self.reach || target.len() != 3 * self.rows.output() {
            return false;
        }
        // SAFETY: `new` found AVX2, and the lengths that `convolve_row` relies on were just compared.
        unsafe { self.convolve_row(source, target) };
        true
    }

    /// # Safety
    /// The processor has AVX2, `source` has at least `reach` bytes, `target` has three bytes per output.
    #[target_feature(enable = "avx2")]
    unsafe fn convolve_row(&self, source: &[u8], target: &mut [u8]) {
        const NONE: i8 = -1;
        // Two pixels per half: red of both, green of both, blue of both, each byte widened to 16 bits.
        let pairs = _mm256_setr_epi8(
            0, NONE, 3, NONE, 1, NONE, 4, NONE, 2, NONE, 5, NONE, NONE, NONE, NONE, NONE, //
            6, NONE, 9, NONE, 7, NONE, 10, NONE, 8, NONE, 11, NONE, NONE, NONE, NONE, NONE,
        );
        // The first pair of weights for the lower half, the second pair for the upper half.
        let spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
        for (output, pixel) in target.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            let first = self.rows.start(output) * 3;
            let groups = &self.groups[output * self.per_output..][..self.per_output];
            let mut upper = _mm256_setzero_si256();
            let mut lower = _mm256_setzero_si256();
            for (step, group) in groups.iter().enumerate() {
                // SAFETY: `reach` covers the sixteen bytes of the last group of the last output.
                let bytes = unsafe { _mm_loadu_si128(source.as_ptr().add(first + step * GROUP * 3).cast()) };
                let values = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), pairs);
                let upper_weights = _mm256_permutevar8x32_epi32(_mm256_set1_epi64x(group.upper as i64), spread);
                let lower_weights = _mm256_permutevar8x32_epi32(_mm256_set1_epi64x(group.lower as i64), spread);
                upper = _mm256_add_epi32(upper, _mm256_madd_epi16(values, upper_weights));
                lower = _mm256_add_epi32(lower, _mm256_madd_epi16(values, lower_weights));
            }
            let sums = _mm256_add_epi32(_mm256_slli_epi32::<{ LOW_BITS as i32 }>(upper), lower);
            let sums = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
            let rounded = _mm_srai_epi32::<{ FRACTION_BITS as i32 }>(_mm_add_epi32(sums, _mm_set1_epi32(HALF)));
            let words = _mm_packus_epi32(rounded, rounded);
            let bytes = (_mm_cvtsi128_si32(_mm_packus_epi16(words, words)) as u32).to_le_bytes();
            *pixel = [bytes[0], bytes[1], bytes[2]];
        }
    }
}
