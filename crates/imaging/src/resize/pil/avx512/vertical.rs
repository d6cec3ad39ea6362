//! The vertical pass: the same byte of four rows side by side, times four weights.

use super::super::{FRACTION_BITS, HALF};
use super::{DIGITS, QUAD, WIDTH, digits, is_available, joined};
use std::arch::x86_64::*;
use std::ops::Range;

/// Weights of four rows, four bytes for each digit.
type Quad = [i32; DIGITS];

/// The weights of a whole axis, made ready once per image.
pub(in super::super) struct VerticalPass {
    quads: Vec<Quad>,
    /// Where the quads of every output begin, and where the last ones end.
    starts: Vec<usize>,
    taps: usize,
}

impl VerticalPass {
    /// `None` when the processor lacks the instructions or a weight is too large.
    pub fn new(weights: &[i32], taps: usize) -> Option<VerticalPass> {
        if !is_available() {
            return None;
        }
        let (mut quads, mut starts) = (Vec::with_capacity(weights.len().div_ceil(QUAD)), vec![0]);
        for row in weights.chunks_exact(taps) {
            // Rows are filled up with zeros to the length of the longest; four zeros need no work.
            let used = row.iter().rposition(|&weight| weight != 0).map_or(1, |last| last + 1);
            for four in row[..used].chunks(QUAD) {
                let mut quad = [[0u8; QUAD]; DIGITS];
                for (tap, &weight) in four.iter().enumerate() {
                    let digits = digits(weight)?;
                    (0..DIGITS).for_each(|digit| quad[digit][tap] = digits[digit] as u8);
                }
                quads.push(quad.map(i32::from_le_bytes));
            }
            starts.push(quads.len());
        }
        Some(VerticalPass { quads, starts, taps })
    }

    /// One row of the result from the rows that it is made of.
    pub fn run(&self, output: usize, sources: &[&[u8]], target: &mut [u8]) {
        let quads = &self.quads[self.starts[output]..self.starts[output + 1]];
        assert!(sources.len() == self.taps && sources.iter().all(|source| source.len() >= target.len()));
        let whole = target.len() / WIDTH * WIDTH;
        // SAFETY: `new` found the instructions, every source is as long as the target, and quads are made of taps.
        unsafe {
            convolve::<false>(quads, sources, target, 0..whole);
            convolve::<true>(quads, sources, target, whole..target.len());
        }
    }
}

/// The bytes in a range of the target: a whole number of registers, or `MASKED` and less than one.
///
/// # Safety
/// The processor has AVX-512 with BW, VBMI and VNNI; every source is as long as the target; there are no more quads than
/// fours of sources; the range is as above.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn convolve<const MASKED: bool>(quads: &[Quad], sources: &[&[u8]], target: &mut [u8], range: Range<usize>) {
    for first in range.clone().step_by(WIDTH) {
        let mask: __mmask64 = if MASKED { (1 << (range.end - first)) - 1 } else { !0 };
        let mut sums = [[_mm512_setzero_si512(); DIGITS]; 4];
        for sums in &mut sums {
            sums[0] = _mm512_set1_epi32(HALF);
        }
        for (quad, rows) in quads.iter().zip(sources.chunks(QUAD)) {
            // A row that is missing in the last four has weight zero; the first stands in for it.
            let mut four = [_mm512_setzero_si512(); QUAD];
            for (number, bytes) in four.iter_mut().enumerate() {
                let row = rows.get(number).unwrap_or(&rows[0]);
                // SAFETY: the range lies in the row, which is at least as long as the target; the mask keeps to the range.
                *bytes = unsafe {
                    match MASKED {
                        true => _mm512_maskz_loadu_epi8(mask, row.as_ptr().add(first).cast()),
                        false => _mm512_loadu_si512(row.as_ptr().add(first).cast()),
                    }
                };
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
        // SAFETY: the range lies in the target; the mask keeps to the range.
        unsafe { _mm512_mask_storeu_epi8(target.as_mut_ptr().add(first).cast(), mask, packed) };
    }
}
