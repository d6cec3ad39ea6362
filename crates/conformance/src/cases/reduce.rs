//! Reductions, arg-max and sorting.

use super::WIDTHS;
use crate::{Case, Tolerance, values};
use octant_graph::{DType, HostTensor, Op, Reduction, Tensor};

/// Every reduction; the coverage test keeps this complete.
pub const REDUCTIONS: [Reduction; 6] =
    [Reduction::Sum, Reduction::Product, Reduction::Max, Reduction::Min, Reduction::And, Reduction::Or];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        cases.extend(REDUCTIONS.into_iter().filter_map(|kind| reduce(kind, dtype)));
        cases.push(arg_reduce(dtype));
        cases.push(sort(dtype));
    }
    cases.extend([DType::F16, DType::BF16].map(long_sum));
    cases.extend(WIDTHS.map(sort_together));
    cases
}

fn reduce(kind: Reduction, dtype: DType) -> Option<Case> {
    let inputs: Vec<HostTensor> = match kind {
        Reduction::Product => [&[][..], &[1], &[0, 3], &[3, 4, 5], &[7, 9], &[4, 6]]
            .map(|dims| {
                if dtype.is_float() {
                    values::between(0.7, 1.4, dtype, dims)
                } else {
                    values::between(1.0, 3.0, dtype, dims)
                }
            })
            .to_vec(),
        _ => [&[][..], &[1], &[0, 3], &[3, 4, 5], &[130, 70], &[4, 2051]]
            .map(|dims| values::ordinary(dtype, dims))
            .to_vec(),
    };
    let terms = if kind == Reduction::Sum { Tolerance::sum(4 * 2051) } else { Tolerance::chain(60.0, 0.0) };
    let tolerance = match kind {
        Reduction::Sum | Reduction::Product => terms,
        _ => Tolerance::EXACT,
    };
    Case::if_typed(format!("reduce/{kind:?}/{dtype}").to_lowercase(), inputs, tolerance, |trace, x| {
        let reduce = |x: &Tensor, axes: &[usize]| trace.emit_one(Op::Reduce { kind, axes: axes.to_vec() }, &[x]);
        vec![
            reduce(&x[0], &[]),
            reduce(&x[1], &[0]),
            reduce(&x[2], &[0]),
            reduce(&x[2], &[1]),
            reduce(&x[2], &[0, 1]),
            reduce(&x[3], &[]),
            reduce(&x[3], &[1]),
            reduce(&x[3], &[0, 2]),
            reduce(&x[3], &[0, 1, 2]),
            reduce(&x[3].transpose(&[2, 0, 1]), &[0, 1]),
            reduce(&x[3].reshape(&[3, 2, 2, 5]), &[1, 2]),
            reduce(&x[3].reshape(&[1, 3, 2, 2, 5]), &[1, 2, 3]),
            reduce(&x[3].reshape(&[3, 2, 2, 5, 1]), &[1, 3]),
            reduce(&x[4], &[0]),
            reduce(&x[4], &[1]),
            reduce(&x[5], &[1]),
            reduce(&x[5], &[0, 1]),
        ]
    })
    .ok()
}

/// Sums whose partial sums a narrow type could not hold exactly.
fn long_sum(dtype: DType) -> Case {
    let ones = values::tensor(dtype, &[3000], &[1.0; 3000]);
    Case::new(format!("reduce/long-sum/{dtype}"), vec![ones], Tolerance::chain(1.0, 0.0), |_, x| {
        vec![x[0].sum(&[0]), x[0].reshape(&[3, 1000]).sum(&[1]), x[0].reshape(&[1000, 3]).sum(&[0])]
    })
}

fn arg_reduce(dtype: DType) -> Case {
    let mut inputs = vec![
        values::with_ties(dtype, &[1]),
        values::with_ties(dtype, &[0, 4]),
        values::with_ties(dtype, &[5, 6, 7]),
        values::ordinary(dtype, &[3, 1500]),
    ];
    if dtype.is_float() {
        inputs.push(values::tensor(
            dtype,
            &[2, 4],
            &[1.0, f64::NAN, 9.0, f64::NAN, f64::NEG_INFINITY, -0.0, 0.0, f64::INFINITY],
        ));
    } else {
        inputs.push(values::tensor(dtype, &[2, 2], &[1e30, -1e30, -1e30, 1e30]));
    }
    Case::new(format!("reduce/arg/{dtype}"), inputs, Tolerance::EXACT, |_, x| {
        let both = |x: &Tensor, axis: usize| {
            let ((largest, at), (least, below)) = (x.arg_max(axis), x.arg_min(axis));
            [largest, at, least, below]
        };
        [both(&x[0], 0), both(&x[1], 1), both(&x[2], 0), both(&x[2], 1), both(&x[2], 2), both(&x[3], 1), both(&x[4], 1)]
            .concat()
    })
}

fn sort(dtype: DType) -> Case {
    let notable = values::notable(dtype);
    let inputs = vec![
        values::tensor(dtype, &[notable.len()], &notable),
        values::with_ties(dtype, &[0, 3]),
        values::with_ties(dtype, &[4, 5, 6]),
        values::ordinary(dtype, &[777]),
    ];
    Case::new(format!("reduce/sort/{dtype}"), inputs, Tolerance::EXACT, |_, x| {
        let by = |x: &Tensor, axis: usize| {
            [false, true].map(|descending| Tensor::sort(std::slice::from_ref(x), axis, descending))
        };
        let sorted = [by(&x[0], 0), by(&x[1], 0), by(&x[1], 1), by(&x[2], 0), by(&x[2], 1), by(&x[2], 2), by(&x[3], 0)];
        sorted.concat().concat()
    })
}

/// The order of the first operand moves all others, and equals stay in order.
fn sort_together(dtype: DType) -> Case {
    let keys = values::with_ties(DType::F32, &[4, 40]);
    let inputs = vec![keys, values::ordinary(dtype, &[4, 40])];
    Case::new(format!("reduce/sort-together/{dtype}"), inputs, Tolerance::EXACT, |trace, x| {
        let positions = trace.iota(x[0].shape().with_dtype(DType::I32), 1);
        let operands = [x[0].clone(), positions, x[1].clone()];
        [Tensor::sort(&operands, 1, false), Tensor::sort(&operands, 1, true), Tensor::sort(&operands, 0, false)]
            .concat()
    })
}
