//! Products with so few rows that packing B would cost more than it saves.

use super::super::panels::{pack_rows, panels};
use super::super::tile::{OuterTile, even_height, outer_kernel};
use super::super::{Shared, scratch};
use super::Gemm;
use super::product::Product;
use crate::simd::Simd;

impl Product<'_> {
    /// Few rows: A is transposed so that a step of the reduced axis is contiguous, B is read where it lies.
    pub(super) fn run_few_rows(&self, slices: usize, c: Shared<f32>, c_row: usize) {
        let Gemm { m, n, k, a, b, .. } = *self.shape;
        let simd = self.machine.simd;
        const COLUMNS: usize = 64;
        let column_jobs = n.div_ceil(COLUMNS);
        scratch::borrow(m * k, |transposed: &mut [f32]| {
            for step in 0..k {
                for row in 0..m {
                    // SAFETY: the element lies inside A, which was checked.
                    transposed[step * m + row] = unsafe { *self.a.at(row * a.row + step * a.column) };
                }
            }
            let transposed = Shared(transposed.as_mut_ptr());
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
                    let a = (transposed.at(start * m).cast_const(), m);
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
    transposed: (*const f32, usize),
    b: (*const f32, usize),
    c: (*mut f32, usize),
) {
    // B is read where it lies, from far away: tall tiles read it less often than wide ones.
    let vectors = 2;
    let height = even_height(simd, vectors, size[0]);
    let mut a = [std::ptr::null(); FEW_DEPTH];
    for (step, a) in a.iter_mut().enumerate().take(count) {
        *a = transposed.0.wrapping_add(step * transposed.1);
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
                    accumulate: true,
                    next: b.0,
                    next_step: 0,
                };
                // SAFETY: A and B have `count` rows of this size, and this part of C belongs to the caller's job.
                unsafe { outer_kernel(simd, height, panel.vectors)(&tile) };
            }
        });
    }
}
