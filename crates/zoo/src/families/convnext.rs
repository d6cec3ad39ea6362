//! ConvNeXt (Liu et al., "A ConvNet for the 2020s", 2022) as in torchvision.

use crate::{Model, Task};
use octant_graph::Tensor;
use octant_nn::layers::{Conv2d, Dense, Padding, layer_norm, stochastic_depth};
use octant_nn::{Border, Init, Scope, init};

/// The network.
#[derive(Debug, Clone)]
pub struct ConvNext {
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
    pub const TINY_TEST: ConvNext =
        ConvNext { depths: [1, 1, 2, 1], widths: [8, 12, 16, 24], stochastic_depth: 0.1, classes: 10 };

    /// One of the published networks.
    pub const fn new(depths: [usize; 4], width: usize, stochastic_depth: f64) -> ConvNext {
        ConvNext { depths, widths: [width, 2 * width, 4 * width, 8 * width], stochastic_depth, classes: 1000 }
    }
}

const EPSILON: f64 = 1e-6;

fn conv(features: usize, kernel: usize) -> Conv2d {
    Conv2d::new(features, kernel).init(init::truncated_normal_02, init::zeros)
}

fn dense(features: usize) -> Dense {
    Dense::new(features).init(init::truncated_normal_02, init::zeros)
}

/// A depthwise 7×7 convolution and a network of two layers at every place.
fn block(cx: &Scope, x: &Tensor, drop: f64) -> Tensor {
    let width = x.channels();
    let y = conv(width, 7).groups(width).apply(&cx.at("block.0"), x);
    let y = layer_norm(&cx.at("block.2"), &y, EPSILON);
    let y = dense(4 * width).apply(&cx.at("block.3"), &y).gelu();
    let y = dense(width).apply(&cx.at("block.5"), &y);
    let scale = cx.param("layer_scale", &[width], Init::Constant(1e-6), Border::ChannelColumn);
    let y = &y * scale.convert(y.dtype());
    stochastic_depth(&cx.at("stochastic_depth"), &y, drop) + x
}

impl Model for ConvNext {
    fn task(&self) -> Task {
        Task::Classify
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn reset_head(&mut self, classes: usize) {
        self.classes = classes;
    }

    fn set_drop(&mut self, _: f64, stochastic_depth: f64) {
        self.stochastic_depth = stochastic_depth;
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["classifier.2".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let y = conv(self.widths[0], 4).stride(4).padding(Padding::Valid).apply(&cx.at("features.0.0"), images);
        let mut y = layer_norm(&cx.at("features.0.1"), &y, EPSILON);
        let last = self.depths.iter().sum::<usize>().max(2) - 1;
        let mut index = 0;
        for (stage, (&depth, &width)) in self.depths.iter().zip(&self.widths).enumerate() {
            if stage > 0 {
                let down = cx.at(format_args!("features.{}", 2 * stage));
                let normal = layer_norm(&down.at(0), &y, EPSILON);
                y = conv(width, 2).stride(2).padding(Padding::Valid).apply(&down.at(1), &normal);
            }
            for number in 0..depth {
                let drop = self.stochastic_depth * index as f64 / last as f64;
                let path = cx.at(format_args!("features.{}.{number}", 2 * stage + 1));
                y = path.block(&y, |cx, y| block(cx, y, drop));
                index += 1;
            }
        }
        y
    }

    fn pool(&self, cx: &Scope, features: &Tensor) -> Tensor {
        layer_norm(&cx.at("classifier.0"), &features.global_avg_pool(), EPSILON)
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        dense(self.classes).apply(&cx.at("classifier.2"), &self.pool(cx, features))
    }
}
