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
    /// `finish_streams` comes before another thread reads them.
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
    /// Transposes a square of `LANES × LANES` numbers,
    /// with row strides `from_row` and `to_row`.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
        for row in 0..Self::LANES {
            for column in 0..Self::LANES {
                // SAFETY: the caller's promise.
                unsafe { *to.add(column * to_row + row) = *from.add(row * from_row + column) };
            }
        }
    }
    /// Prefetches the cache line at `at`; any address is allowed.
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
    /// Lane by lane: `then` where `self >= limit`, `otherwise` where it is less or either is NaN.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn if_at_least(self, limit: Self, then: Self, otherwise: Self) -> Self {
        // SAFETY: the caller's promise; the arrays hold the lanes of every machine.
        unsafe {
            let [lanes, limit, mut then, otherwise] = [self, limit, then, otherwise].map(|vector| vector.lanes());
            for lane in 0..Self::LANES {
                then[lane] = if lanes[lane] >= limit[lane] { then[lane] } else { otherwise[lane] };
            }
            Self::load(then.as_ptr())
        }
    }
    /// `LANES` bytes as numbers.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> Self {
        let mut lanes = [0.0; MOST_LANES];
        for lane in 0..Self::LANES {
            // SAFETY: the caller's promise.
            lanes[lane] = unsafe { *from.add(lane) } as f32;
        }
        // SAFETY: the caller's promise.
        unsafe { Self::load(lanes.as_ptr()) }
    }
    /// Writes `LANES` numbers from 0 to 255 as bytes.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let lanes = self.lanes();
            for lane in 0..Self::LANES {
                *to.add(lane) = lanes[lane] as u8;
            }
        }
    }
    /// The numbers, followed by zeros.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn lanes(self) -> [f32; MOST_LANES] {
        let mut lanes = [0.0; MOST_LANES];
        // SAFETY: the caller's promise; the array holds the lanes of every machine.
        unsafe { self.store(lanes.as_mut_ptr()) };
        lanes
    }
}

/// Numbers in the widest register.
const MOST_LANES: usize = 16;

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
mod x86;

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
