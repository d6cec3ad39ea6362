//! The residual generator of CycleGAN (Zhu et al., 2017, after Johnson et al., 2016) under the names of its published
//! PyTorch implementation.

use super::gan::{GanNorm, conv, doubling, is_unused_statistic};
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::{dropout, reflection_pad};

/// The network.
#[derive(Debug, Clone)]
pub struct ResNetGenerator {
    /// Residual blocks: 6 for images of 128 pixels, 9 for larger ones.
    pub blocks: usize,
    /// Channels after the first convolution; they double twice.
    pub width: usize,
    /// How activations are normalized.
    pub norm: GanNorm,
    /// Blocks drop this share of their activations. With `Some(0.0)` nothing is dropped, but layers have the names of a
    /// network that drops.
    pub dropout: Option<f64>,
    /// Channels of the output.
    pub channels: usize,
}

impl ResNetGenerator {
    /// The published network.
    pub const fn new(blocks: usize, width: usize) -> ResNetGenerator {
        ResNetGenerator { blocks, width, norm: GanNorm::Instance, dropout: None, channels: 3 }
    }

    /// Two 3×3 convolutions between mirrored edges, and a shortcut.
    fn block(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let conv = conv(x.channels(), 3, 1, 0).bias(self.norm.has_bias());
        let y = conv.apply(&cx.at("conv_block.1"), &reflection_pad(x, 1));
        let y = self.norm.apply(&cx.at("conv_block.2"), &y).relu();
        let (y, names) = match self.dropout {
            Some(rate) => (dropout(&cx.at("conv_block.4"), &y, rate), ["conv_block.6", "conv_block.7"]),
            None => (y, ["conv_block.5", "conv_block.6"]),
        };
        let y = conv.apply(&cx.at(names[0]), &reflection_pad(&y, 1));
        x + self.norm.apply(&cx.at(names[1]), &y)
    }
}

impl Model for ResNetGenerator {
    head_size!(channels);

    fn set_drop(&mut self, dropout: f64, _: f64) {
        self.dropout = self.dropout.map(|_| dropout);
    }

    fn head_paths(&self) -> Vec<String> {
        vec![format!("model.{}", self.blocks + 17)]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let (bias, at) = (self.norm.has_bias(), |number: usize| cx.at(format_args!("model.{number}")));
        let norm = |number: usize, y: Tensor| self.norm.apply(&at(number), &y).relu();
        let mut y = norm(2, conv(self.width, 7, 1, 0).bias(bias).apply(&at(1), &reflection_pad(images, 3)));
        for (number, width) in [(4, 2 * self.width), (7, 4 * self.width)] {
            y = norm(number + 1, conv(width, 3, 2, 1).bias(bias).apply(&at(number), &y));
        }
        for number in 0..self.blocks {
            y = at(10 + number).block(&y, |cx, y| self.block(cx, y));
        }
        let up = 10 + self.blocks;
        for (number, width) in [(up, 2 * self.width), (up + 3, self.width)] {
            y = norm(number + 1, doubling(width, 3, 1).bias(bias).apply(&at(number), &y));
        }
        y
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let last = cx.at(format_args!("model.{}", self.blocks + 17));
        conv(self.channels, 7, 1, 0).apply(&last, &reflection_pad(features, 3)).tanh()
    }

    fn multiple(&self) -> usize {
        4
    }

    fn ignores(&self, key: &str) -> bool {
        is_unused_statistic(self.norm, key)
    }
}
