//! Detectors that predict sets of boxes against transformers: what small networks predict, their loss and gradients, and the keys
//! and parameters of the published sizes. The figures were made by `golden/sets.py`, in double precision.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_nn::loss::detection::{Distribution, Queries, SetLoss, Truth};
use octant_nn::random::path_hash;
use octant_nn::{Context, Mode, Precision, Training, Variable, VariableKind, VariableSpec};
use octant_testing::deterministic;
use octant_testing::engine::Engine;
use octant_zoo::{BoxDistribution, SetObjects, SetPrediction, build, describe};
use serde_json::Value;

const SIDE: usize = 64;
/// What transformers initializes to a constant.
const KEPT: [&str; 4] = ["n_points_scale", "num_points_scale", "decoder.up", "decoder.reg_scale"];

fn figures() -> Value {
    serde_json::from_str(include_str!("../golden/figures/sets.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn weight(spec: &VariableSpec) -> HostTensor {
    if KEPT.iter().any(|kept| spec.path.ends_with(kept)) { spec.initial(0) } else { deterministic::weight(spec) }
}

/// The outputs of a network over the images, which `outputs` makes of its predictions.
fn run(mode: Mode, outputs: impl FnOnce(&Trace, &Context, &Tensor) -> Vec<Tensor>) -> (Vec<HostTensor>, Vec<Variable>) {
    let trace = Trace::new();
    let images = deterministic::images(2, SIDE, 3);
    let input = trace.input("images", images.shape().clone());
    let context = Context::new(&trace, mode, Precision::F32);
    let outputs = outputs(&trace, &context, &input);
    let variables = context.variables();
    let graph = trace.finish(&outputs).unwrap();
    let inputs: Vec<HostTensor> =
        std::iter::once(images).chain(variables.iter().map(|variable| weight(&variable.spec))).collect();
    (Engine::WideReference.run(&graph, &inputs), variables)
}

#[track_caller]
fn close(what: &str, found: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let scale = wanted.iter().fold(0.0f64, |most, value| most.max(value.abs())).max(1e-12);
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!((found - wanted).abs() <= tolerance * scale, "{what}[{at}]: {found}, not {wanted}");
    }
}

fn predicts_as_transformers(name: &str) {
    let model = build(name, Some(10)).unwrap();
    let (found, _) = run(Mode::Evaluate, |_, cx, images| {
        let last = model.sets(&cx.root(), images, None).layers.pop().unwrap();
        vec![last.boxes, last.logits]
    });
    let wanted = &figures()["small"][name];
    close("boxes", &found[0].to_f64s(), &numbers(&wanted["boxes"]), 1e-6);
    close("logits", &found[1].to_f64s(), &numbers(&wanted["logits"]), 1e-6);
}

#[test]
fn rtdetrv2_predicts_as_transformers() {
    predicts_as_transformers("rtdetrv2-tiny");
}

#[test]
fn dfine_predicts_as_transformers() {
    predicts_as_transformers("dfine-tiny");
}

/// Three objects in one image, one in the other.
fn truth(trace: &Trace) -> Truth {
    let boxes = [[0.3, 0.4, 0.2, 0.3], [0.7, 0.6, 0.4, 0.5], [0.5, 0.5, 0.9, 0.8], [0.25, 0.75, 0.125, 0.25]];
    let corners =
        |[x, y, w, h]: [f64; 4]| [x - w / 2.0, y - h / 2.0, x + w / 2.0, y + h / 2.0].map(|edge| edge * SIDE as f64);
    let mut all: Vec<f64> = boxes.into_iter().flat_map(corners).collect();
    all.resize(2 * 3 * 4, 0.0);
    let corners = trace.constant(HostTensor::from_f64s(Shape::new(DType::F32, [2, 3, 4]), &all).unwrap());
    let classes = trace.constant(HostTensor::new([2, 3], &[3i32, 7, 3, 0, -1, -1]).unwrap());
    Truth::new(&corners, &classes, &trace.full(&Shape::new(DType::F32, [2]), 1.0))
}

fn queries(layer: &SetPrediction) -> Queries {
    let distribution = layer.distribution.clone().map(|BoxDistribution { logits, first, bins, scale }| Distribution {
        logits,
        first,
        bins,
        scale,
    });
    // The reference's loss takes boxes within the image.
    let (zero, one) = (layer.boxes.scalar_like(0.0), layer.boxes.scalar_like(1.0));
    Queries { boxes: layer.boxes.clamp(&zero, &one), logits: layer.logits.clone(), distribution }
}

/// The loss and the gradient of every parameter, which is to be as `exact` as that.
fn learns_as_in_transformers(name: &str, exact: f64, loss: impl Fn(&[Queries], &Truth) -> Tensor) {
    let model = build(name, Some(10)).unwrap();
    let mut names = Vec::new();
    let (found, _) = run(Mode::Train(Training::without_randomness()), |trace, cx, images| {
        let sets = model.sets(&cx.root(), images, None);
        let layers: Vec<Queries> = sets.layers.iter().map(queries).collect();
        let loss = loss(&layers, &truth(trace));
        let learned: Vec<Variable> =
            cx.variables().into_iter().filter(|variable| variable.spec.kind == VariableKind::Parameter).collect();
        let values: Vec<Tensor> = learned.iter().map(|variable| variable.value.clone()).collect();
        let gradients = trace.gradients(&loss, &values);
        names = learned.into_iter().map(|variable| variable.spec).collect::<Vec<_>>();
        std::iter::once(loss).chain(gradients).collect()
    });
    let wanted = &figures()["small"][name];
    close("loss", &found[0].to_f64s(), &[wanted["loss"].as_f64().unwrap()], 1e-6);
    let mut compared = 0;
    let largest = wanted["gradients"].as_object().unwrap().values().map(|pair| numbers(pair)[0]).fold(0.0, f64::max);
    for (spec, gradient) in names.iter().zip(&found[1..]) {
        // Nothing teaches the embedding of noisy objects here.
        let Some(wanted) = wanted["gradients"].get(&spec.path).map(numbers) else { continue };
        let gradient = spec.layout.export(gradient).unwrap().to_f64s();
        let norm = gradient.iter().map(|value| value * value).sum::<f64>().sqrt();
        let turned: f64 = gradient.iter().enumerate().map(|(at, value)| value * (at as f64).cos()).sum();
        let tolerance = exact * wanted[0] + 1e-8 * largest;
        assert!((norm - wanted[0]).abs() < tolerance, "{}: norm {norm}, not {}", spec.path, wanted[0]);
        assert!((turned - wanted[1]).abs() < 10.0 * tolerance, "{}: {turned}, not {}", spec.path, wanted[1]);
        compared += 1;
    }
    assert!(compared > 150, "{compared}");
}

#[test]
fn rtdetrv2_learns_as_in_transformers() {
    learns_as_in_transformers("rtdetrv2-tiny", 1e-5, |layers, truth| {
        SetLoss::new(layers, None, truth, [SIDE; 2]).total()
    });
}

/// transformers joins the distributions of every layer with the boxes and classes of the one before, leaves out the last layer but
/// one, and has no localization loss of the last one; the publication has all of them. The parts are the same.
#[test]
fn dfine_learns_as_in_transformers() {
    // Constants are rounded to f32 when they are traced. In the reference, rounding the epsilon of norms alone changes the
    // gradients of the backbone's shifts by 1.5e-5, and rounding positions by 8e-6: they are sums of much that cancels.
    learns_as_in_transformers("dfine-tiny", 1e-4, |layers, truth| {
        let [selected, first, second, last] = layers else { panic!("two layers, and the boxes before them") };
        let joined = Queries { distribution: second.distribution.clone(), ..first.clone() };
        let all = SetLoss::new(&[selected.clone(), joined, last.clone()], None, truth, [SIDE; 2]);
        let alone = SetLoss::new(std::slice::from_ref(last), None, truth, [SIDE; 2]);
        all.total() - alone.local * SetLoss::GAINS[3]
    });
}

/// What was selected does not see queries that began with an object, and those see each object's own group.
#[test]
fn noisy_queries_change_no_prediction_and_come_in_groups() {
    for name in ["rtdetrv2-tiny", "dfine-tiny"] {
        let model = build(name, Some(10)).unwrap();
        let (found, _) = run(Mode::Evaluate, |trace, cx, images| {
            let alone = model.sets(&cx.root(), images, None);
            vec![alone.layers.last().unwrap().logits.clone(), trace.scalar(DType::F32, 0.0)]
        });
        let trained = |with: bool| {
            let trace = Trace::new();
            let images = deterministic::images(2, SIDE, 3);
            let input = trace.input("images", images.shape().clone());
            let key = trace.constant(HostTensor::new([2], &[3u32, 5]).unwrap());
            let training = Training { frozen_statistics: true, ..Training::new(&key) };
            let context = Context::new(&trace, Mode::Train(training), Precision::F32);
            let truth = truth(&trace);
            let objects = SetObjects {
                boxes: truth.shares([SIDE; 2]),
                classes: truth.classes.clone(),
                exists: truth.exists.clone(),
            };
            let sets = model.sets(&context.root(), &input, Some(&objects).filter(|_| with));
            let (noisy, groups) = &sets.noisy;
            let mut outputs = vec![sets.layers.last().unwrap().logits.clone()];
            outputs.extend(noisy.last().map(|last| last.boxes.clone()));
            let variables = context.variables();
            let graph = trace.finish(&outputs).unwrap();
            let inputs: Vec<HostTensor> =
                std::iter::once(images).chain(variables.iter().map(|variable| weight(&variable.spec))).collect();
            (Engine::Reference.run(&graph, &inputs), *groups)
        };
        let ((alone, none), (with, groups)) = (trained(false), trained(true));
        assert_eq!((none, alone.len(), groups), (0, 1, 33), "{name}: a hundred queries for three objects");
        assert_eq!(with[1].dims(), [2, 2 * 33 * 3, 4]);
        close(name, &with[0].to_f64s(), &alone[0].to_f64s(), 1e-5);
        close(name, &with[0].to_f64s(), &found[0].to_f64s(), 1e-4);
    }
}

#[test]
fn the_published_sizes_have_the_references_keys_and_parameters() {
    for (name, wanted) in figures()["published"].as_object().unwrap() {
        let model = build(name, Some(80)).unwrap();
        let (specs, _) = describe(&*model, [64, 64, 3]).unwrap();
        let mut keys: Vec<String> =
            specs.iter().map(|spec| format!("{}{:?}", spec.path, spec.reference_dims())).collect();
        keys.sort();
        assert_eq!(keys.len() as u64, wanted["keys"].as_u64().unwrap(), "{name}");
        assert_eq!(format!("{:016x}", path_hash(&keys.join(" "))), wanted["hash"].as_str().unwrap(), "{name}");
        let is_learned = |spec: &&VariableSpec| spec.kind == VariableKind::Parameter;
        let count: usize = specs.iter().filter(is_learned).map(|spec| spec.shape.elements()).sum();
        // D-FINE's two settings of its bins are parameters there that do not learn.
        let settings = if name.starts_with("dfine") { 2 } else { 0 };
        assert_eq!((count + settings) as u64, wanted["parameters"].as_u64().unwrap(), "{name}");
    }
}
