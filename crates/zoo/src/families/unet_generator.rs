//! The U-Net generator of Pix2Pix (Isola et al., 2017) under the names of its published PyTorch implementation, whose blocks
//! contain each other: `model.model.1.model.3.model.3…`.
//!
//! Every skip connection passes the ReLU of the layer that reads it, so only its positive part counts.

use super::gan::{GanNorm, conv, doubling, is_unused_statistic};
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::dropout;

/// The network.
#[derive(Debug, Clone)]
pub struct UNetGenerator {
    /// How often the image is halved: 8 ends at one pixel of 256.
    pub depth: usize,
    /// Channels after the first convolution; they double three times.
    pub width: usize,
    /// How activations are normalized.
    pub norm: GanNorm,
    /// The share of activations dropped in the blocks between the innermost and the four outer ones.
    pub dropout: f64,
    /// Channels of the output.
    pub channels: usize,
}

const NEGATIVE_SLOPE: f64 = 0.2;

impl UNetGenerator {
    /// The published network for images of 2^depth pixels.
    pub const fn new(depth: usize, width: usize) -> UNetGenerator {
        UNetGenerator { depth, width, norm: GanNorm::Batch, dropout: 0.5, channels: 3 }
    }

    /// Channels of the block at that depth, 0 being the outermost.
    fn width(&self, depth: usize) -> usize {
        self.width << depth.min(3)
    }

    /// The block at that depth: what it makes of `x`, behind `x` itself.
    fn block(&self, cx: &Scope, x: &Tensor, depth: usize) -> Tensor {
        let bias = self.norm.has_bias();
        let down = conv(self.width(depth), 4, 2, 1).bias(bias).apply(&cx.at("model.1"), &x.leaky_relu(NEGATIVE_SLOPE));
        let is_innermost = depth + 1 == self.depth;
        let (inner, names) = match is_innermost {
            true => (down, ["model.3", "model.4"]),
            false => {
                let y = self.norm.apply(&cx.at("model.2"), &down);
                (self.block(&cx.at("model.3"), &y, depth + 1), ["model.5", "model.6"])
            }
        };
        let up = doubling(self.width(depth - 1), 4, 0).bias(bias).apply(&cx.at(names[0]), &inner.relu());
        let up = self.norm.apply(&cx.at(names[1]), &up);
        let drops = depth > 3 && !is_innermost;
        let up = if drops { dropout(&cx.at("model.7"), &up, self.dropout) } else { up };
        Tensor::concatenate(&[x.clone(), up], 3)
    }
}

impl Model for UNetGenerator {
    head_size!(channels);

    fn set_drop(&mut self, dropout: f64, _: f64) {
        self.dropout = dropout;
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["model.model.3".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let first = conv(self.width, 4, 2, 1).bias(self.norm.has_bias());
        let y = first.apply(&cx.at("model.model.0"), images);
        self.block(&cx.at("model.model.1"), &y, 1).relu()
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        doubling(self.channels, 4, 0).apply(&cx.at("model.model.3"), features).tanh()
    }

    fn multiple(&self) -> usize {
        1 << self.depth
    }

    fn ignores(&self, key: &str) -> bool {
        is_unused_statistic(self.norm, key)
    }
}
