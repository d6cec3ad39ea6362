//! What the generators and discriminators of Pix2Pix and CycleGAN share: 4×4 and 3×3 convolutions that start from
//! N(0, 0.02), and one of two norms. Facts from the papers (Isola et al., 2017; Zhu et al., 2017) and the authors' published
//! PyTorch implementation.

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
