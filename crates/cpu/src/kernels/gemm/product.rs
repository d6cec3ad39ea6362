//! One product: B packed into panels, blocks of C as jobs.

use super::super::panels::{pack_rows, packed_len, panels};
use super::super::scratch::add_up;
use super::super::tile::{RowsTile, even_height, rows_kernel, tile_vectors};
use super::super::{Machine, Shared, scratch};
use super::{FEW_ROWS, Gemm};

/// One product of the batch whose C has contiguous rows; the pointers were checked against the slices.
pub(super) struct Product<'a> {
    pub machine: &'a Machine,
    pub shape: &'a Gemm,
    pub a: Shared<f32>,
    pub b: Shared<f32>,
    pub c: Shared<f32>,
}

/// Steps of the reduced axis that are swept at once: a block of A and a panel of B this deep stay in the cache.
const DEPTH: usize = 384;
/// Largest block of C that is one job.
const JOB_ROWS: usize = 336;
/// Largest block of C that is one job.
const JOB_COLUMNS: usize = 512;
/// Jobs that are wanted: smaller blocks, then slices of the reduced axis, make more of them.
const WANTED_JOBS: usize = 24;
/// From this many columns on, a copy of A's block pays: it is read many times, and row strides of a power of two would
/// fight for the same cache lines.
const COPY_COLUMNS: usize = 128;
impl Product<'_> {
    /// Computes it.
    pub fn run(&self) {
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

    /// Computes slice `s` of the reduced axis into `c + s * m * n`, with a row stride of `c_row`.
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
        // Sixteen spare numbers keep the row stride of the copy from being a power of two.
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
}

/// A part of the product.
struct Block {
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    depth: std::ops::Range<usize>,
}
