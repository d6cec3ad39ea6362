//! Losses over classes.

use super::sample_axes;
use octant_graph::{DType, Tensor};

/// Cross-entropy of `logits` `[n, classes]` against integer `labels` `[n]`. With label smoothing the target is
/// `1 - smoothing` on the label plus `smoothing / classes` everywhere.
pub fn cross_entropy(logits: &Tensor, labels: &Tensor, smoothing: f64) -> Tensor {
    let logits = logits.convert(DType::F32);
    let normalizer = logits.logsumexp(1);
    let of_label = &normalizer - logits.pick(labels);
    match smoothing == 0.0 {
        true => of_label,
        false => of_label * (1.0 - smoothing) + (normalizer - logits.mean(&[1])) * smoothing,
    }
}

/// Cross-entropy against a distribution over classes per sample `[n, classes]`, as mixed labels are.
pub fn soft_cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    let logarithms = logits.convert(DType::F32).log_softmax(1);
    -(logarithms * targets.convert(DType::F32)).sum(&[1])
}

/// Binary cross-entropy with logits, the mean over everything but the first axis. `targets` are of the same shape.
pub fn binary_cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    let losses = element_losses(logits, targets);
    losses.mean(&sample_axes(&losses))
}

/// Focal loss (Lin et al., 2017) with logits: easy elements count little. The mean over everything but the first axis.
pub fn focal(logits: &Tensor, targets: &Tensor, alpha: f64, gamma: f64) -> Tensor {
    let (logits, targets) = (logits.convert(DType::F32), targets.convert(DType::F32));
    let probability = logits.logistic();
    let right = &probability * &targets + (1.0 - &probability) * (1.0 - &targets);
    let difficulty = match gamma == 2.0 {
        true => (1.0 - right).square(),
        false => (1.0 - right).pow(&targets.full_like(gamma)),
    };
    let balance = match alpha >= 0.0 {
        true => &targets * alpha + (1.0 - &targets) * (1.0 - alpha),
        false => targets.full_like(1.0),
    };
    let losses = element_losses(&logits, &targets) * difficulty * balance;
    losses.mean(&sample_axes(&losses))
}

/// `softplus(x) - x·t` is `-t·log σ(x) - (1 - t)·log(1 - σ(x))` without overflow.
fn element_losses(logits: &Tensor, targets: &Tensor) -> Tensor {
    let logits = logits.convert(DType::F32);
    logits.softplus() - &logits * targets.convert(DType::F32)
}
