//! NAFNet (Chen et al., 2022): a U-shaped network whose activations are products of halves of channels. Names are those of
//! the authors' PyTorch implementation.

use crate::Model;
use octant_graph::Tensor;
use octant_nn::init::ZEROS;
use octant_nn::layers::{Conv2d, Padding, layer_norm, pixel_shuffle};
use octant_nn::{Scope, WeightLayout};

/// The network.
#[derive(Debug, Clone)]
pub struct NafNet {
    /// Channels at full size; they double at every halving.
    pub width: usize,
    /// Blocks per size of the encoder.
    pub encoders: &'static [usize],
    /// Blocks at the smallest size.
    pub middle: usize,
    /// Blocks per size of the decoder.
    pub decoders: &'static [usize],
}

impl NafNet {
    /// The published denoiser of width 32.
    pub const SIDD_32: NafNet = NafNet { width: 32, encoders: &[2, 2, 4, 8], middle: 12, decoders: &[2, 2, 2, 2] };
    /// A small one for tests and demonstrations.
    pub const TINY: NafNet = NafNet { width: 8, encoders: &[1, 1], middle: 1, decoders: &[1, 1] };
}

/// The product of the two halves of the channels.
fn gate(x: &Tensor) -> Tensor {
    let half = x.channels() / 2;
    x.slice_axis(3, 0, half) * x.slice_axis(3, half, 2 * half)
}

/// A depthwise convolution with attention to channels, then a layer of products; both as residuals that start at zero.
fn block(cx: &Scope, x: &Tensor) -> Tensor {
    let width = x.channels();
    let wide = |name: &str, y: &Tensor| Conv2d::new(2 * width, 1).apply(&cx.at(name), y);
    let narrow = |name: &str, y: &Tensor| Conv2d::new(width, 1).apply(&cx.at(name), y);
    let residual = |name: &str, y: Tensor| {
        let share = cx.param(name, &[width], ZEROS, WeightLayout::ChannelImage).convert(y.dtype());
        y * share
    };
    let y = wide("conv1", &layer_norm(&cx.at("norm1"), x, 1e-6));
    let y = gate(&Conv2d::new(2 * width, 3).groups(2 * width).apply(&cx.at("conv2"), &y));
    let attention = narrow("sca.1", &y.mean_keep(&[1, 2]));
    let y = x + residual("beta", narrow("conv3", &(y * attention)));
    let z = gate(&wide("conv4", &layer_norm(&cx.at("norm2"), &y, 1e-6)));
    &y + residual("gamma", narrow("conv5", &z))
}

fn blocks(cx: &Scope, x: &Tensor, count: usize) -> Tensor {
    (0..count).fold(x.clone(), |y, number| cx.at(number).block(&y, block))
}

impl NafNet {
    /// The image with zeros at the bottom and at the right, so that it can be halved at every level.
    fn padded(&self, x: &Tensor) -> Tensor {
        let unit = 1 << self.encoders.len();
        let missing = [1, 2].map(|axis| (unit - x.dim(axis) % unit) % unit);
        match missing {
            [0, 0] => x.clone(),
            [rows, columns] => x.pad(&x.scalar_like(0.0), &[0; 4], &[0, rows as i64, columns as i64, 0], &[0; 4]),
        }
    }
}

impl Model for NafNet {
    fn classes(&self) -> usize {
        3
    }

    fn reset_head(&mut self, _: usize) {}

    fn head_paths(&self) -> Vec<String> {
        vec!["ending".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let mut y = Conv2d::new(self.width, 3).apply(&cx.at("intro"), &self.padded(images));
        let mut skips = Vec::new();
        for (level, &count) in self.encoders.iter().enumerate() {
            y = blocks(&cx.at(format_args!("encoders.{level}")), &y, count);
            skips.push(y.clone());
            let halved = Conv2d::new(2 * y.channels(), 2).stride(2).padding(Padding::Valid);
            y = halved.apply(&cx.at(format_args!("downs.{level}")), &y);
        }
        y = blocks(&cx.at("middle_blks"), &y, self.middle);
        for (level, &count) in self.decoders.iter().enumerate() {
            let wide = Conv2d::new(2 * y.channels(), 1).bias(false).apply(&cx.at(format_args!("ups.{level}.0")), &y);
            y = pixel_shuffle(&wide, 2) + skips.pop().expect("as many decoders as encoders");
            y = blocks(&cx.at(format_args!("decoders.{level}")), &y, count);
        }
        y
    }

    /// What is added to the padded image.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Conv2d::new(3, 3).apply(&cx.at("ending"), features)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let [height, width] = [1, 2].map(|axis| images.dim(axis));
        let change = self.head(cx, &self.features(cx, images));
        let change = change.slice_axis(1, 0, height).slice_axis(2, 0, width);
        images.convert(change.dtype()) + change
    }
}
