//! Where values come from: inputs, constants, counting and random bits.

use crate::{Case, Tolerance, values};
use octant_graph::{DType, HostTensor, Shape};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        let inputs: Vec<HostTensor> = values::SHAPES.iter().map(|dims| values::ordinary(dtype, dims)).collect();
        cases.push(Case::new(format!("source/identity/{dtype}"), inputs, Tolerance::EXACT, |_, x| x.to_vec()));
        cases.push(constants(dtype));
        if dtype != DType::Bool {
            cases.push(counting(dtype));
        }
    }
    cases.push(Case::new(
        "source/same-output-twice",
        vec![values::ordinary(DType::F32, &[3])],
        Tolerance::EXACT,
        |_, x| {
            let doubled = &x[0] + &x[0];
            vec![doubled.clone(), x[0].clone(), doubled, x[0].clone()]
        },
    ));
    cases.push(Case::new(
        "source/no-inputs-unused-inputs",
        vec![values::ordinary(DType::F32, &[3])],
        Tolerance::EXACT,
        |trace, _| vec![trace.scalar(DType::F32, 2.5)],
    ));
    cases.push(random_bits());
    cases
}

fn constants(dtype: DType) -> Case {
    let notable = values::notable(dtype);
    let mut tensors: Vec<HostTensor> = values::SHAPES.iter().map(|dims| values::ordinary(dtype, dims)).collect();
    tensors.push(values::tensor(dtype, &[notable.len()], &notable));
    tensors.push(values::tensor(dtype, &[4, 3], &[1.0; 12]));
    Case::new(format!("source/constant/{dtype}"), vec![], Tolerance::EXACT, |trace, _| {
        tensors.into_iter().map(|tensor| trace.constant(tensor)).collect()
    })
}

fn counting(dtype: DType) -> Case {
    let shapes: [(&[usize], usize); 6] =
        [(&[1], 0), (&[0], 0), (&[300], 0), (&[3, 4, 5], 0), (&[3, 4, 5], 1), (&[3, 4, 5], 2)];
    Case::new(format!("source/iota/{dtype}"), vec![], Tolerance::EXACT, |trace, _| {
        shapes.iter().map(|&(dims, axis)| trace.iota(Shape::new(dtype, dims), axis)).collect()
    })
}

fn random_bits() -> Case {
    let key = |low: u32, high: u32| HostTensor::new([2], &[low, high]).expect("two words make a key");
    let keys = vec![key(0, 0), key(!0, !0), key(0x1319_8a2e, 0x0370_7344)];
    Case::new("source/random-bits", keys, Tolerance::EXACT, |_, x| {
        let dims: [&[usize]; 5] = [&[], &[1], &[0, 2], &[3, 5], &[7, 1001]];
        x.iter().flat_map(|key| dims.iter().map(|dims| key.random_bits(dims))).collect()
    })
}
