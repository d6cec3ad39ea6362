//! Tables of an evaluation of masks of several classes.

use octant_metrics::pixels::ClassOverlap;
use serde_json::{Value, json};

fn name(class: usize, names: &[String]) -> String {
    names.get(class).cloned().unwrap_or_else(|| class.to_string())
}

/// The table for people: a line per class.
pub fn table(overlaps: &[ClassOverlap], names: &[String]) -> String {
    let names: Vec<String> = (0..overlaps.len()).map(|class| name(class, names)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("class".len());
    let all: f64 = overlaps.iter().map(|overlap| overlap.labeled).sum::<f64>().max(1.0);
    let shown = |value: f64| if value.is_nan() { "–".to_string() } else { format!("{value:.4}") };
    let mut rows = vec![format!("  {:<width$}    IoU   Dice  found  % of pixels", "class")];
    for (name, overlap) in names.iter().zip(overlaps) {
        let [iou, dice, found] = [overlap.iou(), overlap.dice(), overlap.accuracy()].map(shown);
        let share = 100.0 * overlap.labeled / all;
        rows.push(format!("  {name:<width$} {iou:>6} {dice:>6} {found:>6} {share:>12.2}"));
    }
    rows.join("\n")
}

/// The same for machines.
pub fn as_json(overlaps: &[ClassOverlap], names: &[String]) -> Value {
    let defined = |value: f64| (!value.is_nan()).then_some(value);
    let line = |(class, overlap): (usize, &ClassOverlap)| {
        json!({
            "name": name(class, names), "iou": defined(overlap.iou()), "dice": defined(overlap.dice()),
            "accuracy": defined(overlap.accuracy()), "pixels": overlap.labeled, "predicted_pixels": overlap.predicted,
        })
    };
    overlaps.iter().enumerate().map(line).collect()
}
