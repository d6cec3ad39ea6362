//! Curves for a chart of some width: smoothed as TensorBoard does, reduced without losing anything that is visible.
//!
//! A column of pixels shows where a curve enters it, how far it goes up and down, and where it leaves: of the points that
//! fall into the column the first, the lowest, the highest and the last one draw exactly the line that all of them would.
//! So nothing is sampled: every point takes part, and zooming in brings all of them out.

/// What the horizontal axis shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Steps.
    Step,
    /// Epochs.
    Epoch,
    /// Seconds since the run's first value.
    Relative,
    /// Seconds since 1970.
    Wall,
}

/// The part of a curve that a chart shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointReduction {
    /// From here.
    pub from: f64,
    /// To here.
    pub to: f64,
    /// In so many columns.
    pub columns: usize,
    /// With a logarithmic axis.
    pub is_log: bool,
}

/// TensorBoard's smoothing: an exponential moving average without the bias of its beginning. Constant series and values
/// that are not finite pass through.
pub fn smooth(values: &[f32], weight: f64) -> Vec<f32> {
    let is_constant = values.iter().all(|value| *value == values[0]);
    let (mut last, mut count) = (0.0f64, 0i32);
    let smoothed = values.iter().map(|&value| {
        if is_constant || !value.is_finite() {
            return value;
        }
        last = last * weight + (1.0 - weight) * f64::from(value);
        count = count.saturating_add(1);
        let bias = if weight == 1.0 { 1.0 } else { 1.0 - weight.powi(count) };
        (last / bias) as f32
    });
    smoothed.collect()
}

impl PointReduction {
    fn column(&self, x: f64) -> i64 {
        let scale = |x: f64| if self.is_log { x.max(f64::MIN_POSITIVE).ln() } else { x };
        let (from, to) = (scale(self.from), scale(self.to));
        let width = (to - from).max(f64::MIN_POSITIVE);
        ((scale(x) - from) / width * self.columns as f64).floor().clamp(-1.0, self.columns as f64) as i64
    }
}

/// The indices of the points that draw the curve; `xs` must be sorted. One point on either side is kept beyond the
/// range, so that lines reach the edges.
pub fn reduce(xs: &[f64], ys: &[f32], part: &PointReduction) -> Vec<usize> {
    let first = xs.partition_point(|x| *x < part.from).saturating_sub(1);
    let end = (xs.partition_point(|x| *x <= part.to) + 1).min(xs.len());
    if first >= end {
        return Vec::new();
    }
    if end - first <= 4 * part.columns {
        return (first..end).collect();
    }
    let mut kept = Vec::with_capacity(4 * part.columns);
    let mut start = first;
    while start < end {
        let column = part.column(xs[start]);
        let mut stop = start;
        let (mut low, mut high, mut odd) = (start, start, None);
        while stop < end && part.column(xs[stop]) == column {
            let y = ys[stop];
            if y.is_nan() {
                odd = odd.or(Some(stop));
            }
            if y < ys[low] || ys[low].is_nan() {
                low = stop;
            }
            if y > ys[high] || ys[high].is_nan() {
                high = stop;
            }
            stop += 1;
        }
        let mut column = [Some(start), Some(low), Some(high), odd, Some(stop - 1)];
        column.sort_unstable();
        kept.extend(column.into_iter().flatten());
        kept.dedup();
        start = stop;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn smoothing_is_the_debiased_average() {
        let smoothed = smooth(&[1.0, 2.0, f32::NAN, 4.0], 0.5);
        assert_eq!(smoothed[0], 1.0);
        assert!((smoothed[1] - 1.25 / 0.75).abs() < 1e-6);
        assert!(smoothed[2].is_nan());
        assert!((smoothed[3] - (1.25 * 0.5 + 2.0) / 0.875).abs() < 1e-6);
        assert_eq!(smooth(&[3.0, 3.0], 0.9), [3.0, 3.0]);
        assert!(smooth(&[], 0.9).is_empty());
    }

    #[test]
    fn few_points_are_all_kept() {
        let (xs, ys) = ([0.0, 1.0, 2.0, 3.0], [0.0, 5.0, 1.0, 2.0]);
        let part = PointReduction { from: 0.5, to: 1.5, columns: 10, is_log: false };
        assert_eq!(reduce(&xs, &ys, &part), [0, 1, 2]);
        assert!(reduce(&[], &[], &part).is_empty());
    }

    proptest! {
        /// In every column of pixels the reduced curve has the extremes, the first and the last of all points.
        #[test]
        fn every_column_keeps_its_extremes(
            ys in prop::collection::vec(-100.0f32..100.0, 1..3000),
            columns in 1usize..40,
            is_log: bool,
        ) {
            let xs: Vec<f64> = (0..ys.len()).map(|index| 1.0 + index as f64).collect();
            let part = PointReduction { from: 1.0, to: ys.len() as f64 + 0.5, columns, is_log };
            let kept = reduce(&xs, &ys, &part);
            prop_assert!(kept.is_sorted_by(|a, b| a < b));
            prop_assert!(kept.len() <= 4 * columns + 8);
            for column in 0..columns as i64 {
                let all: Vec<usize> = (0..xs.len()).filter(|&index| part.column(xs[index]) == column).collect();
                let left: Vec<usize> = kept.iter().copied().filter(|&index| part.column(xs[index]) == column).collect();
                prop_assert_eq!(all.first(), left.first());
                prop_assert_eq!(all.last(), left.last());
                let extremes = |indices: &[usize]| {
                    let range = indices.iter().map(|&index| ys[index]);
                    (range.clone().fold(f32::MAX, f32::min), range.fold(f32::MIN, f32::max))
                };
                prop_assert_eq!(extremes(&all), extremes(&left));
            }
        }
    }
}
