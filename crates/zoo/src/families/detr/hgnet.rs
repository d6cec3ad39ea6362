//! HGNetV2 (PaddlePaddle's, as D-FINE uses it): blocks whose layers are all joined at their end.

use super::frozen_norm;
use octant_graph::Tensor;
use octant_graph::composites::Pool;
use octant_nn::layers::{Conv2d, Padding};
use octant_nn::{Scope, WeightLayout, init};

/// A stage of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HgStage {
    /// Channels of the layers inside of a block.
    pub inner: usize,
    /// Channels after each block.
    pub width: usize,
    /// Blocks.
    pub blocks: usize,
    /// Layers are a 1×1 and a depthwise convolution.
    pub light: bool,
    /// The side of their kernels.
    pub kernel: usize,
}

/// The network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HgNet {
    /// Channels of the first convolutions, and after them.
    pub stem: [usize; 2],
    /// The stages.
    pub stages: [HgStage; 4],
    /// Layers per block.
    pub layers: usize,
    /// A learned scale and shift follow every ReLU.
    pub affine: bool,
    /// How many maps are used, the coarsest ones.
    pub maps: usize,
}

const fn stage(inner: usize, width: usize, blocks: usize, light: bool, kernel: usize) -> HgStage {
    HgStage { inner, width, blocks, light, kernel }
}

impl HgNet {
    /// The smallest.
    pub const B0: HgNet = HgNet {
        stem: [16, 16],
        stages: [
            stage(16, 64, 1, false, 3),
            stage(32, 256, 1, false, 3),
            stage(64, 512, 2, true, 5),
            stage(128, 1024, 1, true, 5),
        ],
        layers: 3,
        affine: true,
        maps: 3,
    };
    /// Of medium size.
    pub const B2: HgNet = HgNet {
        stem: [24, 32],
        stages: [
            stage(32, 96, 1, false, 3),
            stage(64, 384, 1, false, 3),
            stage(128, 768, 3, true, 5),
            stage(256, 1536, 1, true, 5),
        ],
        layers: 4,
        ..HgNet::B0
    };
    /// Large.
    pub const B4: HgNet = HgNet {
        stem: [32, 48],
        stages: [
            stage(48, 128, 1, false, 3),
            stage(96, 512, 1, false, 3),
            stage(192, 1024, 3, true, 5),
            stage(384, 2048, 1, true, 5),
        ],
        layers: 6,
        affine: false,
        maps: 3,
    };
    /// The largest.
    pub const B5: HgNet = HgNet {
        stem: [32, 64],
        stages: [
            stage(64, 128, 1, false, 3),
            stage(128, 512, 2, false, 3),
            stage(256, 1024, 5, true, 5),
            stage(512, 2048, 2, true, 5),
        ],
        ..HgNet::B4
    };
    /// A small one for tests.
    pub const TINY: HgNet = HgNet {
        stem: [8, 8],
        stages: [
            stage(8, 16, 1, false, 3),
            stage(8, 16, 1, false, 3),
            stage(8, 24, 2, true, 5),
            stage(12, 32, 1, true, 5),
        ],
        layers: 2,
        ..HgNet::B0
    };

    pub(super) fn maps(&self, cx: &Scope, images: &Tensor) -> Vec<Tensor> {
        let mut y = self.first(&cx.at("embedder"), images);
        let mut maps = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            let cx = cx.at(format_args!("encoder.stages.{number}"));
            if number > 0 {
                let depthwise = Conv2d::new(y.channels(), 3).stride(2).groups(y.channels());
                y = conv_norm(&cx.at("downsample"), &y, depthwise);
            }
            for block in 0..stage.blocks {
                let path = cx.at(format_args!("blocks.{block}"));
                y = path.block(&y, |cx, y| self.block(cx, y, stage, block > 0));
            }
            maps.push(y.clone());
        }
        maps.split_off(maps.len() - self.maps)
    }

    fn first(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let [inner, width] = self.stem;
        let conv = |name: &str, x: &Tensor, conv: Conv2d| self.conv(&cx.at(name), x, conv);
        let y = conv("stem1", images, Conv2d::new(inner, 3).stride(2));
        // A row and a column of zeros, so that kernels of two keep the size.
        let wider = |x: &Tensor| x.pad(&x.scalar_like(0.0), &[0; 4], &[0, 1, 1, 0], &[0; 4]);
        let even = |width: usize| Conv2d::new(width, 2).padding(Padding::Valid);
        let y = wider(&y);
        let branch = wider(&conv("stem2a", &y, even(inner / 2)));
        let branch = conv("stem2b", &branch, even(inner));
        let joined = Tensor::concatenate(&[y.max_pool(Pool::square(2, 1)), branch], 3);
        let y = conv("stem3", &joined, Conv2d::new(inner, 3).stride(2));
        conv("stem4", &y, Conv2d::new(width, 1))
    }

    fn block(&self, cx: &Scope, x: &Tensor, stage: &HgStage, is_residual: bool) -> Tensor {
        let mut parts = vec![x.clone()];
        for layer in 0..self.layers {
            let cx = cx.at(format_args!("layers.{layer}"));
            let before = &parts[layer];
            let y = match stage.light {
                false => self.conv(&cx, before, Conv2d::new(stage.inner, stage.kernel)),
                true => {
                    let y = conv_norm(&cx.at("conv1"), before, Conv2d::new(stage.inner, 1));
                    let depthwise = Conv2d::new(stage.inner, stage.kernel).groups(stage.inner);
                    self.conv(&cx.at("conv2"), &y, depthwise)
                }
            };
            parts.push(y);
        }
        let y = self.conv(&cx.at("aggregation.0"), &Tensor::concatenate(&parts, 3), Conv2d::new(stage.width / 2, 1));
        let y = self.conv(&cx.at("aggregation.1"), &y, Conv2d::new(stage.width, 1));
        if is_residual { y + x } else { y }
    }

    /// Convolution, norm and ReLU, with its learned scale and shift where the network has them.
    fn conv(&self, cx: &Scope, x: &Tensor, conv: Conv2d) -> Tensor {
        let y = conv_norm(cx, x, conv).relu();
        if !self.affine {
            return y;
        }
        let lab = cx.at("lab");
        let scale = lab.param("scale", &[1], init::ONES, WeightLayout::Same).convert(y.dtype());
        let shift = lab.param("bias", &[1], init::ZEROS, WeightLayout::Same).convert(y.dtype());
        y * scale + shift
    }
}

fn conv_norm(cx: &Scope, x: &Tensor, conv: Conv2d) -> Tensor {
    frozen_norm(&cx.at("normalization"), &conv.bias(false).apply(&cx.at("convolution"), x))
}
