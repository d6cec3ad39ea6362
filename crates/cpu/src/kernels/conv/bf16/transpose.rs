//! Turning pixels of channels into channels of pixels, 16 by 16 numbers of 16 bits.

use crate::simd::{Level, Simd, prefetch};
use std::arch::x86_64::*;
use std::ops::Range;

/// Writes channel `channels.start + c` of the pixels behind `pixels` to row `c` of `transposed`, `stride` numbers per row.
///
/// # Panics
/// When `transposed` is too small, or the machine has no AVX-512 (which AMX implies).
pub(super) fn transpose_block(
    simd: Simd,
    pixels: &[*const u16],
    channels: Range<usize>,
    transposed: &mut [u16],
    stride: usize,
) {
    assert!(simd.level() == Level::Avx512 && pixels.len() <= stride && pixels.len().is_multiple_of(16));
    assert!(channels.len().next_multiple_of(16) * stride <= transposed.len());
    let mut groups = pixels.chunks_exact(16).enumerate().peekable();
    while let Some((group, pixels)) = groups.next() {
        let next = groups.peek().map_or(&[][..], |(_, pixels)| pixels);
        for first in (0..channels.len()).step_by(16) {
            if first.is_multiple_of(32) {
                next.iter().for_each(|pixel| prefetch(pixel.wrapping_add(channels.start + first).cast()));
            }
            let to = transposed[first * stride + 16 * group..].as_mut_ptr();
            let count = 16.min(channels.len() - first);
            let mut rows = [std::ptr::null(); 16];
            let mut copy = [[0u16; 16]; 16];
            for (row, pixel) in pixels.iter().enumerate() {
                rows[row] = pixel.wrapping_add(channels.start + first);
                if count < 16 {
                    // SAFETY: the pixel has the channels of the range; what follows them may not exist.
                    unsafe { std::ptr::copy_nonoverlapping(rows[row], copy[row].as_mut_ptr(), count) };
                    rows[row] = copy[row].as_ptr();
                }
            }
            // SAFETY: 16 numbers lie behind each row, 16 rows of 16 numbers behind `to`; the level was checked.
            unsafe { transpose_16x16(&rows, to, stride) };
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn transpose_16x16(rows: &[*const u16; 16], to: *mut u16, stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        // Within each 128-bit half, eight rows by eight columns; then the halves are put together.
        let upper = transpose_halves(std::array::from_fn(|row| _mm256_loadu_si256(rows[row].cast())));
        let lower = transpose_halves(std::array::from_fn(|row| _mm256_loadu_si256(rows[row + 8].cast())));
        for column in 0..8 {
            let (a, b) = (upper[column], lower[column]);
            _mm256_storeu_si256(to.add(column * stride).cast(), _mm256_permute2x128_si256::<0x20>(a, b));
            _mm256_storeu_si256(to.add((column + 8) * stride).cast(), _mm256_permute2x128_si256::<0x31>(a, b));
        }
    }
}

/// Result `c` holds column `c` in its lower half and column `c + 8` in its upper half.
#[target_feature(enable = "avx2")]
fn transpose_halves(rows: [__m256i; 8]) -> [__m256i; 8] {
    let mut pairs = [_mm256_setzero_si256(); 8];
    let mut fours = pairs;
    let mut eights = pairs;
    for pair in 0..4 {
        pairs[pair] = _mm256_unpacklo_epi16(rows[2 * pair], rows[2 * pair + 1]);
        pairs[pair + 4] = _mm256_unpackhi_epi16(rows[2 * pair], rows[2 * pair + 1]);
    }
    for half in 0..2 {
        let from = &pairs[4 * half..4 * half + 4];
        fours[4 * half] = _mm256_unpacklo_epi32(from[0], from[1]);
        fours[4 * half + 1] = _mm256_unpackhi_epi32(from[0], from[1]);
        fours[4 * half + 2] = _mm256_unpacklo_epi32(from[2], from[3]);
        fours[4 * half + 3] = _mm256_unpackhi_epi32(from[2], from[3]);
    }
    for half in 0..2 {
        let from = &fours[4 * half..4 * half + 4];
        eights[4 * half] = _mm256_unpacklo_epi64(from[0], from[2]);
        eights[4 * half + 1] = _mm256_unpackhi_epi64(from[0], from[2]);
        eights[4 * half + 2] = _mm256_unpacklo_epi64(from[1], from[3]);
        eights[4 * half + 3] = _mm256_unpackhi_epi64(from[1], from[3]);
    }
    eights
}
