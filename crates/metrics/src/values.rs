//! Numbers to predict.

use crate::{Metric, ratio, vector};
use octant_graph::{DType, Tensor};

/// How many sums [`errors`] makes.
pub const SUMS: usize = 3;

/// Of a batch of predictions and targets `[n, k]`: sums of squared and absolute errors, and the number of values.
pub fn errors(predictions: &Tensor, targets: &Tensor, weights: &Tensor) -> Tensor {
    let rows = predictions.dim(0);
    let weights = weights.reshape(&[rows, 1]).broadcast_to(predictions.dims());
    let error = predictions.convert(DType::F32) - targets.convert(DType::F32);
    let sum = |tensor: Tensor| (tensor * &weights).sum_all();
    vector(&[sum(error.square()), sum(error.abs()), weights.sum_all()])
}

/// MSE, MAE and RMSE over all columns.
pub fn metrics(sums: &[f64]) -> Vec<Metric> {
    let (mse, mae) = (ratio(sums[0], sums[2]), ratio(sums[1], sums[2]));
    vec![("mse".into(), mse), ("mae".into(), mae), ("rmse".into(), mse.sqrt())]
}

/// Predictions against targets, column by column, in double precision on the host: the variance of targets far from 0 would
/// drown in f32 sums, and R² with it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Regression {
    rows: f64,
    columns: Vec<Column>,
}

/// Running figures of one column (Welford's, so that nothing cancels).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Column {
    squared: f64,
    absolute: f64,
    mean: f64,
    deviations: f64,
}

impl Column {
    /// The share of the targets' variance that is explained. Targets that are all the same are explained fully or not at
    /// all, as scikit-learn has it.
    fn r2(&self) -> f64 {
        match self.deviations == 0.0 {
            true => f64::from(u8::from(self.squared == 0.0)),
            false => 1.0 - self.squared / self.deviations,
        }
    }
}

impl Regression {
    /// For that many columns.
    pub fn new(columns: usize) -> Regression {
        Regression { rows: 0.0, columns: vec![Column::default(); columns] }
    }

    /// Adds the numbers of one sample.
    pub fn observe(&mut self, predictions: &[f32], targets: &[f32]) {
        self.rows += 1.0;
        for (column, (&prediction, &target)) in self.columns.iter_mut().zip(predictions.iter().zip(targets)) {
            let (error, target) = (f64::from(prediction) - f64::from(target), f64::from(target));
            column.squared += error * error;
            column.absolute += error.abs();
            let before = target - column.mean;
            column.mean += before / self.rows;
            column.deviations += before * (target - column.mean);
        }
    }

    /// MSE, MAE and RMSE over all columns; R² as the mean over columns (`r2`, scikit-learn's default) and, where there are
    /// several, weighted by their variances (`r2_weighted`). One sample has no variance, and no R².
    pub fn metrics(&self) -> Vec<Metric> {
        let count = self.columns.len() as f64;
        let sum = |of: fn(&Column) -> f64| self.columns.iter().map(of).sum::<f64>();
        let mse = ratio(sum(|column| column.squared), count * self.rows);
        let mae = ratio(sum(|column| column.absolute), count * self.rows);
        let known = |value: f64| if self.rows < 2.0 { f64::NAN } else { value };
        let mut metrics = vec![
            ("mse".into(), mse),
            ("mae".into(), mae),
            ("rmse".into(), mse.sqrt()),
            ("r2".into(), known(ratio(sum(Column::r2), count))),
        ];
        if self.columns.len() > 1 {
            let weighted = match sum(|column| column.deviations) {
                // Without any variance there is nothing to weigh by.
                0.0 => ratio(sum(Column::r2), count),
                _ => ratio(sum(|c| c.r2() * c.deviations), sum(|c| c.deviations)),
            };
            metrics.push(("r2_weighted".into(), known(weighted)));
        }
        metrics
    }
}

/// A sentence when the squared error is so much smaller than the absolute one that values must lie within 0 and 1, where
/// squaring flatters.
pub fn scale_warning(mse: f64, mae: f64) -> Option<String> {
    (mae > 0.0 && mse < 0.1 * mae).then(|| {
        format!(
            "MSE {mse:.3e} is far below MAE {mae:.3e}: the values seem to lie within 0 and 1, where squares are small; \
             compare with figures on the same scale only"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r2(predictions: &[f32], targets: &[f32]) -> f64 {
        let mut regression = Regression::new(1);
        predictions.iter().zip(targets).for_each(|(&prediction, &target)| regression.observe(&[prediction], &[target]));
        regression.metrics()[3].1
    }

    #[test]
    fn r_squared_of_the_mean_is_zero_and_of_the_truth_is_one() {
        assert_eq!(r2(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), 1.0);
        assert!(r2(&[2.0, 2.0, 2.0], &[1.0, 2.0, 3.0]).abs() < 1e-12);
        assert!(r2(&[1.0], &[1.0]).is_nan());
        assert!(scale_warning(1e-4, 1e-2).is_some() && scale_warning(0.5, 0.6).is_none());
    }

    /// Years: f32 sums of their squares have no digits left for the variance.
    #[test]
    fn targets_far_from_zero_keep_their_variance() {
        let targets: Vec<f32> = (0..5000).map(|number| 2_000_000.0 + (number % 10) as f32 * 0.5).collect();
        let predictions: Vec<f32> = targets.iter().map(|target| target + 0.5).collect();
        assert!((r2(&predictions, &targets) - (1.0 - 0.25 / 2.0625)).abs() < 1e-9);
    }
}
