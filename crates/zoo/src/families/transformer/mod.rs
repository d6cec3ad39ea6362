//! What the vision transformers have in common: patches become tokens, equal layers mix them, and the output is read from
//! one token or from a pooling. The families differ in names, in the tokens in front of the patches, and in details of the
//! layers; [`vit`](super::vit), [`deit`](super::deit), [`dinov2`](super::dinov2) and [`clip`](super::clip) say which.

mod blocks;
mod embed;

use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::layers::{Dense, dropout, layer_norm};
use octant_nn::{Scope, init};

/// Where the output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readout {
    /// From the class token.
    ClassToken,
    /// From the class token and from the distillation token, each with a head of its own; the mean counts.
    Distilled,
    /// From a learned query that attends to all patches; there is no class token.
    AttentionPool,
}

/// The network inside a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mlp {
    /// Two linear layers with GELU between them.
    Gelu,
    /// The same with `x · sigmoid(1.702 x)`.
    QuickGelu,
    /// One linear layer makes gates and values; `silu(gate) · value` goes to the second one.
    SwiGlu,
}

/// The network.
#[derive(Debug, Clone)]
pub struct VisionTransformer {
    pub(super) names: Names,
    /// The side of a patch.
    pub patch: usize,
    /// Features of a token.
    pub width: usize,
    /// Layers.
    pub depth: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Features that the first linear layer of a layer's network makes.
    pub hidden: usize,
    /// Patches per side that the position embeddings are kept for; images of another size get interpolated ones.
    pub grid: usize,
    /// Tokens without a meaning of their own, behind the class token.
    pub registers: usize,
    /// Only patches have positions, not the tokens in front of them.
    pub patch_positions: bool,
    /// A norm in front of the first layer; the patches have no bias then.
    pub pre_norm: bool,
    /// The first value of the scale that every residual branch has, where it has one.
    pub layer_scale: Option<f64>,
    /// The network inside a layer.
    pub mlp: Mlp,
    /// Where the output is read.
    pub readout: Readout,
    /// What norms add to the variance.
    pub epsilon: f64,
    /// Dropout after the embedding and inside the layers.
    pub dropout: f64,
    /// The rate of stochastic depth in the last layer.
    pub stochastic_depth: f64,
    /// Size of the head; without one, the pooled features are the output.
    pub classes: usize,
}

impl VisionTransformer {
    /// Under torchvision's names, for square images of `grid` patches per side.
    pub const fn torchvision(patch: usize, grid: usize, width: usize, depth: usize, heads: usize) -> VisionTransformer {
        VisionTransformer {
            names: TORCHVISION,
            patch,
            width,
            depth,
            heads,
            hidden: 4 * width,
            grid,
            registers: 0,
            patch_positions: false,
            pre_norm: false,
            layer_scale: None,
            mlp: Mlp::Gelu,
            readout: Readout::ClassToken,
            epsilon: 1e-6,
            dropout: 0.0,
            stochastic_depth: 0.0,
            classes: 1000,
        }
    }

    /// Under timm's names.
    pub const fn timm(patch: usize, grid: usize, width: usize, depth: usize, heads: usize) -> VisionTransformer {
        VisionTransformer { names: TIMM, ..VisionTransformer::torchvision(patch, grid, width, depth, heads) }
    }

    /// The names and numbers of the tokens in front of the patches.
    fn prefix(&self) -> Vec<(&'static str, usize)> {
        let class = (self.names.class_token, 1);
        let own = match self.readout {
            Readout::ClassToken => vec![class],
            Readout::Distilled => vec![class, (DISTILLATION_TOKEN, 1)],
            Readout::AttentionPool => vec![],
        };
        let registers = (self.registers > 0).then_some((REGISTERS, self.registers));
        own.into_iter().chain(registers).collect()
    }

    fn token(&self, tokens: &Tensor, index: usize) -> Tensor {
        tokens.slice_axis(1, index, index + 1).reshape(&[tokens.dim(0), self.width])
    }

    fn classifier(&self, cx: &Scope, name: &str, features: &Tensor) -> Tensor {
        Dense::new(self.classes).init(init::zeros, init::zeros).apply(&cx.at(name), features)
    }
}

const DISTILLATION_TOKEN: &str = "dist_token";
const DISTILLATION_HEAD: &str = "head_dist";
const REGISTERS: &str = "reg_token";
const ATTENTION_POOL: &str = "attn_pool";

impl Model for VisionTransformer {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        (self.dropout, self.stochastic_depth) = (dropout, stochastic_depth);
    }

    fn head_paths(&self) -> Vec<String> {
        let heads: &[&str] = match (self.classes, self.readout) {
            (0, _) => &[],
            (_, Readout::Distilled) => &[self.names.head, DISTILLATION_HEAD],
            (_, Readout::ClassToken | Readout::AttentionPool) => &[self.names.head],
        };
        heads.iter().map(|head| head.to_string()).collect()
    }

    fn multiple(&self) -> usize {
        self.patch
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let mut tokens = dropout(&cx.at("encoder.dropout"), &self.embed(cx, images), self.dropout);
        if self.pre_norm {
            tokens = layer_norm(&cx.at("norm_pre"), &tokens, self.epsilon);
        }
        for index in 0..self.depth {
            let path = cx.at(format_args!("{}{index}", self.names.layers));
            let drop = self.stochastic_depth * index as f64 / self.depth.max(2).saturating_sub(1) as f64;
            tokens = path.block(&tokens, |cx, tokens| self.layer(cx, tokens, drop));
        }
        layer_norm(&cx.at(self.names.last_norm), &tokens, self.epsilon)
    }

    fn pool(&self, cx: &Scope, features: &Tensor) -> Tensor {
        match self.readout {
            Readout::ClassToken => self.token(features, 0),
            Readout::Distilled => (self.token(features, 0) + self.token(features, 1)) * 0.5,
            Readout::AttentionPool => self.attention_pool(&cx.at(ATTENTION_POOL), features),
        }
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        match (self.classes, self.readout) {
            (0, _) => self.pool(cx, features),
            (_, Readout::Distilled) => {
                let class = self.classifier(cx, self.names.head, &self.token(features, 0));
                let distilled = self.classifier(cx, DISTILLATION_HEAD, &self.token(features, 1));
                (class + distilled) * 0.5
            }
            (_, Readout::ClassToken | Readout::AttentionPool) => {
                self.classifier(cx, self.names.head, &self.pool(cx, features))
            }
        }
    }
}

/// The names of one reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::families) struct Names {
    pub class_token: &'static str,
    pub positions: [&'static str; 2],
    pub patches: &'static str,
    pub layers: &'static str,
    pub norms: [&'static str; 2],
    pub attention: &'static str,
    pub joint: [&'static str; 2],
    pub output: &'static str,
    pub hidden: [&'static str; 2],
    pub scales: [&'static str; 2],
    pub last_norm: &'static str,
    pub head: &'static str,
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
    // torchvision's networks have no such scales.
    scales: ["ls_1", "ls_2"],
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
    scales: ["ls1", "ls2"],
    last_norm: "norm",
    head: "head",
};
