//! Matrix products `C = A·B` with any strides.
//!
//! If A is contiguous along the reduced axis, its rows go straight into the `Rows` tile and only B is packed. If A and B
//! are both contiguous across the result (`Aᵀ·B`, the gradient of a linear layer), the `Outer` tile needs no packing at
//! all. A layout that fits neither is copied once. Few rows and columns over a long reduced axis are cut along that
//! axis, by shape, and the parts added in order.

#[cfg(test)]
mod tests;

use super::panels::{pack_rows, packed_len, panels};
use super::partial::add_up;
use super::tile::{OuterTile, RowsTile, even_height, outer_kernel, rows_kernel, tile_vectors};
use super::{Machine, Shared, scratch};
use crate::simd::Simd;

/// A product's sizes and strides, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Independent products.
    pub batch: usize,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Where A's elements lie.
    pub a: Matrix,
    /// Where B's elements lie.
    pub b: Matrix,
    /// Where C's elements lie.
    pub c: Matrix,
}

/// Strides of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// Between products of the batch.
    pub batch: usize,
    /// Between rows.
    pub row: usize,
    /// Between columns.
    pub column: usize,
}

impl Matrix {
    /// Rows one after the other.
    pub fn row_major(rows: usize, columns: usize) -> Matrix {
        Matrix { batch: rows * columns, row: columns, column: 1 }
    }

    /// The same elements seen as the transposed matrix.
    pub fn transposed(self) -> Matrix {
        Matrix { row: self.column, column: self.row, ..self }
    }

    fn end(&self, batch: usize, rows: usize, columns: usize) -> usize {
        match batch * rows * columns {
            0 => 0,
            _ => (batch - 1) * self.batch + (rows - 1) * self.row + (columns - 1) * self.column + 1,
        }
    }
}

impl Gemm {
    /// All three matrices row-major.
    pub fn row_major(m: usize, n: usize, k: usize) -> Gemm {
        let (a, b, c) = (Matrix::row_major(m, k), Matrix::row_major(k, n), Matrix::row_major(m, n));
        Gemm { batch: 1, m, n, k, a, b, c }
    }

    pub(super) fn check(&self, a: usize, b: usize, c: usize) {
        let Gemm { batch, m, n, k, .. } = *self;
        assert!(self.a.end(batch, m, k) <= a, "A ends before its last element: {self:?}");
        assert!(self.b.end(batch, k, n) <= b, "B ends before its last element: {self:?}");
        assert!(self.c.end(batch, m, n) <= c, "C ends before its last element: {self:?}");
    }

    /// Whether the transposed product reads its large operand where it lies, when this one would have to copy it.
    fn is_better_turned(&self) -> bool {
        let Gemm { m, n, a, b, .. } = *self;
        let tall = n <= FEW_ROWS && m >= 4 * n && a.row == 1 && a.column != 1;
        let wide = m <= FEW_ROWS / 2 && n >= 4 * m && b.row == 1 && b.column != 1;
        tall || wide
    }
}

/// Computes `c = a · b` for every product of the batch.
///
/// # Panics
/// When a slice ends before the last element its strides reach, or C's elements overlap in the obvious way (a stride
/// of 0).
pub fn gemm(machine: &Machine, shape: &Gemm, a: &[f32], b: &[f32], c: &mut [f32]) {
    let Gemm { batch, m, n, .. } = *shape;
    shape.check(a.len(), b.len(), c.len());
    if batch * m * n == 0 {
        return;
    }
    // The tiles write rows of C: a C that lies by columns is the transposed product's.
    if shape.c.column != 1 && shape.c.row == 1 {
        let turned =
            Gemm { m: n, n: m, a: shape.b.transposed(), b: shape.a.transposed(), c: shape.c.transposed(), ..*shape };
        return gemm(machine, &turned, b, a, c);
    }
    if shape.c.column != 1 && n > 1 {
        return through_a_copy(machine, shape, &Gemm { c: Matrix::row_major(m, n), ..*shape }, a, b, c);
    }
    if shape.is_better_turned() {
        let turned = Gemm { m: n, n: m, a: shape.b.transposed(), b: shape.a.transposed(), ..*shape };
        return through_a_copy(machine, shape, &Gemm { c: Matrix::row_major(n, m), ..turned }, b, a, c);
    }
    for index in 0..batch {
        let product = Product {
            machine,
            shape,
            a: Shared(a.as_ptr().wrapping_add(index * shape.a.batch).cast_mut()),
            b: Shared(b.as_ptr().wrapping_add(index * shape.b.batch).cast_mut()),
            c: Shared(c.as_mut_ptr().wrapping_add(index * shape.c.batch)),
        };
        product.run();
    }
}

/// Computes `dense`, which is the product of `shape` or that product transposed, into working memory; then moves its
/// elements to where `shape` wants them.
fn through_a_copy(machine: &Machine, shape: &Gemm, dense: &Gemm, a: &[f32], b: &[f32], c: &mut [f32]) {
    // Elements move in small squares, so that neither side is walked across its cache lines all the time.
    const SQUARE: usize = 16;
    let target = if dense.m == shape.m { shape.c } else { shape.c.transposed() };
    scratch::borrow(shape.batch * shape.m * shape.n, |copy: &mut [f32]| {
        gemm(machine, dense, a, b, copy);
        for product in 0..shape.batch {
            for row in (0..dense.m).step_by(SQUARE) {
                for column in (0..dense.n).step_by(SQUARE) {
                    for row in row..(row + SQUARE).min(dense.m) {
                        let from = product * dense.c.batch + row * dense.n;
                        let to = product * target.batch + row * target.row;
                        for column in column..(column + SQUARE).min(dense.n) {
                            c[to + column * target.column] = copy[from + column];
                        }
                    }
                }
            }
        }
    });
}

/// One product of the batch whose C has contiguous rows; the pointers were checked against the slices.
struct Product<'a> {
    machine: &'a Machine,
    shape: &'a Gemm,
    a: Shared<f32>,
    b: Shared<f32>,
    c: Shared<f32>,
}

/// Steps of the reduced axis that are swept at once: a block of A and a panel of B this deep stay in the cache.
const DEPTH: usize = 384;
/// Largest block of C that is one job.
const JOB_ROWS: usize = 336;
/// Largest block of C that is one job.
const JOB_COLUMNS: usize = 512;
/// Jobs that are wanted: smaller blocks, then slices of the reduced axis, make more of them.
const WANTED_JOBS: usize = 24;
/// From this many columns on, a copy of A's block pays: it is read many times, and rows a power of two apart would
/// fight for the same cache lines.
const COPY_COLUMNS: usize = 128;
/// Up to this many rows B is read too few times to be worth packing.
const FEW_ROWS: usize = 32;

impl Product<'_> {
    fn run(&self) {
        let Gemm { m, n, k, .. } = *self.shape;
        let [rows, columns] = self.job_size();
        let jobs = m.div_ceil(rows) * n.div_ceil(columns);
        let slices = (k / (2 * DEPTH)).min(WANTED_JOBS / jobs).max(1);
        if slices == 1 {
            return self.run_slices(1, self.c, self.shape.c.row);
        }
        scratch::borrow(slices * m * n, |partial: &mut [f32]| {
            self.run_slices(slices, Shared(partial.as_mut_ptr()), n);
            add_up(self.machine, partial, self.c, m, n, self.shape.c.row);
        });
    }

    /// Registers across the tiles. Jobs end between panels, so only a product with one block of columns may choose freely.
    fn vectors(&self) -> usize {
        let (simd, n) = (self.machine.simd, self.shape.n);
        tile_vectors(simd, if n > 3 * simd.lanes() { 4 * simd.lanes() } else { n }, 4)
    }

    /// Rows and columns of C in one job: large blocks read A and B less often, but there should be enough of them.
    fn job_size(&self) -> [usize; 2] {
        let Gemm { m, n, .. } = *self.shape;
        let row_steps = [1, 2, 4, 8].map(|parts| [JOB_ROWS / parts, JOB_COLUMNS]);
        let column_steps = [2, 4, 8].map(|parts| [JOB_ROWS / 8, JOB_COLUMNS / parts]);
        let enough = |size: &[usize; 2]| m.div_ceil(size[0]) * n.div_ceil(size[1]) >= WANTED_JOBS;
        let sizes = || row_steps.into_iter().chain(column_steps);
        let [rows, columns] = sizes().find(enough).unwrap_or(column_steps[1]);
        // Blocks of equal height, made of full tiles.
        let even = m.div_ceil(m.div_ceil(rows));
        [even.next_multiple_of(even_height(self.machine.simd, self.vectors(), even)), columns]
    }

    /// Computes slice `s` of the reduced axis into `c + s * m * n`, rows `c_row` apart.
    fn run_slices(&self, slices: usize, c: Shared<f32>, c_row: usize) {
        let Gemm { m, n, k, .. } = *self.shape;
        if self.shape.b.column == 1 && m <= FEW_ROWS {
            return self.run_few_rows(slices, c, c_row);
        }
        let simd = self.machine.simd;
        scratch::borrow(packed_len(simd, k, n), |packed: &mut [f32]| {
            let packed = Shared(packed.as_mut_ptr());
            self.pack(packed);
            let [job_rows, job_columns] = self.job_size();
            let (row_jobs, column_jobs) = (m.div_ceil(job_rows), n.div_ceil(job_columns));
            self.machine.pool.run(slices * row_jobs * column_jobs, &|job| {
                let (slice, job) = (job / (row_jobs * column_jobs), job % (row_jobs * column_jobs));
                let (rows, columns) = (job / column_jobs * job_rows, job % column_jobs * job_columns);
                let block = Block {
                    rows: rows..(rows + job_rows).min(m),
                    columns: columns..(columns + job_columns).min(n),
                    depth: slice * k / slices..(slice + 1) * k / slices,
                };
                self.run_block(&block, packed, c.at(slice * m * n), c_row);
            });
        });
    }

    /// Packs all of B: `[panel][k][width]`.
    fn pack(&self, packed: Shared<f32>) {
        let (simd, k, b) = (self.machine.simd, self.shape.k, self.shape.b);
        let all = panels(simd, self.shape.n, self.vectors());
        let depth_jobs = k.div_ceil(DEPTH);
        self.machine.pool.run(all.len() * depth_jobs, &|job| {
            let Some(panel) = all.clone().nth(job / depth_jobs) else { return };
            let width = panel.vectors * simd.lanes();
            let first = job % depth_jobs * DEPTH;
            // SAFETY: the rows and columns lie inside B, which was checked; every job fills its own part.
            unsafe {
                let from = self.b.at(first * b.row + panel.column * b.column);
                let to = packed.at(k * panel.column + first * width);
                pack_rows(simd, from, b.row, b.column, DEPTH.min(k - first), panel.columns, width, to);
            }
        });
    }

    fn run_block(&self, block: &Block, packed: Shared<f32>, c: *mut f32, c_row: usize) {
        let height = even_height(self.machine.simd, self.vectors(), block.rows.len());
        let height_all = block.rows.len().next_multiple_of(height);
        let copied = self.shape.a.column != 1 || block.columns.len() >= COPY_COLUMNS;
        // Sixteen spare numbers keep the rows of the copy from being a power of two apart.
        let stride = DEPTH.min(block.depth.len()) + 16;
        scratch::borrow(if copied { block.rows.len() * stride } else { 0 }, |copy: &mut [f32]| {
            scratch::borrow(height_all, |rows: &mut [*const f32]| {
                let steps = block.depth.clone().step_by(DEPTH);
                // A reduced axis without any step still has to clear C.
                for first in steps.chain((block.depth.is_empty()).then_some(block.depth.start)) {
                    let depth = first..(first + DEPTH).min(block.depth.end);
                    if copied {
                        self.copy_a(block, &depth, copy, stride);
                    }
                    for (index, row) in rows.iter_mut().enumerate() {
                        let index = index.min(block.rows.len() - 1);
                        *row = match copied {
                            true => copy.as_ptr().wrapping_add(index * stride),
                            false => self.a.at((block.rows.start + index) * self.shape.a.row + first),
                        };
                    }
                    let accumulate = first > block.depth.start;
                    self.run_tiles(block, height, rows, &depth, packed, c, c_row, accumulate);
                }
            });
        });
    }

    /// Copies A's block so that its rows are contiguous.
    fn copy_a(&self, block: &Block, depth: &std::ops::Range<usize>, copy: &mut [f32], stride: usize) {
        let a = self.shape.a;
        let from = self.a.at(block.rows.start * a.row + depth.start * a.column);
        // SAFETY: rows and depth lie inside A, which was checked; the copy has `stride >= depth` numbers per row.
        unsafe {
            match a.column {
                1 => {
                    for row in 0..block.rows.len() {
                        let to = copy.as_mut_ptr().add(row * stride);
                        std::ptr::copy_nonoverlapping(from.add(row * a.row), to, depth.len());
                    }
                }
                _ => pack_rows(
                    self.machine.simd,
                    from,
                    a.row,
                    a.column,
                    block.rows.len(),
                    depth.len(),
                    stride,
                    copy.as_mut_ptr(),
                ),
            }
        }
    }

    fn run_tiles(
        &self,
        block: &Block,
        height: usize,
        rows: &[*const f32],
        depth: &std::ops::Range<usize>,
        packed: Shared<f32>,
        c: *mut f32,
        c_row: usize,
        accumulate: bool,
    ) {
        let simd = self.machine.simd;
        let first_panel = block.columns.start;
        for panel in panels(simd, block.columns.len(), self.vectors()) {
            let kernel = rows_kernel(simd, height, panel.vectors);
            let width = panel.vectors * simd.lanes();
            for first in (0..block.rows.len()).step_by(height) {
                let mut out = [std::ptr::null_mut(); 16];
                for (row, out) in out.iter_mut().enumerate().take(height) {
                    *out = c.wrapping_add((block.rows.start + first + row) * c_row);
                }
                let tile = RowsTile {
                    segments: 1,
                    length: depth.len(),
                    rows: rows[first..].as_ptr(),
                    offset: 0,
                    panel: packed.at(self.shape.k * (first_panel + panel.column) + depth.start * width),
                    out: out.as_ptr(),
                    column: first_panel + panel.column,
                    columns: panel.columns,
                    live: height.min(block.rows.len() - first),
                    accumulate,
                    next: self.c.at(0),
                    next_step: 0,
                };
                // SAFETY: rows point to `depth` numbers of A or its copy, the panel was packed, and the block's part
                // of C belongs to this job.
                unsafe { kernel(&tile) };
            }
        }
    }

    /// Few rows: A is turned so that a step of the reduced axis is contiguous, B is read where it lies.
    fn run_few_rows(&self, slices: usize, c: Shared<f32>, c_row: usize) {
        let Gemm { m, n, k, a, b, .. } = *self.shape;
        let simd = self.machine.simd;
        const COLUMNS: usize = 64;
        let column_jobs = n.div_ceil(COLUMNS);
        scratch::borrow(m * k, |turned: &mut [f32]| {
            for step in 0..k {
                for row in 0..m {
                    // SAFETY: the element lies inside A, which was checked.
                    turned[step * m + row] = unsafe { *self.a.at(row * a.row + step * a.column) };
                }
            }
            let turned = Shared(turned.as_mut_ptr());
            self.machine.pool.run(slices * column_jobs, &|job| {
                let (slice, first) = (job / column_jobs, job % column_jobs * COLUMNS);
                let c = c.at(slice * m * n);
                for row in 0..m {
                    // SAFETY: this job's columns of C.
                    unsafe { std::ptr::write_bytes(c.add(row * c_row + first), 0, COLUMNS.min(n - first)) };
                }
                let depth = slice * k / slices..(slice + 1) * k / slices;
                for start in depth.clone().step_by(FEW_DEPTH) {
                    let count = FEW_DEPTH.min(depth.end - start);
                    let a = (turned.at(start * m).cast_const(), m);
                    let b = (self.b.at(start * b.row + first).cast_const(), b.row);
                    outer_block(simd, count, [m, COLUMNS.min(n - first)], a, b, (c.wrapping_add(first), c_row));
                }
            });
        });
    }
}

/// Steps of the reduced axis that [`outer_block`] sweeps at once.
const FEW_DEPTH: usize = 256;

/// Adds `Σ a[k][row] · b[k][column]` over `count` steps to `size` elements of C.
fn outer_block(
    simd: Simd,
    count: usize,
    size: [usize; 2],
    turned: (*const f32, usize),
    b: (*const f32, usize),
    c: (*mut f32, usize),
) {
    // B is read where it lies, from far away: tall tiles read it less often than wide ones.
    let vectors = 2;
    let height = even_height(simd, vectors, size[0]);
    let mut a = [std::ptr::null(); FEW_DEPTH];
    for (step, a) in a.iter_mut().enumerate().take(count) {
        *a = turned.0.wrapping_add(step * turned.1);
    }
    for panel in panels(simd, size[1], vectors) {
        let width = panel.vectors * simd.lanes();
        let copied = panel.columns < width;
        scratch::borrow(if copied { count * width } else { 0 }, |copy: &mut [f32]| {
            let from = b.0.wrapping_add(panel.column);
            if copied {
                // The tile reads whole registers, but B may end with this panel.
                // SAFETY: the panel's columns exist in `count` rows of B.
                unsafe { pack_rows(simd, from, b.1, 1, count, panel.columns, width, copy.as_mut_ptr()) };
            }
            for first in (0..size[0]).step_by(height) {
                let height = height.min(size[0] - first);
                let mut out = [std::ptr::null_mut(); 16];
                for (row, out) in out.iter_mut().enumerate().take(height) {
                    *out = c.0.wrapping_add((first + row) * c.1);
                }
                let tile = OuterTile {
                    count,
                    a: a.as_ptr(),
                    offset: first,
                    b: if copied { copy.as_ptr() } else { from },
                    b_stride: if copied { width } else { b.1 },
                    out: out.as_ptr(),
                    column: panel.column,
                    columns: panel.columns,
                    next: b.0,
                    next_step: 0,
                };
                // SAFETY: A and B have `count` rows of this size, and this part of C belongs to the caller's job.
                unsafe { outer_kernel(simd, height, panel.vectors)(&tile) };
            }
        });
    }
}

/// A part of the product.
struct Block {
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    depth: std::ops::Range<usize>,
}
