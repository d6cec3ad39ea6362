//! The detection head: per feature map, one tower of convolutions makes box distances, one makes class scores, and where
//! there is more to predict of an object a third one makes that.

use super::STRIDES;
use super::blocks::{conv, conv_norm, pointwise};
use crate::model::CellDetail;
use octant_graph::{DType, Tensor};
use octant_nn::layers::{Conv2d, ConvTranspose2d};
use octant_nn::{Init, Scope, WeightLayout};

/// How the tower of class scores is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassTower {
    /// Two 3×3 convolutions (YOLOv8).
    Full,
    /// Twice a depthwise 3×3 and a 1×1 convolution (from YOLO11 on).
    Separable,
}

/// The head of one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoxHead {
    /// Every distance from a cell's center to a side of its box is a distribution over this many bins; 1 is the distance
    /// itself.
    pub bins: usize,
    /// How class scores are made.
    pub tower: ClassTower,
    /// A second head of the same form is trained with one anchor per box and predicts without non-maximum suppression.
    pub one_to_one: bool,
    /// What is predicted of an object beside its box and class.
    pub detail: CellDetail,
}

/// What an image's side is taken for where biases start from an expected number of objects.
const TYPICAL_SIDE: f64 = 640.0;

impl BoxHead {
    /// Raw outputs `[n, anchors, 4 · bins + classes + details]` in f32, levels one after another; the second head's come
    /// last and its gradient stops at the feature maps. Prototypes of masks come behind them.
    ///
    /// `widest` is the width that the table lists with 256 channels.
    pub fn apply(&self, cx: &Scope, maps: &[Tensor; 3], classes: usize, widest: usize) -> Vec<Tensor> {
        self.keep_bins(cx);
        let branch = |prefix: &str, maps: &[Tensor; 3]| {
            let width = maps[0].channels();
            let levels = maps.iter().enumerate();
            let levels: Vec<Tensor> =
                levels.map(|(level, map)| self.branch(cx, prefix, map, level, width, classes)).collect();
            Tensor::concatenate(&levels, 1)
        };
        let mut outputs = vec![branch("", maps)];
        if self.one_to_one {
            outputs.push(branch("one2one_", &maps.clone().map(|map| map.stop_gradient())));
        }
        if let CellDetail::Mask { prototypes, .. } = self.detail {
            outputs.push(mask_prototypes(&cx.at("proto"), &maps[0], widest, prototypes));
        }
        outputs
    }

    /// The predicting head's output for one feature map; `width` is the finest map's number of channels.
    pub fn level(&self, cx: &Scope, map: &Tensor, level: usize, width: usize, classes: usize) -> Tensor {
        let prefix = if self.one_to_one { "one2one_" } else { "" };
        self.branch(cx, prefix, map, level, width, classes)
    }

    /// The reference keeps the bins' numbers as a weight that is not trainable.
    fn keep_bins(&self, cx: &Scope) {
        if self.bins > 1 {
            cx.statistic("dfl.conv.weight", &[1, self.bins, 1, 1], Init::Counting);
        }
    }

    fn branch(&self, cx: &Scope, prefix: &str, map: &Tensor, level: usize, width: usize, classes: usize) -> Tensor {
        let box_width = 16.max(width / 4).max(4 * self.bins);
        let class_width = width.max(classes.min(100));
        let boxes = {
            let cx = cx.at(format_args!("{prefix}cv2.{level}"));
            let y = conv(&cx.at("0"), map, box_width, 3, 1);
            let y = conv(&cx.at("1"), &y, box_width, 3, 1);
            output(&cx.at("2"), &y, 4 * self.bins, 2.0)
        };
        let cells = (TYPICAL_SIDE / STRIDES[level] as f64).powi(2);
        let scores = {
            let cx = cx.at(format_args!("{prefix}cv3.{level}"));
            let y = self.tower.apply(&cx, map, class_width);
            output(&cx.at("2"), &y, classes, (5.0 / classes as f64 / cells).ln())
        };
        let mut parts = vec![boxes, scores];
        if self.detail != CellDetail::None {
            let (cx, columns) = (cx.at(format_args!("{prefix}cv4.{level}")), self.detail.columns());
            let y = conv(&cx.at("0"), map, columns.max(width / 4), 3, 1);
            let y = conv(&cx.at("1"), &y, y.channels(), 3, 1);
            parts.push(Conv2d::new(columns, 1).apply(&cx.at("2"), &y).convert(DType::F32));
        }
        let y = Tensor::concatenate(&parts, 3);
        y.reshape(&[y.dim(0), y.dim(1) * y.dim(2), y.dim(3)])
    }
}

impl ClassTower {
    fn apply(self, cx: &Scope, x: &Tensor, features: usize) -> Tensor {
        match self {
            ClassTower::Full => {
                let y = conv(&cx.at("0"), x, features, 3, 1);
                conv(&cx.at("1"), &y, features, 3, 1)
            }
            ClassTower::Separable => {
                let depthwise =
                    |cx: &Scope, x: &Tensor| conv_norm(cx, x, Conv2d::new(x.channels(), 3).groups(x.channels())).silu();
                let y = depthwise(&cx.at("0.0"), x);
                let y = pointwise(&cx.at("0.1"), &y, features);
                let y = depthwise(&cx.at("1.0"), &y);
                pointwise(&cx.at("1.1"), &y, features)
            }
        }
    }
}

/// What masks are made of, `[n, h, w, prototypes]` in f32 at twice the finest map's size.
fn mask_prototypes(cx: &Scope, map: &Tensor, width: usize, prototypes: usize) -> Tensor {
    let y = conv(&cx.at("cv1"), map, width, 3, 1);
    let y = ConvTranspose2d::new(width, 2).apply(&cx.at("upsample"), &y);
    let y = conv(&cx.at("cv2"), &y, width, 3, 1);
    pointwise(&cx.at("cv3"), &y, prototypes).convert(DType::F32)
}

/// The last 1×1 convolution, whose bias starts at one value, in f32.
pub(in super::super) fn output(cx: &Scope, x: &Tensor, features: usize, bias: f64) -> Tensor {
    let y = Conv2d::new(features, 1).bias(false).apply(cx, x).convert(DType::F32);
    y + cx.param("bias", &[features], Init::Constant(bias), WeightLayout::Same)
}
