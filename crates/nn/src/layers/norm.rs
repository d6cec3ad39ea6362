//! Norms with learned scale and shift. Statistics are f32 whatever the precision.

use crate::{Border, Mode, Scope, Training, init};
use octant_graph::{DType, Tensor};

/// Batch norm over the last axis, with `weight`, `bias`, `running_mean` and `running_var`.
#[derive(Debug, Clone, Copy)]
pub struct BatchNorm {
    epsilon: f64,
    momentum: f64,
    scale: f64,
}

impl Default for BatchNorm {
    fn default() -> BatchNorm {
        BatchNorm::new()
    }
}

impl BatchNorm {
    /// PyTorch's defaults: epsilon 1e-5, a new batch counts 0.1 in the running statistics.
    pub fn new() -> BatchNorm {
        BatchNorm { epsilon: 1e-5, momentum: 0.1, scale: 1.0 }
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
        BatchNorm { scale, ..self }
    }

    /// Normalises with the statistics of the batch in training, with the running ones otherwise.
    pub fn apply(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let _scope = cx.enter();
        let channels = [x.channels()];
        let scale = cx.param("weight", &channels, init::Init::Constant(self.scale), Border::Same);
        let shift = cx.param("bias", &channels, init::ZEROS, Border::Same);
        let mean = cx.statistic("running_mean", &channels, init::ZEROS);
        let variance = cx.statistic("running_var", &channels, init::ONES);
        match cx.context().mode() {
            Mode::Train(training) if !training.frozen_statistics => {
                self.train(cx, x, training, [&scale, &shift, &mean, &variance])
            }
            _ => x.batch_norm(&mean, &variance, &scale, &shift, self.epsilon),
        }
    }

    /// Statistics over each group of the batch; the running ones follow the groups' average, the variance without bias
    /// as in PyTorch.
    fn train(&self, cx: &Scope, x: &Tensor, training: &Training, variables: [&Tensor; 4]) -> Tensor {
        let [scale, shift, running_mean, running_variance] = variables;
        let (groups, batch) = (training.batch_groups.max(1), x.dim(0));
        if !batch.is_multiple_of(groups) {
            let message = format!("batch_norm: a batch of {batch} does not fall into {groups} equal groups");
            return x.trace().fail(message, x.shape().clone());
        }
        let mut dims = vec![groups, batch / groups];
        dims.extend_from_slice(&x.dims()[1..]);
        let grouped = if groups == 1 { x.clone() } else { x.reshape(&dims) };
        let first_axis = if groups == 1 { 0 } else { 1 };
        let axes: Vec<usize> = (first_axis..grouped.rank() - 1).collect();
        // One pass over the data is exact enough when it is shifted by a value that lies among them. The running mean may
        // be far off in the first steps; the group's first element never is.
        let (mean, variance) = grouped.shifted_moments(&axes, &first_along(&grouped, &axes));
        self.follow(cx, "running_mean", running_mean, &mean, 1.0);
        let count = x.shape().elements() / (x.channels() * groups).max(1);
        let unbiased = count as f64 / (count.max(2) - 1) as f64;
        self.follow(cx, "running_var", running_variance, &variance, unbiased);
        // The mean gets its gradient by way of the shift, where it is a product of two numbers per channel: a third sum over
        // the data, next to those for scale and shift, would say the same. Forward the difference is zero.
        let still = mean.stop_gradient();
        let moved = (&mean - &still) * ((&variance + self.epsilon).rsqrt() * scale).stop_gradient();
        grouped.batch_norm(&still, &variance, scale, &(shift - moved), self.epsilon).reshape(x.dims())
    }

    fn follow(&self, cx: &Scope, name: &str, running: &Tensor, batch: &Tensor, factor: f64) {
        let per_group = batch.reshape(&[batch.shape().elements() / batch.channels().max(1), batch.channels()]);
        let average = per_group.mean(&[0]) * (self.momentum * factor);
        cx.update(name, &(running * (1.0 - self.momentum) + average));
    }
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

/// Group norm of NHWC pictures, with `weight` and `bias`.
pub fn group_norm(cx: &Scope, x: &Tensor, groups: usize, epsilon: f64) -> Tensor {
    let _scope = cx.enter();
    let (scale, shift) = scale_and_shift(cx, x);
    x.group_norm(groups, &scale, &shift, epsilon)
}

fn scale_and_shift(cx: &Scope, x: &Tensor) -> (Tensor, Tensor) {
    debug_assert!(x.dtype() == DType::F32 || x.dtype() == cx.dtype());
    let channels = [x.channels()];
    (cx.param("weight", &channels, init::ONES, Border::Same), cx.param("bias", &channels, init::ZEROS, Border::Same))
}
