//! MobileNetV3 (Howard et al., 2019) as in torchvision: norms with epsilon 1e-3 and momentum 0.01, hard-swish in the later
//! blocks, squeeze and excitation with the hard sigmoid.

use super::mbconv::round_channels;
use crate::{Model, Task};
use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d, Dense, SqueezeExcite, dropout};
use octant_nn::{Fans, Init, Scope, init};

/// `(kernel, expanded, output, squeeze, hard_swish, stride)`.
type Row = (usize, usize, usize, bool, bool, usize);

/// The network.
#[derive(Debug, Clone)]
pub struct MobileNetV3 {
    stem: usize,
    rows: &'static [Row],
    hidden: usize,
    /// Dropout before the last layer.
    pub dropout: f64,
    /// Size of the head.
    pub classes: usize,
}

const LARGE: [Row; 15] = [
    (3, 16, 16, false, false, 1),
    (3, 64, 24, false, false, 2),
    (3, 72, 24, false, false, 1),
    (5, 72, 40, true, false, 2),
    (5, 120, 40, true, false, 1),
    (5, 120, 40, true, false, 1),
    (3, 240, 80, false, true, 2),
    (3, 200, 80, false, true, 1),
    (3, 184, 80, false, true, 1),
    (3, 184, 80, false, true, 1),
    (3, 480, 112, true, true, 1),
    (3, 672, 112, true, true, 1),
    (5, 672, 160, true, true, 2),
    (5, 960, 160, true, true, 1),
    (5, 960, 160, true, true, 1),
];

const SMALL: [Row; 11] = [
    (3, 16, 16, true, false, 2),
    (3, 72, 24, false, false, 2),
    (3, 88, 24, false, false, 1),
    (5, 96, 40, true, true, 2),
    (5, 240, 40, true, true, 1),
    (5, 240, 40, true, true, 1),
    (5, 120, 48, true, true, 1),
    (5, 144, 48, true, true, 1),
    (5, 288, 96, true, true, 2),
    (5, 576, 96, true, true, 1),
    (5, 576, 96, true, true, 1),
];

const TINY: [Row; 3] = [(3, 8, 8, true, false, 1), (3, 16, 16, false, true, 2), (5, 32, 16, true, true, 1)];

impl MobileNetV3 {
    /// The large network.
    pub const LARGE: MobileNetV3 = MobileNetV3 { stem: 16, rows: &LARGE, hidden: 1280, dropout: 0.2, classes: 1000 };
    /// The small network.
    pub const SMALL: MobileNetV3 = MobileNetV3 { stem: 16, rows: &SMALL, hidden: 1024, dropout: 0.2, classes: 1000 };
    /// A small one for tests.
    pub const TINY: MobileNetV3 = MobileNetV3 { stem: 8, rows: &TINY, hidden: 24, dropout: 0.2, classes: 10 };
}

fn conv_norm(cx: &Scope, x: &Tensor, conv: Conv2d) -> Tensor {
    let conv = conv.bias(false).init(init::kaiming_normal_fan_out, init::zeros);
    let y = conv.apply(&cx.at("0"), x);
    BatchNorm::new().epsilon(1e-3).momentum(0.01).apply(&cx.at("1"), &y)
}

fn block(cx: &Scope, x: &Tensor, &(kernel, expanded, output, squeeze, hard_swish, stride): &Row) -> Tensor {
    let activation = if hard_swish { Tensor::hard_swish } else { Tensor::relu };
    let mut part = 0;
    let mut next = || {
        part += 1;
        cx.at(format_args!("block.{}", part - 1))
    };
    let mut y = x.clone();
    if expanded != x.channels() {
        y = activation(&conv_norm(&next(), &y, Conv2d::new(expanded, 1)));
    }
    y = activation(&conv_norm(&next(), &y, Conv2d::new(expanded, kernel).stride(stride).groups(expanded)));
    if squeeze {
        let squeeze = SqueezeExcite::new(round_channels((expanded / 4) as f64));
        let squeeze = squeeze.functions(Tensor::relu, Tensor::hard_sigmoid);
        y = squeeze.init(init::kaiming_normal_fan_out, init::zeros).apply(&next(), &y);
    }
    y = conv_norm(&next(), &y, Conv2d::new(output, 1));
    if stride == 1 && x.channels() == output { y + x } else { y }
}

fn narrow(_: Fans) -> Init {
    Init::Normal { deviation: 0.01 }
}

impl Model for MobileNetV3 {
    fn task(&self) -> Task {
        Task::Classify
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn reset_head(&mut self, classes: usize) {
        self.classes = classes;
    }

    fn set_drop(&mut self, dropout: f64, _: f64) {
        self.dropout = dropout;
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["classifier.3".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let mut y = conv_norm(&cx.at("features.0"), images, Conv2d::new(self.stem, 3).stride(2)).hard_swish();
        for (index, row) in self.rows.iter().enumerate() {
            y = cx.at(format_args!("features.{}", index + 1)).block(&y, |cx, y| block(cx, y, row));
        }
        let last = cx.at(format_args!("features.{}", self.rows.len() + 1));
        conv_norm(&last, &y, Conv2d::new(6 * y.channels(), 1)).hard_swish()
    }

    fn pool(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let hidden = Dense::new(self.hidden).init(narrow, init::zeros);
        hidden.apply(&cx.at("classifier.0"), &features.global_avg_pool()).hard_swish()
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let pooled = dropout(&cx.at("classifier.2"), &self.pool(cx, features), self.dropout);
        Dense::new(self.classes).init(narrow, init::zeros).apply(&cx.at("classifier.3"), &pooled)
    }
}
