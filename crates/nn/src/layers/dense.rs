//! Linear layers and attention.

use crate::{Fans, Init, Scope, WeightLayout, init};
use octant_graph::{AttentionOptions, Tensor};

/// `x · weight + bias` over the last axis.
#[derive(Debug, Clone, Copy)]
pub struct Dense {
    features: usize,
    bias: bool,
    layout: WeightLayout,
    init: fn(Fans) -> Init,
    bias_init: fn(Fans) -> Init,
    /// What the bias begins as, where that does not follow from the layer's size.
    own_bias: Option<Init>,
}

impl Dense {
    /// A layer with `features` results, a bias and PyTorch's initializers.
    pub fn new(features: usize) -> Dense {
        let init = init::pytorch_default;
        Dense { features, bias: true, layout: WeightLayout::Dense, init, bias_init: init, own_bias: None }
    }

    /// Whether a value per result is added.
    pub fn bias(self, bias: bool) -> Dense {
        Dense { bias, ..self }
    }

    /// How the reference keeps the matrix; [`WeightLayout::Pointwise`] where it is a 1×1 convolution there.
    pub fn layout(self, layout: WeightLayout) -> Dense {
        Dense { layout, ..self }
    }

    /// The initializers of the matrix and of the bias.
    pub fn init(self, init: fn(Fans) -> Init, bias_init: fn(Fans) -> Init) -> Dense {
        Dense { init, bias_init, ..self }
    }

    /// The initializer of the bias, where it does not follow from the layer's size.
    pub fn bias_of(self, bias: Init) -> Dense {
        Dense { own_bias: Some(bias), ..self }
    }

    /// `[…, inputs]` becomes `[…, features]`.
    pub fn apply(&self, cx: &Scope, x: &Tensor) -> Tensor {
        self.apply_named(cx, x, "weight", "bias")
    }

    /// As [`apply`](Dense::apply), with other names for the variables, such as `in_proj_weight`.
    pub fn apply_named(&self, cx: &Scope, x: &Tensor, weight: &str, bias: &str) -> Tensor {
        let _scope = cx.enter();
        let x = x.convert(cx.dtype());
        let fans = Fans { inputs: x.channels(), outputs: self.features };
        let matrix = cx.param(weight, &[x.channels(), self.features], (self.init)(fans), self.layout);
        let mut y = x.matmul(&matrix.convert(x.dtype()));
        // The path of the layer: that of its matrix without the last word.
        let layer = cx.at(weight.strip_suffix("weight").unwrap_or(weight).trim_end_matches(['.', '_']));
        if let Some(adapters) = cx.context().adapters_of(layer.path()).filter(|_| self.layout == WeightLayout::Dense) {
            y = y + adapters.apply(&layer, &x, self.features);
        }
        let _scope = cx.enter();
        let begun = self.own_bias.unwrap_or((self.bias_init)(fans));
        if self.bias { add_bias(cx, bias, &y, begun) } else { y }
    }
}

/// Adds a variable of one value per feature.
pub(super) fn add_bias(cx: &Scope, name: &str, y: &Tensor, init: Init) -> Tensor {
    y + cx.param(name, &[y.channels()], init, WeightLayout::Same).convert(y.dtype())
}

/// Self-attention: queries, keys and values come from one joint projection.
#[derive(Debug, Clone, Copy)]
pub struct SelfAttention {
    heads: usize,
    joint: Dense,
    output: Dense,
}

impl SelfAttention {
    /// Attention with `heads` heads over tokens of `width` features.
    pub fn new(heads: usize, width: usize) -> SelfAttention {
        SelfAttention { heads, joint: Dense::new(3 * width), output: Dense::new(width) }
    }

    /// The layers of the joint projection and of the output, for other initializers.
    pub fn projections(self, joint: Dense, output: Dense) -> SelfAttention {
        SelfAttention { joint, output, ..self }
    }

    /// `x` is `[batch, tokens, width]`; `joint_names` are the names of the joint weight and bias, `output_name` the
    /// scope of the output projection.
    pub fn apply(&self, cx: &Scope, x: &Tensor, joint_names: [&str; 2], output_name: &str) -> Tensor {
        let _scope = cx.enter();
        let [batch, tokens, width] = [x.dim(0), x.dim(1), x.dim(2)];
        let per_head = width / self.heads.max(1);
        let joint = self.joint.apply_named(cx, x, joint_names[0], joint_names[1]);
        let joint = joint.reshape(&[batch, tokens, 3, self.heads, per_head]);
        let [mixed, _] = joint.self_attention(&AttentionOptions::default());
        let mixed = mixed.reshape(&[batch, tokens, width]);
        self.output.apply(&cx.at(output_name), &mixed)
    }
}
