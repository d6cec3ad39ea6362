//! Losses over numbers. Each is the mean over everything but the first axis.

use super::sample_axes;
use octant_graph::{DType, Tensor};

/// The squared distance.
pub fn squared_error(values: &Tensor, targets: &Tensor) -> Tensor {
    per_sample(&distance(values, targets).square())
}

/// The absolute distance.
pub fn absolute_error(values: &Tensor, targets: &Tensor) -> Tensor {
    per_sample(&distance(values, targets).abs())
}

/// Huber's loss: half the square up to `delta`, a straight line beyond.
pub fn huber(values: &Tensor, targets: &Tensor, delta: f64) -> Tensor {
    let magnitude = distance(values, targets).abs();
    let near = magnitude.less_equal(&magnitude.scalar_like(delta));
    per_sample(&near.select(&(magnitude.square() * 0.5), &((&magnitude - 0.5 * delta) * delta)))
}

/// 1 − structural similarity of images whose values span `range`.
pub fn dissimilarity(values: &Tensor, targets: &Tensor, range: f64) -> Tensor {
    1.0 - values.ssim(targets, range)
}

fn distance(values: &Tensor, targets: &Tensor) -> Tensor {
    values.convert(DType::F32) - targets.convert(DType::F32)
}

fn per_sample(losses: &Tensor) -> Tensor {
    losses.mean(&sample_axes(losses))
}
