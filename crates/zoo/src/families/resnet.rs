//! ResNet (He et al., "Deep Residual Learning for Image Recognition", 2015) as in torchvision: the stride of a bottleneck
//! lies on its 3×3 convolution. timm's `resnet*` have the same names and numbers.

use crate::Model;
use crate::model::head_size;
use octant_graph::{Tensor, composites::Pool};
use octant_nn::layers::{BatchNorm, Conv2d, Dense};
use octant_nn::{Scope, init};

/// Which block the stages repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResidualBlock {
    /// Two 3×3 convolutions.
    Basic,
    /// 1×1, 3×3, 1×1, four times as wide at the end.
    Bottleneck,
}

/// The network.
#[derive(Debug, Clone)]
pub struct ResNet {
    /// The repeated block.
    pub block: ResidualBlock,
    /// Blocks per stage.
    pub depths: [usize; 4],
    /// Channels of the first convolution.
    pub stem: usize,
    /// Channels of the stages' blocks.
    pub widths: [usize; 4],
    /// Size of the head.
    pub classes: usize,
}

impl ResNet {
    /// A network of the published widths for ImageNet's classes.
    pub const fn new(block: ResidualBlock, depths: [usize; 4]) -> ResNet {
        ResNet { block, depths, stem: 64, widths: [64, 128, 256, 512], classes: 1000 }
    }

    /// A small one for tests.
    pub const TINY: ResNet =
        ResNet { block: ResidualBlock::Basic, depths: [1, 1, 1, 1], stem: 64, widths: [8, 12, 16, 20], classes: 10 };
    /// A small one with the other block.
    pub const TINY_BOTTLENECK: ResNet = ResNet { block: ResidualBlock::Bottleneck, ..ResNet::TINY };

    fn block(&self, cx: &Scope, x: &Tensor, width: usize, [stride, dilation]: [usize; 2]) -> Tensor {
        match self.block {
            ResidualBlock::Basic => basic_block(cx, x, width, [stride, dilation]),
            ResidualBlock::Bottleneck => bottleneck_block(cx, x, width, [stride, dilation]),
        }
    }

    /// The maps after the first convolution and after every stage.
    pub(crate) fn maps(&self, cx: &Scope, images: &Tensor, grids: &StageGrids) -> Vec<Tensor> {
        let y = conv(self.stem, 7, 2).apply(&cx.at("conv1"), images);
        let first = norm(&cx.at("bn1"), &y).relu();
        let mut y = first.max_pool(Pool::square(3, 2).padded(1));
        let mut maps = vec![first];
        for (stage, (&depth, &width)) in self.depths.iter().zip(&self.widths).enumerate() {
            for block in 0..depth {
                let [stride, first, rest] = grids[stage];
                let step = if block == 0 { [stride, first] } else { [1, rest] };
                let path = cx.at(format_args!("layer{}.{block}", stage + 1));
                y = path.block(&y, |cx, y| self.block(cx, y, width, step));
            }
            maps.push(y.clone());
        }
        maps
    }
}

/// Per stage the stride of its first block, the dilation of that block, and the dilation of the others.
pub(crate) type StageGrids = [[usize; 3]; 4];
/// Every stage halves the size.
pub(crate) const STRIDED: StageGrids = [[1, 1, 1], [2, 1, 1], [2, 1, 1], [2, 1, 1]];
/// An eighth of the image's size, as torchvision has it for segmentation: the first block of a stage still looks at the grid of the
/// stage before it.
pub(crate) const EIGHTH: StageGrids = [[1, 1, 1], [2, 1, 1], [1, 1, 2], [1, 2, 4]];
/// A sixteenth, as segmentation_models_pytorch has it: the whole last stage is dilated.
pub(crate) const SIXTEENTH: StageGrids = [[1, 1, 1], [2, 1, 1], [2, 1, 1], [1, 2, 2]];

fn conv(features: usize, kernel: usize, stride: usize) -> Conv2d {
    Conv2d::new(features, kernel).stride(stride).bias(false).init(init::kaiming_normal_fan_out, init::zeros)
}

fn norm(cx: &Scope, x: &Tensor) -> Tensor {
    BatchNorm::new().apply(cx, x)
}

/// The shortcut of a block: the identity, or a 1×1 convolution where the shape changes.
fn shortcut(cx: &Scope, x: &Tensor, width: usize, stride: usize) -> Tensor {
    match stride != 1 || x.channels() != width {
        true => norm(&cx.at("downsample.1"), &conv(width, 1, stride).apply(&cx.at("downsample.0"), x)),
        false => x.clone(),
    }
}

fn basic_block(cx: &Scope, x: &Tensor, width: usize, [stride, dilation]: [usize; 2]) -> Tensor {
    let y = conv(width, 3, stride).dilation(dilation).apply(&cx.at("conv1"), x);
    let y = norm(&cx.at("bn1"), &y).relu();
    let y = conv(width, 3, 1).dilation(dilation).apply(&cx.at("conv2"), &y);
    let y = norm(&cx.at("bn2"), &y);
    (y + shortcut(cx, x, width, stride)).relu()
}

fn bottleneck_block(cx: &Scope, x: &Tensor, width: usize, [stride, dilation]: [usize; 2]) -> Tensor {
    let y = conv(width, 1, 1).apply(&cx.at("conv1"), x);
    let y = norm(&cx.at("bn1"), &y).relu();
    let y = conv(width, 3, stride).dilation(dilation).apply(&cx.at("conv2"), &y);
    let y = norm(&cx.at("bn2"), &y).relu();
    let y = conv(4 * width, 1, 1).apply(&cx.at("conv3"), &y);
    let y = norm(&cx.at("bn3"), &y);
    (y + shortcut(cx, x, 4 * width, stride)).relu()
}

impl Model for ResNet {
    head_size!(classes);

    fn head_paths(&self) -> Vec<String> {
        vec!["fc".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.maps(cx, images, &STRIDED).pop().expect("a network has stages")
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Dense::new(self.classes).apply(&cx.at("fc"), &self.pool(cx, features))
    }
}
