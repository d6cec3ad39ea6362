//! Discriminators that judge patches or single pixels (PatchGAN; Isola et al., 2017) under the names of the published
//! PyTorch implementation. They are companions of a generator and no models of their own.

use super::gan::{GanNorm, conv};
use octant_graph::Tensor;
use octant_nn::Scope;

/// A discriminator: images to a map of logits, one per patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discriminator {
    /// How many strided convolutions there are: 3 judge patches of 70 × 70 pixels, 0 judges single pixels.
    pub layers: usize,
    /// Channels after the first convolution.
    pub width: usize,
    /// How activations are normalized.
    pub norm: GanNorm,
}

const SLOPE: f64 = 0.2;

impl Discriminator {
    /// The 70 × 70 PatchGAN.
    pub const fn patches(norm: GanNorm) -> Discriminator {
        Discriminator { layers: 3, width: 64, norm }
    }

    /// `[n, h, w, c]` to logits `[n, h', w', 1]`.
    pub fn apply(&self, cx: &Scope, images: &Tensor) -> Tensor {
        if self.layers == 0 {
            return self.pixels(cx, images);
        }
        let at = |number: usize| cx.at(format_args!("model.{number}"));
        let mut y = conv(self.width, 4, 2, 1).apply(&at(0), images).leaky_relu(SLOPE);
        for layer in 1..=self.layers {
            let (number, stride) = (3 * layer - 1, if layer < self.layers { 2 } else { 1 });
            let width = self.width << layer.min(3);
            y = conv(width, 4, stride, 1).bias(self.norm.has_bias()).apply(&at(number), &y);
            y = self.norm.apply(&at(number + 1), &y).leaky_relu(SLOPE);
        }
        conv(1, 4, 1, 1).apply(&at(3 * self.layers + 2), &y)
    }

    /// 1×1 convolutions alone.
    fn pixels(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let bias = self.norm.has_bias();
        let y = conv(self.width, 1, 1, 0).apply(&cx.at("net.0"), images).leaky_relu(SLOPE);
        let y = conv(2 * self.width, 1, 1, 0).bias(bias).apply(&cx.at("net.2"), &y);
        let y = self.norm.apply(&cx.at("net.3"), &y).leaky_relu(SLOPE);
        conv(1, 1, 1, 0).bias(bias).apply(&cx.at("net.5"), &y)
    }
}
