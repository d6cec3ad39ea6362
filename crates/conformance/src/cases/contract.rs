//! Matrix multiplication in its general form.

use crate::{Case, Tolerance, values};
use octant_graph::{DType, DotGeneral, HostTensor};

type Axes = &'static [usize];

/// Left and right dimensions; left and right batch axes; left and right contracted axes.
const FORMS: [([Axes; 2], [Axes; 2], [Axes; 2]); 14] = [
    ([&[3, 4], &[4, 5]], [&[], &[]], [&[1], &[0]]),
    ([&[4, 3], &[5, 4]], [&[], &[]], [&[0], &[1]]),
    ([&[4], &[4]], [&[], &[]], [&[0], &[0]]),
    ([&[4], &[3]], [&[], &[]], [&[], &[]]),
    ([&[], &[2, 3]], [&[], &[]], [&[], &[]]),
    ([&[2, 3, 4], &[2, 4, 5]], [&[0], &[0]], [&[2], &[1]]),
    ([&[3, 2, 4], &[4, 5, 2]], [&[1], &[2]], [&[2], &[0]]),
    ([&[2, 3, 4, 5], &[5, 6, 3, 2]], [&[0, 1], &[3, 2]], [&[3], &[0]]),
    ([&[2, 3, 4], &[4, 3, 6]], [&[], &[]], [&[1, 2], &[1, 0]]),
    ([&[3, 0], &[0, 5]], [&[], &[]], [&[1], &[0]]),
    ([&[0, 4], &[4, 5]], [&[], &[]], [&[1], &[0]]),
    ([&[1, 1], &[1, 1]], [&[], &[]], [&[1], &[0]]),
    ([&[67, 130], &[130, 93]], [&[], &[]], [&[1], &[0]]),
    ([&[130, 67], &[93, 130]], [&[], &[]], [&[0], &[1]]),
];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> =
        DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool).map(|dtype| case(dtype, dtype)).collect();
    let wider = [
        (DType::BF16, DType::F32),
        (DType::F16, DType::F32),
        (DType::F32, DType::F64),
        (DType::I8, DType::I32),
        (DType::U8, DType::U32),
    ];
    cases.extend(wider.map(|(dtype, result)| case(dtype, result)));
    cases.push(after_transpose());
    cases
}

fn case(dtype: DType, result: DType) -> Case {
    let inputs: Vec<HostTensor> =
        FORMS.iter().flat_map(|(dims, ..)| dims.map(|dims| values::ordinary(dtype, dims))).collect();
    Case::new(format!("dot/{dtype}/{result}"), inputs, Tolerance::sum(130), |_, x| {
        let operands = x.chunks(2).zip(FORMS);
        operands
            .map(|(pair, (_, [left_batch, right_batch], [left_contract, right_contract]))| {
                let dot = DotGeneral {
                    left_batch: left_batch.to_vec(),
                    right_batch: right_batch.to_vec(),
                    left_contract: left_contract.to_vec(),
                    right_contract: right_contract.to_vec(),
                    dtype: result,
                };
                pair[0].dot_general(&pair[1], dot)
            })
            .collect()
    })
}

/// Operands that do not lie in row-major order, and a result that is used more than once.
fn after_transpose() -> Case {
    let inputs = vec![values::ordinary(DType::F32, &[40, 30]), values::ordinary(DType::F32, &[50, 30])];
    Case::new("dot/after-transpose", inputs, Tolerance::sum(1000), |_, x| {
        let product = x[0].matmul(&x[1].transpose(&[1, 0]));
        let square = product.transpose(&[1, 0]).matmul(&product);
        vec![product, square.tanh(), x[0].reverse(&[1]).matmul(&x[1].slice(&[1, 0], &[31, 30], &[1, 1]))]
    })
}
