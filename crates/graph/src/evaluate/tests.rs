//! The evaluator against figures worked out by hand or published elsewhere.

use super::*;
use crate::Trace;
use crate::op::*;
use octant_tensor::{DType, bf16};

fn f32s(dims: &[usize], values: &[f64]) -> HostTensor {
    HostTensor::from_f64s(Shape::new(DType::F32, dims), values).unwrap()
}

/// Evaluates a function of some inputs.
fn compute(inputs: &[HostTensor], function: impl FnOnce(&[crate::Tensor]) -> Vec<crate::Tensor>) -> Vec<HostTensor> {
    let trace = Trace::new();
    let symbols: Vec<_> = inputs.iter().map(|input| trace.input("x", input.shape().clone())).collect();
    let outputs = function(&symbols);
    evaluate(&trace.finish(&outputs).unwrap(), inputs).unwrap()
}

#[test]
fn a_strided_padded_convolution_is_what_a_person_computes() {
    let input = f32s(&[1, 1, 4, 1], &[1.0, 2.0, 3.0, 4.0]);
    let kernel = f32s(&[1, 3, 1, 1], &[1.0, 10.0, 100.0]);
    let mut conv = Convolution::nhwc(2, DType::F32);
    conv.padding = vec![(0, 0), (1, 0)];
    conv.strides = vec![1, 2];
    let forward = compute(&[input.clone(), kernel.clone()], |x| vec![x[0].convolution(&x[1], conv.clone())]);
    assert_eq!(forward[0].to_f64s(), [210.0, 432.0]);
    conv.reversed = true;
    let reversed = compute(&[input, kernel], |x| vec![x[0].convolution(&x[1], conv)]);
    assert_eq!(reversed[0].to_f64s(), [12.0, 234.0]);
}

#[test]
fn batch_groups_make_consecutive_output_features() {
    let input = f32s(&[2, 1, 1], &[3.0, 5.0]);
    let kernel = f32s(&[1, 1, 4], &[1.0, 10.0, 100.0, 1000.0]);
    let conv = Convolution { batch_groups: 2, ..Convolution::nhwc(1, DType::F32) };
    let result = compute(&[input, kernel], |x| vec![x[0].convolution(&x[1], conv)]);
    assert_eq!(result[0].to_f64s(), [3.0, 30.0, 500.0, 5000.0]);
}

#[test]
fn padding_may_remove_elements_and_dilate_at_once() {
    let x = f32s(&[3], &[1.0, 2.0, 3.0]);
    let padded = compute(&[x], |x| vec![x[0].pad(&x[0].scalar_like(9.0), &[-1], &[2], &[1])]);
    assert_eq!(padded[0].to_f64s(), [9.0, 2.0, 9.0, 3.0, 9.0, 9.0]);
}

#[test]
fn max_pooling_gradient_goes_to_the_first_of_equals() {
    let x = f32s(&[5], &[1.0, 4.0, 4.0, 2.0, 3.0]);
    let source = f32s(&[2], &[10.0, 20.0]);
    let window = Window { strides: vec![2], ..Window::new([3]) };
    let result = compute(&[x, source], |x| vec![x[0].select_and_scatter(&x[1], window)]);
    assert_eq!(result[0].to_f64s(), [0.0, 10.0, 20.0, 0.0, 0.0]);
}

#[test]
fn scatter_drops_windows_that_do_not_fit_and_gather_moves_them_inside() {
    let operand = f32s(&[3], &[1.0, 2.0, 3.0]);
    let indices = HostTensor::new([4], &[2i32, -1, 3, 2]).unwrap();
    let updates = f32s(&[4], &[10.0, 20.0, 30.0, 40.0]);
    let scatter = |kind| Scatter {
        update_window_axes: vec![],
        inserted_window_axes: vec![0],
        scatter_axes: vec![0],
        index_vector_axis: 1,
        kind,
    };
    let results = compute(&[operand, indices, updates], |x| {
        let by = |kind| x[0].scatter(&x[1], &x[2], scatter(kind));
        vec![by(ScatterKind::Add), by(ScatterKind::Set), x[0].take(&x[1])]
    });
    assert_eq!(results[0].to_f64s(), [1.0, 2.0, 53.0]);
    assert_eq!(results[1].to_f64s(), [1.0, 2.0, 40.0]);
    assert_eq!(results[2].to_f64s(), [3.0, 1.0, 3.0, 3.0]);
}

#[test]
fn sorting_is_stable_and_knows_where_nan_belongs() {
    let keys = f32s(&[4], &[2.0, f64::NAN, 1.0, 2.0]);
    let values = HostTensor::new([4], &[0i32, 1, 2, 3]).unwrap();
    let results =
        compute(&[keys, values], |x| [crate::Tensor::sort(x, 0, false), crate::Tensor::sort(x, 0, true)].concat());
    assert_eq!(results[1].to_f64s(), [2.0, 0.0, 3.0, 1.0]);
    assert_eq!(results[3].to_f64s(), [1.0, 0.0, 3.0, 2.0]);
}

#[test]
fn arg_max_takes_the_first_and_prefers_nan() {
    let x = f32s(&[2, 3], &[1.0, 5.0, 5.0, 7.0, f64::NAN, f64::NAN]);
    let results = compute(&[x], |x| vec![x[0].arg_max(1).1, x[0].arg_min(1).1]);
    assert_eq!(results[0].to_f64s(), [1.0, 1.0]);
    assert_eq!(results[1].to_f64s(), [0.0, 1.0]);
}

#[test]
fn integers_wrap_and_division_by_zero_sets_all_bits() {
    let x = HostTensor::new([4], &[i8::MIN, 127, 7, -7]).unwrap();
    let y = HostTensor::new([4], &[-1i8, 1, 0, 2]).unwrap();
    let results = compute(&[x, y], |x| vec![&x[0] / &x[1], &x[0] + &x[1], &x[0] % &x[1], x[0].shift_right(&x[1])]);
    assert_eq!(results[0].to_f64s(), [-128.0, 127.0, -1.0, -3.0]);
    assert_eq!(results[1].to_f64s(), [127.0, -128.0, 7.0, -5.0]);
    assert_eq!(results[2].to_f64s(), [0.0, 0.0, 7.0, -1.0]);
    assert_eq!(results[3].to_f64s(), [0.0, 63.0, 7.0, 62.0]);
}

#[test]
fn small_floats_are_summed_wide_and_rounded_once() {
    let ones = HostTensor::from_f64s(Shape::new(DType::BF16, [1000]), &[1.0; 1000]).unwrap();
    let sum = compute(&[ones], |x| vec![x[0].sum_all()]);
    assert_eq!(sum[0].elements::<bf16>().unwrap()[0].to_f32(), 1000.0);
}

#[test]
fn loops_run_until_their_condition_fails_and_keep_their_promise() {
    let factorial = |bound| {
        let trace = Trace::new();
        let (n, one) = (trace.input("n", Shape::scalar(DType::I32)), trace.scalar(DType::I32, 1.0));
        let outputs = trace.while_loop(
            &[n.clone(), one.clone()],
            bound,
            |x| x[0].greater(&one),
            |x| vec![&x[0] - &one, &x[1] * &x[0]],
        );
        evaluate(&trace.finish(&outputs[1..]).unwrap(), &[HostTensor::scalar(6i32)])
    };
    assert_eq!(factorial(None).unwrap()[0].to_f64s(), [720.0]);
    assert_eq!(factorial(Some(5)).unwrap()[0].to_f64s(), [720.0]);
    assert_eq!(factorial(Some(4)), Err(EvaluateError::Bound { bound: 4 }));
}

#[test]
fn empty_tensors_reduce_to_identities() {
    let nothing = f32s(&[0, 2], &[]);
    let results = compute(&[nothing], |x| vec![x[0].sum(&[0]), x[0].product(&[0]), x[0].reduce_max(&[0])]);
    assert_eq!(results[0].to_f64s(), [0.0; 2]);
    assert_eq!(results[1].to_f64s(), [1.0; 2]);
    assert_eq!(results[2].to_f64s(), [f64::NEG_INFINITY; 2]);
}

#[test]
fn wrong_inputs_are_named() {
    let trace = Trace::new();
    let x = trace.input("images", Shape::new(DType::F32, [2]));
    let graph = trace.finish(&[x]).unwrap();
    assert_eq!(evaluate(&graph, &[]).unwrap_err().to_string(), "the graph takes 1 inputs, it was given 0");
    let error = evaluate(&graph, &[f32s(&[3], &[0.0; 3])]).unwrap_err();
    assert_eq!(error.to_string(), "input 0 (images) should be f32[2], it is f32[3]");
}
