//! Charts at the end of a run.

use anyhow::Result;
use octant_events::{Canvas, Chart, Curve, read_table};
use octant_metrics::classes::Confusion;
use octant_train::run::Summary;
use std::path::{Path, PathBuf};

/// Writes the curves of `metrics.csv` and the confusion matrix below `plots/`.
pub(crate) fn write(run: &Path, summary: &Summary, names: &[String]) -> Result<PathBuf> {
    let folder = run.join("plots");
    std::fs::create_dir_all(&folder)?;
    let (columns, rows) = read_table(&run.join("metrics.csv"))?;
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
    for name in plain.map(String::as_str).chain(only_validated) {
        let curves =
            [curve(name, "training"), curve(&format!("val_{name}"), "validation")].into_iter().flatten().collect();
        let chart = Chart { title: name.to_string(), axis: "epoch".into(), curves };
        std::fs::write(folder.join(format!("{name}.svg")), chart.svg())?;
        chart.canvas().save(&folder.join(format!("{name}.png")))?;
    }
    if let Some(confusion) = &summary.findings.confusion {
        matrix(confusion, names).save(&folder.join("confusion.png"))?;
    }
    Ok(folder)
}

/// The confusion matrix: rows are labels, columns are predictions, darker is more of the row.
fn matrix(confusion: &Confusion, names: &[String]) -> Canvas {
    let classes = confusion.classes;
    let cell = (560 / classes.max(1)).clamp(3, 44);
    let margin = 130;
    let mut canvas = Canvas::new(margin + cell * classes + 20, margin + cell * classes + 20);
    canvas.text([8, 8], "rows: labels", [40; 3]);
    canvas.text([8, 24], "columns: predictions", [40; 3]);
    for row in 0..classes {
        let counts = &confusion.counts[row * classes..(row + 1) * classes];
        let total: f64 = counts.iter().sum::<f64>().max(1.0);
        for (column, count) in counts.iter().enumerate() {
            let shade = (255.0 - 215.0 * (count / total).sqrt()) as u8;
            let colour = if row == column { [shade, 255 - (255 - shade) / 3, shade] } else { [255, shade, shade] };
            let place = [margin + column * cell, margin + row * cell];
            canvas.fill([place[0], place[1], cell - 1, cell - 1], colour);
            let text = format!("{count:.0}");
            if *count > 0.0 && cell >= 24 && text.len() * Canvas::LETTER < cell {
                canvas.text([place[0] + 3, place[1] + cell / 2 - 5], &text, [30; 3]);
            }
        }
        if cell >= 10 {
            let name: String = names.get(row).cloned().unwrap_or_else(|| row.to_string()).chars().take(14).collect();
            canvas.text([8, margin + row * cell + cell / 2 - 5], &name, [30; 3]);
        }
    }
    canvas
}
