//! Losses with weights of classes and losses over labels against the figures of `golden/labels.py`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_nn::loss;

/// The script's numbers without pattern.
fn wave(count: usize, phase: f64) -> Vec<f64> {
    (0..count).map(|i| f64::from((1.7 * (i * i) as f64 + phase).sin() as f32)).collect()
}

fn floats(trace: &Trace, dims: &[usize], values: &[f64]) -> Tensor {
    trace.constant(HostTensor::from_f64s(Shape::new(DType::F32, dims), values).unwrap())
}

#[test]
fn losses_and_their_gradients_are_those_of_the_references() {
    let logits: Vec<f64> = wave(20, 0.3).iter().map(|value| 3.0 * value).collect();
    let labels: Vec<f64> = wave(20, 0.9).iter().map(|&value| f64::from(u8::from(value > 0.0))).collect();
    let mean = |losses: Tensor| losses.mean_all();
    let weighted = |x: &Tensor, smoothing: f64| {
        let classes = x.trace().constant(HostTensor::new([4], &[1i32, 4, 0, 1]).unwrap());
        let weights = floats(x.trace(), &[1, 5], &[0.5, 2.0, 1.0, 3.0, 0.25]);
        let (losses, counts) = loss::weighted_cross_entropy(x, &classes, &weights, smoothing);
        losses.sum_all() / counts.sum_all()
    };
    for line in include_str!("../golden/labels.txt").lines() {
        let (name, numbers) = line.split_once(' ').unwrap();
        let expected: Vec<f64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [4, 5]));
        let targets = floats(&trace, &[4, 5], &labels);
        let weights = floats(&trace, &[4, 5], &[0.5, 2.0, 1.0, 3.0, 0.25].repeat(4));
        let value = match name {
            "weighted_cross_entropy" => weighted(&x, 0.0),
            "weighted_cross_entropy_smooth" => weighted(&x, 0.1),
            "weighted_binary_cross_entropy" => mean(loss::weighted_binary_cross_entropy(&x, &targets, &weights)),
            "asymmetric" => mean(loss::asymmetric(&x, &targets, [1.0, 4.0], 0.05)),
            "asymmetric_default" => mean(loss::asymmetric(&x, &targets, [0.0, 4.0], 0.05)),
            other => panic!("{other} is not tested"),
        };
        let gradient = trace.gradients(&value, std::slice::from_ref(&x)).swap_remove(0);
        let graph = trace.finish(&[value, gradient]).unwrap();
        let input = HostTensor::from_f64s(Shape::new(DType::F32, [4, 5]), &logits).unwrap();
        let found: Vec<f64> = evaluate(&graph, &[input]).unwrap().iter().flat_map(HostTensor::to_f64s).collect();
        assert_eq!(found.len(), expected.len());
        let scale = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5 * scale, "{name}: {found}, not {expected}");
        }
    }
}
