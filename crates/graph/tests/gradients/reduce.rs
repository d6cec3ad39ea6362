use crate::{check, check_at, run, values};
use octant_graph::{DType, Shape, Tensor, Trace};

#[test]
fn sums_and_means() {
    check(&[&[2, 3, 4]], |_, x| x[0].sum(&[0, 2]));
    check(&[&[2, 3, 4]], |_, x| x[0].mean_all());
    check(&[&[2, 3]], |_, x| x[0].sum(&[]));
    check(&[&[2, 0]], |_, x| x[0].sum(&[1]));
}

#[test]
fn greatest_and_least() {
    check(&[&[3, 4, 2]], |_, x| x[0].reduce_max(&[1]));
    check(&[&[3, 4, 2]], |_, x| x[0].reduce_min(&[0, 2]));
    check(&[&[3, 4]], |_, x| x[0].arg_max(1).0);
    check(&[&[3, 4]], |_, x| x[0].arg_min(0).0);
}

#[test]
fn equal_extremes_share_and_arg_max_takes_the_first() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F64, [4]));
    let shared = trace.gradients(&x.reduce_max(&[0]), std::slice::from_ref(&x));
    let first = trace.gradients(&x.arg_max(0).0, &[x]);
    let graph = trace.finish(&[shared, first].concat()).unwrap();
    let results = run(&graph, &[values(&[4], &[3.0, 1.0, 3.0, 2.0])]).unwrap();
    assert_eq!(results[0].to_f64s(), [0.5, 0.0, 0.5, 0.0]);
    assert_eq!(results[1].to_f64s(), [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn products_with_none_one_and_two_zeros() {
    check(&[&[3, 4]], |_, x| x[0].product(&[1]));
    let point = values(&[3, 3], &[2.0, 0.0, -3.0, 0.0, 0.0, 5.0, 1.0, 2.0, 3.0]);
    check_at(&[point], |_, x| x[0].product(&[1]));
}

#[test]
fn sort_carries_other_operands_along() {
    for descending in [false, true] {
        check(&[&[3, 5], &[3, 5]], |_, x| {
            let sorted = Tensor::sort(&[x[0].clone(), x[1].clone()], 1, descending);
            &sorted[0] * &sorted[1] + &sorted[1]
        });
    }
    check(&[&[4, 2]], |_, x| Tensor::sort(&x[..1], 0, false).remove(0));
    check(&[&[4, 2], &[4, 2]], |_, x| Tensor::sort(&[x[0].clone(), x[1].clone()], 0, false).remove(1));
}
