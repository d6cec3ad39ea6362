use crate::check;
use octant_graph::{DType, Tensor, Trace};

#[test]
fn broadcast() {
    check(&[&[3, 1]], |_, x| x[0].broadcast_in_dim(&[2, 3, 4, 5], &[1, 3]));
    check(&[&[1, 1]], |_, x| x[0].broadcast_in_dim(&[1, 1, 2], &[0, 2]));
    check(&[&[]], |_, x| x[0].broadcast_to(&[2, 3]));
}

#[test]
fn reshape_transpose_and_reverse() {
    check(&[&[2, 6]], |_, x| x[0].reshape(&[3, 4]));
    check(&[&[2, 3, 4]], |_, x| x[0].transpose(&[2, 0, 1]));
    check(&[&[2, 3, 4]], |_, x| x[0].reverse(&[0, 2]));
}

#[test]
fn slices_with_strides_and_without_elements() {
    check(&[&[5, 7]], |_, x| x[0].slice(&[1, 0], &[5, 6], &[1, 1]));
    check(&[&[5, 7]], |_, x| x[0].slice(&[0, 1], &[5, 7], &[2, 3]));
    check(&[&[5, 7]], |_, x| x[0].slice(&[1, 2], &[5, 6], &[3, 2]));
    check(&[&[5, 7]], |_, x| x[0].slice(&[2, 0], &[2, 7], &[1, 1]));
}

fn starts(trace: &Trace, starts: &[f64]) -> Vec<Tensor> {
    starts.iter().map(|&start| trace.scalar(DType::I32, start)).collect()
}

/// The second pair of starts is clamped.
#[test]
fn dynamic_slice_and_update() {
    for position in [[1.0, 2.0], [9.0, -3.0]] {
        check(&[&[4, 5]], |trace, x| x[0].dynamic_slice(&starts(trace, &position), &[2, 3]));
        check(&[&[4, 5], &[2, 3]], |trace, x| x[0].dynamic_update_slice(&x[1], &starts(trace, &position)));
    }
}

#[test]
fn pad_at_edges_between_elements_and_negatively() {
    let cases: [([i64; 2], [i64; 2], [usize; 2]); 6] = [
        ([1, 2], [0, 3], [0, 0]),
        ([0, 0], [0, 0], [2, 1]),
        ([-1, 1], [2, -2], [0, 0]),
        ([-2, -1], [-1, 4], [1, 2]),
        ([-4, 5], [1, -6], [1, 0]),
        ([-3, 0], [0, 0], [0, 0]),
    ];
    for (low, high, interior) in cases {
        check(&[&[3, 4], &[]], |_, x| x[0].pad(&x[1], &low, &high, &interior));
    }
}

#[test]
fn concatenate() {
    check(&[&[2, 1], &[2, 3], &[2, 0]], |_, x| Tensor::concatenate(&[x, &x[..1]].concat(), 1));
}
