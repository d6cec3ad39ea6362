//! Every metric of every task against scikit-learn and torchmetrics, on random inputs with several columns, missing classes
//! and empty masks. `golden/make.py` made the figures.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Tensor, Trace};
use octant_metrics::classes::{Confusion, confusion, in_top_k};
use octant_metrics::{Metric, OneVersusRest, Regression, Roc, masks};
use serde_json::Value;

fn figures() -> Value {
    serde_json::from_str(include_str!("../golden/figures.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn rows(value: &Value) -> Vec<Vec<f32>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

#[track_caller]
fn close(case: &Value, metrics: &[Metric], names: &[&str], tolerance: f64) {
    for name in names {
        let found = metrics.iter().find(|(metric, _)| metric == name).unwrap().1;
        let expected = case["expected"][name].as_f64().unwrap();
        let scale = expected.abs().max(1.0);
        assert!((found - expected).abs() <= tolerance * scale, "{} {name}: {found}, not {expected}", case["name"]);
    }
}

/// What a graph over constants comes to.
fn computed(build: impl Fn(&Trace) -> Tensor) -> Vec<f64> {
    let trace = Trace::new();
    let output = build(&trace);
    let graph = trace.finish(&[output]).unwrap();
    evaluate(&graph, &[]).unwrap()[0].to_f64s()
}

fn floats(trace: &Trace, dims: &[usize], values: &[f32]) -> Tensor {
    trace.constant(HostTensor::new(dims.to_vec(), values).unwrap())
}

#[test]
fn metrics_of_classes_are_those_of_scikit_learn() {
    for case in figures()["classes"].as_array().unwrap() {
        let probabilities = rows(&case["probabilities"]);
        let labels: Vec<i32> = numbers(&case["labels"]).iter().map(|&label| label as i32).collect();
        let (count, classes) = (labels.len(), probabilities[0].len());
        let tensors = |trace: &Trace| {
            let scores = floats(trace, &[count, classes], &probabilities.concat());
            let labels = trace.constant(HostTensor::new([count], &labels).unwrap());
            (scores, labels, floats(trace, &[count], &vec![1.0; count]))
        };
        let counts = computed(|trace| {
            let (scores, labels, weights) = tensors(trace);
            confusion(&labels, &scores.arg_max(1).1, &weights, classes)
        });
        let right: f64 = (0..classes).map(|class| counts[class * classes + class]).sum();
        let mut metrics = Confusion { counts, classes }.metrics();
        metrics.push(("accuracy".into(), right / count as f64));
        if classes > 5 {
            let among = computed(|trace| {
                let (scores, labels, weights) = tensors(trace);
                in_top_k(&scores, &labels, &weights, 5)
            });
            metrics.push(("top5".into(), among[0] / count as f64));
            close(case, &metrics, &["top5"], 1e-6);
        }
        close(case, &metrics, &["accuracy", "precision", "recall", "f1"], 1e-9);

        let mut scores = OneVersusRest::new(classes);
        probabilities.iter().zip(&labels).for_each(|(row, &label)| scores.observe(row, label as usize));
        let areas = [("auc_macro".into(), scores.mean_area()), ("auc_micro".into(), scores.pooled().area())];
        close(case, &areas, &["auc_macro", "auc_micro"], 1e-6);
    }
}

/// R² was pooled over one mean for all columns.
#[test]
fn metrics_of_several_columns_are_those_of_scikit_learn() {
    for case in figures()["values"].as_array().unwrap() {
        let (predictions, targets) = (rows(&case["predictions"]), rows(&case["targets"]));
        let columns = targets[0].len();
        let mut regression = Regression::new(columns);
        predictions.iter().zip(&targets).for_each(|(prediction, target)| regression.observe(prediction, target));
        let names: &[&str] =
            if columns > 1 { &["mse", "mae", "rmse", "r2", "r2_weighted"] } else { &["mse", "mae", "rmse", "r2"] };
        close(case, &regression.metrics(), names, 1e-9);
    }
}

#[test]
fn metrics_of_masks_are_those_of_scikit_learn_and_torchmetrics() {
    for case in figures()["masks"].as_array().unwrap() {
        let (logits, truth) = (rows(&case["logits"]), rows(&case["masks"]));
        let width = case["width"].as_u64().unwrap() as usize;
        let dims = [logits.len(), logits[0].len() / width, width, 1];
        let sums = computed(|trace| {
            let tensors = [&logits, &truth].map(|rows| floats(trace, &dims, &rows.concat()));
            let mask = tensors[1].convert(DType::U8);
            masks::overlap(&tensors[0], &mask, &floats(trace, &[dims[0]], &vec![1.0; dims[0]]))
        });
        let mut metrics = masks::metrics(&sums);
        let mut roc = Roc::default();
        for (&logit, &truth) in logits.concat().iter().zip(&truth.concat()) {
            roc.observe(logit, truth > 0.0);
        }
        metrics.push(("auc".into(), if roc.is_defined() { roc.area() } else { f64::NAN }));
        // What is undefined here is 0 in the references.
        metrics.iter_mut().filter(|(_, value)| value.is_nan()).for_each(|(_, value)| *value = 0.0);
        close(case, &metrics, &["iou", "niou", "auc"], 1e-6);
    }
}

/// A number of [0, 1) by SplitMix64's finalizer, as in `golden/make.py`.
fn unit(seed: u64, index: u64) -> f64 {
    let mut z = index.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(seed);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f64 / (1u64 << 24) as f64
}

/// More scores than bins: well separated, saturated, nearly equal. The old area had 128 equal intervals and was
/// 0.009 off on ordinary networks.
#[test]
fn the_area_under_the_curve_was_wrong() {
    for case in figures()["areas"].as_array().unwrap() {
        let number = |name: &str| case[name].as_f64().unwrap();
        let (seed, mut roc) = (case["seed"].as_u64().unwrap(), Roc::default());
        for index in 0..case["count"].as_u64().unwrap() {
            let truth = unit(seed, 4 * index) < number("share");
            let sum: f64 = (1..4).map(|part| unit(seed, 4 * index + part)).sum();
            let x = (sum - 1.5) * number("spread") + number("shift") * f64::from(u8::from(truth));
            roc.observe_probability((1.0 / (1.0 + (-x).exp())) as f32, truth);
        }
        let (area, expected) = (roc.area(), number("auc"));
        assert!((area - expected).abs() < 1e-3, "{}: {area}, not {expected}", case["name"]);
        // No straight line where the curve bends: neighbors on it are near each other wherever scores differ.
        if case["name"] == "ordinary" {
            let gap = |pair: &[[f64; 2]]| (pair[1][0] - pair[0][0]).max(pair[1][1] - pair[0][1]);
            let widest = roc.curve().windows(2).map(gap).fold(0.0, f64::max);
            assert!(widest < 0.01, "{widest}");
        }
    }
}

#[test]
fn parts_that_were_counted_apart_add_up() {
    let mut whole = Roc::default();
    let mut parts = [Roc::default(), Roc::default()];
    for index in 0..60_000u64 {
        let (truth, score) = (unit(9, 2 * index) < 0.3, unit(9, 2 * index + 1) as f32);
        whole.observe(score, truth);
        parts[(index % 2) as usize].observe(score, truth);
    }
    let [mut first, second] = parts;
    first.merge(&second);
    assert!((first.area() - whole.area()).abs() < 1e-4);
}
