//! YOLOX (Ge et al., "YOLOX: Exceeding YOLO Series in 2021", 2021): CSPDarknet, a path-aggregation neck, a decoupled head
//! without anchors. Names and numbers are those of the authors' code (Apache-2.0).
//!
//! The published weights expect channels in the order blue, green, red and values from 0 to 255. Images here are red,
//! green, blue, so the network reverses them itself.

use super::yolo::{STRIDES, conv_norm, head_output, join_up};
use crate::model::{BoxCode, head_size};
use crate::{CellDetail, DetectorHead, Model};
use octant_graph::{Tensor, composites::Pool};
use octant_nn::Scope;
use octant_nn::layers::Conv2d;

/// The network.
#[derive(Debug, Clone, Copy)]
pub struct YoloX {
    /// What repeats are multiplied by.
    pub depth: f64,
    /// What widths are multiplied by.
    pub width: f64,
    /// 3×3 convolutions are depthwise ones followed by 1×1.
    pub depthwise: bool,
    /// How many classes there are.
    pub classes: usize,
}

/// Scores start near 0.01, as in Lin et al., "Focal Loss for Dense Object Detection".
const SCORE_BIAS: f64 = -4.59511985013459;

impl YoloX {
    /// A network of that depth and width.
    pub const fn new(depth: f64, width: f64) -> YoloX {
        YoloX { depth, width, depthwise: false, classes: 80 }
    }

    /// The smallest published one.
    pub const NANO: YoloX = YoloX { depthwise: true, ..YoloX::new(0.33, 0.25) };
    /// A small one for tests.
    pub const SMALL_TEST: YoloX = YoloX::new(0.33, 0.125);

    fn channels(&self, channels: usize) -> usize {
        (channels as f64 * self.width) as usize
    }

    fn repeats(&self, count: f64) -> usize {
        (count * self.depth).round_ties_even() as usize
    }

    /// A 3×3 convolution in the network's own form.
    fn conv3(&self, cx: &Scope, x: &Tensor, features: usize, stride: usize) -> Tensor {
        match self.depthwise {
            true => {
                let depthwise = Conv2d::new(x.channels(), 3).groups(x.channels()).stride(stride);
                conv1(&cx.at("pconv"), &conv_norm(&cx.at("dconv"), x, depthwise).silu(), features)
            }
            false => conv_norm(cx, x, Conv2d::new(features, 3).stride(stride)).silu(),
        }
    }

    /// Half of the features go through bottlenecks, half past them.
    fn csp(&self, cx: &Scope, x: &Tensor, features: usize, count: usize, shortcut: bool) -> Tensor {
        let hidden = features / 2;
        let mut y = conv1(&cx.at("conv1"), x, hidden);
        let past = conv1(&cx.at("conv2"), x, hidden);
        for index in 0..count {
            y = cx.at(format_args!("m.{index}")).block(&y, |cx, y| {
                let inner = conv1(&cx.at("conv1"), y, hidden);
                let inner = self.conv3(&cx.at("conv2"), &inner, hidden, 1);
                if shortcut { inner + y } else { inner }
            });
        }
        conv1(&cx.at("conv3"), &Tensor::concatenate(&[y, past], 3), features)
    }

    /// The backbone's maps at strides 8, 16 and 32.
    fn darknet(&self, cx: &Scope, images: &Tensor) -> [Tensor; 3] {
        let base = self.repeats(3.0).max(1);
        let width = self.channels(64);
        let stage = |name: &str, x: &Tensor, features: usize, count: usize| {
            let x = self.conv3(&cx.at(format_args!("{name}.0")), x, features, 2);
            self.csp(&cx.at(format_args!("{name}.1")), &x, features, count, true)
        };
        let stem = Conv2d::new(width, 3);
        let x = conv_norm(&cx.at("stem.conv"), &focus(images), stem).silu();
        let x = stage("dark2", &x, 2 * width, base);
        let p3 = stage("dark3", &x, 4 * width, 3 * base);
        let p4 = stage("dark4", &p3, 8 * width, 3 * base);
        let x = self.conv3(&cx.at("dark5.0"), &p4, 16 * width, 2);
        let x = spatial_pyramid(&cx.at("dark5.1"), &x);
        let p5 = self.csp(&cx.at("dark5.2"), &x, 16 * width, base, false);
        [p3, p4, p5]
    }

    /// The neck's maps, fine to coarse.
    fn pyramid(&self, cx: &Scope, images: &Tensor) -> [Tensor; 3] {
        let [p3, p4, p5] = self.darknet(&cx.at("backbone"), images);
        let [narrow, middle, wide] = [256, 512, 1024].map(|channels| self.channels(channels));
        let count = self.repeats(3.0);
        let csp = |name: &str, x: &Tensor, features| self.csp(&cx.at(name), x, features, count, false);
        let join = |x: &Tensor, y: &Tensor| Tensor::concatenate(&[x.clone(), y.clone()], 3);
        let lateral = conv1(&cx.at("lateral_conv0"), &p5, middle);
        let x = csp("C3_p4", &join_up(&lateral, &p4), middle);
        let reduced = conv1(&cx.at("reduce_conv1"), &x, narrow);
        let fine = csp("C3_p3", &join_up(&reduced, &p3), narrow);
        let x = self.conv3(&cx.at("bu_conv2"), &fine, narrow, 2);
        let between = csp("C3_n3", &join(&x, &reduced), middle);
        let x = self.conv3(&cx.at("bu_conv1"), &between, middle, 2);
        let coarse = csp("C3_n4", &join(&x, &lateral), wide);
        [fine, between, coarse]
    }

    /// `[n, cells, 4 + 1 + classes]` of one level: box, objectness, classes.
    fn level(&self, cx: &Scope, map: &Tensor, level: usize) -> Tensor {
        let width = self.channels(256);
        let at = |name: &str| cx.at(format_args!("{name}.{level}"));
        let tower =
            |name: &str, x: &Tensor| (0..2).fold(x.clone(), |x, index| self.conv3(&at(name).at(index), &x, width, 1));
        let x = conv1(&at("stems"), map, width);
        let (of_class, of_box) = (tower("cls_convs", &x), tower("reg_convs", &x));
        let scores = head_output(&at("cls_preds"), &of_class, self.classes, SCORE_BIAS);
        let boxes = Conv2d::new(4, 1).apply(&at("reg_preds"), &of_box).convert(scores.dtype());
        let objectness = head_output(&at("obj_preds"), &of_box, 1, SCORE_BIAS);
        let y = Tensor::concatenate(&[boxes, objectness, scores], 3);
        y.reshape(&[y.dim(0), y.dim(1) * y.dim(2), y.dim(3)])
    }
}

fn conv1(cx: &Scope, x: &Tensor, features: usize) -> Tensor {
    conv_norm(cx, x, Conv2d::new(features, 1)).silu()
}

/// The four pixels of every 2×2 square as channels: top left, bottom left, top right, bottom right; colors reversed.
fn focus(images: &Tensor) -> Tensor {
    let images = images.reverse(&[3]);
    let limits = images.dims().to_vec();
    let every_second = |row: usize, column: usize| images.slice(&[0, row, column, 0], &limits, &[1, 2, 2, 1]);
    Tensor::concatenate(&[every_second(0, 0), every_second(1, 0), every_second(0, 1), every_second(1, 1)], 3)
}

/// Max pools of 5×5, 9×9 and 13×13 side by side.
fn spatial_pyramid(cx: &Scope, x: &Tensor) -> Tensor {
    let y = conv1(&cx.at("conv1"), x, x.channels() / 2);
    let pools = [5, 9, 13].map(|size| y.max_pool(Pool::square(size, 1).padded(size / 2)));
    let maps: Vec<Tensor> = std::iter::once(y.clone()).chain(pools).collect();
    conv1(&cx.at("conv2"), &Tensor::concatenate(&maps, 3), x.channels())
}

impl Model for YoloX {
    head_size!(classes);

    fn head_paths(&self) -> Vec<String> {
        vec!["head".into()]
    }

    /// The coarsest feature map.
    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let [_, _, coarsest] = self.pyramid(&cx.at("backbone"), images);
        coarsest
    }

    /// The coarsest level alone.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        self.level(&cx.at("head"), features, 2)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let maps = self.pyramid(&cx.at("backbone"), images);
        let levels = maps.iter().enumerate().map(|(level, map)| self.level(&cx.at("head"), map, level));
        Tensor::concatenate(&levels.collect::<Vec<_>>(), 1)
    }

    fn detector(&self) -> Option<DetectorHead> {
        Some(DetectorHead {
            strides: STRIDES.to_vec(),
            code: BoxCode::CenterSize,
            one_to_one: false,
            detail: CellDetail::None,
        })
    }
}
