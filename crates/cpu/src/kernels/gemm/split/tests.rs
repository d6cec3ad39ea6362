//! Products in parts against f64, against f32 registers, and with numbers that have no parts.

use super::super::gemm;
use super::*;
use crate::kernels::conv::testing::numbers;
use crate::pool::ThreadPool;

/// The machine with its tiles, and without them; none where there are no tiles.
fn machines() -> Option<[Machine; 2]> {
    let all = Simd::all();
    let tiles = all.iter().copied().find(|simd| simd.bf16() == Bf16Unit::Amx)?;
    let plain = all.iter().copied().find(|simd| simd.level() == tiles.level() && simd.bf16() == Bf16Unit::Widen)?;
    Some([tiles, plain].map(|simd| Machine { pool: ThreadPool::new(2), simd }))
}

/// Numbers of very different magnitudes.
fn spread(len: usize, seed: u64) -> Vec<f32> {
    let scales = numbers(len, seed + 100);
    numbers(len, seed).iter().zip(scales).map(|(&x, scale)| x * (12.0 * scale).exp2()).collect()
}

#[test]
fn parts_are_as_exact_as_f32() {
    let Some(machines) = machines() else { return };
    for (m, n, k) in [(70, 130, 500), (197, 96, 64), (64, 200, 1000)] {
        let shape = Gemm::row_major(m, n, k);
        assert!(is_split(machines[0].simd, &shape) && !is_split(machines[1].simd, &shape));
        let (a, b) = (spread(m * k, 1), spread(k * n, 2));
        let error = |machine: &Machine| -> f64 {
            let mut c = vec![f32::NAN; m * n];
            gemm(machine, &shape, &a, &b, &mut c);
            let squares = c.iter().enumerate().map(|(index, &actual)| {
                let (row, column) = (index / n, index % n);
                let terms = (0..k).map(|step| f64::from(a[row * k + step]) * f64::from(b[step * n + column]));
                let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                ((f64::from(actual) - exact) / size).powi(2)
            });
            (squares.sum::<f64>() / (m * n) as f64).sqrt()
        };
        let [parts, plain] = [error(&machines[0]), error(&machines[1])];
        assert!(parts <= plain && parts < 1e-7, "{m}×{n}×{k}: {parts:e} in parts, {plain:e} in registers");
    }
}

#[test]
fn numbers_without_parts_give_what_f32_gives() {
    let Some(machines) = machines() else { return };
    let (m, n, k) = (100, 70, 96);
    let odd = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::from_bits(0x7fff_ffff)];
    for (index, odd) in odd.into_iter().enumerate() {
        for (in_a, shape) in [(true, Gemm::row_major(m, n, k)), (false, Gemm::row_major(m, n, k))] {
            let (mut a, mut b) = (numbers(m * k, 1), numbers(k * n, 2));
            *if in_a { &mut a[37 * k + index] } else { &mut b[index * n + 50] } = odd;
            let [parts, plain] = [&machines[0], &machines[1]].map(|machine| {
                let mut c = vec![0.0; m * n];
                gemm(machine, &shape, &a, &b, &mut c);
                c
            });
            for (parts, plain) in parts.iter().zip(&plain) {
                let same = parts == plain || parts.is_nan() && plain.is_nan() || (parts - plain).abs() < 1e-4;
                assert!(same, "{odd} in A: {in_a}; {parts} in parts, {plain} in registers");
            }
        }
    }
}

#[test]
fn packed_weights_serve_without_the_weights() {
    let Some([machine, _]) = machines() else { return };
    let (m, n, k) = (200, 96, 100);
    let shape = Gemm::row_major(m, n, k);
    let (mut a, b, mut c) = (numbers(m * k, 1), numbers(k * n, 2), vec![0.0; m * n]);
    let mut packed = vec![0; RowsGemm::packed_len(machine.simd, &shape).unwrap()];
    assert!(RowsGemm::new(&machine, &shape, &a, &b, &mut c).pack(&mut packed));
    let gone = vec![f32::NAN; k * n];
    for infinite in [false, true] {
        a[5] = if infinite { f32::INFINITY } else { a[5] };
        let mut expected = vec![0.0; m * n];
        gemm(&machine, &shape, &a, &b, &mut expected);
        let rows = std::sync::Mutex::new(Vec::new());
        RowsGemm::new(&machine, &shape, &a, &gone, &mut c).run(&packed, &|first, len| {
            rows.lock().unwrap().push((first, len));
        });
        assert!(c.iter().zip(&expected).all(|(c, expected)| c.to_bits() == expected.to_bits()));
        let mut rows = rows.into_inner().unwrap();
        rows.sort_unstable();
        let end = rows.iter().fold(0, |end, &(first, len)| if first == end { first + len } else { usize::MAX });
        assert_eq!(end, m * n, "every row is finished once");
    }
}
