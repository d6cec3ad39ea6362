//! Matrix products `C = A·B` with any strides.
//!
//! If A is contiguous along the reduced axis, its rows go straight into the `Rows` tile and only B is packed. If A and B
//! are both contiguous across the result (`Aᵀ·B`, the gradient of a linear layer), the `Outer` tile needs no packing at
//! all. A layout that fits neither is copied once. With AMX, larger products are computed in bf16 parts (`split`), at two to
//! three times the speed of f32 registers. Few rows and columns over a long reduced axis are cut along that
//! axis, by shape, and the parts added in order.

mod few_rows;
mod product;
#[cfg(target_arch = "x86_64")]
mod split;

#[cfg(test)]
mod tests;

use super::{Machine, Shared, scratch};
use product::Product;
#[cfg(target_arch = "x86_64")]
pub(crate) use split::{RowsGemm, is_split};

/// Up to this many rows B is read too few times to be worth packing.
pub(crate) const FEW_ROWS: usize = 32;

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
    pub a: MatrixStrides,
    /// Where B's elements lie.
    pub b: MatrixStrides,
    /// Where C's elements lie.
    pub c: MatrixStrides,
}

/// Strides of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatrixStrides {
    /// Between products of the batch.
    pub batch: usize,
    /// Between rows.
    pub row: usize,
    /// Between columns.
    pub column: usize,
}

impl MatrixStrides {
    /// Rows one after the other.
    pub fn row_major(rows: usize, columns: usize) -> MatrixStrides {
        MatrixStrides { batch: rows * columns, row: columns, column: 1 }
    }

    /// The same elements seen as the transposed matrix.
    pub fn transposed(self) -> MatrixStrides {
        MatrixStrides { row: self.column, column: self.row, ..self }
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
        let (a, b, c) =
            (MatrixStrides::row_major(m, k), MatrixStrides::row_major(k, n), MatrixStrides::row_major(m, n));
        Gemm { batch: 1, m, n, k, a, b, c }
    }

    pub(super) fn check(&self, a: usize, b: usize, c: usize) {
        let Gemm { batch, m, n, k, .. } = *self;
        assert!(self.a.end(batch, m, k) <= a, "A ends before its last element: {self:?}");
        assert!(self.b.end(batch, k, n) <= b, "B ends before its last element: {self:?}");
        assert!(self.c.end(batch, m, n) <= c, "C ends before its last element: {self:?}");
    }

    /// Whether the transposed product reads its large operand where it lies, when this one would have to copy it.
    fn is_better_transposed(&self) -> bool {
        let Gemm { m, n, a, b, .. } = *self;
        let tall = n <= FEW_ROWS && m >= 4 * n && a.row == 1 && a.column != 1;
        let wide = m <= FEW_ROWS / 2 && n >= 4 * m && b.row == 1 && b.column != 1;
        tall || wide
    }
}

/// Whether a product is computed in bf16 parts: never without AMX.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_split(_: crate::simd::Simd, _: &Gemm) -> bool {
    false
}

/// Computes `c = a · b` for every product of the batch.
///
/// # Panics
/// When a slice ends before the last element its strides reach, or C's elements overlap obviously (a stride
/// of 0).
pub fn gemm(machine: &Machine, shape: &Gemm, a: &[f32], b: &[f32], c: &mut [f32]) {
    let Gemm { batch, m, n, .. } = *shape;
    shape.check(a.len(), b.len(), c.len());
    if batch * m * n == 0 {
        return;
    }
    // The tiles write rows of C: a C that lies by columns is the transposed product's.
    if shape.c.column != 1 && shape.c.row == 1 {
        let transposed =
            Gemm { m: n, n: m, a: shape.b.transposed(), b: shape.a.transposed(), c: shape.c.transposed(), ..*shape };
        return gemm(machine, &transposed, b, a, c);
    }
    if shape.c.column != 1 && n > 1 {
        return through_a_copy(machine, shape, &Gemm { c: MatrixStrides::row_major(m, n), ..*shape }, a, b, c);
    }
    if shape.is_better_transposed() {
        let transposed = Gemm { m: n, n: m, a: shape.b.transposed(), b: shape.a.transposed(), ..*shape };
        return through_a_copy(machine, shape, &Gemm { c: MatrixStrides::row_major(n, m), ..transposed }, b, a, c);
    }
    for index in 0..batch {
        let a = Shared(a.as_ptr().wrapping_add(index * shape.a.batch).cast_mut());
        let b = Shared(b.as_ptr().wrapping_add(index * shape.b.batch).cast_mut());
        let c = Shared(c.as_mut_ptr().wrapping_add(index * shape.c.batch));
        #[cfg(target_arch = "x86_64")]
        if is_split(machine.simd, shape) {
            split::SplitGemm { machine, shape, a, b, c }.run();
            continue;
        }
        Product { machine, shape, a, b, c }.run();
    }
}

/// Computes `dense`, which is the product of `shape` or that product transposed, into working memory; then moves its
/// elements to their positions in `shape`.
fn through_a_copy(machine: &Machine, shape: &Gemm, dense: &Gemm, a: &[f32], b: &[f32], c: &mut [f32]) {
    // Elements move in small squares, so that neither side is walked across its cache lines all the time.
    const SQUARE: usize = 16;
    // Columns that one thread moves at a time.
    const STRIPE: usize = 64 * SQUARE;
    let target = if dense.m == shape.m { shape.c } else { shape.c.transposed() };
    scratch::borrow(shape.batch * shape.m * shape.n, |copy: &mut [f32]| {
        gemm(machine, dense, a, b, copy);
        let (copy, stripes, c) = (&*copy, dense.n.div_ceil(STRIPE), Shared(c.as_mut_ptr()));
        machine.pool.run(shape.batch * stripes, &|job| {
            let (product, first) = (job / stripes, job % stripes * STRIPE);
            for row in (0..dense.m).step_by(SQUARE) {
                for column in (first..(first + STRIPE).min(dense.n)).step_by(SQUARE) {
                    for row in row..(row + SQUARE).min(dense.m) {
                        let from = product * dense.c.batch + row * dense.n;
                        let to = product * target.batch + row * target.row;
                        for column in column..(column + SQUARE).min(dense.n) {
                            // SAFETY: `check` has seen that C's last element exists; every job has columns of its own.
                            unsafe { *c.at(to + column * target.column) = copy[from + column] };
                        }
                    }
                }
            }
        });
    });
}
