//! Registers of AVX2 and AVX-512.

use super::Vector;
use std::arch::x86_64::*;

impl Vector for __m256 {
    const LANES: usize = 8;
    const TILE_ROWS: [usize; 4] = [6, 6, 0, 0];
    const FUSED: bool = true;

    #[inline(always)]
    fn prefetch(at: *const f32) {
        // SAFETY: a prefetch of any address is harmless, and every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: the trait's contract; masked-out lanes are not touched.
        unsafe { _mm256_maskload_ps(from, first_lanes(count)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe { _mm256_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe { _mm256_stream_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: the trait's contract; masked-out lanes are not touched.
        unsafe { _mm256_maskstore_ps(to, first_lanes(count), self) }
    }
    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm256_fmadd_ps(a, b, self) }
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm256_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm256_mul_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn if_at_least(self, limit: Self, then: Self, otherwise: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps::<_CMP_GE_OQ>(self, limit)) }
    }
    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        // SAFETY: the trait's contract.
        unsafe {
            let wide = _mm256_cvttps_epi32(self);
            let words = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256::<1>(wide));
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(words, words));
        }
    }
}

/// A mask whose first `count` lanes are set.
#[inline(always)]
unsafe fn first_lanes(count: usize) -> __m256i {
    // SAFETY: called from the methods above, where AVX2 is enabled.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
    }
}

impl Vector for __m512 {
    const LANES: usize = 16;
    const TILE_ROWS: [usize; 4] = [14, 14, 9, 6];
    const FUSED: bool = true;

    #[inline(always)]
    fn prefetch(at: *const f32) {
        // SAFETY: a prefetch of any address is harmless, and every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: the trait's contract; masked-out lanes are not touched.
        unsafe { _mm512_maskz_loadu_ps(first_bits(count), from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe { _mm512_stream_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: the trait's contract; masked-out lanes are not touched.
        unsafe { _mm512_mask_storeu_ps(to, first_bits(count), self) }
    }
    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_fmadd_ps(a, b, self) }
    }
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
        // SAFETY: the trait's contract.
        unsafe {
            let mut rows = [_mm512_setzero_ps(); 16];
            for (row, numbers) in rows.iter_mut().enumerate() {
                *numbers = _mm512_loadu_ps(from.add(row * from_row));
            }
            for (column, numbers) in transpose_quarters(transpose_quads(rows)).into_iter().enumerate() {
                _mm512_storeu_ps(to.add(column * to_row), numbers);
            }
        }
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_mul_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn if_at_least(self, limit: Self, then: Self, otherwise: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(self, limit), otherwise, then) }
    }
    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        // SAFETY: the trait's contract.
        unsafe { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(self))) }
    }
}

/// Turns the squares of four rows by four columns: quarter `q` of register `4 * i + j` then holds column `4 * q + j` of rows
/// `4 * i` to `4 * i + 3`.
#[inline(always)]
unsafe fn transpose_quads(rows: [__m512; 16]) -> [__m512; 16] {
    // SAFETY: called where AVX-512 is enabled.
    unsafe {
        let mut quads = rows;
        for i in [0, 4, 8, 12] {
            let [a, b, c, d] = [rows[i], rows[i + 1], rows[i + 2], rows[i + 3]];
            let (ab, cd) = (_mm512_castps_pd(_mm512_unpacklo_ps(a, b)), _mm512_castps_pd(_mm512_unpacklo_ps(c, d)));
            quads[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
            quads[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
            let (ab, cd) = (_mm512_castps_pd(_mm512_unpackhi_ps(a, b)), _mm512_castps_pd(_mm512_unpackhi_ps(c, d)));
            quads[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
            quads[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
        }
        quads
    }
}

/// Puts the quarters of [`transpose_quads`] together: register `c` is column `c`.
#[inline(always)]
unsafe fn transpose_quarters(quads: [__m512; 16]) -> [__m512; 16] {
    const FIRST_HALF: i32 = 0b01_00_01_00;
    const SECOND_HALF: i32 = 0b11_10_11_10;
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    // SAFETY: called where AVX-512 is enabled.
    unsafe {
        let mut columns = quads;
        for j in 0..4 {
            let [a, b, c, d] = [quads[j], quads[j + 4], quads[j + 8], quads[j + 12]];
            let (ab, cd) = (_mm512_shuffle_f32x4::<FIRST_HALF>(a, b), _mm512_shuffle_f32x4::<FIRST_HALF>(c, d));
            columns[j] = _mm512_shuffle_f32x4::<EVEN>(ab, cd);
            columns[j + 4] = _mm512_shuffle_f32x4::<ODD>(ab, cd);
            let (ab, cd) = (_mm512_shuffle_f32x4::<SECOND_HALF>(a, b), _mm512_shuffle_f32x4::<SECOND_HALF>(c, d));
            columns[j + 8] = _mm512_shuffle_f32x4::<EVEN>(ab, cd);
            columns[j + 12] = _mm512_shuffle_f32x4::<ODD>(ab, cd);
        }
        columns
    }
}

#[inline(always)]
fn first_bits(count: usize) -> __mmask16 {
    ((1u32 << count.min(16)) - 1) as __mmask16
}
