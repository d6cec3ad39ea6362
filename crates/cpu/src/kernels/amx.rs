//! Products of bf16 matrices in AMX tile registers: four tiles of 16 × 16 sums at a time.
//!
//! A tile register holds 16 rows of 64 bytes. A's tiles are loaded directly from its rows, which have a constant stride. B is
//! packed so that a row holds 16 columns of two consecutive steps of the reduced axis, which is what the instruction
//! multiplies. The compiler has no stable intrinsics for this unit, hence the assembly.

pub(super) mod split;

use crate::simd::Vector;
use std::arch::asm;
use std::cell::Cell;

/// Rows of the result in one block.
pub(super) const ROWS: usize = 32;
/// Columns of the result in one block.
pub(super) const COLUMNS: usize = 32;
/// Steps of the reduced axis in a tile at most.
pub(super) const MAX_STEPS: usize = 32;
/// Numbers of packed B per block of steps: two tiles.
pub(super) const BLOCK_LEN: usize = 2 * 16 * 32;

/// What is multiplied, and where the sums go: four tiles of them.
#[repr(C)]
pub(super) struct Products {
    /// The first row of each tile of A; [`Tiles::square`] reads two of them.
    pub a: [*const u16; 4],
    /// Where each tile of C lies.
    pub c: [*mut f32; 4],
    /// Bytes of A that a block of steps takes.
    pub step_bytes: usize,
    /// Blocks of steps in a segment; at least one.
    pub blocks: usize,
    /// 1 to add to what C holds, 0 to overwrite it.
    pub accumulate: usize,
    /// Distance between A's rows in bytes.
    pub a_stride: usize,
    /// For each segment of the reduced axis: what to add to the pointers of A, in bytes.
    pub segments: *const usize,
    /// Segments; at least one.
    pub segment_count: usize,
    /// Packed B, [`BLOCK_LEN`] numbers per block of steps, in order; [`Tiles::column`] reads the first half of each.
    pub b: *const u16,
    /// Distance between the rows of C in bytes.
    pub c_stride: usize,
    /// What [`Tiles::square`] prefetches into the second-level cache.
    pub ahead: Ahead,
}

/// Memory that is read soon.
#[repr(C)]
pub(super) struct Ahead {
    /// What is prefetched next.
    from: Cell<*const u16>,
    /// Cache lines per block of steps.
    lines: usize,
}

impl Ahead {
    pub fn nothing() -> Ahead {
        Ahead { from: Cell::new(std::ptr::null()), lines: 0 }
    }

    /// Prefetches all of `numbers` during `blocks` blocks of steps.
    pub fn of(numbers: &[u16], blocks: usize) -> Ahead {
        const LINE: usize = 64;
        let lines = std::mem::size_of_val(numbers).div_ceil(LINE);
        Ahead { from: Cell::new(numbers.as_ptr()), lines: lines.div_ceil(blocks.max(1)) }
    }
}

/// The four tiles of `ROWS × COLUMNS` sums with a row stride of `stride` numbers.
pub(super) fn quarters(c: *mut f32, stride: usize) -> [*mut f32; 4] {
    [0, NARROW, 16 * stride, 16 * stride + NARROW].map(|first| c.wrapping_add(first))
}

/// Columns of one tile.
pub(super) const NARROW: usize = 16;

/// Writes 16 pairs, one number of each row.
///
/// # Safety
/// 16 numbers lie behind both rows and 32 behind `to`; the machine has AVX-512, which tiles imply.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) unsafe fn interleave(first: *const u16, second: *const u16, to: *mut u16) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe {
        let [low, high] = [first, second].map(|row| _mm512_cvtepu16_epi32(_mm256_loadu_si256(row.cast())));
        _mm512_storeu_si512(to.cast(), _mm512_or_si512(low, _mm512_slli_epi32::<16>(high)));
    }
}

/// Transposes 16 × 16 numbers of 32 bits, or pairs of 16.
///
/// # Safety
/// 16 rows of 16 numbers lie behind both pointers, with these strides.
#[inline(always)]
pub(super) unsafe fn transpose_pairs<V: Vector>(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
    const SIDE: usize = 16;
    for row in (0..SIDE).step_by(V::LANES) {
        for column in (0..SIDE).step_by(V::LANES) {
            // SAFETY: the caller's promise.
            unsafe { V::transpose(from.add(row * from_row + column), from_row, to.add(column * to_row + row), to_row) };
        }
    }
}

/// Sums over all blocks of steps of all segments; the lines multiply one block and step on to the next.
macro_rules! sum_products {
    ($products:expr, $($line:literal),*) => {
        asm!(
            "cmp qword ptr [{products} + 80], 0",
            "jne 4f",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "jmp 2f",
            "4:",
            "mov {a0}, [{products} + 32]",
            "mov {a1}, [{products} + 40]",
            "mov {a2}, [{products} + 48]",
            "mov {a3}, [{products} + 56]",
            "tileloadd tmm0, [{a0} + {c_stride} * 1]",
            "tileloadd tmm1, [{a1} + {c_stride} * 1]",
            "tileloadd tmm2, [{a2} + {c_stride} * 1]",
            "tileloadd tmm3, [{a3} + {c_stride} * 1]",
            "2:",
            "mov {a0}, [{segments}]",
            "mov {a1}, {a0}",
            "mov {a2}, {a0}",
            "mov {a3}, {a0}",
            "add {a0}, [{products}]",
            "add {a1}, [{products} + 8]",
            "add {a2}, [{products} + 16]",
            "add {a3}, [{products} + 24]",
            "mov {blocks}, [{products} + 72]",
            "3:",
            $($line,)*
            "add {b}, 2048",
            "dec {blocks}",
            "jnz 3b",
            "add {segments}, 8",
            "dec {left}",
            "jnz 2b",
            "mov {a0}, [{products} + 32]",
            "mov {a1}, [{products} + 40]",
            "mov {a2}, [{products} + 48]",
            "mov {a3}, [{products} + 56]",
            "tilestored [{a0} + {c_stride} * 1], tmm0",
            "tilestored [{a1} + {c_stride} * 1], tmm1",
            "tilestored [{a2} + {c_stride} * 1], tmm2",
            "tilestored [{a3} + {c_stride} * 1], tmm3",
            products = in(reg) $products,
            segments = inout(reg) $products.segments => _,
            left = inout(reg) $products.segment_count => _,
            a_stride = in(reg) $products.a_stride,
            b = inout(reg) $products.b => _,
            c_stride = in(reg) $products.c_stride,
            row = in(reg) 64usize,
            a0 = out(reg) _,
            a1 = out(reg) _,
            a2 = out(reg) _,
            a3 = out(reg) _,
            blocks = out(reg) _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        )
    };
}

/// The tile shapes of a thread, until it is dropped.
pub(super) struct Tiles;

#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Tiles {
    /// Configures this thread's tiles for blocks of `steps` steps of the reduced axis (even, at most [`MAX_STEPS`]).
    ///
    /// # Safety
    /// The machine must have AMX and the kernel must have granted it ([`crate::simd::Bf16Unit::Amx`]).
    pub unsafe fn configure(steps: usize) -> Tiles {
        let mut row_bytes = [0; 16];
        let mut rows = [0; 16];
        // Tiles 0 to 3 are the sums, 4 and 5 hold A, 6 and 7 hold B.
        row_bytes[..8].copy_from_slice(&[64, 64, 64, 64, 2 * steps as u16, 2 * steps as u16, 64, 64]);
        rows[..8].copy_from_slice(&[16, 16, 16, 16, 16, 16, steps as u8 / 2, steps as u8 / 2]);
        let configuration = Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the configuration is valid for palette 1; the caller vouches for the unit.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, readonly)) };
        Tiles
    }

    /// `c = Σ a · b`, or `c += Σ a · b`: two tiles of A against two of B, C's tiles as [`quarters`] has them.
    ///
    /// # Safety
    /// All pointers must be valid as described at [`Products`], with 16 rows behind each pointer of A and C.
    pub unsafe fn square(&self, products: &Products) {
        // SAFETY: the tiles are configured (`self` exists on this thread); the caller vouches for the pointers.
        unsafe {
            sum_products!(
                products,
                "tileloadd tmm4, [{a0} + {a_stride} * 1]",
                "tileloadd tmm6, [{b} + {row} * 1]",
                "tileloadd tmm7, [{b} + {row} * 1 + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{a1} + {a_stride} * 1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a0}, [{products} + 64]",
                "add {a1}, [{products} + 64]",
                "mov {a2}, [{products} + 128]",
                "mov {a3}, [{products} + 136]",
                "test {a3}, {a3}",
                "jz 6f",
                "5:",
                "prefetcht1 [{a2}]",
                "add {a2}, 64",
                "dec {a3}",
                "jnz 5b",
                "mov [{products} + 128], {a2}",
                "6:"
            );
        }
    }

    /// [`Tiles::square`] of 8-bit numbers, without a sign in A and with one in B: a step is two of them, C holds 32-bit integers,
    /// and four steps of a column lie beside each other in B.
    ///
    /// # Safety
    /// As [`Tiles::square`]; the machine must have [`crate::simd::Int8Unit::Amx`].
    pub unsafe fn square_int8(&self, products: &Products) {
        // SAFETY: the tiles are configured (`self` exists on this thread); the caller vouches for the pointers.
        unsafe {
            sum_products!(
                products,
                "tileloadd tmm4, [{a0} + {a_stride} * 1]",
                "tileloadd tmm6, [{b} + {row} * 1]",
                "tileloadd tmm7, [{b} + {row} * 1 + 1024]",
                "tdpbusd tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{a1} + {a_stride} * 1]",
                "tdpbusd tmm1, tmm4, tmm7",
                "tdpbusd tmm2, tmm5, tmm6",
                "tdpbusd tmm3, tmm5, tmm7",
                "add {a0}, [{products} + 64]",
                "add {a1}, [{products} + 64]"
            );
        }
    }

    /// The same for four tiles of A against one of B, for results at most [`NARROW`] columns wide.
    ///
    /// # Safety
    /// As [`Tiles::square`].
    pub unsafe fn column(&self, products: &Products) {
        // SAFETY: the tiles are configured (`self` exists on this thread); the caller vouches for the pointers.
        unsafe {
            sum_products!(
                products,
                "tileloadd tmm6, [{b} + {row} * 1]",
                "tileloadd tmm4, [{a0} + {a_stride} * 1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{a1} + {a_stride} * 1]",
                "tdpbf16ps tmm1, tmm5, tmm6",
                "tileloadd tmm4, [{a2} + {a_stride} * 1]",
                "tdpbf16ps tmm2, tmm4, tmm6",
                "tileloadd tmm5, [{a3} + {a_stride} * 1]",
                "tdpbf16ps tmm3, tmm5, tmm6",
                "add {a0}, [{products} + 64]",
                "add {a1}, [{products} + 64]",
                "add {a2}, [{products} + 64]",
                "add {a3}, [{products} + 64]"
            );
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: a thread whose tiles were configured may release them; the kernel then saves less per switch.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
