//! Metrics over the classes of pixels against the figures of `golden/semantic.py`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::evaluate::evaluate;
use octant_graph::{HostTensor, Trace};
use octant_metrics::pixels;
use serde_json::Value;

fn flat(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| flat(item, into)),
        number => into.push(number.as_u64().unwrap() as u8),
    }
}

#[test]
fn mean_iou_over_a_whole_set_is_that_of_torchmetrics() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../golden/semantic.json")).unwrap();
    for case in &cases {
        let classes = case["classes"].as_u64().unwrap() as usize;
        let mut sums = vec![0.0; pixels::sums(classes)];
        // A batch per image: what the device adds up.
        let images = |key: &str| case[key].as_array().unwrap().clone();
        for (label, guess) in images("labels").iter().zip(&images("predictions")) {
            let (mut labels, mut guesses) = (Vec::new(), Vec::new());
            flat(label, &mut labels);
            flat(guess, &mut guesses);
            let guesses: Vec<i32> = guesses.into_iter().map(i32::from).collect();
            let trace = Trace::new();
            let label = trace.constant(HostTensor::new([1, 12, 12, 1], &labels).unwrap());
            let guess = trace.constant(HostTensor::new([1, 12, 12], &guesses).unwrap());
            let graph = trace.finish(&[pixels::confusion(&label, &guess, classes)]).unwrap();
            let counts = evaluate(&graph, &[]).unwrap()[0].to_f64s();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        for (name, value) in pixels::metrics(&pixels::matrix(&sums, classes)) {
            let expected = case["expected"][&name].as_f64().unwrap();
            assert!((value - expected).abs() < 1e-6, "{} {name}: {value}, not {expected}", case["name"]);
        }
    }
}
