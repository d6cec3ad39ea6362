//! ConvNeXt (Liu et al., "A ConvNet for the 2020s", 2022), under torchvision's names and under timm's, and ConvNeXt V2 (Woo
//! et al., "ConvNeXt V2: Co-designing and Scaling ConvNets with Masked Autoencoders", 2023), as timm has it: a global
//! response norm inside the blocks instead of a scale at their end.

use crate::Model;
use crate::model::head_size;
use octant_graph::{DType, Tensor};
use octant_nn::layers::{Conv2d, Dense, Padding, layer_norm, stochastic_depth};
use octant_nn::{Init, Scope, WeightLayout, init};

/// The names of one reference. Both count stages; torchvision counts the layers between them too.
#[derive(Debug, Clone, Copy)]
struct Names {
    stem: [&'static str; 2],
    depthwise: &'static str,
    norm: &'static str,
    hidden: [&'static str; 2],
    response_norm: &'static str,
    scale: (&'static str, WeightLayout),
    last_norm: &'static str,
    head: &'static str,
    /// The path of a layer between stages, and of a block, by number of the stage.
    down: fn(usize) -> String,
    block: fn(usize, usize) -> String,
}

const TORCHVISION: Names = Names {
    stem: ["features.0.0", "features.0.1"],
    depthwise: "block.0",
    norm: "block.2",
    hidden: ["block.3", "block.5"],
    // torchvision has no V2.
    response_norm: "block.grn",
    scale: ("layer_scale", WeightLayout::ChannelColumn),
    last_norm: "classifier.0",
    head: "classifier.2",
    down: |stage| format!("features.{}", 2 * stage),
    block: |stage, block| format!("features.{}.{block}", 2 * stage + 1),
};

const TIMM: Names = Names {
    stem: ["stem.0", "stem.1"],
    depthwise: "conv_dw",
    norm: "norm",
    hidden: ["mlp.fc1", "mlp.fc2"],
    response_norm: "mlp.grn",
    scale: ("gamma", WeightLayout::Same),
    last_norm: "head.norm",
    head: "head.fc",
    down: |stage| format!("stages.{stage}.downsample"),
    block: |stage, block| format!("stages.{stage}.blocks.{block}"),
};

/// timm's names where only the maps are taken: the modules of the lower part lie beside each other.
const TIMM_MAPS: Names = Names {
    stem: ["stem_0", "stem_1"],
    down: |stage| format!("stages_{stage}.downsample"),
    block: |stage, block| format!("stages_{stage}.blocks.{block}"),
    ..TIMM
};

/// What blocks have besides their convolution and their two linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// A scale per channel at the end.
    V1,
    /// A global response norm between the linear layers, which files keep with these dimensions.
    V2(WeightLayout),
}

/// The network.
#[derive(Debug, Clone)]
pub struct ConvNext {
    names: Names,
    version: Version,
    /// Blocks per stage.
    pub depths: [usize; 4],
    /// Channels per stage.
    pub widths: [usize; 4],
    /// The rate of stochastic depth in the last block.
    pub stochastic_depth: f64,
    /// Size of the head.
    pub classes: usize,
}

impl ConvNext {
    /// A small one for tests.
    pub const TINY_TEST: ConvNext = ConvNext {
        names: TORCHVISION,
        version: Version::V1,
        depths: [1, 1, 2, 1],
        widths: [8, 12, 16, 24],
        stochastic_depth: 0.1,
        classes: 10,
    };

    /// One of the published networks.
    pub const fn new(depths: [usize; 4], width: usize, stochastic_depth: f64) -> ConvNext {
        let widths = [width, 2 * width, 4 * width, 8 * width];
        ConvNext { names: TORCHVISION, version: Version::V1, depths, widths, stochastic_depth, classes: 1000 }
    }

    /// The same network as timm has it, where nothing is dropped by default.
    pub const fn timm(self) -> ConvNext {
        ConvNext { names: TIMM, stochastic_depth: 0.0, ..self }
    }

    /// The same under the names that timm's networks have without their heads.
    pub(crate) const fn timm_maps(self) -> ConvNext {
        ConvNext { names: TIMM_MAPS, ..self.timm() }
    }

    /// The second version. Its smaller networks keep the linear layers of blocks as 1×1 convolutions.
    pub const fn v2(self, small: bool) -> ConvNext {
        let layout = if small { WeightLayout::Pointwise } else { WeightLayout::Dense };
        ConvNext { version: Version::V2(layout), ..self.timm() }
    }

    /// The map after every stage, no smaller than the image over `output_stride`: where a stage would be, it keeps its size, and its
    /// blocks are dilated.
    pub(crate) fn maps(&self, cx: &Scope, images: &Tensor, output_stride: usize) -> Vec<Tensor> {
        let names = &self.names;
        let y = conv(self.widths[0], 4).stride(4).padding(Padding::Valid).apply(&cx.at(names.stem[0]), images);
        let mut y = layer_norm(&cx.at(names.stem[1]), &y, EPSILON);
        let last = self.depths.iter().sum::<usize>().max(2) - 1;
        let (mut index, mut maps) = (0, Vec::new());
        let (mut reached, mut dilation) = (4, 1);
        for (stage, (&depth, &width)) in self.depths.iter().zip(&self.widths).enumerate() {
            if stage > 0 {
                let down = cx.at((names.down)(stage));
                let normal = layer_norm(&down.at(0), &y, EPSILON);
                let layer = if reached < output_stride {
                    reached *= 2;
                    conv(width, 2).stride(2).padding(Padding::Valid)
                } else {
                    // The layer between the stages looks at the grid before it, as far as that is dilated by more than 2.
                    dilation *= 2;
                    conv(width, 2).dilation(if dilation > 2 { 2 } else { 1 }).padding(Padding::TensorFlowSame)
                };
                y = layer.apply(&down.at(1), &normal);
            }
            for number in 0..depth {
                let drop = self.stochastic_depth * index as f64 / last as f64;
                let path = cx.at((names.block)(stage, number));
                y = path.block(&y, |cx, y| block(cx, y, names, self.version, dilation, drop));
                index += 1;
            }
            maps.push(y.clone());
        }
        maps
    }
}

const EPSILON: f64 = 1e-6;

fn conv(features: usize, kernel: usize) -> Conv2d {
    Conv2d::new(features, kernel).init(init::truncated_normal_02, init::zeros)
}

fn dense(features: usize) -> Dense {
    Dense::new(features).init(init::truncated_normal_02, init::zeros)
}

/// Channels against each other: each is scaled by its norm over the image, relative to the mean of all channels' norms.
fn response_norm(cx: &Scope, x: &Tensor) -> Tensor {
    let _scope = cx.enter();
    let width = [x.channels()];
    let [weight, bias] = ["weight", "bias"].map(|name| cx.param(name, &width, init::ZEROS, WeightLayout::Same));
    let wide = x.convert(DType::F32);
    // The square root of 0 would have no gradient.
    let norms = (wide.square().sum_keep(&[1, 2]) + 1e-30).sqrt();
    let relative = &norms / (norms.mean_keep(&[3]) + EPSILON);
    (&wide * relative * weight + bias + &wide).convert(x.dtype())
}

/// A depthwise 7×7 convolution and a network of two layers at every pixel.
fn block(cx: &Scope, x: &Tensor, names: &Names, version: Version, dilation: usize, drop: f64) -> Tensor {
    let width = x.channels();
    let layout = match version {
        Version::V1 => WeightLayout::Dense,
        Version::V2(layout) => layout,
    };
    let y = conv(width, 7).dilation(dilation).groups(width).apply(&cx.at(names.depthwise), x);
    let y = layer_norm(&cx.at(names.norm), &y, EPSILON);
    let mut y = dense(4 * width).layout(layout).apply(&cx.at(names.hidden[0]), &y).gelu();
    if version != Version::V1 {
        y = response_norm(&cx.at(names.response_norm), &y);
    }
    let mut y = dense(width).layout(layout).apply(&cx.at(names.hidden[1]), &y);
    if version == Version::V1 {
        let (name, layout) = names.scale;
        y = &y * cx.param(name, &[width], Init::Constant(1e-6), layout).convert(y.dtype());
    }
    stochastic_depth(&cx.at("stochastic_depth"), &y, drop) + x
}

impl Model for ConvNext {
    head_size!(classes);

    fn set_drop(&mut self, _: f64, stochastic_depth: f64) {
        self.stochastic_depth = stochastic_depth;
    }

    fn head_paths(&self) -> Vec<String> {
        vec![self.names.head.into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.maps(cx, images, usize::MAX).pop().expect("a network has stages")
    }

    fn pool(&self, cx: &Scope, features: &Tensor) -> Tensor {
        layer_norm(&cx.at(self.names.last_norm), &features.global_avg_pool(), EPSILON)
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        dense(self.classes).apply(&cx.at(self.names.head), &self.pool(cx, features))
    }
}
