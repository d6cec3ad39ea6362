use crate::check;
use octant_graph::{DType, DotGeneral, Shape, Trace};

#[test]
fn matrix_products() {
    check(&[&[3, 4], &[4, 2]], |_, x| x[0].matmul(&x[1]));
    check(&[&[2, 3, 4], &[2, 4, 2]], |_, x| x[0].matmul(&x[1]));
    check(&[&[2, 3, 4], &[4, 2]], |_, x| x[0].matmul(&x[1]));
}

#[test]
fn general_axes() {
    let dot = DotGeneral {
        left_batch: vec![3, 1],
        right_batch: vec![0, 4],
        left_contract: vec![4, 0],
        right_contract: vec![1, 3],
        dtype: DType::F64,
    };
    check(&[&[2, 3, 4, 2, 5], &[2, 5, 3, 2, 3]], |_, x| x[0].dot_general(&x[1], dot.clone()));
    let outer = DotGeneral {
        left_batch: vec![],
        right_batch: vec![],
        left_contract: vec![],
        right_contract: vec![],
        dtype: DType::F64,
    };
    check(&[&[2], &[3, 2]], |_, x| x[0].dot_general(&x[1], outer.clone()));
    let inner = DotGeneral { left_contract: vec![0, 1], right_contract: vec![1, 0], ..outer };
    check(&[&[2, 3], &[3, 2]], |_, x| x[0].dot_general(&x[1], inner.clone()));
}

#[test]
fn narrow_operands_with_a_wide_result_have_narrow_gradients() {
    let trace = Trace::new();
    let a = trace.input("a", Shape::new(DType::BF16, [2, 3]));
    let b = trace.input("b", Shape::new(DType::BF16, [3, 2]));
    let dot = DotGeneral {
        left_batch: vec![],
        right_batch: vec![],
        left_contract: vec![1],
        right_contract: vec![0],
        dtype: DType::F32,
    };
    let gradients = trace.gradients(&a.dot_general(&b, dot).sum_all(), &[a, b]);
    assert!(gradients.iter().all(|gradient| gradient.dtype() == DType::BF16));
    trace.finish(&gradients).unwrap();
}
