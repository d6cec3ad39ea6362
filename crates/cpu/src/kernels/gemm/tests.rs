//! Products of all layouts against the definition, at every instruction set.

use super::*;
use crate::kernels::conv::testing::{assert_close, numbers};
use crate::pool::ThreadPool;
use crate::simd::{Bf16Unit, Simd};
use proptest::prelude::*;

fn check(shape: &Gemm) {
    let Gemm { batch, m, n, k, a, b, c } = *shape;
    let (x, y) = (numbers(a.end(batch, m, k), 1), numbers(b.end(batch, k, n), 2));
    let mut expected = vec![-7.0; c.end(batch, m, n)];
    for index in 0..batch * m * n {
        let (product, row, column) = (index / (m * n), index / n % m, index % n);
        let term = |step: usize| {
            let x = x[product * a.batch + row * a.row + step * a.column];
            f64::from(x) * f64::from(y[product * b.batch + step * b.row + column * b.column])
        };
        expected[product * c.batch + row * c.row + column * c.column] = (0..k).map(term).sum();
    }
    // With tiles, f32 products are computed in parts.
    for simd in Simd::all().into_iter().filter(|simd| simd.bf16() != Bf16Unit::Avx512Dot) {
        let machine = Machine { pool: ThreadPool::new(2), simd };
        let mut actual = vec![-7.0; expected.len()];
        gemm(&machine, shape, &x, &y, &mut actual);
        assert_close(&actual, &expected, &format!("{simd:?} {shape:?}"));
    }
}

/// A layout: rows or columns first, with gaps.
fn layout(rows: usize, columns: usize, by_columns: bool, gap: usize) -> MatrixStrides {
    let (outer, inner) = if by_columns { (columns, rows) } else { (rows, columns) };
    let step = 1 + gap / 3;
    let dense = MatrixStrides { batch: outer * inner * step + outer * gap, row: inner * step + gap, column: step };
    if by_columns { dense.transposed() } else { dense }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn any_product_follows_the_definition(
        batch in 1usize..3,
        m in prop_oneof![0usize..5, 13usize..60],
        n in prop_oneof![0usize..5, 13usize..200],
        k in prop_oneof![0usize..5, 13usize..60, 500usize..1300],
        transposed in any::<[bool; 3]>(),
        gaps in [0usize..4, 0usize..4, 0usize..4],
    ) {
        check(&Gemm {
            batch, m, n, k,
            a: layout(m, k, transposed[0], gaps[0]),
            b: layout(k, n, transposed[1], gaps[1]),
            c: layout(m, n, transposed[2], gaps[2]),
        });
    }
}

#[test]
fn skinny_products_follow_the_definition() {
    check(&Gemm::row_major(128, 10, 10816));
    check(&Gemm { a: MatrixStrides::row_major(64, 300).transposed(), ..Gemm::row_major(300, 10, 64) });
    check(&Gemm { b: MatrixStrides::row_major(100, 2048).transposed(), ..Gemm::row_major(16, 100, 2048) });
    check(&Gemm::row_major(1, 1000, 2048));
    check(&Gemm::row_major(200, 1, 3000));
}
