//! The vision transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020), under torchvision's names and under
//! timm's.

use crate::{Model, Task};
use octant_graph::Tensor;
use octant_nn::layers::{Conv2d, Dense, Padding, SelfAttention, dropout, layer_norm};
use octant_nn::{Border, Fans, Init, Scope, init};

/// The names of one reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Names {
    class_token: &'static str,
    positions: [&'static str; 2],
    patches: &'static str,
    layers: &'static str,
    norms: [&'static str; 2],
    attention: &'static str,
    joint: [&'static str; 2],
    output: &'static str,
    hidden: [&'static str; 2],
    last_norm: &'static str,
    head: &'static str,
}

const TORCHVISION: Names = Names {
    class_token: "class_token",
    positions: ["encoder", "pos_embedding"],
    patches: "conv_proj",
    layers: "encoder.layers.encoder_layer_",
    norms: ["ln_1", "ln_2"],
    attention: "self_attention",
    joint: ["in_proj_weight", "in_proj_bias"],
    output: "out_proj",
    hidden: ["mlp.0", "mlp.3"],
    last_norm: "encoder.ln",
    head: "heads.head",
};

const TIMM: Names = Names {
    class_token: "cls_token",
    positions: ["", "pos_embed"],
    patches: "patch_embed.proj",
    layers: "blocks.",
    norms: ["norm1", "norm2"],
    attention: "attn",
    joint: ["qkv.weight", "qkv.bias"],
    output: "proj",
    hidden: ["mlp.fc1", "mlp.fc2"],
    last_norm: "norm",
    head: "head",
};

/// The network.
#[derive(Debug, Clone)]
pub struct VisionTransformer {
    names: Names,
    /// The side of a patch.
    pub patch: usize,
    /// Features of a token.
    pub width: usize,
    /// Encoder layers.
    pub depth: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Features inside the layers' networks.
    pub hidden: usize,
    /// Dropout after the embedding and inside the layers.
    pub dropout: f64,
    /// Size of the head.
    pub classes: usize,
}

impl VisionTransformer {
    /// torchvision's `vit_*`.
    pub const fn torchvision(patch: usize, width: usize, depth: usize, heads: usize) -> VisionTransformer {
        let names = TORCHVISION;
        VisionTransformer { names, patch, width, depth, heads, hidden: 4 * width, dropout: 0.0, classes: 1000 }
    }

    /// timm's `vit_*_patch*`.
    pub const fn timm(patch: usize, width: usize, depth: usize, heads: usize) -> VisionTransformer {
        VisionTransformer { names: TIMM, ..VisionTransformer::torchvision(patch, width, depth, heads) }
    }

    /// The tokens: one per patch, with the class token in front and the positions added.
    fn embed(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let patches = Conv2d::new(self.width, self.patch).stride(self.patch).padding(Padding::Valid);
        let patches = patches.init(patch_init, init::zeros).apply(&cx.at(self.names.patches), images);
        let batch = patches.dim(0);
        let tokens = patches.reshape(&[batch, patches.dim(1) * patches.dim(2), self.width]);
        let class = cx.param(self.names.class_token, &[1, 1, self.width], init::ZEROS, Border::Same);
        let class = class.convert(tokens.dtype()).broadcast_to(&[batch, 1, self.width]);
        let tokens = Tensor::concatenate(&[class, tokens], 1);
        let [scope, name] = self.names.positions;
        let bell = Init::Normal { deviation: 0.02 };
        let positions = cx.at(scope).param(name, &[1, tokens.dim(1), self.width], bell, Border::Same);
        &tokens + positions.convert(tokens.dtype())
    }

    fn layer(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let names = &self.names;
        let normal = layer_norm(&cx.at(names.norms[0]), x, EPSILON);
        let joint = Dense::new(3 * self.width).init(init::glorot_uniform, init::zeros);
        let output = Dense::new(self.width).init(init::pytorch_default, init::zeros);
        let attention = SelfAttention::new(self.heads, self.width).projections(joint, output);
        let y = attention.apply(&cx.at(names.attention), &normal, names.joint, names.output);
        let x = x + dropout(&cx.at("dropout"), &y, self.dropout);
        let normal = layer_norm(&cx.at(names.norms[1]), &x, EPSILON);
        let dense = |features| Dense::new(features).init(init::glorot_uniform, faint);
        let y = dense(self.hidden).apply(&cx.at(names.hidden[0]), &normal).gelu();
        let y = dropout(&cx.at("mlp.2"), &y, self.dropout);
        let y = dense(self.width).apply(&cx.at(names.hidden[1]), &y);
        x + dropout(&cx.at("mlp.4"), &y, self.dropout)
    }
}

const EPSILON: f64 = 1e-6;

fn patch_init(fans: Fans) -> Init {
    Init::TruncatedNormal { deviation: (1.0 / fans.inputs as f64).sqrt(), bound: 2.0 }
}

fn faint(_: Fans) -> Init {
    Init::Normal { deviation: 1e-6 }
}

impl Model for VisionTransformer {
    fn task(&self) -> Task {
        Task::Classify
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn reset_head(&mut self, classes: usize) {
        self.classes = classes;
    }

    fn set_drop(&mut self, dropout: f64, _: f64) {
        self.dropout = dropout;
    }

    fn head_paths(&self) -> Vec<String> {
        vec![self.names.head.into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let mut tokens = dropout(&cx.at("encoder.dropout"), &self.embed(cx, images), self.dropout);
        for index in 0..self.depth {
            let path = cx.at(format_args!("{}{index}", self.names.layers));
            tokens = path.block(&tokens, |cx, tokens| self.layer(cx, tokens));
        }
        layer_norm(&cx.at(self.names.last_norm), &tokens, EPSILON)
    }

    fn pool(&self, _: &Scope, features: &Tensor) -> Tensor {
        features.slice_axis(1, 0, 1).reshape(&[features.dim(0), self.width])
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Dense::new(self.classes).init(init::zeros, init::zeros).apply(&cx.at(self.names.head), &self.pool(cx, features))
    }
}
