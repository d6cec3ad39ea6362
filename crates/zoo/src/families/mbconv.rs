//! The inverted residual blocks of EfficientNet (Tan and Le, 2019) and EfficientNetV2 (2021), under torchvision's names and
//! under timm's.

use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d, Dense, Padding, SqueezeExcite, stochastic_depth};
use octant_nn::{Fans, Init, Scope, init};

/// What a stage repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MbConvBlock {
    /// Expand with 1×1, depthwise, squeeze and excite, project with 1×1.
    MbConv,
    /// Expand with k×k, project with 1×1; a single convolution without expansion.
    Fused,
}

/// A run of equal blocks; the first one has the stride and changes the width.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    /// The block.
    pub kind: MbConvBlock,
    /// How much wider the block is inside.
    pub expand: usize,
    /// The kernel's size.
    pub kernel: usize,
    /// The first block's stride.
    pub stride: usize,
    /// Channels that come in.
    pub input: usize,
    /// Channels that go out.
    pub output: usize,
    /// How many blocks.
    pub depth: usize,
}

/// Which reference gives the names and the details.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MbConvVariant {
    /// torchvision: half padding.
    Torchvision,
    /// timm: half padding.
    Timm,
    /// timm's `tf_` models: TensorFlow's padding.
    TimmTf,
}

/// The settings that all blocks of a network share.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Names and padding.
    pub form: MbConvVariant,
    /// Batch norm.
    pub norm: BatchNorm,
}

/// `value` rounded to a multiple of 8, never losing more than a tenth.
pub fn round_channels(value: f64) -> usize {
    let rounded = (((value + 4.0) as usize) / 8 * 8).max(8);
    if (rounded as f64) < 0.9 * value { rounded + 8 } else { rounded }
}

/// timm divides a grouped kernel's fan by its groups, torchvision does not. Every grouped kernel here is depthwise, whose
/// inputs per output are its area.
fn depthwise_timm(fans: Fans) -> Init {
    Init::Normal { deviation: (2.0 / fans.inputs as f64).sqrt() }
}

impl Style {
    /// A convolution without bias.
    pub fn conv(&self, features: usize, kernel: usize, stride: usize) -> Conv2d {
        let padding = match self.form {
            MbConvVariant::Torchvision | MbConvVariant::Timm => Padding::Half,
            MbConvVariant::TimmTf => Padding::TensorFlowSame,
        };
        let conv = Conv2d::new(features, kernel).stride(stride).bias(false).padding(padding);
        conv.init(init::kaiming_normal_fan_out, init::zeros)
    }

    fn depthwise(&self, channels: usize, kernel: usize, stride: usize) -> Conv2d {
        let conv = self.conv(channels, kernel, stride).groups(channels);
        match self.form {
            MbConvVariant::Torchvision => conv,
            MbConvVariant::Timm | MbConvVariant::TimmTf => conv.init(depthwise_timm, init::zeros),
        }
    }

    /// A convolution and its norm, under the names given.
    pub fn conv_norm(&self, cx: &Scope, names: [&str; 2], conv: Conv2d, x: &Tensor) -> Tensor {
        let y = conv.apply(&cx.at(names[0]), x);
        self.norm.apply(&cx.at(names[1]), &y)
    }

    fn squeeze(&self, cx: &Scope, name: &str, x: &Tensor, reduced: usize) -> Tensor {
        let names = match self.form {
            MbConvVariant::Torchvision => ["fc1", "fc2"],
            MbConvVariant::Timm | MbConvVariant::TimmTf => ["conv_reduce", "conv_expand"],
        };
        let squeeze = SqueezeExcite::new(reduced).names(names).functions(Tensor::silu, Tensor::logistic);
        squeeze.init(init::kaiming_normal_fan_out, init::zeros).apply(&cx.at(name), x)
    }

    /// One block. `input` channels decide the expansion; `step` is stride and dilation, `drop` the rate of stochastic depth.
    pub fn block(&self, cx: &Scope, x: &Tensor, stage: &Stage, step: [usize; 2], drop: f64) -> Tensor {
        let y = match stage.kind {
            MbConvBlock::Fused => self.fused(cx, x, stage, step),
            MbConvBlock::MbConv => self.mbconv(cx, x, stage, step),
        };
        match step[0] == 1 && x.channels() == stage.output {
            true => stochastic_depth(&cx.at("stochastic_depth"), &y, drop) + x,
            false => y,
        }
    }

    fn fused(&self, cx: &Scope, x: &Tensor, stage: &Stage, [stride, dilation]: [usize; 2]) -> Tensor {
        let wide = round_channels((x.channels() * stage.expand) as f64);
        if stage.expand == 1 {
            let names = self.names(["block.0.0", "block.0.1"], ["conv", "bn1"]);
            return self
                .conv_norm(cx, names, self.conv(stage.output, stage.kernel, stride).dilation(dilation), x)
                .silu();
        }
        let names = self.names(["block.0.0", "block.0.1"], ["conv_exp", "bn1"]);
        let y = self.conv_norm(cx, names, self.conv(wide, stage.kernel, stride).dilation(dilation), x).silu();
        let names = self.names(["block.1.0", "block.1.1"], ["conv_pwl", "bn2"]);
        self.conv_norm(cx, names, self.conv(stage.output, 1, 1), &y)
    }

    fn mbconv(&self, cx: &Scope, x: &Tensor, stage: &Stage, [stride, dilation]: [usize; 2]) -> Tensor {
        let wide = round_channels((x.channels() * stage.expand) as f64);
        let reduced = (x.channels() / 4).max(1);
        let mut part = Parts::default();
        let mut y = x.clone();
        let expands = wide != x.channels();
        if expands {
            let [conv, norm] = part.next();
            y = self.conv_norm(cx, self.names([&conv, &norm], ["conv_pw", "bn1"]), self.conv(wide, 1, 1), x).silu();
        }
        // timm calls a block without expansion another block, whose last convolution has the name of the missing one.
        let (middle, last) = match expands {
            true => (["conv_dw", "bn2"], ["conv_pwl", "bn3"]),
            false => (["conv_dw", "bn1"], ["conv_pw", "bn2"]),
        };
        let [conv, norm] = part.next();
        let depthwise = self.depthwise(wide, stage.kernel, stride).dilation(dilation);
        y = self.conv_norm(cx, self.names([&conv, &norm], middle), depthwise, &y).silu();
        let whole = part.next_whole();
        let [squeeze] = self.names([&whole], ["se"]);
        y = self.squeeze(cx, squeeze, &y, reduced);
        let [conv, norm] = part.next();
        self.conv_norm(cx, self.names([&conv, &norm], last), self.conv(stage.output, 1, 1), &y)
    }

    fn names<'a, const N: usize>(&self, torchvision: [&'a str; N], timm: [&'a str; N]) -> [&'a str; N] {
        match self.form {
            MbConvVariant::Torchvision => torchvision,
            MbConvVariant::Timm | MbConvVariant::TimmTf => timm,
        }
    }

    /// The head's linear layer.
    pub fn classifier(&self, classes: usize) -> Dense {
        let by_outputs = |fans: Fans| Init::Uniform { bound: 1.0 / (fans.outputs as f64).sqrt() };
        Dense::new(classes).init(by_outputs, init::zeros)
    }
}

/// torchvision numbers the parts of a block in the order they are there.
#[derive(Default)]
struct Parts {
    count: usize,
}

impl Parts {
    fn next(&mut self) -> [String; 2] {
        let whole = self.next_whole();
        [format!("{whole}.0"), format!("{whole}.1")]
    }

    fn next_whole(&mut self) -> String {
        self.count += 1;
        format!("block.{}", self.count - 1)
    }
}
