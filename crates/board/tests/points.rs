//! Points of curves as a browser receives them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use octant_board::Serving;
use octant_events::EventWriter;
use serde_json::Value;
use support::{get, octant_run, start};

/// The first and last position of a curve.
fn ends(serving: &Serving, tag: &str, axis: &str) -> (f64, f64) {
    let response = get(serving.address(), &format!("/api/points?tag={tag}&axis={axis}"));
    let length = u64::from_le_bytes(response.body[..8].try_into().unwrap()) as usize;
    let head: Value = serde_json::from_slice(&response.body[8..8 + length]).unwrap();
    let curve = &head["curves"][0];
    (curve["first"].as_f64().unwrap(), curve["last"].as_f64().unwrap())
}

/// Octant's event files number values of epochs by epoch and values of steps by step.
#[test]
fn values_of_steps_were_taken_for_values_of_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("glyphs-1");
    octant_run(&run, 0, 4);
    let mut events = EventWriter::append(&run).unwrap();
    (1u64..=128).for_each(|step| events.scalar(step, "step/loss", 1.0 / step as f64).unwrap());
    let serving = start(folder.path());
    assert_eq!(ends(&serving, "loss", "step"), (32.0, 128.0));
    assert_eq!(ends(&serving, "loss", "epoch"), (1.0, 4.0));
    assert_eq!(ends(&serving, "step%2Floss", "step"), (1.0, 128.0));
    assert_eq!(ends(&serving, "step%2Floss", "epoch"), (1.0 / 32.0, 4.0));
}
