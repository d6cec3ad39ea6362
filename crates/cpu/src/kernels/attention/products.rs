//! The products of one head: small matrices in the cache, one thread.

use super::super::panels::{pack_rows, packed_len, panels};
use super::super::tile::{OuterTile, RowsTile, even_height, outer_kernel, rows_kernel, tile_vectors};
use crate::simd::Simd;

/// Rows of the largest tile.
const MAX_HEIGHT: usize = 14;

/// B of a product in the order in which tiles read it.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    data: *const f32,
    depth: usize,
    columns: usize,
    vectors: usize,
}

impl Packed {
    /// Numbers that it takes.
    pub fn len(simd: Simd, depth: usize, columns: usize) -> usize {
        packed_len(simd, depth, columns)
    }

    /// Packs `depth × columns` numbers with strides `row` and `column`.
    ///
    /// # Safety
    /// The numbers are readable and `to` holds [`Packed::len`] numbers.
    pub unsafe fn pack(
        simd: Simd,
        from: *const f32,
        [row, column]: [usize; 2],
        [depth, columns]: [usize; 2],
        to: *mut f32,
    ) -> Packed {
        let vectors = tile_vectors(simd, if columns > 3 * simd.lanes() { 4 * simd.lanes() } else { columns });
        for panel in panels(simd, columns, vectors) {
            let width = panel.vectors * simd.lanes();
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (from.add(panel.column * column), to.add(depth * panel.column));
                pack_rows(simd, from, row, column, depth, panel.columns, width, to);
            }
        }
        Packed { data: to, depth, columns, vectors }
    }

    /// `c = a · b` for `rows` rows of A, contiguous along the reduced axis.
    ///
    /// # Safety
    /// All elements that the strides reach exist.
    pub unsafe fn multiply(&self, simd: Simd, a: *const f32, a_row: usize, rows: usize, c: *mut f32, c_row: usize) {
        let height = even_height(simd, self.vectors, rows);
        for panel in panels(simd, self.columns, self.vectors) {
            let kernel = rows_kernel(simd, height, panel.vectors);
            for first in (0..rows).step_by(height) {
                let live = height.min(rows - first);
                // Rows beyond the last are the last once more.
                let row = |index: usize| first + index.min(live - 1);
                let from: [*const f32; MAX_HEIGHT] = std::array::from_fn(|index| a.wrapping_add(row(index) * a_row));
                let to: [*mut f32; MAX_HEIGHT] = std::array::from_fn(|index| c.wrapping_add(row(index) * c_row));
                let tile = RowsTile {
                    segments: 1,
                    length: self.depth,
                    rows: from.as_ptr(),
                    offset: 0,
                    panel: self.data.wrapping_add(self.depth * panel.column),
                    out: to.as_ptr(),
                    column: panel.column,
                    columns: panel.columns,
                    live,
                    accumulate: false,
                    next: from[0],
                    next_step: 0,
                };
                // SAFETY: the caller's promise; the panel has as many numbers as it was packed with.
                unsafe { kernel(&tile) };
            }
        }
    }
}

/// `c += aᵀ · b`: A is `steps × rows`, B is `steps × columns` with rows that are readable to the next whole register.
///
/// # Safety
/// All elements that the strides reach exist; `steps` is at most [`MAX_STEPS`].
pub(super) unsafe fn add_transposed(
    simd: Simd,
    [steps, rows, columns]: [usize; 3],
    (a, a_row): (*const f32, usize),
    (b, b_row): (*const f32, usize),
    (c, c_row): (*mut f32, usize),
) {
    let vectors = tile_vectors(simd, columns);
    let from: [*const f32; MAX_STEPS] = std::array::from_fn(|step| a.wrapping_add(step.min(steps - 1) * a_row));
    for panel in panels(simd, columns, vectors) {
        let highest = even_height(simd, vectors, rows);
        for first in (0..rows).step_by(highest) {
            let height = highest.min(rows - first);
            let to: [*mut f32; MAX_HEIGHT] =
                std::array::from_fn(|index| c.wrapping_add((first + index.min(height - 1)) * c_row));
            let tile = OuterTile {
                count: steps,
                a: from.as_ptr(),
                offset: first,
                b: b.wrapping_add(panel.column),
                b_stride: b_row,
                out: to.as_ptr(),
                column: panel.column,
                columns: panel.columns,
                accumulate: true,
                next: from[0],
                next_step: 0,
            };
            // SAFETY: the caller's promise.
            unsafe { outer_kernel(simd, height, panel.vectors)(&tile) };
        }
    }
}

/// Steps of the reduced axis at most.
pub(super) const MAX_STEPS: usize = 64;
