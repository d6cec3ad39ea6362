//! Numbers as people read them: bytes, times and metrics, in logs, reports and on terminals.

use std::time::Duration;

/// `1 epoch`, `2 epochs`.
pub fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Bytes with a unit: `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A count with commas between thousands.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let parts: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|part| std::str::from_utf8(part).ok()).collect();
    parts.join(",")
}

/// Three or four digits and a letter: `25.56 M`.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v => (v / 1e3, "k"),
    };
    let digits = (3 - (scaled.max(1.0).log10() as usize).min(3)).min(2);
    format!("{scaled:.digits$} {unit}")
}

/// A duration with a unit that suits it.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{} min {} s", s as u64 / 60, s as u64 % 60),
        s => format!("{} h {} min", s as u64 / 3600, s as u64 % 3600 / 60),
    }
}

/// The duration that `9h`, `30m`, `90s` or `1h30m` names.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let part = |part: &str| {
        let (number, unit) = part.split_at_checked(part.len().checked_sub(1)?)?;
        let scale = [("h", 3600.0), ("m", 60.0), ("s", 1.0)].into_iter().find(|(name, _)| *name == unit)?.1;
        let number: f64 = number.parse().ok()?;
        Duration::try_from_secs_f64(number * scale).ok()
    };
    let sum: Option<Duration> = text.split_inclusive(['h', 'm', 's']).map(part).sum();
    sum.filter(|_| !text.is_empty())
}

/// A value with four digits that matter.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && size < 1e-3 => format!("{value:.3e}"),
        size if size >= 1e5 => format!("{value:.4e}"),
        _ => format!("{value:.4}"),
    }
}

/// The value of a metric. One that the data leaves undefined, such as the AUC of one class alone, is NaN; so is a loss that
/// diverged.
pub fn metric(name: &str, value: f64) -> String {
    if value.is_nan() && !name.contains("loss") { "undefined".into() } else { number(value) }
}

/// Names and values of metrics in one line.
pub fn metrics(metrics: &[(String, f64)]) -> String {
    metrics.iter().map(|(name, value)| format!("{name} {}", metric(name, *value))).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!(
            (count(1, "epoch"), count(0, "epoch"), count(2, "step")),
            ("1 epoch".into(), "0 epochs".into(), "2 steps".into())
        );
    }

    #[test]
    fn durations_are_hours_minutes_and_seconds() {
        let seconds = |text| parse_duration(text).map(|time| time.as_secs_f64());
        assert_eq!((seconds("9h"), seconds("1h30m"), seconds("1.5s")), (Some(32400.0), Some(5400.0), Some(1.5)));
        assert_eq!(["", "9", "h", "9d", "-1s"].map(seconds), [None; 5]);
    }

    #[test]
    fn undefined_metrics_are_not_diverged_losses() {
        let values = [("val_auc".to_string(), f64::NAN), ("loss".to_string(), f64::NAN), ("f1".to_string(), 0.00012)];
        assert_eq!(metrics(&values), "val_auc undefined  loss NaN  f1 1.200e-4");
    }
}
