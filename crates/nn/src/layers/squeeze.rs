//! Squeeze and excitation (Hu et al., 2017): channels weighted by what the whole image shows.

use crate::{Border, Fans, Init, Scope, init, layers::Dense};
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
        let dense = |features| Dense::new(features).border(Border::Pointwise).init(self.init[0], self.init[1]);
        let mean = x.global_avg_pool();
        let reduced = dense(self.reduced).apply(&cx.at(self.names[0]), &mean);
        let weights = dense(x.channels()).apply(&cx.at(self.names[1]), &(self.activation)(&reduced));
        let _scope = cx.enter();
        x * (self.gate)(&weights).reshape(&[x.dim(0), 1, 1, x.channels()])
    }
}
