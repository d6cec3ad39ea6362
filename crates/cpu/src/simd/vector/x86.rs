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

#[inline(always)]
fn first_bits(count: usize) -> __mmask16 {
    ((1u32 << count.min(16)) - 1) as __mmask16
}
