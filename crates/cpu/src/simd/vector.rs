//! A register full of f32 numbers, the same few operations on every instruction set.

/// One vector register of f32 lanes.
///
/// # Safety
/// Every method may only be called where the instruction set of the type is enabled (inside [`super::Kernel::run`]);
/// pointers must be valid for the lanes that are named, without any demand on alignment.
pub trait Vector: Copy + 'static {
    /// Numbers in a register.
    const LANES: usize;
    /// Rows of 1, 2, 3 and 4 registers each that fit into the register file as sums, with room for operands; 0 where
    /// rows that wide do not pay.
    const TILE_ROWS: [usize; 4];
    /// Whether `f32::mul_add` is an instruction, not a call.
    const FUSED: bool;

    /// All lanes equal.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn splat(value: f32) -> Self;
    /// `LANES` numbers.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn load(from: *const f32) -> Self;
    /// The first `count <= LANES` numbers, zeros in the other lanes.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// Writes `LANES` numbers.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `count <= LANES` numbers.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// Writes `LANES` numbers past the caches, where the machine can: for what is read much later. `to` is a multiple of 64;
    /// [`super::finish_streams`] comes before another thread reads them.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn stream(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { self.store(to) }
    }
    /// `self + a * b`, fused where the instruction set can.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// Asks for the cache line at `at` ahead of its use; any address is allowed.
    #[inline(always)]
    fn prefetch(at: *const f32) {
        let _ = at;
    }
    /// Lane by lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn plus(self, other: Self) -> Self;
    /// Lane by lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn times(self, other: Self) -> Self;
}

/// Four lanes in plain Rust, which compilers turn into whatever the architecture's baseline offers.
#[derive(Clone, Copy)]
pub struct Portable([f32; 4]);

impl Vector for Portable {
    const LANES: usize = 4;
    const TILE_ROWS: [usize; 4] = [6, 6, 0, 0];
    const FUSED: bool = false;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; 4];
        for lane in 0..count.min(4) {
            // SAFETY: the caller's promise.
            lanes[lane] = unsafe { *from.add(lane) };
        }
        Self(lanes)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        for lane in 0..count.min(4) {
            // SAFETY: the caller's promise.
            unsafe { *to.add(lane) = self.0[lane] };
        }
    }
    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] + a.0[lane] * b.0[lane]))
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] + other.0[lane]))
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] * other.0[lane]))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
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
    }

    #[inline(always)]
    fn first_bits(count: usize) -> __mmask16 {
        ((1u32 << count.min(16)) - 1) as __mmask16
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Portable, Vector};
    use std::arch::aarch64::*;

    impl Vector for float32x4_t {
        const LANES: usize = 4;
        const TILE_ROWS: [usize; 4] = [12, 12, 8, 6];
        const FUSED: bool = true;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            // SAFETY: the trait's contract.
            unsafe { vdupq_n_f32(value) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the trait's contract.
            unsafe { vld1q_f32(from) }
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            // SAFETY: the trait's contract.
            unsafe { Self::load(Portable::load_first(from, count).0.as_ptr()) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the trait's contract.
            unsafe { vst1q_f32(to, self) }
        }
        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            let mut lanes = [0.0; 4];
            // SAFETY: the trait's contract.
            unsafe {
                self.store(lanes.as_mut_ptr());
                Portable(lanes).store_first(to, count);
            }
        }
        #[inline(always)]
        unsafe fn plus_product(self, a: Self, b: Self) -> Self {
            // SAFETY: the trait's contract.
            unsafe { vfmaq_f32(self, a, b) }
        }
        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            // SAFETY: the trait's contract.
            unsafe { vaddq_f32(self, other) }
        }
        #[inline(always)]
        unsafe fn times(self, other: Self) -> Self {
            // SAFETY: the trait's contract.
            unsafe { vmulq_f32(self, other) }
        }
    }
}
