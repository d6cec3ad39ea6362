//! Multi-head self-attention (Vaswani et al., 2017).

use crate::{Scope, layers::Dense};
use octant_graph::{AttentionOptions, Tensor};

/// Every token looks at every other: queries, keys and values come from one joint projection.
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
