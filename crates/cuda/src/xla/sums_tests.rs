#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::sums_with_own_operands;
use octant_graph::evaluate::evaluate;
use octant_graph::passes::{dead_code, merge_equal};
use octant_graph::verify::verify;
use octant_graph::{DType, Graph, HostTensor, Op, Shape, Tensor, Trace, Unary};

/// One image of 1 MiB.
const DIMS: [usize; 4] = [1, 128, 64, 32];

/// The gradients of a learned scale and shift and of what comes before, with a ReLU behind them.
fn relu_gradients(add: impl Fn(Tensor, &Tensor) -> Tensor) -> Graph {
    let trace = Trace::new();
    let [images, others] = ["x", "others"].map(|name| trace.input(name, Shape::new(DType::F32, DIMS)));
    let [scale, shift] = ["scale", "shift"].map(|name| trace.input(name, Shape::new(DType::F32, [DIMS[3]])));
    let kernel = trace.input("kernel", Shape::new(DType::F32, [1, 1, DIMS[3], DIMS[3]]));
    let through = |x: &Tensor| x.convolution(&kernel, octant_graph::Convolution::nhwc(2, DType::F32));
    let y = add(&scale * through(&images) + &shift, &others).relu();
    let loss = (through(&y) * &images).sum_all();
    let gradients = trace.gradients(&loss, &[images, scale, shift]);
    merge_equal(&dead_code(&trace.finish(&gradients).unwrap()))
}

fn inputs(graph: &Graph) -> Vec<HostTensor> {
    let values = |shape: Shape| {
        let values: Vec<f64> = (0..shape.elements()).map(|i| ((i * 7919) % 1009) as f64 / 504.0 - 1.0).collect();
        HostTensor::from_f64s(shape, &values).unwrap()
    };
    graph.input_shapes().into_iter().map(values).collect()
}

fn comparisons(graph: &Graph) -> usize {
    graph.nodes().iter().filter(|node| matches!(node.op, Op::Compare(_))).count()
}

#[test]
fn sums_compare_for_themselves_and_nothing_changes() {
    let graph = relu_gradients(|y, _| y);
    let made = dead_code(&sums_with_own_operands(&graph));
    verify(&made).unwrap();
    // The sums for scale and shift each have their own.
    assert_eq!(comparisons(&made), comparisons(&graph) + 2);
    assert_eq!(comparisons(&merge_equal(&made)), comparisons(&made), "barriers keep the copies from being merged");
    let inputs = inputs(&graph);
    assert_eq!(evaluate(&made, &inputs).unwrap(), evaluate(&graph, &inputs).unwrap());
}

/// The cotangent behind an exponential function is made from it, element by element.
#[test]
fn what_takes_a_function_is_not_made_again() {
    let graph = relu_gradients(|y, _| y.exp());
    assert!(graph.nodes().iter().any(|node| matches!(node.op, Op::Unary(Unary::Exp))));
    assert_eq!(dead_code(&sums_with_own_operands(&graph)).nodes().len(), graph.nodes().len());
}

#[test]
fn bools_that_take_another_array_are_shared() {
    let graph = relu_gradients(|y, others| y + others);
    let made = dead_code(&sums_with_own_operands(&graph));
    assert_eq!(comparisons(&made), comparisons(&graph));
}
