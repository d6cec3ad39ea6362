//! Matrix products of bf16 operands with f32 sums.
//!
//! A matrix with contiguous rows is an image one pixel wide, so with AMX the product is a 1×1 convolution. Without it
//! both operands are widened.

use super::bf16::{Output, narrow, widen_all};
use super::conv::{ConvGeometry, ForwardConv, Weights};
use super::{Gemm, Machine, MatrixStrides, gemm, scratch};
use crate::simd::Bf16Unit;
use half::bf16;

/// Computes `c = a · b` for every product of the batch; see [`gemm`].
///
/// # Panics
/// When a slice ends before the last element its strides reach.
pub fn gemm_bf16(machine: &Machine, shape: &Gemm, a: &[bf16], b: &[bf16], mut c: Output<'_>) {
    shape.check(a.len(), b.len(), c.len());
    let Gemm { batch, m, n, k, .. } = *shape;
    if batch * m * n == 0 {
        return;
    }
    if machine.simd.bf16() != Bf16Unit::Amx || k == 0 {
        return widened(machine, shape, a, b, c);
    }
    let conv = ConvGeometry::new(1, [m, 1], [k, n], [1, 1]);
    let plan = ForwardConv::new(&conv);
    for product in 0..batch {
        let weights = Weights {
            data: &b[product * shape.b.batch..],
            row: 0,
            column: 0,
            input: shape.b.row,
            output: shape.b.column,
            group: 0,
        };
        with_dense_rows(shape, &a[product * shape.a.batch..], |a| {
            let first = product * shape.c.batch;
            if shape.c.column == 1 && (shape.c.row == n || m == 1) {
                return plan.run_bf16(machine, a, weights, c.part(first..first + m * n), None);
            }
            scratch::borrow(m * n, |sums: &mut [f32]| {
                plan.run_bf16(machine, a, weights, Output::F32(sums), None);
                store(shape, first, sums, &mut c);
            });
        });
    }
}

/// Lends A with rows that follow each other, copied if they do not.
fn with_dense_rows(shape: &Gemm, a: &[bf16], body: impl FnOnce(&[bf16])) {
    let Gemm { m, k, a: layout, .. } = *shape;
    if layout.column == 1 && (layout.row == k || m == 1) {
        return body(&a[..m * k]);
    }
    scratch::borrow(m * k, |copy: &mut [bf16]| {
        for (row, copy) in copy.chunks_exact_mut(k).enumerate() {
            for (column, copy) in copy.iter_mut().enumerate() {
                *copy = a[row * layout.row + column * layout.column];
            }
        }
        body(copy);
    });
}

/// Spreads one product's sums to where C's elements lie.
fn store(shape: &Gemm, first: usize, sums: &[f32], c: &mut Output<'_>) {
    for (row, sums) in sums.chunks_exact(shape.n).enumerate() {
        for (column, &sum) in sums.iter().enumerate() {
            let at = first + row * shape.c.row + column * shape.c.column;
            match c {
                Output::Bf16(c) => c[at] = bf16::from_f32(sum),
                Output::F32(c) => c[at] = sum,
            }
        }
    }
}

fn widened(machine: &Machine, shape: &Gemm, a: &[bf16], b: &[bf16], mut c: Output<'_>) {
    let Gemm { batch, m, n, .. } = *shape;
    scratch::borrow(a.len() + b.len() + batch * m * n, |wide: &mut [f32]| {
        let (wide_a, wide) = wide.split_at_mut(a.len());
        let (wide_b, sums) = wide.split_at_mut(b.len());
        widen_all(machine, a, wide_a);
        widen_all(machine, b, wide_b);
        let dense = MatrixStrides::row_major(m, n);
        gemm(machine, &Gemm { c: dense, ..*shape }, wide_a, wide_b, sums);
        match &mut c {
            Output::Bf16(c) if shape.c == dense => narrow(machine.simd, sums, &mut c[..batch * m * n]),
            _ => {
                for (product, sums) in sums.chunks_exact(m * n).enumerate() {
                    store(shape, product * shape.c.batch, sums, &mut c);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::conv::testing::{assert_close, numbers};
    use crate::pool::ThreadPool;
    use crate::simd::Simd;

    #[test]
    fn products_of_all_layouts_follow_the_definition() {
        let sizes = [(1, 1, 1, 1), (2, 33, 17, 5), (1, 70, 100, 64), (1, 16, 10, 301), (3, 5, 40, 0), (1, 0, 3, 4)];
        // Blocks of weights that are transposed as a whole, and what is left of them.
        // The last one has weights that leave the cache, and a reduced axis in two parts.
        let sizes = [&sizes[..], &[(1, 40, 64, 96), (2, 33, 176, 70), (1, 69, 700, 400)]].concat();
        for (batch, m, n, k) in sizes {
            for transposed in 0..8 {
                let layout = |rows: usize, columns: usize, bit: usize| match transposed >> bit & 1 {
                    0 => MatrixStrides::row_major(rows, columns),
                    _ => MatrixStrides::row_major(columns, rows).transposed(),
                };
                let shape = Gemm { batch, m, n, k, a: layout(m, k, 0), b: layout(k, n, 1), c: layout(m, n, 2) };
                check(&shape);
            }
        }
    }

    /// Chunks are cut for the number of threads, where blocks of tiles end; the last tile repeats rows of the one before it.
    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let exact = |len, seed| -> Vec<bf16> { numbers(len, seed).into_iter().map(bf16::from_f32).collect() };
        for (m, n, k) in [(197, 768, 384), (49, 1024, 512), (5, 40, 600), (300, 96, 64)] {
            let shape = Gemm::row_major(m, n, k);
            let (a, b) = (exact(m * k, 1), exact(k * n, 2));
            for simd in Simd::all() {
                let product = |threads: usize| {
                    let mut c = vec![f32::NAN; m * n];
                    let machine = Machine { pool: ThreadPool::new(threads), simd };
                    gemm_bf16(&machine, &shape, &a, &b, Output::F32(&mut c));
                    c
                };
                let alone = product(1);
                assert!((2..=4).all(|threads| product(threads) == alone), "{simd:?} {shape:?}");
            }
        }
    }

    fn check(shape: &Gemm) {
        let Gemm { batch, m, n, k, .. } = *shape;
        let exact = |len, seed| -> Vec<bf16> { numbers(len, seed).into_iter().map(bf16::from_f32).collect() };
        let (a, b) = (exact(batch * m * k, 1), exact(batch * k * n, 2));
        let mut expected = vec![0.0f64; batch * m * n];
        for index in 0..batch * m * n {
            let (product, row, column) = (index / (m * n), index / n % m, index % n);
            let term = |step: usize| {
                let a = a[product * shape.a.batch + row * shape.a.row + step * shape.a.column];
                a.to_f64() * b[product * shape.b.batch + step * shape.b.row + column * shape.b.column].to_f64()
            };
            let at = product * shape.c.batch + row * shape.c.row + column * shape.c.column;
            expected[at] = (0..k).map(term).sum();
        }
        for simd in Simd::all() {
            let machine = Machine { pool: ThreadPool::new(2), simd };
            let mut sums = vec![f32::NAN; expected.len()];
            gemm_bf16(&machine, shape, &a, &b, Output::F32(&mut sums));
            assert_close(&sums, &expected, &format!("{simd:?} {shape:?}"));
            let mut rounded = vec![bf16::NAN; expected.len()];
            gemm_bf16(&machine, shape, &a, &b, Output::Bf16(&mut rounded));
            assert!(sums.iter().zip(&rounded).all(|(sum, rounded)| bf16::from_f32(*sum) == *rounded));
        }
    }
}
