//! The backward rule of every primitive against central differences of the reference evaluator, in double precision.

#![allow(clippy::unwrap_used, reason = "tests may panic, in their own functions too")]

mod attention;
mod bodies;
mod contract;
mod convolution;
mod elementwise;
mod index;
mod movement;
mod reduce;
mod trace;
mod window;

use octant_graph::evaluate::evaluate;
use octant_graph::verify::verify;
use octant_graph::{DType, Graph, HostTensor, Shape, Tensor, Trace, passes};

/// Numbers in `-1.0..1.0` that look random and are the same in every run.
pub struct Numbers(u64);

impl Numbers {
    /// A sequence of its own for every seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// A tensor of the next numbers.
    pub fn tensor(&mut self, dims: &[usize]) -> HostTensor {
        let shape = Shape::new(DType::F64, dims);
        let values: Vec<f64> = (0..shape.elements()).map(|_| self.draw()).collect();
        HostTensor::from_f64s(shape, &values).unwrap()
    }
}

/// Checks the gradient of `model` (floats in, one float out) at random points.
pub fn check(dims: &[&[usize]], model: impl Fn(&Trace, &[Tensor]) -> Tensor) {
    let mut numbers = Numbers::new(dims.len() as u64);
    let points: Vec<HostTensor> = dims.iter().map(|dims| numbers.tensor(dims)).collect();
    check_at(&points, model);
}

/// Checks the gradient of `model` at given points.
pub fn check_at(points: &[HostTensor], model: impl Fn(&Trace, &[Tensor]) -> Tensor) {
    if let Err(message) = compare(points, model) {
        panic!("{message}");
    }
}

/// The gradient of a weighted sum of the model's results, compared with differences of that sum.
pub fn compare(points: &[HostTensor], model: impl Fn(&Trace, &[Tensor]) -> Tensor) -> Result<(), String> {
    let trace = Trace::new();
    let inputs = inputs_of(&trace, points);
    let result = model(&trace, &inputs);
    let weights = trace.constant(Numbers::new(99).tensor(result.dims()));
    let loss = (result.convert(DType::F64) * weights).sum_all();
    let gradients = trace.gradients(&loss, &inputs);
    let graph = trace.finish(&[&[loss], &gradients[..]].concat()).map_err(|error| error.to_string())?;
    let mut results = run(&graph, points)?;
    same_after_passes(&graph, points, &results)?;
    let gradients = results.split_off(1);
    for (input, gradient) in gradients.iter().enumerate() {
        let expected = differences(&graph, points, input)?;
        for (position, (found, expected)) in gradient.to_f64s().iter().zip(expected).enumerate() {
            if (found - expected).abs() > 1e-6 * (1.0 + expected.abs()) {
                return Err(format!(
                    "input {input} at {position}: the rule gives {found}, differences give {expected}"
                ));
            }
        }
    }
    Ok(())
}

/// Gradient graphs are a good exercise for the verifier and the passes, so all of them go through.
fn same_after_passes(graph: &Graph, points: &[HostTensor], expected: &[HostTensor]) -> Result<(), String> {
    verify(graph).map_err(|error| error.to_string())?;
    let optimized = passes::optimize(graph.clone());
    let inlined = passes::optimize(passes::apply(passes::inline_calls, graph));
    for graph in [optimized, inlined] {
        for (found, expected) in run(&graph, points)?.iter().zip(expected) {
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * (1.0 + b.abs()) || (a.is_nan() && b.is_nan());
            if !found.to_f64s().iter().zip(&expected.to_f64s()).all(close) {
                return Err(format!("passes changed {expected:?} into {found:?}:\n{graph}"));
            }
        }
    }
    Ok(())
}

/// One input per point.
pub fn inputs_of(trace: &Trace, points: &[HostTensor]) -> Vec<Tensor> {
    points.iter().enumerate().map(|(i, point)| trace.input(&format!("x{i}"), point.shape().clone())).collect()
}

/// The outputs of a graph at some points.
pub fn run(graph: &Graph, points: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
    evaluate(graph, points).map_err(|error| error.to_string())
}

/// Central differences of the graph's first output with respect to one input.
fn differences(graph: &Graph, points: &[HostTensor], input: usize) -> Result<Vec<f64>, String> {
    const STEP: f64 = 1e-5;
    let values = points[input].to_f64s();
    let loss_at = |position: usize, change: f64| {
        let mut moved = values.clone();
        moved[position] += change;
        let mut points = points.to_vec();
        points[input] = HostTensor::from_f64s(points[input].shape().clone(), &moved).unwrap();
        run(graph, &points).map(|results| results[0].to_f64s()[0])
    };
    (0..values.len())
        .map(|position| Ok((loss_at(position, STEP)? - loss_at(position, -STEP)?) / (2.0 * STEP)))
        .collect()
}

/// A tensor of given values.
pub fn values(dims: &[usize], values: &[f64]) -> HostTensor {
    HostTensor::new(dims, values).unwrap()
}
