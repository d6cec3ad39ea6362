//! Operations that move elements.

use super::WIDTHS;
use crate::{Case, Tolerance, values};
use octant_graph::{DType, HostTensor, Tensor};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in WIDTHS {
        cases.extend([
            broadcast(dtype),
            reshape(dtype),
            transpose(dtype),
            reverse(dtype),
            slice(dtype),
            pad(dtype),
            concatenate(dtype),
            dynamic_slice(dtype),
            dynamic_update_slice(dtype),
        ]);
    }
    cases.push(moved_many_times());
    cases.extend([DType::U8, DType::I16, DType::I64, DType::U32].map(starts_of_type));
    cases
}

fn exact(name: &str, dtype: DType, shapes: &[&[usize]], build: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Case {
    let inputs: Vec<HostTensor> = shapes.iter().map(|dims| values::ordinary(dtype, dims)).collect();
    Case::new(format!("movement/{name}/{dtype}"), inputs, Tolerance::EXACT, |_, x| build(x))
}

fn broadcast(dtype: DType) -> Case {
    exact("broadcast", dtype, &[&[], &[3], &[3, 1, 5], &[0]], |x| {
        vec![
            x[0].broadcast_in_dim(&[4], &[]),
            x[0].broadcast_in_dim(&[2, 0, 3], &[]),
            x[1].broadcast_in_dim(&[3, 4], &[0]),
            x[1].broadcast_in_dim(&[4, 3], &[1]),
            x[1].broadcast_in_dim(&[2, 3, 4], &[1]),
            x[2].broadcast_in_dim(&[3, 7, 5], &[0, 1, 2]),
            x[2].broadcast_in_dim(&[3, 2, 4, 5], &[0, 2, 3]),
            x[3].broadcast_in_dim(&[0, 2], &[0]),
            x[1].broadcast_in_dim(&[130, 3, 70], &[1]),
        ]
    })
}

fn reshape(dtype: DType) -> Case {
    exact("reshape", dtype, &[&[], &[2, 3, 4], &[0, 3], &[1, 6, 1]], |x| {
        vec![
            x[0].reshape(&[1, 1]),
            x[1].reshape(&[6, 4]),
            x[1].reshape(&[24]),
            x[1].transpose(&[2, 0, 1]).reshape(&[8, 3]),
            x[2].reshape(&[5, 0]),
            x[3].reshape(&[2, 3]),
        ]
    })
}

fn transpose(dtype: DType) -> Case {
    exact("transpose", dtype, &[&[], &[5], &[3, 4], &[2, 3, 4, 5], &[0, 3], &[67, 129]], |x| {
        vec![
            x[0].transpose(&[]),
            x[1].transpose(&[0]),
            x[2].transpose(&[1, 0]),
            x[3].transpose(&[0, 3, 1, 2]),
            x[3].transpose(&[3, 2, 1, 0]),
            x[3].transpose(&[0, 2, 1, 3]),
            x[4].transpose(&[1, 0]),
            x[5].transpose(&[1, 0]),
        ]
    })
}

fn reverse(dtype: DType) -> Case {
    exact("reverse", dtype, &[&[5], &[3, 4, 2], &[0, 2], &[1]], |x| {
        vec![
            x[0].reverse(&[0]),
            x[1].reverse(&[1]),
            x[1].reverse(&[0, 2]),
            x[1].reverse(&[]),
            x[2].reverse(&[0]),
            x[3].reverse(&[0]),
        ]
    })
}

fn slice(dtype: DType) -> Case {
    exact("slice", dtype, &[&[10], &[6, 7, 8], &[3, 2000]], |x| {
        vec![
            x[0].slice(&[2], &[9], &[1]),
            x[0].slice(&[1], &[10], &[4]),
            x[0].slice(&[3], &[3], &[1]),
            x[0].slice(&[0], &[10], &[10]),
            x[1].slice(&[1, 0, 2], &[5, 7, 8], &[2, 3, 1]),
            x[1].transpose(&[2, 1, 0]).slice(&[0, 2, 1], &[8, 6, 6], &[3, 1, 2]),
            x[2].slice(&[0, 5], &[3, 1999], &[1, 997]),
        ]
    })
}

fn pad(dtype: DType) -> Case {
    exact("pad", dtype, &[&[5], &[3, 4], &[0, 2], &[]], |x| {
        let fill = x[0].scalar_like(1.0);
        vec![
            x[0].pad(&fill, &[2], &[3], &[0]),
            x[0].pad(&fill, &[-1], &[-2], &[0]),
            x[0].pad(&fill, &[-1], &[2], &[2]),
            x[0].pad(&fill, &[-3], &[-2], &[0]),
            x[0].pad(&fill, &[-4], &[6], &[1]),
            x[1].pad(&fill, &[1, -1], &[0, 2], &[1, 0]),
            x[1].pad(&fill, &[0, 0], &[-3, 0], &[0, 2]),
            x[2].pad(&fill, &[1, 0], &[2, 1], &[3, 0]),
            x[3].pad(&fill, &[], &[], &[]),
        ]
    })
}

fn concatenate(dtype: DType) -> Case {
    exact("concatenate", dtype, &[&[2, 3], &[2, 1], &[2, 0], &[5, 3]], |x| {
        vec![
            Tensor::concatenate(&[x[0].clone(), x[1].clone(), x[2].clone()], 1),
            Tensor::concatenate(&[x[0].clone(), x[3].clone(), x[0].clone()], 0),
            Tensor::concatenate(&[x[2].clone()], 1),
            Tensor::concatenate(&[x[0].transpose(&[1, 0]), x[1].transpose(&[1, 0])], 0),
        ]
    })
}

/// Starts inside, before and beyond the operand.
fn starts(x: &Tensor) -> Vec<[Tensor; 2]> {
    let at = |value: f64| x.trace().scalar(DType::I32, value);
    [(0.0, 0.0), (1.0, 2.0), (-7.0, 1.0), (100.0, 3.0), (2.0, 1e9), (2.0, -1e9)].map(|(i, j)| [at(i), at(j)]).to_vec()
}

fn dynamic_slice(dtype: DType) -> Case {
    exact("dynamic-slice", dtype, &[&[4, 5], &[], &[0, 3]], |x| {
        let mut results: Vec<Tensor> = starts(&x[0]).iter().map(|starts| x[0].dynamic_slice(starts, &[2, 3])).collect();
        results.extend(starts(&x[0]).iter().map(|starts| x[0].dynamic_slice(starts, &[4, 0])));
        results.push(x[1].dynamic_slice(&[], &[]));
        results.push(x[2].dynamic_slice(&starts(&x[0])[1], &[0, 2]));
        results
    })
}

fn dynamic_update_slice(dtype: DType) -> Case {
    exact("dynamic-update-slice", dtype, &[&[4, 5], &[2, 3], &[0, 2], &[4, 5]], |x| {
        let mut results: Vec<Tensor> =
            starts(&x[0]).iter().map(|starts| x[0].dynamic_update_slice(&x[1], starts)).collect();
        results.push(x[0].dynamic_update_slice(&x[2], &starts(&x[0])[1]));
        results.push(x[0].dynamic_update_slice(&x[3].reverse(&[0]), &starts(&x[0])[1]));
        // The operand is read again afterwards, so it must not have been overwritten.
        results.push(x[0].clone());
        results.push(x[0].reverse(&[1]));
        results
    })
}

fn starts_of_type(dtype: DType) -> Case {
    let start = |value: f64| values::tensor(dtype, &[], &[value]);
    let inputs = vec![values::ordinary(DType::F32, &[300]), start(-3.0), start(250.0), start(1e30)];
    Case::new(format!("movement/starts/{dtype}"), inputs, Tolerance::EXACT, |_, x| {
        x[1..].iter().map(|start| x[0].dynamic_slice(std::slice::from_ref(start), &[4])).collect()
    })
}

/// Views of views: strides of several views must compose.
fn moved_many_times() -> Case {
    exact("many-times", DType::F32, &[&[6, 8, 10]], |x| {
        let cut = x[0].slice(&[0, 1, 0], &[6, 8, 10], &[2, 1, 3]).transpose(&[2, 0, 1]).reverse(&[0, 2]);
        let padded = cut.pad(&cut.scalar_like(0.5), &[1, -1, 0], &[0, 2, -2], &[0, 0, 1]);
        let repeated = padded.broadcast_in_dim(&[5, 2, 4, 11], &[0, 2, 3]);
        vec![repeated.transpose(&[3, 1, 0, 2]).reshape(&[22, 20]), (&cut + &cut).reshape(&[84])]
    })
}
