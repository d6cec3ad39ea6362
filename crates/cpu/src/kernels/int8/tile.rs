//! Products of 32 windows with 32 output channels, by each of the machine's units.

use crate::kernels::Shared;
#[cfg(target_arch = "x86_64")]
use crate::simd::Int8Unit;
use crate::simd::{Kernel, Simd, Vector};
use std::marker::PhantomData;

/// Windows of a square.
pub(super) const ROWS: usize = 32;
/// Output channels of a square, and of a panel of weights.
pub(super) const COLUMNS: usize = 32;
/// Sums of a square.
pub(super) const SQUARE: usize = ROWS * COLUMNS;
/// Output channels of half a panel.
const HALF: usize = COLUMNS / 2;

/// What multiplies, set up for blocks of so many steps on this thread.
pub(super) enum Unit {
    Plain(Simd),
    #[cfg(target_arch = "x86_64")]
    Vnni,
    #[cfg(target_arch = "x86_64")]
    Amx(crate::kernels::amx::Tiles),
}

/// Tiles take longer to be set up and emptied than to multiply so few steps.
#[cfg(target_arch = "x86_64")]
const FEW_STEPS: usize = 128;

impl Unit {
    /// For windows of so many blocks of steps.
    #[cfg(target_arch = "x86_64")]
    pub fn configure(simd: Simd, blocks: usize, steps: usize) -> Unit {
        match simd.int8() {
            Int8Unit::Portable => Unit::Plain(simd),
            Int8Unit::Vnni => Unit::Vnni,
            Int8Unit::Amx if blocks * steps < FEW_STEPS => Unit::Vnni,
            // SAFETY: the machine has the unit; two steps of 8 bits are one of those that tiles are configured for.
            Int8Unit::Amx => Unit::Amx(unsafe { crate::kernels::amx::Tiles::configure(steps / 2) }),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn configure(simd: Simd, _: usize, _: usize) -> Unit {
        Unit::Plain(simd)
    }

    /// Blocks of steps that are multiplied at a time: tiles are so fast that a panel should come from the first-level cache.
    pub fn blocks_at_once(&self) -> usize {
        const CACHED: usize = 8;
        match self {
            #[cfg(target_arch = "x86_64")]
            Unit::Amx(_) => CACHED,
            _ => usize::MAX,
        }
    }

    /// Computes a square whose sums, with the start of each channel, go to f32 rows with a distance of `to_stride` numbers. False if
    /// this unit has to [store](store) what [`Unit::square`] computes.
    ///
    /// # Safety
    /// As [`Unit::square`] and [`store`].
    pub unsafe fn finished_square(
        &self,
        a: *const u8,
        stride: usize,
        b: &[u8],
        sizes: [usize; 3],
        starts: &[i32],
        (to, to_stride): (*mut f32, usize),
    ) -> bool {
        match self {
            // SAFETY: the caller's promise; the unit exists only where the machine has it.
            #[cfg(target_arch = "x86_64")]
            Unit::Vnni => unsafe { vnni::square(a, stride, b, sizes, starts, to, to_stride) },
            _ => {
                let _ = (a, stride, b, sizes, starts, to, to_stride);
                return false;
            }
        }
        #[allow(unreachable_code, reason = "only machines with the unit come here")]
        true
    }

    /// `c = Σ a · b`, or `c += Σ a · b`: rows of A, `stride` bytes apart, with blocks of a panel, each of so many steps. Of the rows
    /// of C only the first `live` mean something, of its columns as many as there are.
    ///
    /// # Safety
    /// 32 rows must be readable behind `a`, each with the steps of all blocks.
    pub unsafe fn square(
        &self,
        a: *const u8,
        stride: usize,
        b: &[u8],
        [steps, live, columns]: [usize; 3],
        accumulate: bool,
        c: &mut [i32],
    ) {
        let square = Square { a, stride, b, steps, live, columns, accumulate, c };
        // SAFETY: the caller's promise; the unit exists only where the machine has it.
        unsafe {
            match self {
                Unit::Plain(simd) => simd.entry::<Plain<'_>>()(square),
                #[cfg(target_arch = "x86_64")]
                Unit::Vnni => unreachable!("it stores its squares itself"),
                #[cfg(target_arch = "x86_64")]
                Unit::Amx(tiles) => in_tiles(tiles, square),
            }
        }
    }
}

struct Square<'a> {
    a: *const u8,
    stride: usize,
    b: &'a [u8],
    steps: usize,
    live: usize,
    columns: usize,
    accumulate: bool,
    c: &'a mut [i32],
}

/// Every product by itself, in loops that the compiler can make vectors of.
struct Plain<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Plain<'a> {
    type Args = Square<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(square: Square<'a>) {
        let Square { a, stride, b, steps, live, columns, accumulate, c } = square;
        for (row, c) in c.chunks_exact_mut(COLUMNS).take(live).enumerate() {
            for half in 0..columns.div_ceil(HALF) {
                let c = &mut c[half * HALF..][..HALF];
                let mut sums = [0i32; HALF];
                if accumulate {
                    sums.copy_from_slice(c);
                }
                for (block, b) in b.chunks_exact(super::BLOCK_LEN).enumerate() {
                    let b = &b[half * (super::BLOCK_LEN / 2)..][..steps * HALF];
                    for (quad, b) in b.chunks_exact(4 * HALF).enumerate() {
                        // SAFETY: the caller's promise.
                        let x: [u8; 4] =
                            unsafe { a.add(row * stride + block * steps + 4 * quad).cast::<[u8; 4]>().read() };
                        let x = x.map(i32::from);
                        for (sum, b) in sums.iter_mut().zip(b.as_chunks::<4>().0) {
                            let products: [i32; 4] = std::array::from_fn(|step| x[step] * i32::from(b[step] as i8));
                            *sum += products.iter().sum::<i32>();
                        }
                    }
                }
                c.copy_from_slice(&sums);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn in_tiles(tiles: &crate::kernels::amx::Tiles, square: Square<'_>) {
    use crate::kernels::amx::{Ahead, Products, quarters};
    let Square { a, stride, b, steps, accumulate, c, .. } = square;
    let second = a.wrapping_add(16 * stride);
    let products = Products {
        a: [a.cast(), second.cast(), second.cast(), second.cast()],
        c: quarters(c.as_mut_ptr().cast(), COLUMNS),
        step_bytes: steps,
        blocks: b.len() / super::BLOCK_LEN,
        accumulate: accumulate as usize,
        a_stride: stride,
        segments: &0,
        segment_count: 1,
        b: b.as_ptr().cast(),
        c_stride: 4 * COLUMNS,
        ahead: Ahead::nothing(),
    };
    // SAFETY: the caller's promise; C is a square of 32 × 32 numbers.
    unsafe { tiles.square_int8(&products) };
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use super::super::BLOCK_LEN;
    use super::HALF;
    use crate::kernels::Shared;
    use std::arch::x86_64::*;

    /// Rows whose sums are in registers at the same time.
    const TALL: usize = 8;

    /// # Safety
    /// As [`super::Unit::finished_square`]; the machine must have AVX512-VNNI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub unsafe fn square(
        a: *const u8,
        stride: usize,
        b: &[u8],
        [steps, live, columns]: [usize; 3],
        starts: &[i32],
        to: *mut f32,
        to_stride: usize,
    ) {
        for first in (0..live).step_by(TALL) {
            let sizes = [steps, TALL.min(live - first), columns];
            let (a, to) = (a.wrapping_add(first * stride), Shared(to).at(first * to_stride));
            // SAFETY: the caller's promise.
            unsafe {
                match columns > HALF {
                    true => rows::<2>(a, stride, b, sizes, starts, to, to_stride),
                    false => rows::<1>(a, stride, b, sizes, starts, to, to_stride),
                }
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn rows<const HALVES: usize>(
        a: *const u8,
        stride: usize,
        b: &[u8],
        [steps, live, columns]: [usize; 3],
        starts: &[i32],
        to: *mut f32,
        to_stride: usize,
    ) {
        // SAFETY: rows lie behind `a`, also those beyond the last one; a block has rows of 16 channels for all steps in each half;
        // only sums that exist are stored.
        unsafe {
            let mut sums = [[_mm512_setzero_si512(); HALVES]; TALL];
            for half in 0..HALVES {
                let start = _mm512_loadu_si512(starts.as_ptr().add(half * HALF).cast());
                for row in 0..TALL {
                    sums[row][half] = start;
                }
            }
            let mut a = a;
            for b in b.chunks_exact(BLOCK_LEN) {
                let mut b = b.as_ptr();
                for quad in (0..steps).step_by(4) {
                    let mut weights = [_mm512_setzero_si512(); HALVES];
                    for half in 0..HALVES {
                        weights[half] = _mm512_loadu_si512(b.add(half * (BLOCK_LEN / 2)).cast());
                    }
                    b = b.add(4 * HALF);
                    for row in 0..TALL {
                        let x = _mm512_set1_epi32(a.add(row * stride + quad).cast::<i32>().read_unaligned());
                        for half in 0..HALVES {
                            sums[row][half] = _mm512_dpbusd_epi32(sums[row][half], x, weights[half]);
                        }
                    }
                }
                a = a.add(steps);
            }
            for row in 0..TALL {
                if row == live {
                    break;
                }
                for half in 0..HALVES {
                    let mask = (u32::MAX >> (32 - columns) >> (half * HALF)) as u16;
                    let to = to.add(row * to_stride + half * HALF);
                    _mm512_mask_storeu_ps(to, mask, _mm512_cvtepi32_ps(sums[row][half]));
                }
            }
        }
    }
}

/// Writes the sums of a square, each with the start of its channel, as f32 rows with a distance of `stride` numbers.
///
/// # Safety
/// The rows must exist behind `to` and belong to the caller.
pub(super) unsafe fn store(
    simd: Simd,
    c: &[i32],
    starts: &[i32],
    [rows, columns]: [usize; 2],
    to: *mut f32,
    stride: usize,
) {
    let stored = Stored { c, starts, rows, columns, to: Shared(to), stride };
    // SAFETY: the entry was chosen for this machine; the rest is the caller's promise.
    unsafe { simd.entry::<Store<'_>>()(stored) };
}

struct Stored<'a> {
    c: &'a [i32],
    starts: &'a [i32],
    rows: usize,
    columns: usize,
    to: Shared<f32>,
    stride: usize,
}

struct Store<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Store<'a> {
    type Args = Stored<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(stored: Stored<'a>) {
        let Stored { c, starts, rows, columns, to, stride } = stored;
        let starts: &[i32; COLUMNS] = starts.try_into().unwrap_or_else(|_| unreachable!("a panel"));
        for (row, c) in c.as_chunks::<COLUMNS>().0.iter().take(rows).enumerate() {
            // In memory that nothing else points to, so that the compiler makes vectors of it.
            let mut sums = [0.0f32; COLUMNS];
            for column in 0..COLUMNS {
                sums[column] = c[column].wrapping_add(starts[column]) as f32;
            }
            for column in (0..columns).step_by(V::LANES) {
                // SAFETY: the caller's promise; V's instruction set is enabled.
                unsafe {
                    let (sums, to) = (V::load(sums.as_ptr().add(column)), to.at(row * stride + column));
                    match column + V::LANES <= columns {
                        true => sums.store(to),
                        false => sums.store_first(to, columns - column),
                    }
                }
            }
        }
    }
}
