//! ResNet-vd (He et al., "Bag of Tricks for Image Classification with Convolutional Neural Networks", 2019): three 3×3 convolutions
//! in front, and shortcuts that average before they project.

use super::frozen_norm;
use octant_graph::Tensor;
use octant_graph::composites::{PaddingCounts, Pool};
use octant_nn::Scope;
use octant_nn::layers::Conv2d;

/// The network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResNetVd {
    /// Blocks are 1×1, 3×3, 1×1, four times as wide at the end, instead of two 3×3 convolutions.
    pub bottleneck: bool,
    /// Blocks per stage.
    pub depths: [usize; 4],
    /// Channels after the first convolutions.
    pub stem: usize,
    /// Channels after each stage.
    pub widths: [usize; 4],
}

impl ResNetVd {
    /// 18 layers.
    pub const R18: ResNetVd =
        ResNetVd { bottleneck: false, depths: [2, 2, 2, 2], stem: 64, widths: [64, 128, 256, 512] };
    /// 34 layers.
    pub const R34: ResNetVd = ResNetVd { depths: [3, 4, 6, 3], ..ResNetVd::R18 };
    /// 50 layers.
    pub const R50: ResNetVd =
        ResNetVd { bottleneck: true, depths: [3, 4, 6, 3], stem: 64, widths: [256, 512, 1024, 2048] };
    /// 101 layers.
    pub const R101: ResNetVd = ResNetVd { depths: [3, 4, 23, 3], ..ResNetVd::R50 };
    /// A small one for tests.
    pub const TINY: ResNetVd = ResNetVd { bottleneck: false, depths: [1, 1, 1, 1], stem: 8, widths: [8, 12, 16, 24] };

    pub(super) fn maps(&self, cx: &Scope, images: &Tensor) -> Vec<Tensor> {
        let embedder = |number: usize| cx.at(format_args!("embedder.embedder.{number}"));
        let y = conv(&embedder(0), images, self.stem / 2, 3, 2).relu();
        let y = conv(&embedder(1), &y, self.stem / 2, 3, 1).relu();
        let mut y = conv(&embedder(2), &y, self.stem, 3, 1).relu().max_pool(Pool::square(3, 2).padded(1));
        let mut maps = Vec::new();
        for (stage, (&depth, &width)) in self.depths.iter().zip(&self.widths).enumerate() {
            for block in 0..depth {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let path = cx.at(format_args!("encoder.stages.{stage}.layers.{block}"));
                y = path.block(&y, |cx, y| self.block(cx, y, width, stride, block == 0));
            }
            maps.push(y.clone());
        }
        maps.split_off(1)
    }

    fn block(&self, cx: &Scope, x: &Tensor, width: usize, stride: usize, is_first: bool) -> Tensor {
        let layer = |number: usize| cx.at(format_args!("layer.{number}"));
        let y = match self.bottleneck {
            false => conv(&layer(1), &conv(&layer(0), x, width, 3, stride).relu(), width, 3, 1),
            true => {
                let y = conv(&layer(0), x, width / 4, 1, 1).relu();
                let y = conv(&layer(1), &y, width / 4, 3, stride).relu();
                conv(&layer(2), &y, width, 1, 1)
            }
        };
        let changes = x.channels() != width;
        // Basic blocks average where the width changes, bottlenecks where the size does.
        let averages = if self.bottleneck { stride == 2 } else { is_first && changes };
        let projects = if self.bottleneck { changes || stride == 2 } else { is_first };
        let shortcut = match (averages, projects) {
            (true, _) => {
                let halved = x.avg_pool(Pool::square(2, 2), PaddingCounts::No);
                conv(&cx.at("shortcut.1"), &halved, width, 1, 1)
            }
            (false, true) => conv(&cx.at("shortcut"), x, width, 1, stride),
            (false, false) => x.clone(),
        };
        (y + shortcut).relu()
    }
}

fn conv(cx: &Scope, x: &Tensor, width: usize, kernel: usize, stride: usize) -> Tensor {
    let y = Conv2d::new(width, kernel).stride(stride).bias(false).apply(&cx.at("convolution"), x);
    frozen_norm(&cx.at("normalization"), &y)
}
