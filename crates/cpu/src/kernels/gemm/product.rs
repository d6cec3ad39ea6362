//! One product: B packed into panels, blocks of C as jobs.

use super::super::panels::{pack_jobs, pack_rows, packed_len, panels};
use super::super::scratch::add_up;
use super::super::tile::{RowsTile, even_height, rows_kernel, tile_vectors};
use super::super::{Machine, Shared, scratch};
use super::{FEW_ROWS, Gemm};
use std::ops::Range;

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
const JOB_COLUMNS: usize = 480;
/// Parts of C and the reduced axis that are wanted: a small C with a long reduced axis is summed in slices.
const WANTED_PARTS: usize = 24;
/// Jobs that are wanted for each thread; smaller blocks make more of them.
const THREAD_JOBS: usize = 4;
/// Rows so far from each other have their lines in the same set of the first-level cache, which holds fewer than a tile reads.
const SAME_SET: usize = 1024;
/// Rows that are packed one after the other, all panels of them: memory is read along its rows, and their pages stay few.
const PACKED_ROWS: usize = 16;

impl Product<'_> {
    /// Computes it.
    pub fn run(&self) {
        let Gemm { m, n, k, .. } = *self.shape;
        // By shape alone, so that sums are added in the same order by any number of threads.
        let slices = (k / (2 * DEPTH)).min(WANTED_PARTS / self.jobs(WANTED_PARTS).count()).max(1);
        if slices == 1 {
            return self.run_slices(1, self.c, self.shape.c.row);
        }
        scratch::borrow(slices * m * n, |partial: &mut [f32]| {
            self.run_slices(slices, Shared(partial.as_mut_ptr()), n);
            add_up(self.machine, partial, self.c, m, n, self.shape.c.row);
        });
    }

    /// Registers across the tiles.
    fn vectors(&self) -> usize {
        tile_vectors(self.machine.simd, self.shape.n)
    }

    /// Blocks of C: large ones read A and B less often, but there should be `wanted` of them.
    fn jobs(&self, wanted: usize) -> Jobs {
        let Gemm { m, n, .. } = *self.shape;
        let row_steps = [1, 2, 4, 8].map(|parts| [JOB_ROWS / parts, JOB_COLUMNS]);
        let column_steps = [2, 4, 8].map(|parts| [JOB_ROWS / 8, JOB_COLUMNS / parts]);
        let enough = |size: &[usize; 2]| m.div_ceil(size[0]) * n.div_ceil(size[1]) >= wanted;
        let [rows, columns] = row_steps.into_iter().chain(column_steps).find(enough).unwrap_or(column_steps[1]);
        let even = |len: usize, block: usize, step: usize| len.div_ceil(len.div_ceil(block)).next_multiple_of(step);
        let vectors = self.vectors();
        // Blocks of equal size, made of full tiles; their columns end between panels.
        let columns = even(n, columns, vectors * self.machine.simd.lanes());
        let rows = even(m, rows, even_height(self.machine.simd, vectors, m.min(rows)));
        Jobs { size: [rows, columns], counts: [m.div_ceil(rows), n.div_ceil(columns)] }
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
            let jobs = self.jobs(THREAD_JOBS * self.machine.pool.threads());
            self.machine.pool.run(slices * jobs.count(), &|job| {
                let (slice, job) = (job / jobs.count(), job % jobs.count());
                let [rows, columns] = [job / jobs.counts[1] * jobs.size[0], job % jobs.counts[1] * jobs.size[1]];
                let block = Block {
                    rows: rows..(rows + jobs.size[0]).min(m),
                    columns: columns..(columns + jobs.size[1]).min(n),
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
        let blocks = pack_jobs(k);
        // A transposed B is read along the reduced axis.
        let step = if b.column == 1 { PACKED_ROWS } else { k.div_ceil(blocks).max(1) };
        self.machine.pool.run(blocks, &|block| {
            let rows = block * k / blocks..(block + 1) * k / blocks;
            for first in rows.clone().step_by(step) {
                let count = step.min(rows.end - first);
                for panel in all.clone() {
                    let width = panel.vectors * simd.lanes();
                    // SAFETY: the rows and columns lie inside B, which was checked; every job fills its own part.
                    unsafe {
                        let from = self.b.at(first * b.row + panel.column * b.column);
                        let to = packed.at(k * panel.column + first * width);
                        pack_rows(simd, from, b.row, b.column, count, panel.columns, width, to);
                    }
                }
            }
        });
    }

    fn run_block(&self, block: &Block, packed: Shared<f32>, c: *mut f32, c_row: usize) {
        let height = even_height(self.machine.simd, self.vectors(), block.rows.len());
        let height_all = block.rows.len().next_multiple_of(height);
        let a = self.shape.a;
        let copied = a.column != 1 || a.row.is_multiple_of(SAME_SET);
        // Sixteen spare numbers keep the row stride of the copy from being a power of two.
        let stride = DEPTH.min(block.depth.len()) + 16;
        scratch::borrow(if copied { block.rows.len() * stride } else { 0 }, |copy: &mut [f32]| {
            scratch::borrow(height_all, |rows: &mut [*const f32]| {
                let steps = block.depth.clone().step_by(DEPTH);
                // A reduced axis without any step still has to clear C.
                for first in steps.chain((block.depth.is_empty()).then_some(block.depth.start)) {
                    let depth = first..(first + DEPTH).min(block.depth.end);
                    let from = self.a.at(block.rows.start * a.row + first * a.column);
                    let count = block.rows.len();
                    if copied {
                        let (simd, to) = (self.machine.simd, copy.as_mut_ptr());
                        // SAFETY: rows and depth lie inside A, which was checked; the copy has `stride` numbers per row.
                        unsafe { pack_rows(simd, from, a.row, a.column, count, depth.len(), stride, to) };
                    }
                    for (index, row) in rows.iter_mut().enumerate() {
                        let index = index.min(count - 1);
                        *row = match copied {
                            true => copy.as_ptr().wrapping_add(index * stride),
                            false => from.wrapping_add(index * a.row),
                        };
                    }
                    let accumulate = first > block.depth.start;
                    self.run_tiles(block, height, rows, &depth, packed, c, c_row, accumulate);
                }
            });
        });
    }

    fn run_tiles(
        &self,
        block: &Block,
        height: usize,
        rows: &[*const f32],
        depth: &Range<usize>,
        packed: Shared<f32>,
        c: *mut f32,
        c_row: usize,
        accumulate: bool,
    ) {
        let simd = self.machine.simd;
        for panel in panels(simd, block.columns.len(), self.vectors()) {
            let kernel = rows_kernel(simd, height, panel.vectors);
            let width = panel.vectors * simd.lanes();
            let column = block.columns.start + panel.column;
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
                    panel: packed.at(self.shape.k * column + depth.start * width),
                    out: out.as_ptr(),
                    column,
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

/// The blocks of C that are computed in parallel: rows and columns of each, and how many there are down and across.
struct Jobs {
    size: [usize; 2],
    counts: [usize; 2],
}

impl Jobs {
    fn count(&self) -> usize {
        self.counts[0] * self.counts[1]
    }
}

/// A part of the product.
struct Block {
    rows: Range<usize>,
    columns: Range<usize>,
    depth: Range<usize>,
}
