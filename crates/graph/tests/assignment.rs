//! Assignments against scipy's `linear_sum_assignment`; `golden/assignment.py` made the totals.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::assignment::{assign, total};
use octant_graph::evaluate::evaluate;
use octant_graph::{AssignmentKernel, DType, HostTensor, Shape, Trace};

const TOTALS: &[u8] = include_bytes!("../golden/assignment.bin");

fn unit(seed: u64, index: usize) -> f64 {
    let mut z = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(seed);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f64 / (1u64 << 24) as f64
}

/// Rows, columns and costs of a matrix, a fifth of them with ties.
fn matrix(number: usize) -> (usize, usize, Vec<f64>) {
    let rows = 1 + number % 12;
    let columns = rows + number / 12 % 20;
    let value = |index: usize| {
        let unit = unit(number as u64, index);
        if number.is_multiple_of(5) { (unit * 5.0).floor() } else { f64::from((10.0 * unit - 5.0) as f32) }
    };
    (rows, columns, (0..rows * columns).map(value).collect())
}

fn wanted(number: usize) -> f64 {
    f64::from(f32::from_le_bytes(TOTALS[4 * number..4 * number + 4].try_into().unwrap()))
}

#[test]
fn the_totals_of_ten_thousand_matrices_are_scipys() {
    for number in 0..10_000 {
        let (_, columns, costs) = matrix(number);
        let found = total(&costs, columns, &assign(&costs, columns));
        let wanted = wanted(number);
        assert!((found - wanted).abs() <= 1e-6 * wanted.abs().max(1.0), "matrix {number}: {found}, not {wanted}");
    }
}

/// The assignment inside of a program, for all matrices of one shape at once; every third row of some does not exist.
#[test]
fn a_program_assigns_whole_batches_as_the_host_does() {
    for (rows, columns) in [(1, 1), (3, 3), (4, 9), (7, 20), (12, 25)] {
        let numbers: Vec<usize> =
            (0..10_000).filter(|&number| matrix(number).0 == rows && matrix(number).1 == columns).collect();
        let numbers = &numbers[..numbers.len().min(40)];
        assert!(numbers.len() > 10);
        let costs: Vec<f64> = numbers.iter().flat_map(|&number| matrix(number).2).collect();
        let exists = |number: usize, row: usize| number % 4 != 1 || row % 3 != 1;
        let flag = |number: usize, row: usize| f32::from(u8::from(exists(number, row)));
        let flags: Vec<f32> = numbers.iter().flat_map(|&number| (0..rows).map(move |row| flag(number, row))).collect();
        let trace = Trace::new();
        let input = trace.input("costs", Shape::new(DType::F32, [numbers.len(), rows, columns]));
        let given = trace.constant(HostTensor::new([numbers.len(), rows], &flags).unwrap());
        let given = given.greater(&given.scalar_like(0.5));
        let found = input.assignment(&given);
        let graph = trace.finish(&[found]).unwrap();
        let tensor = HostTensor::from_f64s(Shape::new(DType::F32, [numbers.len(), rows, columns]), &costs).unwrap();
        let found = evaluate(&graph, &[tensor]).unwrap().remove(0);
        let found = found.elements::<i32>().unwrap();
        // What backends may run instead of the loop has the same totals.
        let kernel = AssignmentKernel { batch: numbers.len(), rows, columns };
        let mut by_kernel = vec![0; numbers.len() * rows];
        let costs: Vec<f32> = costs.iter().map(|&cost| cost as f32).collect();
        kernel.run(&costs, &flags, &mut by_kernel);
        for (at, &number) in numbers.iter().enumerate() {
            let kept: Vec<usize> = (0..rows).filter(|&row| exists(number, row)).collect();
            let all = matrix(number).2;
            let own: Vec<f64> = kept.iter().flat_map(|&row| all[row * columns..][..columns].to_vec()).collect();
            let best = assign(&own, columns);
            let chosen: Vec<Option<usize>> = kept.iter().map(|&row| Some(found[at * rows + row] as usize)).collect();
            let mut taken: Vec<usize> = chosen.iter().flatten().copied().collect();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), kept.len(), "matrix {number}: a column is taken twice");
            let [found, wanted] = [&chosen, &best].map(|rows| total(&own, columns, rows));
            assert!((found - wanted).abs() <= 1e-4, "matrix {number}: {found}, not {wanted}");
            let own_kernel: Vec<Option<usize>> =
                kept.iter().map(|&row| Some(by_kernel[at * rows + row] as usize)).collect();
            assert!((total(&own, columns, &own_kernel) - wanted).abs() <= 1e-4, "matrix {number}");
            // Without ties there is one best assignment.
            if !number.is_multiple_of(5) {
                assert_eq!(chosen, best, "matrix {number}");
            }
        }
    }
}
