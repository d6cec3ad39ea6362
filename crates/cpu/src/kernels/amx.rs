//! Products of bf16 matrices in AMX tile registers: 32 × 32 sums at a time, in four tiles.
//!
//! A tile register holds 16 rows of 64 bytes. A's tiles are loaded from where its rows lie, equally far apart. B is
//! packed so that a row holds 16 columns of two consecutive steps of the reduced axis, which is what the instruction
//! multiplies. The compiler has no stable intrinsics for this unit, hence the assembly.

use std::arch::asm;

/// Rows of the result in one block.
pub(super) const ROWS: usize = 32;
/// Columns of the result in one block.
pub(super) const COLUMNS: usize = 32;
/// Steps of the reduced axis in a tile at most.
pub(super) const MAX_STEPS: usize = 32;
/// Numbers of packed B per block of steps: two tiles.
pub(super) const BLOCK_LEN: usize = 2 * 16 * 32;

/// Arguments of [`block`].
#[repr(C)]
pub(super) struct Block {
    /// The first rows of A's two tiles.
    pub a: [*const u16; 2],
    /// Distance between A's rows in bytes.
    pub a_stride: usize,
    /// For each segment of the reduced axis: what to add to the pointers of A, in bytes.
    pub segments: *const usize,
    /// Segments; at least one.
    pub segment_count: usize,
    /// Blocks of steps in a segment; at least one.
    pub blocks: usize,
    /// Bytes of A that a block of steps takes.
    pub step_bytes: usize,
    /// Packed B, [`BLOCK_LEN`] numbers per block of steps, in order.
    pub b: *const u16,
    /// `ROWS × COLUMNS` sums.
    pub c: *mut f32,
    /// Distance between the rows of C in bytes.
    pub c_stride: usize,
    /// 1 to add to what C holds, 0 to overwrite it.
    pub accumulate: usize,
}

/// Arguments of [`Tiles::column`]: four tiles of A against one of B, for results at most [`NARROW`] columns wide.
#[repr(C)]
pub(super) struct Column {
    /// The first row of each tile of A.
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
    /// Packed B, [`BLOCK_LEN`] numbers per block of steps, of which the first half is used.
    pub b: *const u16,
    /// Distance between the rows of C in bytes.
    pub c_stride: usize,
}

/// Columns of one tile.
pub(super) const NARROW: usize = 16;

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

    /// `c = Σ a · b`, or `c += Σ a · b`.
    ///
    /// # Safety
    /// All pointers must be valid as described at [`Block`], with 16 rows behind each pointer of A.
    pub unsafe fn block(&self, block: &Block) {
        // SAFETY: the tiles are configured (`self` exists on this thread); the caller vouches for the pointers.
        unsafe {
            asm!(
                // The second pair of C's tiles lies 16 rows below the first.
                "mov {a0}, {c_stride}",
                "shl {a0}, 4",
                "lea {c1}, [{c} + {a0}]",
                "cmp qword ptr [{block} + 80], 0",
                "jne 4f",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "jmp 2f",
                "4:",
                "tileloadd tmm0, [{c} + {c_stride} * 1]",
                "tileloadd tmm1, [{c} + {c_stride} * 1 + 64]",
                "tileloadd tmm2, [{c1} + {c_stride} * 1]",
                "tileloadd tmm3, [{c1} + {c_stride} * 1 + 64]",
                "2:",
                "mov {a0}, [{segments}]",
                "mov {a1}, {a0}",
                "add {a0}, [{block}]",
                "add {a1}, [{block} + 8]",
                "mov {blocks}, [{block} + 40]",
                "3:",
                "tileloadd tmm4, [{a0} + {a_stride} * 1]",
                "tileloadd tmm6, [{b} + {row} * 1]",
                "tileloadd tmm7, [{b} + {row} * 1 + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{a1} + {a_stride} * 1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a0}, [{block} + 48]",
                "add {a1}, [{block} + 48]",
                "add {b}, 2048",
                "dec {blocks}",
                "jnz 3b",
                "add {segments}, 8",
                "dec {left}",
                "jnz 2b",
                "tilestored [{c} + {c_stride} * 1], tmm0",
                "tilestored [{c} + {c_stride} * 1 + 64], tmm1",
                "tilestored [{c1} + {c_stride} * 1], tmm2",
                "tilestored [{c1} + {c_stride} * 1 + 64], tmm3",
                block = in(reg) block,
                segments = inout(reg) block.segments => _,
                left = inout(reg) block.segment_count => _,
                a_stride = in(reg) block.a_stride,
                b = inout(reg) block.b => _,
                c = in(reg) block.c,
                c_stride = in(reg) block.c_stride,
                row = in(reg) 64usize,
                c1 = out(reg) _,
                a0 = out(reg) _,
                a1 = out(reg) _,
                blocks = out(reg) _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack)
            );
        }
    }
}

impl Tiles {
    /// `c = a · b` or `c += a · b` for four tiles of A: sums that do not wait for each other.
    ///
    /// # Safety
    /// All pointers must be valid as described at [`Column`], with 16 rows behind each pointer of A and C.
    pub unsafe fn column(&self, column: &Column) {
        // SAFETY: the tiles are configured (`self` exists on this thread); the caller vouches for the pointers.
        unsafe {
            asm!(
                "cmp qword ptr [{column} + 80], 0",
                "jne 4f",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "jmp 2f",
                "4:",
                "mov {a0}, [{column} + 32]",
                "mov {a1}, [{column} + 40]",
                "mov {a2}, [{column} + 48]",
                "mov {a3}, [{column} + 56]",
                "tileloadd tmm0, [{a0} + {c_stride} * 1]",
                "tileloadd tmm1, [{a1} + {c_stride} * 1]",
                "tileloadd tmm2, [{a2} + {c_stride} * 1]",
                "tileloadd tmm3, [{a3} + {c_stride} * 1]",
                "2:",
                "mov {a0}, [{segments}]",
                "mov {a1}, {a0}",
                "mov {a2}, {a0}",
                "mov {a3}, {a0}",
                "add {a0}, [{column}]",
                "add {a1}, [{column} + 8]",
                "add {a2}, [{column} + 16]",
                "add {a3}, [{column} + 24]",
                "mov {blocks}, [{column} + 72]",
                "3:",
                "tileloadd tmm6, [{b} + {row} * 1]",
                "tileloadd tmm4, [{a0} + {a_stride} * 1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{a1} + {a_stride} * 1]",
                "tdpbf16ps tmm1, tmm5, tmm6",
                "tileloadd tmm4, [{a2} + {a_stride} * 1]",
                "tdpbf16ps tmm2, tmm4, tmm6",
                "tileloadd tmm5, [{a3} + {a_stride} * 1]",
                "tdpbf16ps tmm3, tmm5, tmm6",
                "add {a0}, [{column} + 64]",
                "add {a1}, [{column} + 64]",
                "add {a2}, [{column} + 64]",
                "add {a3}, [{column} + 64]",
                "add {b}, 2048",
                "dec {blocks}",
                "jnz 3b",
                "add {segments}, 8",
                "dec {left}",
                "jnz 2b",
                "mov {a0}, [{column} + 32]",
                "mov {a1}, [{column} + 40]",
                "mov {a2}, [{column} + 48]",
                "mov {a3}, [{column} + 56]",
                "tilestored [{a0} + {c_stride} * 1], tmm0",
                "tilestored [{a1} + {c_stride} * 1], tmm1",
                "tilestored [{a2} + {c_stride} * 1], tmm2",
                "tilestored [{a3} + {c_stride} * 1], tmm3",
                column = in(reg) column,
                segments = inout(reg) column.segments => _,
                left = inout(reg) column.segment_count => _,
                a_stride = in(reg) column.a_stride,
                b = inout(reg) column.b => _,
                c_stride = in(reg) column.c_stride,
                row = in(reg) 64usize,
                a0 = out(reg) _,
                a1 = out(reg) _,
                a2 = out(reg) _,
                a3 = out(reg) _,
                blocks = out(reg) _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack)
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
