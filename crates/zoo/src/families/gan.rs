//! Small generators and discriminators: a GAN for digits, and PatchGAN (Isola et al., 2017), which scores patches.

use octant_graph::Tensor;
use octant_nn::init::{normal_02, zeros};
use octant_nn::layers::{BatchNorm, Conv2d, ConvTranspose2d, Padding, instance_norm};
use octant_nn::{Init, Scope};

/// How activations are normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GanNorm {
    /// Over the batch, with learned scale and shift: Pix2Pix.
    Batch,
    /// Every image by itself, without learned parameters: CycleGAN.
    Instance,
}

impl GanNorm {
    /// Whether convolutions in front of a norm have a bias: with batch norm it would be of no use. Instance norm cancels it
    /// as well, but the published networks have it.
    pub fn has_bias(self) -> bool {
        self == GanNorm::Instance
    }

    /// The norm.
    pub fn apply(self, cx: &Scope, x: &Tensor) -> Tensor {
        match self {
            GanNorm::Batch => {
                let scale = Init::NormalAround { mean: 1.0, deviation: 0.02 };
                BatchNorm::new().scale_init(scale).apply(cx, x)
            }
            GanNorm::Instance => instance_norm(cx, x, 1e-5),
        }
    }
}

/// A convolution with that much padding on all sides.
pub(super) fn conv(features: usize, kernel: usize, stride: usize, padding: usize) -> Conv2d {
    let around = Padding::Explicit([(padding, padding); 2]);
    Conv2d::new(features, kernel).stride(stride).padding(around).init(normal_02, zeros)
}

/// A transposed convolution that doubles the size.
pub(super) fn doubling(features: usize, kernel: usize, output_padding: usize) -> ConvTranspose2d {
    let conv = ConvTranspose2d::new(features, 2).kernel(kernel).padding(1);
    conv.output_padding(output_padding).init(normal_02, zeros)
}

/// Published files of networks with instance norm also hold running statistics, which nothing reads.
pub(super) fn is_unused_statistic(norm: GanNorm, key: &str) -> bool {
    norm == GanNorm::Instance && (key.ends_with("running_mean") || key.ends_with("running_var"))
}

/// A discriminator: images to a map of logits, one per patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discriminator {
    /// How many strided convolutions there are: 3 score patches of 70 × 70 pixels, 0 scores single pixels.
    pub layers: usize,
    /// Channels after the first convolution.
    pub width: usize,
    /// How activations are normalized.
    pub norm: GanNorm,
}

const NEGATIVE_SLOPE: f64 = 0.2;

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
        let mut y = conv(self.width, 4, 2, 1).apply(&at(0), images).leaky_relu(NEGATIVE_SLOPE);
        for layer in 1..=self.layers {
            let (number, stride) = (3 * layer - 1, if layer < self.layers { 2 } else { 1 });
            let width = self.width << layer.min(3);
            y = conv(width, 4, stride, 1).bias(self.norm.has_bias()).apply(&at(number), &y);
            y = self.norm.apply(&at(number + 1), &y).leaky_relu(NEGATIVE_SLOPE);
        }
        conv(1, 4, 1, 1).apply(&at(3 * self.layers + 2), &y)
    }

    /// 1×1 convolutions alone.
    fn pixels(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let bias = self.norm.has_bias();
        let y = conv(self.width, 1, 1, 0).apply(&cx.at("net.0"), images).leaky_relu(NEGATIVE_SLOPE);
        let y = conv(2 * self.width, 1, 1, 0).bias(bias).apply(&cx.at("net.2"), &y);
        let y = self.norm.apply(&cx.at("net.3"), &y).leaky_relu(NEGATIVE_SLOPE);
        conv(1, 1, 1, 0).bias(bias).apply(&cx.at("net.5"), &y)
    }
}
