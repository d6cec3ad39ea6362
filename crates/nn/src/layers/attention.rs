//! Multi-head self-attention (Vaswani et al., 2017).

use crate::{Scope, layers::Dense};
use octant_graph::{DType, DotGeneral, Tensor};

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
        let part = |index| joint.slice_axis(2, index, index + 1).reshape(&[batch, tokens, self.heads, per_head]);
        let [queries, keys, values] = [part(0), part(1), part(2)];
        // [batch, heads, query, key]
        let scores = product(&(queries / (per_head as f64).sqrt()), &keys, [3, 3], DType::F32);
        let weights = scores.softmax(3).convert(values.dtype());
        // [batch, heads, query, feature], weights having its heads on axis 1 already.
        let mixed = weights.dot_general(
            &values,
            DotGeneral {
                left_batch: vec![0, 1],
                right_batch: vec![0, 2],
                left_contract: vec![3],
                right_contract: vec![1],
                dtype: values.dtype(),
            },
        );
        let mixed = mixed.transpose(&[0, 2, 1, 3]).reshape(&[batch, tokens, width]);
        self.output.apply(&cx.at(output_name), &mixed)
    }
}

/// A product of two `[batch, tokens, heads, features]` values per batch and head.
fn product(left: &Tensor, right: &Tensor, contract: [usize; 2], dtype: DType) -> Tensor {
    left.dot_general(
        right,
        DotGeneral {
            left_batch: vec![0, 2],
            right_batch: vec![0, 2],
            left_contract: vec![contract[0]],
            right_contract: vec![contract[1]],
            dtype,
        },
    )
}
