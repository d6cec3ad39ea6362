//! Gradients of whole blocks on the CPU backend against the reference evaluator: what single primitives do not show.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_nn::layers::BatchNorm;
use octant_nn::{Context, Mode, Precision, Scope, Training, VariableKind};
use octant_testing::engine::Engine;

/// A shortcut with its own norm beside a branch weighted per channel by what the whole image shows.
fn channel_attention(cx: &Scope, x: &Tensor) -> Tensor {
    let shortcut = BatchNorm::new().apply(&cx.at("shortcut"), &(x * x));
    let y = BatchNorm::new().apply(&cx.at("norm"), x);
    let weights = y.global_avg_pool().logistic().reshape(&[x.dim(0), 1, 1, x.channels()]);
    (weights * y + shortcut).relu()
}

/// The same, weighted per pixel.
fn spatial_attention(cx: &Scope, x: &Tensor) -> Tensor {
    let shortcut = BatchNorm::new().apply(&cx.at("shortcut"), &(x * x));
    let y = BatchNorm::new().apply(&cx.at("norm"), x);
    (y.mean_keep(&[3]).logistic() * y + shortcut).relu()
}

fn numbers(shape: &Shape, phase: f64) -> HostTensor {
    let values: Vec<f64> = (0..shape.elements()).map(|k| ((k * k + 3 * k) as f64 * 0.37 + phase).sin() + 0.3).collect();
    HostTensor::from_f64s(shape.clone(), &values).unwrap()
}

fn compare(block: fn(&Scope, &Tensor) -> Tensor) {
    let trace = Trace::new();
    let shape = Shape::new(DType::F32, [2, 8, 8, 16]);
    let (x, weights) = (trace.input("x", shape.clone()), trace.input("weights", shape));
    let context = Context::new(&trace, Mode::Train(Training::without_randomness()), Precision::F32);
    let loss = (block(&context.root(), &x) * weights).sum_all();
    let variables = context.variables();
    let parameters = variables.iter().filter(|variable| variable.spec.kind == VariableKind::Parameter);
    let (paths, values): (Vec<_>, Vec<_>) = parameters.map(|v| (v.spec.path.clone(), v.value.clone())).unzip();
    let graph = trace.clone().finish(&trace.gradients(&loss, &values)).unwrap();
    let inputs: Vec<HostTensor> =
        graph.input_shapes().iter().enumerate().map(|(index, shape)| numbers(shape, index as f64)).collect();
    let results = [Engine::Reference, Engine::Cpu].map(|engine| engine.run(&graph, &inputs));
    for ((expected, actual), path) in results[0].iter().zip(&results[1]).zip(paths) {
        let (expected, actual) = (expected.to_f64s(), actual.to_f64s());
        let norm = expected.iter().map(|value| value * value).sum::<f64>().sqrt();
        let distance = expected.iter().zip(&actual).map(|(e, a)| (e - a) * (e - a)).sum::<f64>().sqrt();
        assert!(distance <= 1e-4 * norm, "the gradient of {path} is {distance:.2e} of {norm:.2e} off");
    }
}

#[test]
fn channel_attention_beside_a_shortcut() {
    compare(channel_attention);
}

#[test]
fn spatial_attention_beside_a_shortcut() {
    compare(spatial_attention);
}
