//! Numbers to predict.

use crate::{Metric, ratio, vector};
use octant_graph::{DType, Tensor};

/// How many sums [`errors`] makes.
pub const SUMS: usize = 5;

/// Of a batch of predictions and targets `[n, k]`: sums of squared and absolute errors, of the targets and of their
/// squares, and the number of values. Targets are shifted by `center` first: without that, the variance of targets far
/// from 0 drowns in f32.
pub fn errors(predictions: &Tensor, targets: &Tensor, weights: &Tensor, center: f64) -> Tensor {
    let rows = predictions.dim(0);
    let weights = weights.reshape(&[rows, 1]).broadcast_to(predictions.dims());
    let (predictions, targets) = (predictions.convert(DType::F32), targets.convert(DType::F32));
    let error = &predictions - &targets;
    let centered = targets - center;
    let sum = |tensor: Tensor| (tensor * &weights).sum_all();
    vector(&[sum(error.square()), sum(error.abs()), sum(centered.clone()), sum(centered.square()), weights.sum_all()])
}

/// MSE, MAE, RMSE and R² (the share of the targets' variance that is explained).
pub fn metrics(sums: &[f64]) -> Vec<Metric> {
    let count = sums[4];
    let mse = ratio(sums[0], count);
    let variance = ratio(sums[3], count) - ratio(sums[2], count).powi(2);
    let r2 = if variance > 0.0 { 1.0 - mse / variance } else { 0.0 };
    vec![("mse".into(), mse), ("mae".into(), ratio(sums[1], count)), ("rmse".into(), mse.sqrt()), ("r2".into(), r2)]
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

    #[test]
    fn r_squared_of_the_mean_is_zero_and_of_the_truth_is_one() {
        // Targets 1, 2, 3: centered at 0, sums 6 and 14.
        let truth = metrics(&[0.0, 0.0, 6.0, 14.0, 3.0]);
        assert_eq!(truth[3], ("r2".to_string(), 1.0));
        let mean = metrics(&[2.0, 2.0, 6.0, 14.0, 3.0]);
        assert!(mean[3].1.abs() < 1e-12, "{mean:?}");
        assert!(scale_warning(1e-4, 1e-2).is_some() && scale_warning(0.5, 0.6).is_none());
    }
}
