use crate::{run, values};
use octant_graph::{DType, Shape, Trace};

fn vector(trace: &Trace, name: &str) -> octant_graph::Tensor {
    trace.input(name, Shape::new(DType::F64, [2]))
}

#[test]
fn several_losses_and_parameter_sets_in_one_trace() {
    let trace = Trace::new();
    let (a, b) = (vector(&trace, "a"), vector(&trace, "b"));
    let first = (&a * &b).sum_all();
    let second = (&a * &a * &b).sum_all();
    let of_first = trace.gradients(&first, std::slice::from_ref(&a));
    let of_second = trace.gradients(&second, &[b.clone(), a.clone()]);
    let graph = trace.finish(&[of_first, of_second].concat()).unwrap();
    let results = run(&graph, &[values(&[2], &[2.0, 3.0]), values(&[2], &[5.0, 7.0])]).unwrap();
    let results: Vec<Vec<f64>> = results.iter().map(|result| result.to_f64s()).collect();
    assert_eq!(results, [[5.0, 7.0], [4.0, 9.0], [20.0, 42.0]]);
}

#[test]
fn unconnected_values_have_zero_gradients() {
    let trace = Trace::new();
    let (a, b) = (vector(&trace, "a"), vector(&trace, "b"));
    let gradients = trace.gradients(&a.sum_all(), &[b]);
    let graph = trace.finish(&gradients).unwrap();
    let point = values(&[2], &[1.0, 1.0]);
    assert_eq!(run(&graph, &[point.clone(), point]).unwrap()[0].to_f64s(), [0.0, 0.0]);
}

#[test]
fn intermediate_values_have_gradients_and_pass_them_on() {
    let trace = Trace::new();
    let a = vector(&trace, "a");
    let b = &a * 3.0;
    let gradients = trace.gradients(&(&b * &a).sum_all(), &[a, b]);
    let graph = trace.finish(&gradients).unwrap();
    let results = run(&graph, &[values(&[2], &[1.0, 2.0])]).unwrap();
    assert_eq!(results[0].to_f64s(), [6.0, 12.0]);
    assert_eq!(results[1].to_f64s(), [1.0, 2.0]);
}

#[test]
fn frozen_parameters_cost_nothing() {
    let trace = Trace::new();
    let (a, frozen) = (vector(&trace, "a"), vector(&trace, "frozen"));
    let loss = (&a + frozen.exp().log().sin()).sum_all();
    let before = trace.with_graph(|graph| graph.nodes().len());
    trace.gradients(&loss, &[a]);
    // The cotangent of the loss (a scalar) and its spreading over the sum.
    assert_eq!(trace.with_graph(|graph| graph.nodes().len()), before + 2);
}

#[test]
fn stop_gradient_stops_it_and_nothing_else() {
    let trace = Trace::new();
    let a = vector(&trace, "a");
    let stopped = a.stop_gradient();
    let loss = (&a * &stopped).sum_all();
    let gradients = trace.gradients(&loss, std::slice::from_ref(&a));
    let graph = trace.finish(&[gradients[0].clone(), stopped]).unwrap();
    let results = run(&graph, &[values(&[2], &[3.0, -0.0])]).unwrap();
    assert_eq!(results[0].to_f64s(), [3.0, -0.0]);
    assert_eq!(results[1], values(&[2], &[3.0, -0.0]));
}

#[test]
fn backward_nodes_belong_to_the_layer_of_the_forward_node() {
    let trace = Trace::new();
    let a = vector(&trace, "a");
    let scope = trace.scope("layer1.act");
    let y = a.tanh();
    drop(scope);
    let loss = y.sum_all();
    let before = trace.with_graph(|graph| graph.nodes().len());
    trace.gradients(&loss, &[a]);
    let found = trace.with_graph(|graph| graph.nodes()[before..].iter().any(|node| &*node.path == "layer1.act"));
    assert!(found);
}

#[test]
fn mistakes_name_shapes_and_path() {
    let trace = Trace::new();
    let a = vector(&trace, "a");
    let gradients = trace.gradients(&a, std::slice::from_ref(&a));
    let error = trace.finish(&gradients).unwrap_err().to_string();
    assert!(error.contains("must be a floating-point scalar, found f64[2]"), "{error}");

    let trace = Trace::new();
    let a = vector(&trace, "a");
    let count = trace.input("count", Shape::new(DType::I32, [3]));
    let gradients = trace.gradients(&a.sum_all(), &[count]);
    let error = trace.finish(&gradients).unwrap_err().to_string();
    assert!(error.contains("only floating-point values have gradients, found i32[3]"), "{error}");

    let trace = Trace::new();
    let a = vector(&trace, "a");
    let scope = trace.scope("head.pool");
    let y = a
        .broadcast_to(&[3, 2])
        .sum(&[0])
        .reduce_window(octant_graph::Reduction::Product, octant_graph::Window::new([2]));
    drop(scope);
    let gradients = trace.gradients(&y.sum_all(), &[a]);
    let error = trace.finish(&gradients).unwrap_err().to_string();
    assert_eq!(error, "in head.pool: reduce_window: a product over windows has no gradient");
}
