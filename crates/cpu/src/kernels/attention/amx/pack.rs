//! Operands of tiles: B holds pairs of consecutive steps of the reduced axis side by side.

use super::super::super::amx::{BLOCK_LEN, COLUMNS, MAX_STEPS, interleave, transpose_pairs};
use super::Dense;
use crate::simd::{Kernel, Simd, Vector};

/// Columns of a tile, and pairs of steps.
const TILE: usize = 16;

/// Matrices of whole tiles: the source's rows and columns, and the target.
struct Packing {
    from: Dense,
    rows: usize,
    columns: usize,
    to: *mut u16,
}

/// B whose columns are the rows of `from`: steps are its columns.
///
/// # Safety
/// `from` has that many rows and columns, multiples of 32, and `to` room for all.
pub(super) unsafe fn pack_across(simd: Simd, from: Dense, [rows, columns]: [usize; 2], to: *mut u16) {
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<Across>()(&Packing { from, rows, columns, to }) }
}

struct Across;

impl Kernel for Across {
    type Args = *const Packing;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(packing: *const Packing) {
        // SAFETY: the caller's promise. A pair of numbers is moved as one of 32 bits.
        unsafe {
            let &Packing { from, rows, columns, to } = &*packing;
            for row in (0..rows).step_by(TILE) {
                for step in (0..columns).step_by(MAX_STEPS) {
                    let block = row / COLUMNS * (columns / MAX_STEPS) + step / MAX_STEPS;
                    let to = to.add(block * BLOCK_LEN + row % COLUMNS / TILE * (BLOCK_LEN / 2));
                    transpose_pairs::<V>(from.data.add(row * from.row + step).cast(), from.row / 2, to.cast(), TILE);
                }
            }
        }
    }
}

/// B whose steps are the rows of `from`.
///
/// # Safety
/// As [`pack_across`].
pub(super) unsafe fn pack_down(simd: Simd, from: Dense, [rows, columns]: [usize; 2], to: *mut u16) {
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<Down>()(&Packing { from, rows, columns, to }) }
}

struct Down;

impl Kernel for Down {
    type Args = *const Packing;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(packing: *const Packing) {
        // SAFETY: the caller's promise.
        unsafe {
            let &Packing { from, rows, columns, to } = &*packing;
            for column in (0..columns).step_by(TILE) {
                for row in (0..rows).step_by(2) {
                    let block = column / COLUMNS * (rows / MAX_STEPS) + row / MAX_STEPS;
                    let half = column % COLUMNS / TILE * (BLOCK_LEN / 2);
                    let to = to.add(block * BLOCK_LEN + half + row % MAX_STEPS / 2 * 2 * TILE);
                    let first = from.data.add(row * from.row + column);
                    interleave(first, first.add(from.row), to);
                }
            }
        }
    }
}

/// The transposed matrix, rows as long as `from` has rows.
///
/// # Safety
/// As [`pack_across`].
pub(super) unsafe fn transpose(simd: Simd, from: Dense, [rows, columns]: [usize; 2], to: *mut u16) -> Dense {
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<Transpose>()(&Packing { from, rows, columns, to }) };
    Dense { data: to, row: rows }
}

struct Transpose;

impl Kernel for Transpose {
    type Args = *const Packing;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(packing: *const Packing) {
        // SAFETY: the caller's promise. Pairs are transposed and then split.
        unsafe {
            let &Packing { from, rows, columns, to } = &*packing;
            for row in (0..rows).step_by(TILE) {
                for column in (0..columns).step_by(2 * TILE) {
                    let mut pairs = [[0u32; TILE]; TILE];
                    let source = from.data.add(row * from.row + column);
                    transpose_pairs::<V>(source.cast(), from.row / 2, pairs.as_mut_ptr().cast(), TILE);
                    for (pair, numbers) in pairs.iter().enumerate() {
                        let to = to.add((column + 2 * pair) * rows + row);
                        let low: [u16; TILE] = std::array::from_fn(|i| numbers[i] as u16);
                        let high: [u16; TILE] = std::array::from_fn(|i| (numbers[i] >> 16) as u16);
                        to.cast::<[u16; TILE]>().write_unaligned(low);
                        to.add(rows).cast::<[u16; TILE]>().write_unaligned(high);
                    }
                }
            }
        }
    }
}

/// Transposes `rows × columns` sums into rows of `rows` numbers.
///
/// # Safety
/// The sums exist, both numbers are multiples of 16, and `to` has room.
pub(super) unsafe fn transpose_sums(
    simd: Simd,
    (from, from_row): (*mut f32, usize),
    [rows, columns]: [usize; 2],
    to: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<TransposeSums>()((from, from_row, [rows, columns], to)) }
}

struct TransposeSums;

impl Kernel for TransposeSums {
    type Args = (*const f32, usize, [usize; 2], *mut f32);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((from, from_row, [rows, columns], to): Self::Args) {
        for row in (0..rows).step_by(TILE) {
            for column in (0..columns).step_by(TILE) {
                // SAFETY: the caller's promise.
                unsafe {
                    transpose_pairs::<V>(
                        from.add(row * from_row + column),
                        from_row,
                        to.add(column * rows + row),
                        rows,
                    );
                }
            }
        }
    }
}
