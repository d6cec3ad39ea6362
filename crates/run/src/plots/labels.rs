//! Tables of an evaluation of images with any number of labels.

use octant_metrics::labels::LabelScore;
use serde_json::{Value, json};

fn name(label: usize, names: &[String]) -> String {
    names.get(label).cloned().unwrap_or_else(|| label.to_string())
}

/// The table for people: a line per label.
pub fn table(labels: &[LabelScore], names: &[String]) -> String {
    let names: Vec<String> = (0..labels.len()).map(|label| name(label, names)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("label".len());
    let shown = |value: f64| if value.is_nan() { "–".to_string() } else { format!("{value:.4}") };
    let mut rows = vec![format!("  {:<width$}     AP     F1  threshold  images", "label")];
    for (name, label) in names.iter().zip(labels) {
        let [precision, f1] = [label.average_precision, label.f1].map(shown);
        rows.push(format!("  {name:<width$} {precision:>6} {f1:>6} {:>10.4} {:>7}", label.threshold, label.positives));
    }
    rows.join("\n")
}

/// The same for machines.
pub fn as_json(labels: &[LabelScore], names: &[String]) -> Value {
    let line = |(label, score): (usize, &LabelScore)| {
        let precision = (!score.average_precision.is_nan()).then_some(score.average_precision);
        json!({
            "name": name(label, names), "average_precision": precision, "f1": score.f1, "threshold": score.threshold,
            "images": score.positives,
        })
    };
    labels.iter().enumerate().map(line).collect()
}
