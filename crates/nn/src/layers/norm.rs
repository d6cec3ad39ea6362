//! Norms with learned scale and shift. Statistics are f32 whatever the precision.

mod bias;

use crate::{Init, Mode, Scope, WeightLayout, init};
use octant_graph::{DType, Tensor};

/// Batch norm over the last axis, with `weight`, `bias`, `running_mean` and `running_var`.
#[derive(Debug, Clone, Copy)]
pub struct BatchNorm {
    epsilon: f64,
    momentum: f64,
    scale: Init,
}

impl Default for BatchNorm {
    fn default() -> BatchNorm {
        BatchNorm::new()
    }
}

impl BatchNorm {
    /// PyTorch's defaults: epsilon 1e-5, a new batch counts 0.1 in the running statistics.
    pub fn new() -> BatchNorm {
        BatchNorm { epsilon: 1e-5, momentum: 0.1, scale: init::ONES }
    }

    /// What is added to the variance.
    pub fn epsilon(self, epsilon: f64) -> BatchNorm {
        BatchNorm { epsilon, ..self }
    }

    /// How much a new batch counts in the running statistics (PyTorch's meaning of momentum).
    pub fn momentum(self, momentum: f64) -> BatchNorm {
        BatchNorm { momentum, ..self }
    }

    /// The first value of the scale; 0 makes a residual block start as its shortcut.
    pub fn initial_scale(self, scale: f64) -> BatchNorm {
        self.scale_init(Init::Constant(scale))
    }

    /// The initializer of the scale.
    pub fn scale_init(self, scale: Init) -> BatchNorm {
        BatchNorm { scale, ..self }
    }

    /// Normalizes with the statistics of the batch in training, with the running ones otherwise.
    pub fn apply(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let _scope = cx.enter();
        let (x, bias) = without_bias(cx, x);
        let grouped = grouped(cx, &x);
        // One pass over the data is exact enough when it is shifted by a value that lies among them. The running mean may
        // be far off in the first steps; the group's first element never is.
        let moments = || {
            let axes = batch_axes(&grouped, &x);
            grouped.shifted_moments(&axes, &first_along(&grouped, &axes))
        };
        self.norm(cx, &x, bias, moments).of(&grouped).reshape(x.dims())
    }

    /// What is to be done to every element, with the moments of each group of the batch if they count.
    fn norm(&self, cx: &Scope, x: &Tensor, bias: Option<Tensor>, moments: impl FnOnce() -> (Tensor, Tensor)) -> Norm {
        let channels = [x.channels()];
        let scale = cx.param("weight", &channels, self.scale, WeightLayout::Same);
        let shift = cx.param("bias", &channels, init::ZEROS, WeightLayout::Same);
        let running_mean = cx.statistic("running_mean", &channels, init::ZEROS);
        let running_variance = cx.statistic("running_var", &channels, init::ONES);
        let factor = |variance: &Tensor| (variance + self.epsilon).rsqrt() * &scale;
        let Some(groups) = groups(cx, x) else {
            return Norm { mean: running_mean, factor: factor(&running_variance), shift };
        };
        let (mean, variance) = moments();
        // The running statistics follow the groups' average, the variance without bias as in PyTorch.
        let mean_with_bias = bias.map_or(mean.clone(), |bias| &mean + bias);
        self.follow(cx, "running_mean", &running_mean, &mean_with_bias, 1.0);
        let count = x.shape().elements() / (x.channels() * groups).max(1);
        let unbiased = count as f64 / (count.max(2) - 1) as f64;
        self.follow(cx, "running_var", &running_variance, &variance, unbiased);
        // The mean gets its gradient through the shift, where it is a product of two numbers per channel: a third sum over
        // the data, next to those for scale and shift, would give the same. Forward the difference is zero.
        let still = mean.stop_gradient();
        let factor = factor(&variance);
        let moved = (&mean - &still) * factor.stop_gradient();
        Norm { mean: still, factor, shift: shift - moved }
    }

    fn follow(&self, cx: &Scope, name: &str, running: &Tensor, batch: &Tensor, factor: f64) {
        let per_group = batch.reshape(&[batch.shape().elements() / batch.channels().max(1), batch.channels()]);
        let average = per_group.mean(&[0]) * (self.momentum * factor);
        cx.update(name, &(running * (1.0 - self.momentum) + average));
    }
}

/// The bias that statistics of the batch cancel, split off; running ones do not cancel it.
fn without_bias(cx: &Scope, x: &Tensor) -> (Tensor, Option<Tensor>) {
    if groups(cx, x).is_some() { bias::split(x) } else { (x.clone(), None) }
}

/// `(x - mean) · factor + shift`, all of which broadcast against the grouped images.
struct Norm {
    mean: Tensor,
    factor: Tensor,
    shift: Tensor,
}

impl Norm {
    fn of(&self, x: &Tensor) -> Tensor {
        x.channel_affine(&self.mean, &self.factor, &self.shift)
    }
}

/// How many groups of the batch have statistics of their own; none where the running ones serve.
fn groups(cx: &Scope, x: &Tensor) -> Option<usize> {
    match cx.context().mode() {
        Mode::Evaluate if cx.context().uses_image_statistics() => Some(x.dim(0)),
        Mode::Train(training) if !training.keeps_statistics(cx.path()) => Some(training.batch_groups.max(1)),
        _ => None,
    }
}

/// The groups of the batch on an axis of their own in front, if there are several.
fn grouped(cx: &Scope, x: &Tensor) -> Tensor {
    let (groups, batch) = (groups(cx, x).unwrap_or(1), x.dim(0));
    if groups == 1 {
        return x.clone();
    }
    if !batch.is_multiple_of(groups) {
        let message = format!("batch_norm: a batch of {batch} does not fall into {groups} equal groups");
        return x.trace().fail(message, x.shape().clone());
    }
    x.reshape(&[&[groups, batch / groups], &x.dims()[1..]].concat())
}

/// The axes of a group's samples and of their positions.
fn batch_axes(grouped: &Tensor, x: &Tensor) -> Vec<usize> {
    (grouped.rank() - x.rank()..grouped.rank().max(1) - 1).collect()
}

/// The first element along some axes, which stay with length 1.
fn first_along(x: &Tensor, axes: &[usize]) -> Tensor {
    let limit = |axis: usize| if axes.contains(&axis) { x.dims()[axis].min(1) } else { x.dims()[axis] };
    let limits: Vec<usize> = (0..x.rank()).map(limit).collect();
    x.slice(&vec![0; x.rank()], &limits, &vec![1; x.rank()]).convert(DType::F32)
}

/// Layer norm over the last axis, with `weight` and `bias`.
pub fn layer_norm(cx: &Scope, x: &Tensor, epsilon: f64) -> Tensor {
    let _scope = cx.enter();
    let (scale, shift) = scale_and_shift(cx, x);
    x.layer_norm(&scale, &shift, epsilon)
}

/// Instance norm of NHWC images: every channel of every image has mean 0 and variance 1, in training and in evaluation.
/// Without learned scale and shift, PyTorch's default.
pub fn instance_norm(cx: &Scope, x: &Tensor, epsilon: f64) -> Tensor {
    let _scope = cx.enter();
    let (x, _) = bias::split(x);
    x.standardize(&[1, 2], epsilon)
}

/// Group norm of NHWC images, with `weight` and `bias`.
pub fn group_norm(cx: &Scope, x: &Tensor, groups: usize, epsilon: f64) -> Tensor {
    let _scope = cx.enter();
    let (scale, shift) = scale_and_shift(cx, x);
    x.group_norm(groups, &scale, &shift, epsilon)
}

fn scale_and_shift(cx: &Scope, x: &Tensor) -> (Tensor, Tensor) {
    debug_assert!(x.dtype() == DType::F32 || x.dtype() == cx.dtype());
    let channels = [x.channels()];
    (
        cx.param("weight", &channels, init::ONES, WeightLayout::Same),
        cx.param("bias", &channels, init::ZEROS, WeightLayout::Same),
    )
}
