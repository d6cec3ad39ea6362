//! The loops over pixels that compilers do not vectorize: loads from positions that a table gives.

use super::{Columns, Spots};
use crate::lanes::Lanes;
use std::arch::x86_64::*;

/// Bytes of two neighboring pixels as pairs of 16-bit numbers, channel by channel.
const PAIRS: [i8; 16] = [0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1];

/// Sums of as many outputs as are done four at a time; how many that are.
pub(super) fn sum_columns(row: &[u8], Columns { offsets, weights, pixels }: &Columns, sums: &mut [[i16; 4]]) -> usize {
    let count = offsets.len().min(weights.len()).min(sums.len()) / 4 * 4;
    if !std::is_x86_feature_detected!("avx2") || row.len() < 3 * pixels.end + 16 {
        return 0;
    }
    // SAFETY: the processor has AVX2, every offset lies before the end of `pixels` and is followed by 16 bytes of
    // the row, and `count` elements of the other slices exist.
    unsafe { sum_four_columns(row.as_ptr(), &offsets[..count], &weights[..count], &mut sums[..count]) };
    count
}

/// # Safety
/// Every offset must be followed by 16 readable bytes; the slices must have the same length, a multiple of four.
#[target_feature(enable = "avx2")]
unsafe fn sum_four_columns(row: *const u8, offsets: &[u32], weights: &[[i16; 8]], sums: &mut [[i16; 4]]) {
    // SAFETY: the constant has 16 bytes.
    let pairs = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(PAIRS.as_ptr().cast()) });
    let groups = offsets.as_chunks::<4>().0.iter().zip(weights.as_chunks::<4>().0).zip(sums.as_chunks_mut::<4>().0);
    for ((offsets, weights), sums) in groups {
        // SAFETY: the caller promises 16 bytes after each offset; a weight has 16 bytes and four sums have 32.
        unsafe {
            let pixel = |which: usize| _mm_loadu_si128(row.add(offsets[which] as usize).cast());
            let weight = |which: usize| _mm_loadu_si128(weights[which].as_ptr().cast());
            let two = |low: usize, high: usize| {
                let pixels = _mm256_shuffle_epi8(_mm256_set_m128i(pixel(high), pixel(low)), pairs);
                let products = _mm256_madd_epi16(pixels, _mm256_set_m128i(weight(high), weight(low)));
                _mm256_srai_epi32::<4>(products)
            };
            // Packing works within halves, so that pixels 0 and 2 go first.
            let packed = _mm256_packs_epi32(two(0, 2), two(1, 3));
            _mm256_storeu_si256(sums.as_mut_ptr().cast(), packed);
        }
    }
}

/// Outputs that are done two at a time; how many that are.
pub(super) fn sample(image: &[u8], stride: usize, spots: &Spots, output: &mut [Lanes]) -> usize {
    let Spots { offsets, columns, rows } = spots;
    let count = offsets.len().min(columns.len()).min(rows.len()).min(output.len()) / 2 * 2;
    let reach = offsets.iter().max().map_or(0, |&offset| offset as usize + stride + 16);
    if !std::is_x86_feature_detected!("avx2") || image.len() < reach {
        return 0;
    }
    let pairs = offsets.as_chunks::<2>().0.iter().zip(columns.as_chunks().0).zip(rows.as_chunks().0);
    let spots = pairs.map(|((&offsets, &columns), &rows)| Pair { offsets, columns, rows });
    // SAFETY: the processor has AVX2, and every offset is followed by a row and 16 bytes of the image.
    unsafe { sample_pairs(image.as_ptr(), stride, spots, &mut output[..count]) };
    count
}

/// Where two outputs lie.
struct Pair {
    offsets: [u32; 2],
    columns: [u32; 2],
    rows: [u32; 2],
}

/// # Safety
/// Every offset must be followed by `stride` + 16 readable bytes.
#[target_feature(enable = "avx2")]
unsafe fn sample_pairs(image: *const u8, stride: usize, spots: impl Iterator<Item = Pair>, output: &mut [Lanes]) {
    // SAFETY: the constant has 16 bytes.
    let pairs = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(PAIRS.as_ptr().cast()) });
    // The weights of the upper rows of both outputs, four times each, then those of the lower ones.
    let upper = _mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 4, 5, 4, 5, 4, 5, 4, 5);
    let spread = _mm256_set_m128i(_mm_add_epi8(upper, _mm_set1_epi8(2)), upper);
    for (Pair { offsets, columns, rows }, output) in spots.zip(output.as_chunks_mut::<2>().0) {
        // The upper pair in the lower half of a vector, the lower pair in the upper half.
        let sums = |which: usize| {
            // SAFETY: the caller promises a row and 16 bytes after each offset.
            let [upper, lower] = unsafe {
                let first = image.add(offsets[which] as usize);
                [_mm_loadu_si128(first.cast()), _mm_loadu_si128(first.add(stride).cast())]
            };
            let pixels = _mm256_shuffle_epi8(_mm256_set_m128i(lower, upper), pairs);
            _mm256_srai_epi32::<4>(_mm256_madd_epi16(pixels, _mm256_set1_epi32(columns[which] as i32)))
        };
        let packed = _mm256_packs_epi32(sums(0), sums(1));
        let both = u64::from(rows[0]) | u64::from(rows[1]) << 32;
        let weights = _mm256_shuffle_epi8(_mm256_set1_epi64x(both as i64), spread);
        let products = _mm256_mulhrs_epi16(packed, weights);
        let sum = _mm_add_epi16(_mm256_castsi256_si128(products), _mm256_extracti128_si256::<1>(products));
        let rounded = _mm_srai_epi16::<6>(_mm_add_epi16(sum, _mm_set1_epi16(32)));
        let bytes = _mm_cvtsi128_si64(_mm_packus_epi16(rounded, rounded));
        output.as_flattened_mut().copy_from_slice(&bytes.to_le_bytes());
    }
}
