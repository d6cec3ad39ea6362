//! Plots and tables of a detection evaluation.

use crate::Result;
use octant_events::{Chart, Curve, Drawing};
use octant_metrics::boxes::{BoxReport, CocoSummary};
use serde_json::{Value, json};
use std::path::Path;

/// Precision over recall, and precision, recall and F1 over the threshold on the score.
pub(super) fn save(folder: &Path, report: &BoxReport) -> Result<()> {
    let curves = &report.curves;
    let over = |xs: &[f64], ys: &[f64]| xs.iter().zip(ys).map(|(x, y)| [*x, *y]).collect::<Vec<_>>();
    let recalls: Vec<f64> = (0..curves.precision_by_recall.len()).map(|point| point as f64 / 100.0).collect();
    let curve = |name: &str, points| Curve { name: name.to_string(), points };
    let precision_recall = Chart {
        title: "precision at IoU 0.50, mean over classes".into(),
        axis: "recall".into(),
        curves: vec![curve(
            &format!("mAP50 {:.4}", report.coco.figures[1].max(0.0)),
            over(&recalls, &curves.precision_by_recall),
        )],
        mark: None,
        shares: true,
    };
    precision_recall.save(folder, "precision-recall")?;
    let best = report.best();
    let mark = best.map(|best| (best.score, format!("F1 {:.4} at {:.3}", best.f1, best.score)));
    let thresholds = Chart {
        title: "precision, recall and F1 at IoU 0.50, mean over classes".into(),
        axis: "threshold on the score".into(),
        curves: vec![
            curve("precision", over(&curves.scores, &curves.precision)),
            curve("recall", over(&curves.scores, &curves.recall)),
            curve("F1", over(&curves.scores, &curves.f1)),
        ],
        mark,
        shares: true,
    };
    Ok(thresholds.save(folder, "thresholds")?)
}

/// What [`save`] draws, as numbers.
pub(super) fn curves_json(report: &BoxReport) -> Value {
    let curves = &report.curves;
    json!({
        "precision_by_recall": curves.precision_by_recall, "scores": curves.scores, "precision": curves.precision,
        "recall": curves.recall, "f1": curves.f1,
    })
}

/// The report for machines.
pub fn as_json(report: &BoxReport, names: &[String]) -> Value {
    let name = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
    let share = |value: f64| (value >= 0.0).then_some(value);
    let classes: Vec<Value> = (0..report.objects.len())
        .map(|class| {
            json!({
                "name": name(class), "objects": report.objects[class],
                "AP50-95": share(report.coco.per_class[class]), "AP50": share(report.coco.per_class_50[class]),
            })
        })
        .collect();
    let figures = CocoSummary::NAMES.iter().zip(report.coco.figures);
    let figures: serde_json::Map<String, Value> =
        figures.map(|(name, value)| (name.to_string(), json!(share(value)))).collect();
    let best = report.best().map(
        |point| json!({ "score": point.score, "precision": point.precision, "recall": point.recall, "f1": point.f1 }),
    );
    json!({
        "coco": figures, "ultralytics": { "mAP50-95": report.interpolated[0], "mAP50": report.interpolated[1] },
        "classes": classes, "objects_by_size": { "small": report.sizes[0], "medium": report.sizes[1], "large": report.sizes[2] },
        "best_threshold": best,
    })
}

/// The text report: classes, sizes, the best threshold, and the other rule.
pub fn table(report: &BoxReport, names: &[String]) -> String {
    let share = |value: f64| if value < 0.0 { format!("{:>9}", "–") } else { format!("{value:>9.4}") };
    let mut rows = vec![format!("  {:<20} {:>8} {:>9} {:>9}", "class", "objects", "AP50-95", "AP50")];
    let width = |name: &str| name.chars().take(20).collect::<String>();
    for (class, objects) in report.objects.iter().enumerate() {
        let name = names.get(class).cloned().unwrap_or_else(|| class.to_string());
        let [all, half] = [report.coco.per_class[class], report.coco.per_class_50[class]].map(share);
        rows.push(format!("  {:<20} {objects:>8} {all} {half}", width(&name)));
    }
    rows.push(String::new());
    let sizes = ["small, below 32² px", "medium, to 96² px", "large"];
    for (size, name) in sizes.iter().enumerate() {
        rows.push(format!("  {name:<20} {:>8} {}", report.sizes[size], share(report.coco.figures[3 + size])));
    }
    if let Some(best) = report.best() {
        let [precision, recall, f1] = [best.precision, best.recall, best.f1].map(|value| format!("{value:.4}"));
        rows.push(format!("\n  best threshold {:.3}: precision {precision}, recall {recall}, F1 {f1}", best.score));
    }
    let [all, half] = report.interpolated;
    rows.push(format!("  figures are COCO's; by Ultralytics' rule mAP50-95 is {all:.4}, mAP50 {half:.4}"));
    rows.join("\n")
}
