//! Charts at the end of a run or of an evaluation.

mod boxes;
mod classes;
mod labels;
mod masks;

use crate::error::{make_folder, write as write_file};
use crate::{Result, RunOutcome};
use octant_data::Dataset;
use octant_data::report::Statistics;
use octant_events::{Canvas, Chart, Curve, Drawing, Matrix, read_table};
use octant_imaging::geometry::Border;
use octant_imaging::resize::{Method, resize_with_pad};
use octant_imaging::{Filter, Image, Semantics};
use octant_metrics::Roc;
use octant_metrics::classes::Confusion;
use octant_metrics::confidence::Mistake;
use octant_train::Findings;
use serde_json::{Value, json};
use std::path::Path;

/// Writes the curves of `metrics.csv` below `plots/`, and what the last validation found on these samples. The epoch that
/// was best by the watched metric is marked.
pub(crate) fn write(outcome: &RunOutcome, samples: &dyn Dataset) -> Result<()> {
    let folder = &outcome.plots;
    make_folder(folder)?;
    let best = outcome.best.as_ref();
    let mark = best.map(|best| (best.epoch as f64, format!("best {}: {:.4}", best.metric, best.value)));
    for chart in curves(&outcome.run.join("metrics.csv"), mark)? {
        chart.save(folder, &chart.title)?;
    }
    findings(folder, &outcome.summary.findings, samples.class_names(), samples)
}

/// One chart per metric of a `metrics.csv`, training and validation together.
pub fn curves(table: &Path, mark: Option<(f64, String)>) -> Result<Vec<Chart>> {
    let (columns, rows) = read_table(table)?;
    let index = |name: &str| columns.iter().position(|column| column == name);
    let epoch = index("epoch").unwrap_or(0);
    let curve = |name: &str, shown: &str| -> Option<Curve> {
        let column = index(name)?;
        let points = rows.iter().filter_map(|row| Some([*row.get(epoch)?, *row.get(column)?])).collect();
        Some(Curve { name: shown.to_string(), points })
    };
    let plain =
        columns.iter().filter(|name| !["epoch", "phase", "step"].contains(&name.as_str()) && !name.starts_with("val_"));
    let only_validated =
        columns.iter().filter_map(|name| name.strip_prefix("val_")).filter(|name| index(name).is_none());
    let chart = |name: &str| {
        let validated = curve(&format!("val_{name}"), "validation");
        let mark = mark.clone().filter(|_| validated.is_some());
        let curves = [curve(name, "training"), validated].into_iter().flatten().collect();
        Chart { title: name.to_string(), axis: "epoch".into(), curves, mark, shares: false }
    };
    Ok(plain.map(String::as_str).chain(only_validated).map(chart).collect())
}

/// The confusion matrix, the curves over all thresholds and the most confident mistakes, where there are any: as plots, and as
/// `findings.json` for the board.
pub fn findings(folder: &Path, findings: &Findings, names: &[String], samples: &dyn Dataset) -> Result<()> {
    let mut numbers = serde_json::Map::new();
    if let Some(confusion) = &findings.confusion {
        let names = confused_names(confusion, names);
        numbers.insert("confusion".into(), json!({ "names": names, "counts": confusion.counts }));
        Matrix { title: "confusion".into(), names, counts: confusion.counts.clone() }.save(folder, "confusion")?;
    }
    if let Some(roc) = &findings.roc {
        let thresholds = roc.confidences();
        // Everything is below the first threshold of the receiver's curve.
        let with_start: Vec<f64> = std::iter::once(1.0).chain(thresholds.iter().copied()).collect();
        let curves = json!({
            "area": roc.area(), "curve": thinned(with_thresholds(roc.curve(), &with_start)),
            "precision_recall": thinned(with_thresholds(roc.precision_recall(), &thresholds)),
            "f1": thinned(roc.f1_over_confidence()),
        });
        numbers.insert("roc".into(), curves);
    }
    if let Some(calibration) = &findings.calibration {
        let bins = calibration.bins();
        let bins: Vec<_> = bins.iter().map(|bin| [bin.from, bin.confidence, bin.accuracy, bin.count]).collect();
        numbers.insert("calibration".into(), json!({ "error": calibration.error(), "bins": bins }));
    }
    if let Some(mistakes) = &findings.mistakes {
        numbers.insert("mistakes".into(), save_mistakes(folder, mistakes, samples)?);
    }
    if let Some(found) = &findings.labels {
        numbers.insert("labels".into(), labels::as_json(found, names));
    }
    if let Some(report) = &findings.boxes {
        let mut found = boxes::as_json(report, names);
        found["curves"] = boxes::curves_json(report);
        numbers.insert("boxes".into(), found);
        boxes::save(folder, report)?;
    }
    if !numbers.is_empty() {
        write_file(&folder.join("findings.json"), Value::Object(numbers).to_string())?;
    }
    if let Some(roc) = &findings.roc {
        // Over several classes, all decisions are pooled.
        let average = if findings.confusion.is_some() { "micro average, " } else { "" };
        let [receiver, precision] = thresholds(roc, average);
        receiver.save(folder, "roc")?;
        precision.save(folder, "precision-recall")?;
    }
    Ok(())
}

/// What an evaluation found about classes or boxes, as a table; none for tasks without either.
pub fn findings_table(findings: &Findings, names: &[String]) -> Option<String> {
    let Findings { boxes, overlaps, labels, confusion, .. } = findings;
    let boxes = boxes.as_ref().map(|report| boxes::table(report, names));
    let masks = || overlaps.as_ref().map(|overlaps| masks::table(overlaps, names));
    let labels = || labels.as_ref().map(|labels| labels::table(labels, names));
    boxes
        .or_else(masks)
        .or_else(labels)
        .or_else(|| confusion.as_ref().map(|confusion| classes::table(confusion, names)))
}

/// The same for machines: `boxes`, of masks `classes`, of labels `labels`.
pub fn findings_json(findings: &Findings, names: &[String]) -> serde_json::Map<String, Value> {
    let boxes = findings.boxes.as_ref().map(|report| boxes::as_json(report, names));
    let classes = findings.overlaps.as_ref().map(|overlaps| ("classes".into(), masks::as_json(overlaps, names)));
    let labels = findings.labels.as_ref().map(|labels| ("labels".into(), labels::as_json(labels, names)));
    [("boxes".to_string(), boxes.into())].into_iter().chain(classes).chain(labels).collect()
}

/// The number of samples of each class: one bar per class, longest possible for the largest.
pub fn class_balance(statistics: &Statistics, names: &[String]) -> Canvas {
    const ROW: usize = 20;
    const NAME: usize = 260;
    const BAR: usize = 480;
    let largest = statistics.classes.values().copied().max().unwrap_or(1).max(1);
    let mut canvas = Canvas::new(NAME + BAR + 80, ROW * statistics.classes.len().max(1) + 34);
    canvas.letters([8, 8], &format!("{} samples", statistics.samples), [30; 3]);
    for (row, (class, count)) in statistics.classes.iter().enumerate() {
        let top = 30 + row * ROW;
        let name: String = names.get(*class as usize).cloned().unwrap_or_else(|| class.to_string());
        canvas.letters([8, top - 1], &Canvas::fitted(&name, NAME - 16), [30; 3]);
        canvas.block([NAME, top, (count * BAR).div_ceil(largest), ROW - 4], [70, 120, 200]);
        canvas.letters([NAME + BAR + 10, top - 1], &count.to_string(), [30; 3]);
    }
    canvas
}

/// Names for every row of a confusion matrix; one more than there are classes is the background.
pub fn confused_names(confusion: &Confusion, names: &[String]) -> Vec<String> {
    let name = |class: usize| match names.get(class) {
        Some(name) => name.clone(),
        None if !names.is_empty() && class == names.len() => "background".into(),
        None => class.to_string(),
    };
    (0..confusion.classes).map(name).collect()
}

fn with_thresholds(points: Vec<[f64; 2]>, thresholds: &[f64]) -> Vec<[f64; 3]> {
    points.into_iter().zip(thresholds).map(|([x, y], &threshold)| [x, y, threshold]).collect()
}

/// The points of a curve that are distinct at the plot's resolution; what follows their two coordinates goes along.
fn thinned<const N: usize>(points: Vec<[f64; N]>) -> Vec<[f64; N]> {
    const STEP: f64 = 1.0 / 2000.0;
    let last = points.last().copied();
    let mut kept: Vec<[f64; N]> = Vec::new();
    for point in points {
        let far = |other: &[f64; N]| (0..2).any(|axis| (point[axis] - other[axis]).abs() >= STEP);
        if kept.last().is_none_or(far) {
            kept.push(point);
        }
    }
    kept.extend(last.filter(|last| kept.last() != Some(last)));
    kept
}

fn thresholds(roc: &Roc, average: &str) -> [Chart; 2] {
    let chance = Curve { name: "chance".into(), points: vec![[0.0, 0.0], [1.0, 1.0]] };
    let receiver = Chart {
        title: "true positive rate".into(),
        axis: "false positive rate".into(),
        curves: vec![Curve { name: format!("{average}area {:.4}", roc.area()), points: thinned(roc.curve()) }, chance],
        mark: None,
        shares: true,
    };
    let curve = Curve { name: "every threshold".into(), points: thinned(roc.precision_recall()) };
    let precision = Chart { title: "precision".into(), axis: "recall".into(), curves: vec![curve], ..receiver.clone() };
    [receiver, precision]
}

/// Pixels of a tile, and tiles in a row.
const TILE: usize = 96;
const COLUMNS: usize = 16;
/// Samples that are drawn; more are only named.
const DRAWN: usize = 256;

/// Draws `mistakes.png` and returns the list: the sample of number `i` is the tile of number `i`.
fn save_mistakes(folder: &Path, mistakes: &[Mistake], samples: &dyn Dataset) -> Result<Value> {
    let drawn = mistakes.len().min(DRAWN);
    if drawn > 0 {
        let mut canvas = Canvas::new(TILE * COLUMNS, TILE * drawn.div_ceil(COLUMNS));
        for (number, mistake) in mistakes.iter().take(drawn).enumerate() {
            // One that cannot be read any more leaves its tile empty.
            let Ok(sample) = samples.get(mistake.index as usize) else { continue };
            let corner = [number % COLUMNS * TILE, number / COLUMNS * TILE];
            canvas.image(corner, TILE, &tile(&sample.image.to_u8())?);
        }
        canvas.save(&folder.join("mistakes.png"))?;
    }
    let listed: Vec<Value> = mistakes
        .iter()
        .map(|mistake| {
            let Mistake { index, label, predicted, confidence } = *mistake;
            json!({
                "name": samples.location(index as usize), "actual": label, "predicted": predicted,
                "confidence": confidence,
            })
        })
        .collect();
    Ok(json!({ "samples": listed, "drawn": drawn, "tile": TILE, "columns": COLUMNS }))
}

/// The whole image in a square, in color.
fn tile(image: &Image<u8>) -> Result<Vec<u8>> {
    // Small images are enlarged by whole pixels, so that they stay sharp.
    let is_small = image.height().max(image.width()) <= TILE;
    let filter = if is_small { Filter::Nearest } else { Filter::Bilinear };
    let (fitted, _) = resize_with_pad(image, TILE, TILE, Method::new(filter, Semantics::Pil), Border::Constant(255))?;
    let channels = fitted.channels().max(1);
    let color = |pixel: &[u8]| [0, 1, 2].map(|channel| pixel[if channels < 3 { 0 } else { channel }]);
    Ok(fitted.values().chunks_exact(channels).flat_map(color).collect())
}
