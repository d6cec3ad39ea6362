//! MobileNetV4 (Qin et al., "MobileNetV4: Universal Models for the Mobile Ecosystem", 2024), the convolutional networks as
//! timm has them: inverted residuals with a depthwise convolution before the expansion, after it, at both, or at neither.

use super::encoder::OutputStride;
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d, Dense, dropout, stochastic_depth};
use octant_nn::{Fans, Init, Scope, WeightLayout, init};

/// A block of a stage.
#[derive(Debug, Clone, Copy)]
enum Block {
    /// `(kernel, stride, output)`: a convolution alone.
    Conv(usize, usize, usize),
    /// `(stride, expanded, output)`: expand with 3×3, project with 1×1.
    Fused(usize, usize, usize),
    /// `(first kernel, middle kernel, stride, expanded, output)`: kernels of 0 stand for no convolution.
    Universal(usize, usize, usize, usize, usize),
}

use Block::{Conv, Fused, Universal};

impl Block {
    fn stride(self) -> usize {
        match self {
            Conv(_, stride, _) | Fused(stride, ..) | Universal(_, _, stride, ..) => stride,
        }
    }
}

/// The network.
#[derive(Debug, Clone)]
pub struct MobileNetV4 {
    stem: usize,
    stages: &'static [&'static [Block]],
    hidden: usize,
    /// Dropout before the last layer.
    pub dropout: f64,
    /// The rate of stochastic depth in the last block.
    pub stochastic_depth: f64,
    /// Size of the head.
    pub classes: usize,
}

const SMALL: &[&[Block]] = &[
    &[Conv(3, 2, 32), Conv(1, 1, 32)],
    &[Conv(3, 2, 96), Conv(1, 1, 64)],
    &[
        Universal(5, 5, 2, 192, 96),
        Universal(0, 3, 1, 192, 96),
        Universal(0, 3, 1, 192, 96),
        Universal(0, 3, 1, 192, 96),
        Universal(0, 3, 1, 192, 96),
        Universal(3, 0, 1, 384, 96),
    ],
    &[
        Universal(3, 3, 2, 576, 128),
        Universal(5, 5, 1, 512, 128),
        Universal(0, 5, 1, 512, 128),
        Universal(0, 5, 1, 384, 128),
        Universal(0, 3, 1, 512, 128),
        Universal(0, 3, 1, 512, 128),
    ],
    &[Conv(1, 1, 960)],
];

const MEDIUM: &[&[Block]] = &[
    &[Fused(2, 128, 48)],
    &[Universal(3, 5, 2, 192, 80), Universal(3, 3, 1, 160, 80)],
    &[
        Universal(3, 5, 2, 480, 160),
        Universal(3, 3, 1, 640, 160),
        Universal(3, 3, 1, 640, 160),
        Universal(3, 5, 1, 640, 160),
        Universal(3, 3, 1, 640, 160),
        Universal(3, 0, 1, 640, 160),
        Universal(0, 0, 1, 320, 160),
        Universal(3, 0, 1, 640, 160),
    ],
    &[
        Universal(5, 5, 2, 960, 256),
        Universal(5, 5, 1, 1024, 256),
        Universal(3, 5, 1, 1024, 256),
        Universal(3, 5, 1, 1024, 256),
        Universal(0, 0, 1, 1024, 256),
        Universal(3, 0, 1, 1024, 256),
        Universal(3, 5, 1, 512, 256),
        Universal(5, 5, 1, 1024, 256),
        Universal(0, 0, 1, 1024, 256),
        Universal(0, 0, 1, 1024, 256),
        Universal(5, 0, 1, 512, 256),
    ],
    &[Conv(1, 1, 960)],
];

const LARGE: &[&[Block]] = &[
    &[Fused(2, 96, 48)],
    &[Universal(3, 5, 2, 192, 96), Universal(3, 3, 1, 384, 96)],
    &[
        Universal(3, 5, 2, 384, 192),
        Universal(3, 3, 1, 768, 192),
        Universal(3, 3, 1, 768, 192),
        Universal(3, 3, 1, 768, 192),
        Universal(3, 5, 1, 768, 192),
        Universal(5, 3, 1, 768, 192),
        Universal(5, 3, 1, 768, 192),
        Universal(5, 3, 1, 768, 192),
        Universal(5, 3, 1, 768, 192),
        Universal(5, 3, 1, 768, 192),
        Universal(3, 0, 1, 768, 192),
    ],
    &[
        Universal(5, 5, 2, 768, 512),
        Universal(5, 5, 1, 2048, 512),
        Universal(5, 5, 1, 2048, 512),
        Universal(5, 5, 1, 2048, 512),
        Universal(5, 0, 1, 2048, 512),
        Universal(5, 3, 1, 2048, 512),
        Universal(5, 0, 1, 2048, 512),
        Universal(5, 0, 1, 2048, 512),
        Universal(5, 3, 1, 2048, 512),
        Universal(5, 5, 1, 2048, 512),
        Universal(5, 0, 1, 2048, 512),
        Universal(5, 0, 1, 2048, 512),
        Universal(5, 0, 1, 2048, 512),
    ],
    &[Conv(1, 1, 960)],
];

const TINY: &[&[Block]] = &[
    &[Conv(3, 2, 8), Conv(1, 1, 8)],
    &[Fused(1, 16, 16)],
    &[Universal(3, 5, 2, 32, 24), Universal(0, 3, 1, 48, 24), Universal(3, 0, 1, 48, 24), Universal(0, 0, 1, 48, 24)],
    &[Conv(1, 1, 40)],
];

impl MobileNetV4 {
    /// `mobilenetv4_conv_small`.
    pub const SMALL: MobileNetV4 = MobileNetV4::published(32, SMALL);
    /// `mobilenetv4_conv_medium`.
    pub const MEDIUM: MobileNetV4 = MobileNetV4::published(32, MEDIUM);
    /// `mobilenetv4_conv_large`.
    pub const LARGE: MobileNetV4 = MobileNetV4::published(24, LARGE);
    /// A small one for tests.
    pub const TINY: MobileNetV4 = MobileNetV4 { hidden: 24, ..MobileNetV4::published(8, TINY) };

    const fn published(stem: usize, stages: &'static [&'static [Block]]) -> MobileNetV4 {
        MobileNetV4 { stem, stages, hidden: 1280, dropout: 0.0, stochastic_depth: 0.0, classes: 1000 }
    }

    /// The maps after the first convolution and after every block, no smaller than the image over `output_stride`.
    pub(crate) fn maps(&self, cx: &Scope, images: &Tensor, output_stride: usize) -> Vec<Tensor> {
        let mut grid = OutputStride::new(output_stride);
        let mut maps = vec![conv_norm(cx, ["conv_stem", "bn1"], conv(self.stem, 3, 2), images).relu()];
        let count: usize = self.stages.iter().map(|stage| stage.len()).sum();
        for (stage, blocks) in self.stages.iter().enumerate() {
            for (number, &kind) in blocks.iter().enumerate() {
                let (last, index) = (&maps[maps.len() - 1], maps.len() - 1);
                let drop = self.stochastic_depth * index as f64 / count.max(1) as f64;
                let path = cx.at(format_args!("blocks.{stage}.{number}"));
                let step = grid.next(kind.stride());
                maps.push(path.block(last, |cx, y| block(cx, y, kind, step, drop)));
            }
        }
        maps
    }
}

fn conv(features: usize, kernel: usize, stride: usize) -> Conv2d {
    let conv = Conv2d::new(features, kernel).stride(stride).bias(false);
    conv.init(init::kaiming_normal_fan_out, init::zeros)
}

/// timm divides a depthwise kernel's fan by its groups: inputs per output are its area.
fn depthwise(channels: usize, kernel: usize, stride: usize) -> Conv2d {
    let by_area = |fans: Fans| Init::Normal { deviation: (2.0 / fans.inputs as f64).sqrt() };
    conv(channels, kernel, stride).groups(channels).init(by_area, init::zeros)
}

fn conv_norm(cx: &Scope, names: [&str; 2], conv: Conv2d, x: &Tensor) -> Tensor {
    BatchNorm::new().apply(&cx.at(names[1]), &conv.apply(&cx.at(names[0]), x))
}

fn block(cx: &Scope, x: &Tensor, block: Block, [stride, dilation]: [usize; 2], drop: f64) -> Tensor {
    let wide = |conv: Conv2d| conv.dilation(dilation);
    match block {
        Conv(kernel, _, output) => conv_norm(cx, ["conv", "bn1"], wide(conv(output, kernel, stride)), x).relu(),
        Fused(_, expanded, output) => {
            let y = conv_norm(cx, ["conv_exp", "bn1"], wide(conv(expanded, 3, stride)), x).relu();
            residual(cx, x, conv_norm(cx, ["conv_pwl", "bn2"], conv(output, 1, 1), &y), drop)
        }
        Universal(first, middle, _, expanded, output) => {
            let part = |name: &str, conv: Conv2d, x: &Tensor| conv_norm(&cx.at(name), ["conv", "bn"], conv, x);
            let mut y = x.clone();
            if first > 0 {
                let stride = if middle > 0 { 1 } else { stride };
                y = part("dw_start", wide(depthwise(x.channels(), first, stride)), &y);
            }
            y = part("pw_exp", conv(expanded, 1, 1), &y).relu();
            if middle > 0 {
                y = part("dw_mid", wide(depthwise(expanded, middle, stride)), &y).relu();
            }
            residual(cx, x, part("pw_proj", conv(output, 1, 1), &y), drop)
        }
    }
}

fn residual(cx: &Scope, x: &Tensor, y: Tensor, drop: f64) -> Tensor {
    match x.dims() == y.dims() {
        true => stochastic_depth(&cx.at("drop_path"), &y, drop) + x,
        false => y,
    }
}

impl Model for MobileNetV4 {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        (self.dropout, self.stochastic_depth) = (dropout, stochastic_depth);
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["classifier".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.maps(cx, images, usize::MAX).pop().expect("a network has a first convolution")
    }

    fn pool(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let hidden = Dense::new(self.hidden).bias(false).layout(WeightLayout::Pointwise);
        let hidden = hidden.init(init::kaiming_normal_fan_out, init::zeros);
        let y = hidden.apply(&cx.at("conv_head"), &features.global_avg_pool());
        BatchNorm::new().apply(&cx.at("norm_head"), &y).relu()
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let pooled = dropout(&cx.at("dropout"), &self.pool(cx, features), self.dropout);
        let by_outputs = |fans: Fans| Init::Uniform { bound: 1.0 / (fans.outputs as f64).sqrt() };
        Dense::new(self.classes).init(by_outputs, init::zeros).apply(&cx.at("classifier"), &pooled)
    }
}
