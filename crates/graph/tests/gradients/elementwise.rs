use crate::{check, check_at, values};
use octant_graph::{Binary, DType, Op, Shape, Trace, Unary};

#[test]
fn unary_operations() {
    for unary in Unary::ALL {
        // Inside of every domain and away from jumps.
        let points = [values(&[5], &[0.3, 0.9, 1.4, 2.2, 0.05])];
        if unary.domain().contains(DType::F64) && unary != Unary::IsFinite {
            check_at(&points, |trace, x| trace.emit_one(Op::Unary(unary), &[&x[0]]));
        }
    }
}

#[test]
fn unary_operations_of_negative_numbers() {
    let takes_negative = |unary: &Unary| unary.domain().contains(DType::F64) && !unary.of_float(-2.2).is_nan();
    for unary in Unary::ALL.into_iter().filter(takes_negative).filter(|&unary| unary != Unary::IsFinite) {
        let points = [values(&[3], &[-0.3, -1.6, -2.2])];
        check_at(&points, |trace, x| trace.emit_one(Op::Unary(unary), &[&x[0]]));
    }
}

#[test]
fn binary_operations() {
    let floats = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Rem, Binary::Max, Binary::Min];
    for binary in floats.into_iter().chain([Binary::Pow, Binary::Atan2]) {
        let points = [values(&[4], &[0.4, 2.5, 1.7, 3.1]), values(&[4], &[1.3, 0.7, 1.1, 0.9])];
        check_at(&points, |_, x| x[0].binary(binary, &x[1]));
    }
    for binary in [Binary::Rem, Binary::Div, Binary::Max, Binary::Min, Binary::Atan2] {
        let points = [values(&[4], &[-0.4, 2.5, -1.7, 3.1]), values(&[4], &[1.3, -0.7, -1.1, 0.9])];
        check_at(&points, |_, x| x[0].binary(binary, &x[1]));
    }
}

#[test]
fn operands_that_broadcast() {
    check(&[&[2, 3], &[3]], |_, x| &x[0] * &x[1]);
    check(&[&[2, 1, 3], &[4, 1]], |_, x| &x[0] / (&x[1] + 3.0));
    check(&[&[2, 3]], |_, x| 2.0 / (&x[0] + 4.0) - 1.0);
}

/// Both would be NaN by the plain formulas.
#[test]
fn powers_of_zero_and_to_zero() {
    let trace = Trace::new();
    let [base, exponent] = ["base", "exponent"].map(|name| trace.input(name, Shape::new(DType::F64, [3])));
    let gradients = trace.gradients(&base.pow(&exponent).sum_all(), &[base, exponent]);
    let graph = trace.finish(&gradients).unwrap();
    let results = crate::run(&graph, &[values(&[3], &[0.0, 0.0, 2.0]), values(&[3], &[2.0, 0.0, 0.0])]).unwrap();
    assert_eq!(results[0].to_f64s(), [0.0, 0.0, 0.0]);
    assert_eq!(results[1].to_f64s(), [0.0, 0.0, 2f64.ln()]);
}

#[test]
fn the_gradient_of_relu_at_zero_is_zero() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [3]));
    let relu = x.max(&x.scalar_like(0.0)).sum_all();
    let graph = trace.clone().finish(&trace.gradients(&relu, &[x])).unwrap();
    let point = octant_graph::HostTensor::new([3], &[-1f32, 0.0, 2.0]).unwrap();
    assert_eq!(crate::run(&graph, &[point]).unwrap()[0].to_f64s(), [0.0, 0.0, 1.0]);
}

#[test]
fn select_and_clamp() {
    check(&[&[6], &[6], &[6]], |_, x| x[0].greater(&x[1]).select(&(&x[1] * &x[2]), &x[2]));
    check(&[&[6], &[6], &[6]], |_, x| x[0].clamp(&x[1], &x[2]));
    check(&[&[40]], |_, x| x[0].clamp(&x[0].scalar_like(-0.5), &x[0].scalar_like(0.5)));
}

#[test]
fn clamp_at_its_bounds_passes_the_gradient_on() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F64, [4]));
    let clamped = x.clamp(&x.scalar_like(0.0), &x.scalar_like(1.0)).sum_all();
    let graph = trace.clone().finish(&trace.gradients(&clamped, &[x])).unwrap();
    let results = crate::run(&graph, &[values(&[4], &[-1.0, 0.0, 1.0, 2.0])]).unwrap();
    assert_eq!(results[0].to_f64s(), [0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn convert_between_floats() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [3]));
    let y = x.convert(DType::BF16);
    let loss = (&y * &y).convert(DType::F32).sum_all();
    let gradient = trace.gradients(&loss, &[x]).remove(0);
    assert_eq!(gradient.dtype(), DType::F32);
    let graph = trace.finish(&[gradient]).unwrap();
    let point = octant_graph::HostTensor::new([3], &[1f32, -2.0, 0.5]).unwrap();
    assert_eq!(crate::run(&graph, &[point]).unwrap()[0].to_f64s(), [2.0, -4.0, 1.0]);
}
