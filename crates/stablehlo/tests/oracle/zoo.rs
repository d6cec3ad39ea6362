//! Every family's training step over eight devices means the same as on one.

use crate::client::{self, Run};
use octant_graph::HostTensor;

#[path = "../../../train/tests/support/tiny_steps.rs"]
mod tiny_steps;
use tiny_steps::{MODELS, tiny_step};

const DEVICES: usize = 8;
const BATCH: usize = 16;
/// Batch norms of the smallest layers divide by the deviation of two or eight values, which magnifies the rounding of sums
/// in another order: 4e-4 was seen. A sum that misses a device is off by a tenth or more.
const ALLOWED: f64 = 2e-3;

#[test]
fn every_family_trains_on_eight_devices_as_on_one() {
    let python = match client::python() {
        Ok(python) => python,
        Err(skipped) => return println!("{skipped}"),
    };
    let run = |model: &str, devices: usize| {
        let (program, inputs) = tiny_step(model, BATCH, devices);
        Run::new(program, inputs)
    };
    let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, 1), run(model, DEVICES)]).collect();
    let outcomes = client::run(&python, &runs);
    for (model, pair) in MODELS.iter().zip(outcomes.chunks_exact(2)) {
        let [one, eight] =
            [&pair[0], &pair[1]].map(|outcome| outcome.as_ref().unwrap_or_else(|e| panic!("{model}: {e}")));
        assert!(one.len() > 3, "{model}: a step has parameters, sums and a loss");
        for (index, (one, eight)) in one.iter().zip(eight).enumerate() {
            let distance = distance(one, eight);
            assert!(distance < ALLOWED, "{model}, output {index} {}: {distance} from one device's", one.shape());
        }
    }
}

/// The largest difference, in units of the largest value.
fn distance(expected: &HostTensor, given: &HostTensor) -> f64 {
    let (expected, given) = (expected.to_f64s(), given.to_f64s());
    let scale = expected.iter().fold(1e-3, |scale: f64, value| scale.max(value.abs()));
    let difference = |(expected, given): (&f64, &f64)| match (expected - given).abs() {
        difference if difference.is_nan() => f64::INFINITY,
        difference => difference / scale,
    };
    expected.iter().zip(&given).map(difference).fold(0.0, f64::max)
}
