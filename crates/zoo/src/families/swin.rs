//! Swin (Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021), under torchvision's
//! names and under timm's.

mod window;

use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::layers::{Conv2d, Dense, Padding, layer_norm, stochastic_depth};
use octant_nn::{Scope, init};
use window::Windows;
pub(crate) use window::relative_positions;

/// The names of one reference, and the order in which it pads and shifts.
#[derive(Debug, Clone, Copy)]
struct Names {
    stem: [&'static str; 2],
    hidden: [&'static str; 2],
    head: &'static str,
    /// The path of the layer in front of a stage, and of a block, by number of the stage.
    merge: fn(usize) -> String,
    block: fn(usize, usize) -> String,
    /// Feature maps are padded to whole windows before they are shifted, not after.
    pads_first: bool,
}

const TORCHVISION: Names = Names {
    stem: ["features.0.0", "features.0.2"],
    hidden: ["mlp.0", "mlp.3"],
    head: "head",
    merge: |stage| format!("features.{}", 2 * stage),
    block: |stage, block| format!("features.{}.{block}", 2 * stage + 1),
    pads_first: true,
};

const TIMM: Names = Names {
    stem: ["patch_embed.proj", "patch_embed.norm"],
    hidden: ["mlp.fc1", "mlp.fc2"],
    head: "head.fc",
    merge: |stage| format!("layers.{stage}.downsample"),
    block: |stage, block| format!("layers.{stage}.blocks.{block}"),
    pads_first: false,
};

/// The network.
#[derive(Debug, Clone)]
pub struct Swin {
    names: Names,
    /// Blocks per stage.
    pub depths: &'static [usize],
    /// Channels of the first stage; each further one has twice as many.
    pub width: usize,
    /// Channels per attention head.
    pub per_head: usize,
    /// The side of a window.
    pub window: usize,
    /// The rate of stochastic depth in the last block.
    pub stochastic_depth: f64,
    /// Size of the head.
    pub classes: usize,
}

impl Swin {
    /// A small one for tests, whose feature maps are not multiples of its windows.
    pub const TEST: Swin = Swin { per_head: 4, window: 3, classes: 10, ..Swin::new(&[2, 2, 1], 8, 0.1) };

    /// One of the published networks.
    pub const fn new(depths: &'static [usize], width: usize, stochastic_depth: f64) -> Swin {
        Swin { names: TORCHVISION, depths, width, per_head: 32, window: 7, stochastic_depth, classes: 1000 }
    }

    /// The same network with timm's names, without stochastic depth by default.
    pub const fn timm(self) -> Swin {
        Swin { names: TIMM, stochastic_depth: 0.0, ..self }
    }

    fn block(&self, cx: &Scope, x: &Tensor, shift: usize, drop: f64) -> Tensor {
        let windows = Windows::of(x, self.window, shift, self.names.pads_first);
        let heads = x.channels() / self.per_head.max(1);
        let normal = layer_norm(&cx.at("norm1"), x, EPSILON);
        let y = windows.attention(&cx.at("attn"), &normal, heads);
        let x = x + stochastic_depth(&cx.at("drop_path1"), &y, drop);
        let normal = layer_norm(&cx.at("norm2"), &x, EPSILON);
        let y = dense(4 * x.channels()).apply(&cx.at(self.names.hidden[0]), &normal).gelu();
        let y = dense(x.channels()).apply(&cx.at(self.names.hidden[1]), &y);
        x + stochastic_depth(&cx.at("drop_path2"), &y, drop)
    }
}

const EPSILON: f64 = 1e-5;

fn dense(features: usize) -> Dense {
    Dense::new(features).init(init::truncated_normal_02, init::zeros)
}

/// Every 2×2 pixels become one of twice the channels.
fn merge(cx: &Scope, x: &Tensor) -> Tensor {
    let _scope = cx.enter();
    let [height, width] = [x.dim(1), x.dim(2)];
    let x = window::padded(x, [height % 2, width % 2]);
    let [batch, height, width, channels] = [0, 1, 2, 3].map(|axis| x.dim(axis));
    let corners = x.reshape(&[batch, height / 2, 2, width / 2, 2, channels]).transpose(&[0, 1, 3, 4, 2, 5]);
    let corners = corners.reshape(&[batch, height / 2, width / 2, 4 * channels]);
    let normal = layer_norm(&cx.at("norm"), &corners, EPSILON);
    dense(2 * channels).bias(false).apply(&cx.at("reduction"), &normal)
}

impl Model for Swin {
    head_size!(classes);

    fn set_drop(&mut self, _: f64, stochastic_depth: f64) {
        self.stochastic_depth = stochastic_depth;
    }

    fn head_paths(&self) -> Vec<String> {
        vec![self.names.head.into()]
    }

    /// The side of a patch; feature maps that windows do not divide are padded.
    fn multiple(&self) -> usize {
        4
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let names = &self.names;
        let stem = Conv2d::new(self.width, 4).stride(4).padding(Padding::Valid);
        let y = stem.init(init::truncated_normal_02, init::zeros).apply(&cx.at(names.stem[0]), images);
        let mut y = layer_norm(&cx.at(names.stem[1]), &y, EPSILON);
        let last = self.depths.iter().sum::<usize>().max(2) - 1;
        let mut index = 0;
        for (stage, &depth) in self.depths.iter().enumerate() {
            if stage > 0 {
                y = merge(&cx.at((names.merge)(stage)), &y);
            }
            for number in 0..depth {
                let drop = self.stochastic_depth * index as f64 / last as f64;
                let shift = if number % 2 == 0 { 0 } else { self.window / 2 };
                let path = cx.at((names.block)(stage, number));
                y = path.block(&y, |cx, y| self.block(cx, y, shift, drop));
                index += 1;
            }
        }
        layer_norm(&cx.at("norm"), &y, EPSILON)
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        dense(self.classes).apply(&cx.at(self.names.head), &self.pool(cx, features))
    }
}
