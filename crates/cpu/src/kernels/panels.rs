//! Packing: the B side of a product is laid out in the order in which the tiles read it.
//!
//! A matrix of `depth × columns` becomes panels as wide as the tiles, each `[depth][width]`; the last one is only as many
//! registers wide as it has columns for. Missing columns are zeros. Because every panel but the last has the same width,
//! the panel that starts at column `c` starts at element `depth * c`.

use crate::simd::{Kernel, Simd, Vector};

/// The columns of one panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Panel {
    /// The first column.
    pub column: usize,
    /// Columns that exist.
    pub columns: usize,
    /// Registers across.
    pub vectors: usize,
}

/// The panels of a matrix with so many columns, from left to right, for tiles of `vectors` registers across.
pub(super) fn panels(simd: Simd, columns: usize, vectors: usize) -> impl ExactSizeIterator<Item = Panel> + Clone {
    let (lanes, width) = (simd.lanes(), simd.lanes() * vectors);
    (0..columns.div_ceil(width)).map(move |index| {
        let column = index * width;
        let columns = (columns - column).min(width);
        Panel { column, columns, vectors: columns.div_ceil(lanes) }
    })
}

/// Elements that the packed form of `depth × columns` takes.
pub(super) fn packed_len(simd: Simd, depth: usize, columns: usize) -> usize {
    depth * columns.next_multiple_of(simd.lanes())
}

/// Parts that a matrix of so many rows is packed in: a job packs some rows of all panels. Its rows are read along memory,
/// where a whole panel would pick a few numbers from each of many pages.
pub(super) fn pack_jobs(rows: usize) -> usize {
    const JOB_ROWS: usize = 64;
    // An even number, so that two threads end together.
    rows.div_ceil(2 * JOB_ROWS).max(1) * 2
}

/// Packs `depth` rows of one panel: row `k`, column `n` is read at `source + k * row_stride + n * column_stride`.
///
/// # Safety
/// Those elements must be readable, and `panel` must hold `depth * width` elements.
pub(super) unsafe fn pack_rows(
    simd: Simd,
    source: *const f32,
    row_stride: usize,
    column_stride: usize,
    depth: usize,
    columns: usize,
    width: usize,
    panel: *mut f32,
) {
    if column_stride == 1 {
        let rows = CopiedRows { rows: RowSource::Even(source, row_stride), count: depth, columns, width, to: panel };
        // SAFETY: the caller's promise.
        return unsafe { simd.entry::<CopyRows>()(&rows) };
    }
    let transposed = TransposedRows { source, row_stride, column_stride, depth, columns, width, panel };
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<TransposeRows>()(&transposed) }
}

/// Arguments of [`TransposeRows`], as those of [`pack_rows`].
#[derive(Clone, Copy)]
struct TransposedRows {
    source: *const f32,
    row_stride: usize,
    column_stride: usize,
    depth: usize,
    columns: usize,
    width: usize,
    panel: *mut f32,
}

/// Packs a source with a large column stride, in squares: a transposed source is walked along its cache lines.
struct TransposeRows;

impl Kernel for TransposeRows {
    type Args = *const TransposedRows;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(rows: *const TransposedRows) {
        // SAFETY: the caller's promise; the loops stay inside `depth`, `columns` and `width`. V's instruction set is enabled.
        unsafe {
            let TransposedRows { source, row_stride, column_stride, depth, columns, width, panel } = *rows;
            for n in (0..columns).step_by(V::LANES) {
                for k in (0..depth).step_by(V::LANES) {
                    let (from, to) = (source.add(k * row_stride + n * column_stride), panel.add(k * width + n));
                    let (live_k, live_n) = ((depth - k).min(V::LANES), (columns - n).min(V::LANES));
                    if row_stride == 1 && live_k.min(live_n) == V::LANES {
                        V::transpose(from, column_stride, to, width);
                        continue;
                    }
                    for n in 0..live_n {
                        for k in 0..live_k {
                            *to.add(k * width + n) = *from.add(k * row_stride + n * column_stride);
                        }
                    }
                }
            }
            for k in 0..depth {
                std::ptr::write_bytes(panel.add(k * width + columns), 0, width - columns);
            }
        }
    }
}

/// Copies `columns` numbers from behind each pointer to rows of `width`, zeros after them.
///
/// # Safety
/// The numbers must be readable, and `to` must hold a row per pointer.
pub(super) unsafe fn gather_rows(
    simd: Simd,
    rows: &[*const f32],
    offset: usize,
    columns: usize,
    width: usize,
    to: *mut f32,
) {
    let rows = CopiedRows { rows: RowSource::Pointers(rows.as_ptr(), offset), count: rows.len(), columns, width, to };
    // SAFETY: the caller's promise.
    unsafe { simd.entry::<CopyRows>()(&rows) }
}

/// Arguments of [`CopyRows`].
struct CopiedRows {
    rows: RowSource,
    count: usize,
    columns: usize,
    width: usize,
    to: *mut f32,
}

enum RowSource {
    /// The first row and the distance to the next.
    Even(*const f32, usize),
    /// One pointer per row, and what is added to each.
    Pointers(*const *const f32, usize),
}

/// Copies short rows register by register: a call of the C library per row would take longer than the copy.
struct CopyRows;

impl Kernel for CopyRows {
    type Args = *const CopiedRows;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(rows: *const CopiedRows) {
        // SAFETY: the callers' promises; V's instruction set is enabled.
        unsafe {
            let rows = &*rows;
            match rows.rows {
                RowSource::Even(first, stride) => copy_rows::<V>(rows, |row| first.wrapping_add(row * stride)),
                RowSource::Pointers(pointers, offset) => {
                    copy_rows::<V>(rows, |row| (*pointers.add(row)).wrapping_add(offset));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn copy_rows<V: Vector>(rows: &CopiedRows, row: impl Fn(usize) -> *const f32) {
    for index in 0..rows.count {
        let (from, to) = (row(index), rows.to.wrapping_add(index * rows.width));
        for column in (0..rows.width).step_by(V::LANES) {
            let live = rows.columns.saturating_sub(column).min(V::LANES);
            // SAFETY: only existing columns are read; the row has `width` numbers.
            unsafe {
                let value = match live == V::LANES {
                    true => V::load(from.wrapping_add(column)),
                    false => V::load_first(from.wrapping_add(column), live),
                };
                // Whole registers over narrow rows would cross cache lines all the time.
                match rows.width - column >= V::LANES {
                    true => value.store(to.wrapping_add(column)),
                    false => value.store_first(to.wrapping_add(column), rows.width - column),
                }
            }
        }
    }
}
