//! Optimizers, losses and schedules against the figures of `golden/make.py`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_nn::loss;
use octant_nn::optimizer::{Adagrad, Adam, Lamb, Lion, Optimizer, RmsProp, Sgd, Update, clip_by_norm};
use octant_nn::schedule::{Plateau, Schedule};

const FIGURES: &str = include_str!("../golden/figures.txt");

fn figures(what: &str, name: &str) -> Vec<f64> {
    let start = format!("{what} {name} ");
    let line = FIGURES.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("no {what} {name}"));
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

#[track_caller]
fn assert_close(name: &str, actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "{name}");
    let scale = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    for (a, e) in actual.iter().zip(expected) {
        assert!((a - e).abs() <= tolerance * scale, "{name}: {actual:?} is not {expected:?}");
    }
}

/// The script's numbers without pattern.
fn wave(dims: &[usize], phase: f64, factor: f64) -> HostTensor {
    let values: Vec<f64> = (0..dims.iter().product::<usize>())
        .map(|i| factor * (1.7 * (i * i) as f64 + phase).sin() as f32 as f64)
        .collect();
    HostTensor::from_f64s(Shape::new(DType::F32, dims), &values).unwrap()
}

fn concat(tensors: &[HostTensor]) -> Vec<f64> {
    tensors.iter().flat_map(HostTensor::to_f64s).collect()
}

/// Five steps on two tensors with gradients that do not depend on them.
fn steps(optimizer: Optimizer, rate: f64, decay: f64) -> Vec<f64> {
    let dims: [&[usize]; 2] = [&[2, 3], &[4]];
    let trace = Trace::new();
    let number = trace.input("step", Shape::scalar(DType::F32));
    let rate = trace.scalar(DType::F32, rate);
    let mut outputs = Vec::new();
    for dims in dims {
        let input = |name| trace.input(name, Shape::new(DType::F32, dims));
        let (parameter, gradient) = (input("parameter"), input("gradient"));
        let slots: Vec<Tensor> = optimizer.slots().iter().map(|slot| input(slot.name)).collect();
        let update =
            Update { parameter: &parameter, gradient: &gradient, slots: &slots, rate: &rate, step: &number, decay };
        let (parameter, slots) = optimizer.update(update);
        outputs.push(parameter);
        outputs.extend(slots);
    }
    let graph = trace.finish(&outputs).unwrap();
    let per_tensor = 1 + optimizer.slots().len();
    let initial = |(k, dims): (usize, &&[usize])| {
        let fresh = optimizer.slots().into_iter().map(|slot| {
            let shape = Shape::new(DType::F32, *dims);
            HostTensor::from_f64s(shape.clone(), &vec![slot.initial; shape.elements()]).unwrap()
        });
        std::iter::once(wave(dims, 0.1 * (k + 1) as f64, 1.0)).chain(fresh).collect::<Vec<_>>()
    };
    let mut state: Vec<HostTensor> = dims.iter().enumerate().flat_map(initial).collect();
    for step in 0..5 {
        let mut inputs = vec![HostTensor::scalar(step as f32 + 1.0)];
        for (k, kept) in state.chunks(per_tensor).enumerate() {
            inputs.push(kept[0].clone());
            inputs.push(wave(dims[k], 1.0 + step as f64 + 0.3 * k as f64, 1.0));
            inputs.extend_from_slice(&kept[1..]);
        }
        state = evaluate(&graph, &inputs).unwrap();
    }
    concat(&[state[0].clone(), state[per_tensor].clone()])
}

#[test]
fn optimizers_equal_pytorch() {
    let sgd = |momentum, dampening, nesterov| Optimizer::Sgd(Sgd { momentum, dampening, nesterov });
    let decayed = Adagrad { rate_decay: 0.1, initial_accumulator: 0.2, ..Adagrad::default() };
    let centered = RmsProp { momentum: 0.9, centered: true, ..RmsProp::default() };
    let cases = [
        ("sgd", sgd(0.0, 0.0, false), 0.1, 0.0),
        ("sgd_momentum", sgd(0.9, 0.0, false), 0.1, 0.01),
        ("sgd_nesterov", sgd(0.9, 0.0, true), 0.1, 0.01),
        ("sgd_dampened", sgd(0.9, 0.5, false), 0.1, 0.0),
        ("adam", Optimizer::Adam(Adam::default()), 0.01, 0.1),
        ("adamw", Optimizer::AdamW(Adam::default()), 0.01, 0.1),
        ("adagrad", Optimizer::Adagrad(Adagrad::default()), 0.05, 0.0),
        ("adagrad_decayed", Optimizer::Adagrad(decayed), 0.05, 0.1),
        ("rmsprop", Optimizer::RmsProp(RmsProp::default()), 0.01, 0.1),
        ("rmsprop_centered", Optimizer::RmsProp(centered), 0.01, 0.0),
        ("lamb", Optimizer::Lamb(Lamb::default()), 0.01, 0.1),
        ("lion", Optimizer::Lion(Lion::default()), 0.01, 0.1),
    ];
    for (name, optimizer, rate, decay) in cases {
        assert_close(name, &steps(optimizer, rate, decay), &figures("optimizer", name), 2e-6);
    }
}

#[test]
fn every_optimizer_is_known_by_its_name() {
    for name in Optimizer::NAMES {
        assert_eq!(Optimizer::named(name).unwrap().name(), name);
    }
    assert_eq!(Optimizer::named("adamm"), None);
}

#[test]
fn clipping_equals_pytorch() {
    let trace = Trace::new();
    let gradients = [wave(&[6], 3.0, 1.0), wave(&[4], 4.0, 1.0)].map(|gradient| trace.constant(gradient));
    let (clipped, norm) = clip_by_norm(&gradients, 0.7);
    let graph = trace.finish(&[norm, clipped[0].clone(), clipped[1].clone()]).unwrap();
    assert_close("norm", &concat(&evaluate(&graph, &[]).unwrap()), &figures("clip", "norm"), 1e-6);
}

/// The mean loss and its gradient with respect to the logits.
fn value_and_gradients(logits: &HostTensor, function: impl FnOnce(&Trace, &Tensor) -> Tensor) -> Vec<f64> {
    let trace = Trace::new();
    let input = trace.input("logits", logits.shape().clone());
    let value = loss::mean(&function(&trace, &input), None);
    let gradients = trace.gradients(&value, &[input]);
    let graph = trace.finish(&[value, gradients[0].clone()]).unwrap();
    concat(&evaluate(&graph, std::slice::from_ref(logits)).unwrap())
}

#[test]
fn losses_over_classes_and_numbers_equal_pytorch() {
    let logits = wave(&[3, 4], 0.5, 3.0);
    let labels = HostTensor::new([3], &[1i32, 3, 0]).unwrap();
    let pattern = |positive: fn(f64) -> f64| {
        let values: Vec<f64> = wave(&[3, 4], 0.9, 1.0).to_f64s().into_iter().map(positive).collect();
        HostTensor::from_f64s(Shape::new(DType::F32, [3, 4]), &values).unwrap()
    };
    let binary = pattern(|value| f64::from(u8::from(value > 0.0)));
    let soft = soft_targets();
    type Loss<'a> = Box<dyn Fn(&Trace, &Tensor) -> Tensor + 'a>;
    let with = |target: &HostTensor, function: fn(&Tensor, &Tensor) -> Tensor| -> Loss<'_> {
        let target = target.clone();
        Box::new(move |trace, x| function(x, &trace.constant(target.clone())))
    };
    let cases: [(&str, Loss); 8] = [
        ("cross_entropy", with(&labels, |x, t| loss::cross_entropy(x, t, 0.0))),
        ("cross_entropy_smooth", with(&labels, |x, t| loss::cross_entropy(x, t, 0.1))),
        ("soft_cross_entropy", with(&soft, loss::soft_cross_entropy)),
        ("binary_cross_entropy", with(&binary, loss::binary_cross_entropy)),
        ("focal", with(&binary, |x, t| loss::focal(x, t, 0.25, 2.0))),
        ("squared_error", with(&soft, loss::squared_error)),
        ("absolute_error", with(&soft, loss::absolute_error)),
        ("huber", with(&soft, |x, t| loss::huber(x, t, 0.6))),
    ];
    for (name, function) in cases {
        assert_close(name, &value_and_gradients(&logits, function), &figures("loss", name), 2e-6);
    }
}

fn soft_targets() -> HostTensor {
    let rows = wave(&[3, 4], 0.7, 1.0).to_f64s();
    let values: Vec<f64> = rows
        .chunks(4)
        .flat_map(|row| {
            let total: f64 = row.iter().map(|value| value.exp()).sum();
            row.iter().map(move |value| value.exp() / total)
        })
        .collect();
    HostTensor::from_f64s(Shape::new(DType::F32, [3, 4]), &values).unwrap()
}

#[test]
fn losses_over_masks_equal_the_authors() {
    // One channel, so NCHW and NHWC hold the same elements in the same order.
    let logits = wave(&[2, 4, 5, 1], 0.5, 2.0);
    let mut mask = vec![0f32; 40];
    for position in [7, 8, 12, 13, 20 + 1, 20 + 6] {
        mask[position] = 1.0;
    }
    let mask = HostTensor::new([2, 4, 5, 1], &mask).unwrap();
    let empty = HostTensor::zeros(mask.shape().clone());
    type Loss = fn(&Tensor, &Tensor) -> Tensor;
    let cases: [(&str, &HostTensor, Loss); 5] = [
        ("soft_iou", &mask, loss::soft_iou),
        ("dice", &mask, loss::dice),
        ("sls_iou_warm_up", &mask, |x, t| loss::sls_iou(x, t, true)),
        ("sls_iou", &mask, |x, t| loss::sls_iou(x, t, false)),
        ("sls_iou_empty", &empty, |x, t| loss::sls_iou(x, t, false)),
    ];
    for (name, target, function) in cases {
        let actual = value_and_gradients(&logits, |trace, x| function(x, &trace.constant(target.clone())));
        assert_close(name, &actual, &figures("loss", name), 2e-6);
    }
}

#[test]
fn padding_counts_nothing() {
    let trace = Trace::new();
    let losses = trace.constant(HostTensor::new([3], &[1f32, 2.0, 100.0]).unwrap());
    let weights = trace.constant(HostTensor::new([3], &[1f32, 1.0, 0.0]).unwrap());
    let nothing = trace.constant(HostTensor::new([3], &[0f32; 3]).unwrap());
    let outputs = [loss::mean(&losses, Some(&weights)), loss::mean(&losses, Some(&nothing))];
    let graph = trace.finish(&outputs).unwrap();
    assert_eq!(concat(&evaluate(&graph, &[]).unwrap()), [1.5, 0.0]);
}

#[test]
fn schedules_equal_pytorch_and_timm() {
    let timm = |prefix| Schedule::TimmCosine { rate: 0.1, min: 0.001, total: 10, warmup: 3, start: 1e-4, prefix };
    let one_cycle = Schedule::OneCycle { largest: 0.2, total: 20, rising: 0.3, divisor: 25.0, final_divisor: 1e4 };
    let cases = [
        ("step", Schedule::Step { rate: 0.1, every: 3, factor: 0.5 }),
        ("multi_step", Schedule::MultiStep { rate: 0.1, milestones: vec![2, 5], factor: 0.3 }),
        ("polynomial", Schedule::Polynomial { rate: 0.1, total: 8, power: 2.0 }),
        ("cosine", Schedule::Cosine { rate: 0.1, min: 0.01, total: 9 }),
        ("one_cycle", one_cycle),
        ("timm_cosine", timm(false)),
        ("timm_cosine_prefix", timm(true)),
    ];
    for (name, schedule) in cases {
        let expected = figures("schedule", name);
        let actual: Vec<f64> = (0..expected.len() as u64).map(|time| schedule.rate(time)).collect();
        assert_close(name, &actual, &expected, 1e-10);
    }
    let mut plateau = Plateau { cooldown: 1, ..Plateau::new(1e-3, 0.1, 2, 1e-6) };
    let metrics = [1.0, 0.9, 0.9, 0.91, 0.92, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5];
    let actual: Vec<f64> = metrics.iter().map(|&metric| plateau.observe(metric)).collect();
    assert_close("plateau", &actual, &figures("schedule", "plateau"), 1e-12);
}
