//! Metrics as text.

use octant_train::Metric;

/// Four digits that matter.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && size < 1e-3 => format!("{value:.3e}"),
        size if size >= 1e5 => format!("{value:.4e}"),
        _ => format!("{value:.4}"),
    }
}

/// A metric that the data leaves undefined, such as the AUC of one class alone, is NaN; so is a loss that diverged.
pub(crate) fn metric(name: &str, value: f64) -> String {
    if value.is_nan() && !name.contains("loss") { "undefined".into() } else { number(value) }
}

/// Names and values in one line.
pub(crate) fn show(metrics: &[Metric]) -> String {
    metrics.iter().map(|(name, value)| format!("{name} {}", metric(name, *value))).collect::<Vec<_>>().join("  ")
}
