//! SegFormer (Xie et al., "SegFormer: Simple and Efficient Design for Semantic Segmentation with Transformers", NeurIPS 2021)
//! under transformers' names: four stages of attention over overlapping patches, whose keys and values come from a coarser grid,
//! and a head of linear layers over all four maps. The logits have a quarter of the image's size.

use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_graph::composites::AttentionOptions;
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, Conv2d, Dense, Padding, dropout, layer_norm, stochastic_depth};

/// The network.
#[derive(Debug, Clone)]
pub struct SegFormer {
    /// Channels per stage.
    pub widths: [usize; 4],
    /// Layers per stage.
    pub depths: [usize; 4],
    /// Heads of attention per stage.
    pub heads: [usize; 4],
    /// Channels that each map is brought to in the head.
    pub decoder: usize,
    /// Dropout before the last layer.
    pub dropout: f64,
    /// The rate of stochastic depth in the last layer.
    pub stochastic_depth: f64,
    /// Size of the head.
    pub classes: usize,
}

const EPSILON: f64 = 1e-5;
/// How much coarser the grid of keys and values is, per stage.
const REDUCTIONS: [usize; 4] = [8, 4, 2, 1];
/// Kernel and stride of the patches in front of each stage.
const PATCHES: [[usize; 2]; 4] = [[7, 4], [3, 2], [3, 2], [3, 2]];
/// How many times wider the hidden layers are.
const HIDDEN: usize = 4;

impl SegFormer {
    /// The smallest published network.
    pub const B0: SegFormer = SegFormer {
        widths: [32, 64, 160, 256],
        depths: [2, 2, 2, 2],
        heads: [1, 2, 5, 8],
        decoder: 256,
        dropout: 0.1,
        stochastic_depth: 0.1,
        classes: 150,
    };
    /// Twice as wide.
    pub const B1: SegFormer = SegFormer { widths: [64, 128, 320, 512], ..SegFormer::B0 };
    /// Deeper.
    pub const B2: SegFormer = SegFormer { depths: [3, 4, 6, 3], decoder: 768, ..SegFormer::B1 };
    /// Deeper still.
    pub const B3: SegFormer = SegFormer { depths: [3, 4, 18, 3], ..SegFormer::B2 };
    /// Deeper still.
    pub const B4: SegFormer = SegFormer { depths: [3, 8, 27, 3], ..SegFormer::B2 };
    /// The largest.
    pub const B5: SegFormer = SegFormer { depths: [3, 6, 40, 3], ..SegFormer::B2 };
    /// A small one for tests.
    pub const TINY: SegFormer = SegFormer {
        widths: [8, 12, 16, 24],
        depths: [1, 2, 1, 1],
        heads: [1, 2, 2, 3],
        decoder: 16,
        classes: 10,
        ..SegFormer::B0
    };

    /// The maps of all stages.
    fn maps(&self, cx: &Scope, images: &Tensor) -> Vec<Tensor> {
        let encoder = cx.at("segformer.encoder");
        let last = self.depths.iter().sum::<usize>().saturating_sub(1).max(1);
        let (mut maps, mut number) = (Vec::new(), 0);
        let mut y = images.clone();
        for stage in 0..4 {
            let [kernel, stride] = PATCHES[stage];
            let embed = encoder.at(format_args!("patch_embeddings.{stage}"));
            let patches = Conv2d::new(self.widths[stage], kernel).stride(stride);
            y = layer_norm(&embed.at("layer_norm"), &patches.apply(&embed.at("proj"), &y), EPSILON);
            for layer in 0..self.depths[stage] {
                let drop = self.stochastic_depth * number as f64 / last as f64;
                let path = encoder.at(format_args!("block.{stage}.{layer}"));
                y = path.block(&y, |cx, y| self.layer(cx, y, stage, drop));
                number += 1;
            }
            y = layer_norm(&encoder.at(format_args!("layer_norm.{stage}")), &y, EPSILON);
            maps.push(y.clone());
        }
        maps
    }

    fn layer(&self, cx: &Scope, x: &Tensor, stage: usize, drop: f64) -> Tensor {
        let mixed = self.attention(&cx.at("attention"), &layer_norm(&cx.at("layer_norm_1"), x, EPSILON), stage);
        let x = x + stochastic_depth(&cx.at("drop_path.attention"), &mixed, drop);
        let y = layer_norm(&cx.at("layer_norm_2"), &x, EPSILON);
        let width = y.channels();
        let y = Dense::new(HIDDEN * width).apply(&cx.at("mlp.dense1"), &y);
        // Positions are known from the edges that this convolution sees.
        let depthwise = Conv2d::new(HIDDEN * width, 3).groups(HIDDEN * width);
        let y = depthwise.apply(&cx.at("mlp.dwconv.dwconv"), &y).gelu();
        let y = Dense::new(width).apply(&cx.at("mlp.dense2"), &y);
        x + stochastic_depth(&cx.at("drop_path.mlp"), &y, drop)
    }

    fn attention(&self, cx: &Scope, x: &Tensor, stage: usize) -> Tensor {
        let own = cx.at("self");
        let (width, heads, reduction) = (x.channels(), self.heads[stage], REDUCTIONS[stage]);
        let coarse = match reduction {
            1 => x.clone(),
            _ => {
                let reduced = Conv2d::new(width, reduction).stride(reduction).padding(Padding::Valid);
                layer_norm(&own.at("layer_norm"), &reduced.apply(&own.at("sr"), x), EPSILON)
            }
        };
        let split = |y: &Tensor| y.reshape(&[y.dim(0), y.dim(1) * y.dim(2), heads, width / heads]);
        let project = |name: &str, y: &Tensor| split(&Dense::new(width).apply(&own.at(name), y));
        let queries = project("query", x);
        let [keys, values] = ["key", "value"].map(|name| project(name, &coarse));
        let [mixed, _] = queries.attention(&keys, &values, &AttentionOptions::default());
        Dense::new(width).apply(&cx.at("output.dense"), &mixed.reshape(x.dims()))
    }

    /// All maps at the first one's size, joined by one linear layer.
    fn fused(&self, cx: &Scope, maps: &[Tensor]) -> Tensor {
        let size = [maps[0].dim(1), maps[0].dim(2)];
        let projected = maps.iter().enumerate().map(|(stage, map)| {
            let y = Dense::new(self.decoder).apply(&cx.at(format_args!("linear_c.{stage}.proj")), map);
            match [y.dim(1), y.dim(2)] == size {
                true => y,
                false => y.resize_bilinear(size[0], size[1], false),
            }
        });
        // The reference joins them from coarse to fine.
        let joined: Vec<Tensor> = projected.collect::<Vec<_>>().into_iter().rev().collect();
        let fuse = Conv2d::new(self.decoder, 1).bias(false);
        let y = fuse.apply(&cx.at("linear_fuse"), &Tensor::concatenate(&joined, 3));
        BatchNorm::new().apply(&cx.at("batch_norm"), &y).relu()
    }
}

impl Model for SegFormer {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        (self.dropout, self.stochastic_depth) = (dropout, stochastic_depth);
    }

    /// The last stage has a 32nd of the image's size, and its keys and values come from whole cells.
    fn multiple(&self) -> usize {
        32
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["decode_head".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.maps(cx, images).pop().expect("four stages make a map")
    }

    /// Of the last stage's map alone; the network joins all four, see [`forward`](Model::forward).
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Dense::new(self.decoder).apply(&cx.at("decode_head.linear_c.3.proj"), features)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let maps = self.maps(cx, images);
        let head = cx.at("decode_head");
        let y = dropout(&head.at("dropout"), &self.fused(&head, &maps), self.dropout);
        Conv2d::new(self.classes, 1).apply(&head.at("classifier"), &y)
    }
}
