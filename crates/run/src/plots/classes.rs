//! Tables of an evaluation of classes.

use octant_metrics::classes::Confusion;

/// Classes that the table has; more are in `findings.json`.
const SHOWN: usize = 100;

/// Precision, recall and F1, a line per class.
pub fn table(confusion: &Confusion, names: &[String]) -> String {
    let names = super::confused_names(confusion, names);
    let names = &names[..names.len().min(SHOWN)];
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("class".len());
    let shown = |value: f64| if value.is_nan() { "–".to_string() } else { format!("{value:.4}") };
    let mut rows = vec![format!("  {:<width$} precision  recall      f1", "class")];
    for (class, name) in names.iter().enumerate() {
        let figures = [confusion.precision(class), confusion.recall(class), confusion.f1(class)];
        let [precision, recall, f1] = figures.map(shown);
        rows.push(format!("  {name:<width$} {precision:>9} {recall:>7} {f1:>7}"));
    }
    rows.join("\n")
}
