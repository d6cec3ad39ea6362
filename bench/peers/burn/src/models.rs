//! The networks, as their references have them.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

/// A classifier of images.
pub trait Network: Module {
    /// Channels of its images.
    const CHANNELS: usize;
    /// Classes that it distinguishes.
    const CLASSES: usize;
    /// Logits.
    fn forward(&self, images: Tensor<4>) -> Tensor<2>;
}

/// One convolution, one pooling, one matrix.
#[derive(Module, Debug)]
pub struct FashionCnn {
    conv: Conv2d,
    pool: MaxPool2d,
    fc: Linear,
}

impl FashionCnn {
    pub fn new(device: &Device) -> FashionCnn {
        FashionCnn {
            conv: Conv2dConfig::new([1, 64], [3, 3]).init(device),
            pool: MaxPool2dConfig::new([2, 2]).init(),
            fc: LinearConfig::new(64 * 13 * 13, 10).init(device),
        }
    }
}

impl Network for FashionCnn {
    const CHANNELS: usize = 1;
    const CLASSES: usize = 10;

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.fc.forward(relu(self.pool.forward(self.conv.forward(images))).flatten(1, 3))
    }
}

/// A convolution without bias and its norm.
#[derive(Module, Debug)]
struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &Device) -> ConvNorm {
        let edge = kernel / 2;
        let conv = Conv2dConfig::new(channels, [kernel; 2])
            .with_stride([stride; 2])
            .with_padding(PaddingConfig2d::Explicit(edge, edge, edge, edge))
            .with_bias(false);
        ConvNorm { conv: conv.init(device), norm: BatchNormConfig::new(channels[1]).init(device) }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(x))
    }
}

/// Two or three convolutions and a way around them.
#[derive(Module, Debug)]
struct Block {
    convs: Vec<ConvNorm>,
    shortcut: Option<ConvNorm>,
}

impl Block {
    /// `kernels` and strides of the convolutions; `widths` are the channels before and after each.
    fn new(widths: &[usize], kernels: &[(usize, usize)], device: &Device) -> Block {
        let conv = |(at, &(kernel, stride)): (usize, &(usize, usize))| {
            ConvNorm::new([widths[at], widths[at + 1]], kernel, stride, device)
        };
        let stride: usize = kernels.iter().map(|&(_, stride)| stride).product();
        let ends = [widths[0], widths[widths.len() - 1]];
        let changes = stride > 1 || ends[0] != ends[1];
        Block {
            convs: kernels.iter().enumerate().map(conv).collect(),
            shortcut: changes.then(|| ConvNorm::new(ends, 1, stride, device)),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let around = self.shortcut.as_ref().map_or_else(|| x.clone(), |shortcut| shortcut.forward(x.clone()));
        let last = self.convs.len() - 1;
        let through = self.convs.iter().enumerate().fold(x, |x, (at, conv)| match at == last {
            true => conv.forward(x),
            false => relu(conv.forward(x)),
        });
        relu(through + around)
    }
}

#[derive(Module, Debug)]
pub struct ResNet {
    stem: ConvNorm,
    pool: MaxPool2d,
    blocks: Vec<Block>,
    mean: AdaptiveAvgPool2d,
    fc: Linear,
}

impl ResNet {
    pub fn resnet18(device: &Device) -> ResNet {
        let block = |from: usize, width: usize, stride: usize| {
            Block::new(&[from, width, width], &[(3, stride), (3, 1)], device)
        };
        ResNet::new([2, 2, 2, 2], 1, block, device)
    }

    pub fn resnet50(device: &Device) -> ResNet {
        let block = |from: usize, width: usize, stride: usize| {
            Block::new(&[from, width, width, 4 * width], &[(1, 1), (3, stride), (1, 1)], device)
        };
        ResNet::new([3, 4, 6, 3], 4, block, device)
    }

    fn new(
        depths: [usize; 4],
        expansion: usize,
        block: impl Fn(usize, usize, usize) -> Block,
        device: &Device,
    ) -> ResNet {
        let (mut from, mut blocks) = (64, Vec::new());
        for (stage, depth) in depths.into_iter().enumerate() {
            let width = 64 << stage;
            for index in 0..depth {
                let stride = if stage > 0 && index == 0 { 2 } else { 1 };
                blocks.push(block(from, width, stride));
                from = width * expansion;
            }
        }
        let pool = MaxPool2dConfig::new([3, 3]).with_strides([2, 2]);
        ResNet {
            stem: ConvNorm::new([3, 64], 7, 2, device),
            pool: pool.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(),
            blocks,
            mean: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            fc: LinearConfig::new(from, 1000).init(device),
        }
    }
}

impl Network for ResNet {
    const CHANNELS: usize = 3;
    const CLASSES: usize = 1000;

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(relu(self.stem.forward(images)));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        self.fc.forward(self.mean.forward(x).flatten(1, 3))
    }
}
