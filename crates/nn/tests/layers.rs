//! Scopes, variables and layers, run through the reference evaluator.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_nn::layers::{BatchNorm, Conv2d, Dense, Padding, dropout, stochastic_depth};
use octant_nn::{Context, Mode, Precision, Scope, Training, VariableKind};

fn numbers(dims: &[usize]) -> HostTensor {
    let values: Vec<f64> = (0..dims.iter().product::<usize>()).map(|i| (i as f64 * 0.7).sin() * 2.0 + 0.5).collect();
    HostTensor::from_f64s(Shape::new(DType::F32, dims), &values).unwrap()
}

/// Runs a network on `x` with its initial variables; returns its outputs and the followed statistics.
fn run(x: &HostTensor, mode: Mode, network: impl FnOnce(&Scope, &Tensor) -> Tensor) -> (HostTensor, Vec<HostTensor>) {
    let trace = Trace::new();
    let input = trace.input("x", x.shape().clone());
    let context = Context::new(&trace, mode, Precision::F32);
    let y = network(&context.root(), &input);
    let variables = context.variables();
    let updated = variables.iter().filter_map(|variable| variable.updated.clone());
    let outputs: Vec<Tensor> = std::iter::once(y).chain(updated).collect();
    let graph = trace.finish(&outputs).unwrap();
    let initial = variables.iter().map(|variable| variable.spec.initial(1));
    let inputs: Vec<HostTensor> = std::iter::once(x.clone()).chain(initial).collect();
    let mut results = evaluate(&graph, &inputs).unwrap();
    let statistics = results.split_off(1);
    (results.remove(0), statistics)
}

fn train() -> Training {
    Training::without_randomness()
}

#[test]
fn a_mistake_names_the_layer_and_the_shapes() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [1, 8, 8, 3]));
    let context = Context::new(&trace, Mode::Evaluate, Precision::F32);
    let y = Conv2d::new(6, 3).groups(2).apply(&context.root().at("layer1.0").at("conv2"), &x);
    let error = trace.finish(&[y]).unwrap_err().to_string();
    assert!(error.starts_with("in layer1.0.conv2: convolution: "), "{error}");
    assert!(error.contains("f32[1,8,8,3]"), "{error}");
}

/// The inner scope is a temporary that outlives its call; the outer layer must still get its own path.
#[test]
fn nested_calls_keep_their_paths() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [2, 4, 4, 3]));
    let context = Context::new(&trace, Mode::Evaluate, Precision::F32);
    let cx = context.root();
    let y = BatchNorm::new().apply(&cx.at("bn"), &Conv2d::new(5, 1).apply(&cx.at("conv"), &x));
    let graph = trace.finish(&[y]).unwrap();
    let last = graph.producer(graph.outputs()[0]);
    assert_eq!(&*last.path, "bn");
    let paths: Vec<String> = context.variables().iter().map(|variable| variable.spec.path.clone()).collect();
    assert_eq!(paths, ["conv.weight", "conv.bias", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"]);
}

#[test]
fn a_path_used_twice_is_one_variable() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [2, 3]));
    let context = Context::new(&trace, Mode::Evaluate, Precision::F32);
    let cx = context.root();
    let layer = Dense::new(3).bias(false);
    let y = layer.apply(&cx.at("fc"), &layer.apply(&cx.at("fc"), &x));
    assert_eq!(context.variables().len(), 1);
    assert!(trace.finish(&[y]).is_ok());
}

#[test]
fn depth_counts_blocks() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [2, 3]));
    let context = Context::new(&trace, Mode::Evaluate, Precision::F32);
    let cx = context.root();
    let layer = Dense::new(3).bias(false);
    let mut y = layer.apply(&cx.at("stem"), &x);
    for block in 0..2 {
        y = cx.at(block).block(&y, |cx, y| layer.apply(&cx.at("fc"), y));
    }
    layer.apply(&cx.at("head"), &y);
    let layers: Vec<usize> = context.variables().iter().map(|variable| variable.spec.layer).collect();
    assert_eq!(layers, [0, 1, 2, 3]);
}

#[test]
fn batch_norm_standardises_and_follows_without_bias() {
    let x = numbers(&[4, 3, 2]);
    let (y, statistics) = run(&x, Mode::Train(train()), |cx, x| BatchNorm::new().apply(cx, x));
    let (x, y) = (x.to_f64s(), y.to_f64s());
    for channel in 0..2 {
        let values: Vec<f64> = x.iter().skip(channel).step_by(2).copied().collect();
        let mean = values.iter().sum::<f64>() / 12.0;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 12.0;
        let expected = (values[0] - mean) / (variance + 1e-5).sqrt();
        assert!((y[channel] - expected).abs() < 1e-5);
        assert!((statistics[0].to_f64s()[channel] - 0.1 * mean).abs() < 1e-6);
        assert!((statistics[1].to_f64s()[channel] - (0.9 + 0.1 * variance * 12.0 / 11.0)).abs() < 1e-6);
    }
}

#[test]
fn groups_of_the_batch_are_what_separate_replicas_do() {
    let x = numbers(&[4, 3, 2]);
    let norm = |cx: &Scope, x: &Tensor| BatchNorm::new().apply(cx, x);
    let grouped = Mode::Train(Training { batch_groups: 2, ..train() });
    let (together, statistics) = run(&x, grouped, norm);
    let all = x.to_f64s();
    let halves = [&all[..12], &all[12..]].map(|half| {
        let half = HostTensor::from_f64s(Shape::new(DType::F32, [2, 3, 2]), half).unwrap();
        run(&half, Mode::Train(train()), norm)
    });
    let separate = [halves[0].0.to_f64s(), halves[1].0.to_f64s()].concat();
    assert!(together.to_f64s().iter().zip(&separate).all(|(a, b)| (a - b).abs() < 1e-5));
    for (index, statistic) in statistics.iter().enumerate() {
        let [first, second] = [0, 1].map(|half: usize| halves[half].1[index].to_f64s());
        for (channel, value) in statistic.to_f64s().iter().enumerate() {
            assert!((value - (first[channel] + second[channel]) / 2.0).abs() < 1e-6);
        }
    }
}

#[test]
fn frozen_statistics_stay() {
    let frozen = Mode::Train(Training { frozen_statistics: true, ..train() });
    let x = numbers(&[4, 2]);
    let (y, statistics) = run(&x, frozen, |cx, x| BatchNorm::new().apply(cx, x));
    assert!(statistics.is_empty());
    let expected: Vec<f64> = x.to_f64s().iter().map(|value| value / (1.0f64 + 1e-5).sqrt()).collect();
    assert!(y.to_f64s().iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn a_norm_named_directly_still_updated_its_statistics() {
    let x = numbers(&[4, 2]);
    let updated = |training: Training| {
        let network =
            |cx: &Scope, x: &Tensor| BatchNorm::new().apply(&cx.at("fc.bn"), &BatchNorm::new().apply(&cx.at("bn1"), x));
        run(&x, Mode::Train(training), network).1.len()
    };
    let scopes = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let both = updated(train());
    assert_eq!(updated(Training { frozen_scopes: scopes(&["bn1"]), ..train() }), both / 2);
    assert_eq!(updated(Training { frozen_scopes: scopes(&["bn"]), ..train() }), both, "whole steps of a path only");
    assert_eq!(updated(Training { trained_scopes: Some(scopes(&["fc"])), ..train() }), both / 2);
    assert_eq!(updated(Training { trained_scopes: Some(scopes(&["bn1.weight"])), ..train() }), both / 2);
    assert_eq!(updated(Training { trained_scopes: Some(vec![]), ..train() }), 0);
}

/// What a network makes of its inputs, with variables of either sign; then the gradients of all inputs and parameters,
/// then the followed statistics.
fn outcome(inputs: &[HostTensor], mode: Mode, network: impl Fn(&Scope, &[Tensor]) -> Vec<Tensor>) -> Vec<HostTensor> {
    let trace = Trace::new();
    let xs: Vec<Tensor> = inputs.iter().map(|input| trace.input("x", input.shape().clone())).collect();
    let context = Context::new(&trace, mode, Precision::F32);
    let ys = network(&context.root(), &xs);
    // Every element counts, and not all the same.
    let weighted = ys.iter().map(|y| (y * trace.constant(numbers(y.dims()))).sum_all());
    let loss = weighted.reduce(|sum, y| sum + y).unwrap();
    let variables = context.variables();
    let parameters = variables.iter().filter(|variable| variable.spec.kind == VariableKind::Parameter);
    let roots: Vec<Tensor> = xs.iter().cloned().chain(parameters.map(|variable| variable.value.clone())).collect();
    let gradients = trace.gradients(&loss, &roots);
    let updated = variables.iter().filter_map(|variable| variable.updated.clone());
    let outputs: Vec<Tensor> = ys.into_iter().chain(gradients).chain(updated).collect();
    let graph = trace.finish(&outputs).unwrap();
    let initial = variables.iter().map(|variable| match variable.spec.kind {
        VariableKind::Parameter => numbers(variable.value.dims()),
        // Variances are positive.
        VariableKind::Statistic => positive(variable.value.dims()),
    });
    let inputs: Vec<HostTensor> = inputs.iter().cloned().chain(initial).collect();
    evaluate(&graph, &inputs).unwrap()
}

fn positive(dims: &[usize]) -> HostTensor {
    let values: Vec<f64> = numbers(dims).to_f64s().iter().map(|value| value.abs() + 0.1).collect();
    HostTensor::from_f64s(Shape::new(DType::F32, dims), &values).unwrap()
}

fn assert_alike(expected: &[HostTensor], actual: &[HostTensor], what: &str) {
    assert_eq!(expected.len(), actual.len());
    for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        assert_eq!(expected.shape(), actual.shape(), "{what}, result {index}");
        for (a, b) in expected.to_f64s().iter().zip(actual.to_f64s()) {
            assert!((a - b).abs() < 2e-5 * (1.0 + a.abs()), "{what}, result {index}: {b} instead of {a}");
        }
    }
}

/// A block under `recomputed` has the same values, gradients and statistics.
#[test]
fn recomputed_blocks_change_nothing() {
    fn block(cx: &Scope, x: &Tensor) -> Tensor {
        let y = Conv2d::new(3, 3).apply(&cx.at("conv"), x);
        BatchNorm::new().apply(&cx.at("bn"), &y).silu()
    }
    let inputs = [numbers(&[2, 4, 4, 3])];
    let kept = outcome(&inputs, Mode::Train(train()), |cx, x| vec![block(cx, &x[0])]);
    let recomputed = outcome(&inputs, Mode::Train(train()), |cx, x| vec![cx.recomputed(&x[0], block)]);
    assert_eq!(kept.len(), 8);
    assert_alike(&kept, &recomputed, "recomputed");
}

/// A bias before a norm is left out of it where the norm would take it away: same values, gradients and statistics.
#[test]
fn a_bias_before_a_norm_changes_the_running_mean_alone() {
    fn block(cx: &Scope, x: &Tensor, between: fn(Tensor) -> Tensor) -> Vec<Tensor> {
        let y = between(Conv2d::new(5, 3).apply(&cx.at("conv"), x));
        let y = BatchNorm::new().apply(&cx.at("bn"), &y);
        vec![y.global_max_pool(), y.global_avg_pool(), y]
    }
    let hidden = |y: Tensor| y.trace().barrier(std::slice::from_ref(&y)).swap_remove(0);
    let modes = [
        ("training", Mode::Train(train())),
        ("groups of the batch", Mode::Train(Training { batch_groups: 2, ..train() })),
        ("frozen statistics", Mode::Train(Training { frozen_statistics: true, ..train() })),
        ("evaluation", Mode::Evaluate),
    ];
    for (name, mode) in modes {
        let inputs = [numbers(&[4, 3, 5, 2])];
        let expected = outcome(&inputs, mode.clone(), |cx, x| block(cx, &x[0], hidden));
        assert_alike(&expected, &outcome(&inputs, mode, |cx, x| block(cx, &x[0], |y| y)), name);
    }

    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::BF16, [2, 4, 4, 3]));
    let context = Context::new(&trace, Mode::Train(train()), Precision::Bf16);
    let y = BatchNorm::new().apply(&context.root().at("bn"), &Conv2d::new(5, 3).apply(&context.root().at("conv"), &x));
    let biases: Vec<Tensor> =
        context.variables().iter().filter(|v| v.spec.path == "conv.bias").map(|v| v.value.clone()).collect();
    let gradient = trace.gradients(&y.convert(DType::F32).sum_all(), &biases).swap_remove(0);
    let graph = octant_graph::passes::optimize(trace.finish(&[gradient]).unwrap());
    assert!(
        graph.nodes().iter().all(|node| !matches!(node.op, octant_graph::Op::Convolution(_))),
        "nothing to compute"
    );
}

/// What dropout leaves, for a seed, a step and the path of the layer.
fn dropped(seed: u32, step: u32, path: &str, whole_samples: bool) -> Vec<f64> {
    let trace = Trace::new();
    let key = trace.constant(HostTensor::new([2], &[seed, step]).unwrap());
    let context = Context::new(&trace, Mode::Train(Training::new(&key)), Precision::F32);
    let x = trace.full(&Shape::new(DType::F32, [64, 8]), 1.0);
    let layer = if whole_samples { stochastic_depth } else { dropout };
    let y = layer(&context.root().at(path), &x, 0.5);
    let graph = trace.finish(&[y]).unwrap();
    evaluate(&graph, &[]).unwrap()[0].to_f64s()
}

#[test]
fn dropout_depends_on_seed_step_and_path_only() {
    let first = dropped(1, 0, "a", false);
    assert_eq!(first, dropped(1, 0, "a", false));
    for other in [dropped(2, 0, "a", false), dropped(1, 1, "a", false), dropped(1, 0, "b", false)] {
        let agreeing = first.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!((176..336).contains(&agreeing), "{agreeing} of 512 agree");
    }
    let by_sample = dropped(1, 0, "a", true);
    assert!(by_sample.chunks(8).all(|sample| sample.iter().all(|&value| value == sample[0])));
    let kept = by_sample.iter().filter(|&&value| value == 2.0).count();
    assert!((8 * 16..8 * 48).contains(&kept));
}

#[test]
fn tensorflows_padding_puts_the_odd_row_last() {
    let same = Padding::TensorFlowSame;
    assert_eq!(same.resolve(0, 224, 3, 2, 1), (0, 1));
    assert_eq!(same.resolve(0, 225, 3, 2, 1), (1, 1));
    assert_eq!(same.resolve(0, 7, 5, 1, 1), (2, 2));
    assert_eq!(same.resolve(0, 8, 1, 2, 1), (0, 0));
    assert_eq!(Padding::Half.resolve(0, 224, 3, 2, 2), (2, 2));
}

#[test]
fn bf16_is_a_policy_and_variables_stay_f32() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [2, 8, 8, 3]));
    let context = Context::new(&trace, Mode::Train(train()), Precision::Bf16);
    let cx = context.root();
    let y = Conv2d::new(4, 3).apply(&cx.at("conv"), &x);
    let y = BatchNorm::new().apply(&cx.at("bn"), &y).relu();
    let logits = Dense::new(2).apply(&cx.at("fc"), &y.global_avg_pool());
    assert_eq!((y.dtype(), logits.dtype()), (DType::BF16, DType::BF16));
    for variable in context.variables() {
        assert_eq!(variable.value.dtype(), DType::F32, "{}", variable.spec.path);
        assert!(variable.updated.is_none_or(|updated| updated.dtype() == DType::F32));
    }
}
