//! The layers, and the pooling by attention.

use super::{Mlp, VisionTransformer};
use octant_graph::{AttentionOptions, Tensor};
use octant_nn::layers::{Dense, SelfAttention, dropout, layer_norm, stochastic_depth};
use octant_nn::{Fans, Init, Scope, WeightLayout, init};

impl VisionTransformer {
    /// One layer: attention, then a network at every token, each on a residual branch behind its norm.
    pub(super) fn layer(&self, cx: &Scope, x: &Tensor, drop: f64) -> Tensor {
        let names = &self.names;
        let normal = layer_norm(&cx.at(names.norms[0]), x, self.epsilon);
        let joint = Dense::new(3 * self.width).init(init::glorot_uniform, init::zeros);
        let output = Dense::new(self.width).init(init::pytorch_default, init::zeros);
        let attention = SelfAttention::new(self.heads, self.width).projections(joint, output);
        let y = attention.apply(&cx.at(names.attention), &normal, names.joint, names.output);
        let y = self.scaled(&cx.at(names.scales[0]), &dropout(&cx.at("dropout"), &y, self.dropout));
        let x = x + stochastic_depth(&cx.at("drop_path1"), &y, drop);
        let normal = layer_norm(&cx.at(names.norms[1]), &x, self.epsilon);
        let y = self.mlp(cx, names.hidden, &normal);
        let y = self.scaled(&cx.at(names.scales[1]), &dropout(&cx.at("mlp.4"), &y, self.dropout));
        x + stochastic_depth(&cx.at("drop_path2"), &y, drop)
    }

    fn mlp(&self, cx: &Scope, names: [&str; 2], x: &Tensor) -> Tensor {
        let dense = |features| Dense::new(features).init(init::glorot_uniform, faint);
        let y = dense(self.hidden).apply(&cx.at(names[0]), x);
        let y = match self.mlp {
            Mlp::Gelu => y.gelu(),
            Mlp::QuickGelu => &y * (&y * 1.702).logistic(),
            Mlp::SwiGlu => {
                let (last, half) = (y.rank() - 1, self.hidden / 2);
                y.slice_axis(last, 0, half).silu() * y.slice_axis(last, half, self.hidden)
            }
        };
        let y = dropout(&cx.at("mlp.2"), &y, self.dropout);
        dense(self.width).apply(&cx.at(names[1]), &y)
    }

    /// A residual branch times its learned scale, where the network has one.
    fn scaled(&self, cx: &Scope, branch: &Tensor) -> Tensor {
        let Some(first) = self.layer_scale else { return branch.clone() };
        let scale = cx.param("gamma", &[self.width], Init::Constant(first), WeightLayout::Same);
        branch * scale.convert(branch.dtype())
    }

    /// A learned query attends to all tokens, and a network refines what it found.
    pub(super) fn attention_pool(&self, cx: &Scope, tokens: &Tensor) -> Tensor {
        let _scope = cx.enter();
        let (batch, count, per_head) = (tokens.dim(0), tokens.dim(1), self.width / self.heads.max(1));
        let dense = |features| Dense::new(features).init(init::glorot_uniform, init::zeros);
        let bell = Init::TruncatedNormal { deviation: 1.0 / (self.width as f64).sqrt(), bound: 2.0 };
        let latent = cx.param("latent", &[1, 1, self.width], bell, WeightLayout::Same);
        let query = dense(self.width).apply(&cx.at("q"), &latent).reshape(&[1, 1, self.heads, per_head]);
        let query = query.broadcast_to(&[batch, 1, self.heads, per_head]);
        let joint = dense(2 * self.width).apply(&cx.at("kv"), tokens).reshape(&[batch, count, 2, self.heads, per_head]);
        let part = |index| joint.slice_axis(2, index, index + 1).reshape(&[batch, count, self.heads, per_head]);
        let [mixed, _] = query.attention(&part(0), &part(1), &AttentionOptions::default());
        let x = dense(self.width).apply(&cx.at("proj"), &mixed.reshape(&[batch, self.width]));
        let normal = layer_norm(&cx.at("norm"), &x, self.epsilon);
        let hidden = dense(self.hidden).apply(&cx.at("mlp.fc1"), &normal).gelu();
        x + dense(self.width).apply(&cx.at("mlp.fc2"), &hidden)
    }
}

fn faint(_: Fans) -> Init {
    Init::Normal { deviation: 1e-6 }
}
