//! The horizontal pass for three channels with AVX2 or AVX-512BW, giving exactly what the portable loop gives.
//!
//! Multiplying 32-bit numbers is slow in vectors, multiplying and adding pairs of 16-bit numbers is fast. A weight of 24
//! bits does not fit 16, but its two halves do: sums over the upper and the lower 12 bits are kept separately and put
//! together at the end, which loses nothing. Each 128 bits of a register belong to a row of their own, so that rows share the
//! weights and nothing is added up across a register.

use super::{FRACTION_BITS, HALF};
use crate::filters::Rows;
use std::arch::x86_64::*;

const LOW_BITS: u32 = 12;
/// Pixels per step.
const GROUP: usize = 4;
/// Bytes loaded per step; the last four belong to pixels beyond the group and are ignored.
const LOADED: usize = 16;
/// Rows at a time.
const ROWS: usize = super::BLOCK;
/// What a shuffle writes a zero for.
const NONE: i8 = -1;
/// Red, green and blue of the first two pixels of a group, each byte widened to 16 bits, and of the next two.
const PAIRS: [[i8; LOADED]; 2] = [
    [0, NONE, 3, NONE, 1, NONE, 4, NONE, 2, NONE, 5, NONE, NONE, NONE, NONE, NONE],
    [6, NONE, 9, NONE, 7, NONE, 10, NONE, 8, NONE, 11, NONE, NONE, NONE, NONE, NONE],
];

/// Weights of four neighboring inputs: two pairs of upper halves, two pairs of lower halves.
#[derive(Clone, Copy)]
struct WeightGroup {
    upper: [i32; 2],
    lower: [i32; 2],
}

/// The weights of a whole axis, made ready once per image.
pub(super) struct RgbRows<'a> {
    rows: &'a Rows,
    groups: Vec<WeightGroup>,
    per_output: usize,
    /// Bytes that must be readable from the start of a row.
    reach: usize,
    has_avx512: bool,
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
                let of = |tap: usize| group.get(tap).copied().unwrap_or(0);
                let pairs =
                    |part: fn(i32) -> i32| [0, 2].map(|tap| i32::from(part(of(tap)) as u16) | part(of(tap + 1)) << 16);
                let upper = pairs(|weight| weight >> LOW_BITS);
                let lower = pairs(|weight| weight & ((1 << LOW_BITS) - 1));
                groups.push(WeightGroup { upper, lower });
            }
        }
        let last_start = (0..rows.output()).map(|output| rows.start(output)).max().unwrap_or(0);
        let reach = (last_start + (per_output - 1) * GROUP) * 3 + LOADED;
        let has_avx512 = std::is_x86_feature_detected!("avx512bw");
        Some(RgbRows { rows, groups, per_output, reach, has_avx512 })
    }

    /// Convolves as many rows as `target` has room for. `source` begins with them, `stride` bytes apart, and may continue.
    pub fn convolve(&self, source: &[u8], stride: usize, target: &mut [u8]) {
        let written = 3 * self.rows.output();
        for (first, target) in target.chunks_mut(ROWS * written).enumerate() {
            let mut targets = target.chunks_exact_mut(written);
            let count = targets.len();
            let row = |number: usize| &source[(first * ROWS + number.min(count - 1)) * stride..];
            // An image ends where it ends; a copy of its last rows may be read beyond that.
            let copies: [Vec<u8>; ROWS] = std::array::from_fn(|number| match row(number) {
                row if row.len() < self.reach => [row, &vec![0; self.reach - row.len()]].concat(),
                _ => Vec::new(),
            });
            let sources = std::array::from_fn(|number| match &copies[number][..] {
                [] => &row(number)[..self.reach],
                copy => copy,
            });
            // A row that is missing is one that is there once more, and its result goes where nobody reads it.
            let mut spare = [const { Vec::new() }; ROWS];
            let targets = spare.each_mut().map(|spare| {
                targets.next().unwrap_or_else(|| {
                    spare.resize(written, 0);
                    spare
                })
            });
            match self.has_avx512 {
                // SAFETY: `new` found AVX-512BW; sources have `reach` bytes and targets three per output.
                true => unsafe { self.convolve_with_avx512(sources, targets) },
                // SAFETY: the same with AVX2.
                false => unsafe { self.convolve_with_avx2(sources, targets) },
            }
        }
    }

    /// # Safety
    /// The processor has AVX2, sources have at least `reach` bytes, targets three bytes per output.
    #[target_feature(enable = "avx2")]
    unsafe fn convolve_with_avx2(&self, sources: [&[u8]; ROWS], targets: [&mut [u8]; ROWS]) {
        // SAFETY: both are sixteen bytes.
        let pairs = PAIRS.map(|pair| unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(pair.as_ptr().cast())) });
        for output in 0..self.rows.output() {
            let groups = &self.groups[output * self.per_output..][..self.per_output];
            let mut sums = [[_mm256_setzero_si256(); 2]; ROWS / 2];
            for (step, group) in groups.iter().enumerate() {
                let first = (self.rows.start(output) + step * GROUP) * 3;
                for (sums, rows) in sums.iter_mut().zip(sources.as_chunks::<2>().0) {
                    // SAFETY: `reach` covers the sixteen bytes of the last group of the last output.
                    let bytes = unsafe {
                        let [low, high] = rows.map(|row| _mm_loadu_si128(row.as_ptr().add(first).cast()));
                        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
                    };
                    for pair in 0..2 {
                        let values = _mm256_shuffle_epi8(bytes, pairs[pair]);
                        for (sum, weights) in sums.iter_mut().zip([group.upper, group.lower]) {
                            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(values, _mm256_set1_epi32(weights[pair])));
                        }
                    }
                }
            }
            for (number, [upper, lower]) in sums.into_iter().enumerate() {
                let sums = _mm256_add_epi32(_mm256_slli_epi32::<{ LOW_BITS as i32 }>(upper), lower);
                let rounded =
                    _mm256_srai_epi32::<{ FRACTION_BITS as i32 }>(_mm256_add_epi32(sums, _mm256_set1_epi32(HALF)));
                let words = _mm256_packus_epi32(rounded, rounded);
                let bytes = _mm256_packus_epi16(words, words);
                let pixels = [_mm256_extract_epi32::<0>(bytes), _mm256_extract_epi32::<4>(bytes)];
                for (row, pixel) in pixels.into_iter().enumerate() {
                    write(targets[2 * number + row], output, pixel.to_le_bytes());
                }
            }
        }
    }

    /// # Safety
    /// The processor has AVX-512BW, sources have at least `reach` bytes, targets three bytes per output.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn convolve_with_avx512(&self, sources: [&[u8]; ROWS], mut targets: [&mut [u8]; ROWS]) {
        // SAFETY: both are sixteen bytes.
        let pairs = PAIRS.map(|pair| unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(pair.as_ptr().cast())) });
        for output in 0..self.rows.output() {
            let groups = &self.groups[output * self.per_output..][..self.per_output];
            let mut sums = [_mm512_setzero_si512(); 2];
            for (step, group) in groups.iter().enumerate() {
                let first = (self.rows.start(output) + step * GROUP) * 3;
                // SAFETY: `reach` covers the sixteen bytes of the last group of the last output.
                let [a, b, c, d] = sources.map(|row| unsafe { _mm_loadu_si128(row.as_ptr().add(first).cast()) });
                let bytes = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
                let bytes = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(bytes, c), d);
                for pair in 0..2 {
                    let values = _mm512_shuffle_epi8(bytes, pairs[pair]);
                    for (sum, weights) in sums.iter_mut().zip([group.upper, group.lower]) {
                        *sum = _mm512_add_epi32(*sum, _mm512_madd_epi16(values, _mm512_set1_epi32(weights[pair])));
                    }
                }
            }
            let [upper, lower] = sums;
            let sums = _mm512_add_epi32(_mm512_slli_epi32::<LOW_BITS>(upper), lower);
            let rounded = _mm512_srai_epi32::<FRACTION_BITS>(_mm512_add_epi32(sums, _mm512_set1_epi32(HALF)));
            // Negative sums are 0; what is above 255 saturates.
            let bytes = _mm512_cvtusepi32_epi8(_mm512_max_epi32(rounded, _mm512_setzero_si512()));
            let mut pixels = [0u8; LOADED];
            // SAFETY: sixteen bytes are written.
            unsafe { _mm_storeu_si128(pixels.as_mut_ptr().cast(), bytes) };
            for (target, &pixel) in targets.iter_mut().zip(pixels.as_chunks().0) {
                write(target, output, pixel);
            }
        }
    }
}

/// Writes a pixel of three bytes; a fourth one goes where the next pixel will be, since one store is faster than three.
#[inline(always)]
fn write(target: &mut [u8], output: usize, pixel: [u8; 4]) {
    let target = &mut target[3 * output..];
    match target.first_chunk_mut() {
        Some(four) => *four = pixel,
        None => target[..3].copy_from_slice(&pixel[..3]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{convolve_row, fixed_weights};
    use super::*;
    use crate::filters::plan;
    use crate::{Filter, Image, Semantics};

    /// Rows of every number that is left over, with both instruction sets, at the end of an image.
    #[test]
    fn both_instruction_sets_give_the_plain_sums() {
        for (height, from, to) in [(1, 1, 9), (3, 5, 7), (4, 40, 13), (6, 300, 224), (9, 23, 23 * 4)] {
            let image = Image::from_fn(height, from, 3, |row, column, channel| {
                ((row * 131) ^ (column * 57) ^ (channel * 91)) as u8
            });
            for filter in [Filter::Bilinear, Filter::Lanczos] {
                let (_, rows) = plan((height, from), (height, to), filter, Semantics::Pil, true).unwrap();
                let weights = fixed_weights(&rows);
                let mut expected = vec![0; height * to * 3];
                for (row, target) in expected.chunks_exact_mut(to * 3).enumerate() {
                    convolve_row::<3>(image.row(row), target, &rows, &weights);
                }
                let Some(mut wide) = RgbRows::new(&rows, &weights) else { return };
                for has_avx512 in [false, wide.has_avx512] {
                    wide.has_avx512 = has_avx512;
                    let mut target = vec![0; height * to * 3];
                    wide.convolve(image.values(), image.stride(), &mut target);
                    assert_eq!(target, expected, "{height} rows, {from} to {to}, {filter}, AVX-512: {has_avx512}");
                }
            }
        }
    }
}
