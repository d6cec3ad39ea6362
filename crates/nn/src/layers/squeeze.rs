//! Squeeze-and-excitation, and dropping of values and paths.

use crate::layers::Dense;
use crate::{Fans, Init, Scope, WeightLayout, init};
use octant_graph::Tensor;

/// Two 1×1 convolutions over the mean of every channel; their names differ among references.
#[derive(Debug, Clone, Copy)]
pub struct SqueezeExcite {
    reduced: usize,
    names: [&'static str; 2],
    activation: fn(&Tensor) -> Tensor,
    gate: fn(&Tensor) -> Tensor,
    init: [fn(Fans) -> Init; 2],
}

impl SqueezeExcite {
    /// Reduces to `reduced` channels in between, with ReLU and the sigmoid, under `fc1` and `fc2`.
    pub fn new(reduced: usize) -> SqueezeExcite {
        SqueezeExcite {
            reduced,
            names: ["fc1", "fc2"],
            activation: Tensor::relu,
            gate: Tensor::logistic,
            init: [init::pytorch_default; 2],
        }
    }

    /// The names of the two convolutions.
    pub fn names(self, names: [&'static str; 2]) -> SqueezeExcite {
        SqueezeExcite { names, ..self }
    }

    /// The function between the convolutions and the one that makes the weights.
    pub fn functions(self, activation: fn(&Tensor) -> Tensor, gate: fn(&Tensor) -> Tensor) -> SqueezeExcite {
        SqueezeExcite { activation, gate, ..self }
    }

    /// The initializers of both kernels and of both biases.
    pub fn init(self, init: fn(Fans) -> Init, bias_init: fn(Fans) -> Init) -> SqueezeExcite {
        SqueezeExcite { init: [init, bias_init], ..self }
    }

    /// `x` with its channels weighted.
    pub fn apply(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let dense = |features| Dense::new(features).layout(WeightLayout::Pointwise).init(self.init[0], self.init[1]);
        let mean = x.global_avg_pool();
        let reduced = dense(self.reduced).apply(&cx.at(self.names[0]), &mean);
        let weights = dense(x.channels()).apply(&cx.at(self.names[1]), &(self.activation)(&reduced));
        let _scope = cx.enter();
        x * (self.gate)(&weights).reshape(&[x.dim(0), 1, 1, x.channels()])
    }
}

/// Zeros elements with probability `rate` and scales the rest.
pub fn dropout(cx: &Scope, x: &Tensor, rate: f64) -> Tensor {
    let _scope = cx.enter();
    match cx.random_key() {
        Some(key) if rate > 0.0 => x.dropout(rate, &key, x.dims()),
        _ => x.clone(),
    }
}

/// Drops the residual branch `x` of whole samples with probability `rate` and scales it for the others.
pub fn stochastic_depth(cx: &Scope, x: &Tensor, rate: f64) -> Tensor {
    let _scope = cx.enter();
    let mut per_sample = vec![1; x.rank()];
    per_sample[0] = x.dim(0);
    match cx.random_key() {
        Some(key) if rate > 0.0 => x.dropout(rate, &key, &per_sample),
        _ => x.clone(),
    }
}
