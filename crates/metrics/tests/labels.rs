//! Images with any number of labels against scikit-learn; `golden/labels.py` made the figures.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_metrics::labels::LabelScores;
use serde_json::Value;

fn rows(value: &Value) -> Vec<Vec<f64>> {
    let row = |row: &Value| row.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
    value.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn metrics_of_labels_are_those_of_scikit_learn() {
    let cases: Value = serde_json::from_str(include_str!("../golden/labels.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let (logits, truth) = (rows(&case["logits"]), rows(&case["labels"]));
        let thresholds: Vec<f64> =
            case["thresholds"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
        let mut scores = LabelScores::new(logits[0].len(), &thresholds);
        for (logits, labels) in logits.iter().zip(&truth) {
            let logits: Vec<f32> = logits.iter().map(|&logit| logit as f32).collect();
            scores.observe(&logits, labels.iter().map(|&has| has > 0.0));
        }
        let expected = case["expected"].as_object().unwrap();
        let metrics = scores.metrics();
        assert_eq!(metrics.len(), expected.len());
        for (name, value) in &metrics {
            let wanted = expected[name].as_f64().unwrap();
            assert!((value - wanted).abs() < 1e-12, "{} {name}: {value}, not {wanted}", case["name"]);
        }
        let labels = scores.labels();
        for (label, wanted) in labels.iter().zip(case["average_precision"].as_array().unwrap()) {
            match wanted.as_f64() {
                Some(wanted) => assert!((label.average_precision - wanted).abs() < 1e-12),
                None => assert!(label.average_precision.is_nan()),
            }
        }
        // Cutting at the chosen thresholds has the F1 that they were chosen by.
        for (column, label) in
            labels.iter().enumerate().filter(|(_, label)| thresholds.is_empty() && label.positives > 0.0)
        {
            let is_predicted = |row: &Vec<f64>| 1.0 / (1.0 + (-row[column]).exp()) >= label.threshold;
            let counts = logits.iter().zip(&truth).fold([0.0; 3], |counts, (row, labels)| {
                let (predicted, has) = (is_predicted(row), labels[column] > 0.0);
                let add = |at: usize, is: bool| counts[at] + f64::from(u8::from(is));
                [add(0, predicted && has), add(1, predicted && !has), add(2, !predicted && has)]
            });
            assert_eq!(label.f1, 2.0 * counts[0] / (2.0 * counts[0] + counts[1] + counts[2]), "{}", case["name"]);
        }
    }
}
