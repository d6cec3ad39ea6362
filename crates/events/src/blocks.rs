//! A curve as a small plot of block characters, for terminals.

/// Lines of the plot, each of which distinguishes eight values.
const HEIGHT: usize = 6;
/// The most columns of epochs, so that the whole fits 80.
const COLUMNS: usize = 60;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The lines of a plot of a value by epoch; none where there is no curve yet. The labels are what `number` makes of values, and the
/// column of the best epoch what `marked` makes of it.
pub fn block_plot(
    curve: &[(u64, f64)],
    best: Option<u64>,
    number: impl Fn(f64) -> String,
    marked: impl Fn(String) -> String,
) -> Vec<String> {
    let values = || curve.iter().map(|(_, value)| *value);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    if curve.len() < 2 || low >= high {
        return Vec::new();
    }
    // Every epoch has as many columns, or every column as many epochs.
    let wide = (COLUMNS / curve.len()).clamp(1, 4);
    let per_column = curve.len().div_ceil(COLUMNS);
    let groups: Vec<&[(u64, f64)]> = curve.chunks(per_column).collect();
    let mean = |group: &[(u64, f64)]| group.iter().map(|(_, value)| value).sum::<f64>() / group.len() as f64;
    // The smallest value still shows as the lowest block.
    let eighths = |value: f64| 1 + ((value - low) / (high - low) * (8 * HEIGHT - 1) as f64).round() as usize;
    let bars: Vec<(usize, bool)> = groups
        .iter()
        .map(|group| (eighths(mean(group)), group.iter().any(|(epoch, _)| Some(*epoch) == best)))
        .collect();
    let labels = [number(high), number(low)];
    let margin = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let line = |level: usize| {
        let label = match level {
            level if level + 1 == HEIGHT => labels[0].as_str(),
            0 => labels[1].as_str(),
            _ => "",
        };
        let bar = |&(height, is_best): &(usize, bool)| {
            let block = EIGHTHS[height.saturating_sub(8 * level).min(8)];
            // A gap shows where one epoch ends, where there is room for one.
            let text: String =
                (0..wide).map(|column| if wide > 1 && column + 1 == wide { ' ' } else { block }).collect();
            if is_best { marked(text) } else { text }
        };
        format!("  {label:>margin$} ┤{}", bars.iter().map(bar).collect::<String>())
    };
    let mut lines: Vec<String> = (0..HEIGHT).rev().map(line).collect();
    let (first, last) = (curve[0].0.to_string(), curve[curve.len() - 1].0.to_string());
    let room = (wide * groups.len()).saturating_sub(first.len() + usize::from(wide > 1));
    lines.push(format!("  {:margin$}  {first}{last:>room$}", ""));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_from_the_lowest_block_to_the_top() {
        let curve: Vec<(u64, f64)> = (1..=4).map(|epoch| (epoch, epoch as f64 / 4.0)).collect();
        let lines = block_plot(&curve, Some(4), |value| format!("{value:.2}"), |text| text);
        assert_eq!(
            lines,
            [
                "  1.00 ┤            ███ ",
                "       ┤            ███ ",
                "       ┤        ███ ███ ",
                "       ┤    ▁▁▁ ███ ███ ",
                "       ┤    ███ ███ ███ ",
                "  0.25 ┤▁▁▁ ███ ███ ███ ",
                "        1             4",
            ]
        );
    }

    #[test]
    fn long_runs_and_flat_ones_fit() {
        let long: Vec<(u64, f64)> = (1..=400).map(|epoch| (epoch, (epoch as f64).ln())).collect();
        let lines = block_plot(&long, None, |value| format!("{value:.4}"), |text| text);
        assert!(lines.len() == HEIGHT + 1 && lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        for flat in [&[(1, 0.5), (2, 0.5)][..], &[(1, 0.5)]] {
            assert!(block_plot(flat, None, |value| value.to_string(), |text| text).is_empty());
        }
    }
}
