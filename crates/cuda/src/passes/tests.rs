#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod calls;
mod contract;
mod models;

use octant_graph::evaluate::evaluate;
use octant_graph::verify::verify;
use octant_graph::{Graph, HostTensor, Shape};

/// Numbers of both signs that differ from element to element, between −1 and 1.
pub fn inputs(graph: &Graph) -> Vec<HostTensor> {
    let values = |shape: Shape| {
        let value = |index: usize| ((index as u32).wrapping_mul(2_654_435_761) >> 8) as f64 / 8_388_608.0 - 1.0;
        HostTensor::from_f64s(shape.clone(), &(0..shape.elements()).map(value).collect::<Vec<_>>()).unwrap()
    };
    graph.input_shapes().into_iter().map(values).collect()
}

/// The largest difference of two tensors in units of the largest value.
pub fn difference(expected: &HostTensor, given: &HostTensor) -> f64 {
    assert_eq!(expected.shape(), given.shape());
    let (expected, given) = (expected.to_f64s(), given.to_f64s());
    let scale =
        expected.iter().filter(|value| value.is_finite()).fold(1e-6, |scale: f64, value| scale.max(value.abs()));
    let of = |(a, b): (&f64, &f64)| match a == b || a.is_nan() && b.is_nan() {
        true => 0.0,
        false => ((a - b).abs() / scale).max(0.0),
    };
    expected
        .iter()
        .zip(&given)
        .map(of)
        .fold(0.0, |worst: f64, of| if of.is_nan() { f64::INFINITY } else { worst.max(of) })
}

/// Asserts that a pass has made a well-formed graph with the same results, up to the order of sums.
pub fn assert_same(before: &Graph, after: &Graph) {
    assert_same_on(before, after, &inputs(before), 2e-5);
}

pub fn assert_same_on(before: &Graph, after: &Graph, inputs: &[HostTensor], allowed: f64) {
    verify(after).unwrap();
    let (expected, given) = (evaluate(before, inputs).unwrap(), evaluate(after, inputs).unwrap());
    for (output, (expected, given)) in expected.iter().zip(&given).enumerate() {
        let difference = difference(expected, given);
        assert!(difference <= allowed, "output {output} is {difference} away\n{before}\n{after}");
    }
}
