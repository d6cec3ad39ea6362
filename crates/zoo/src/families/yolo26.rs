//! YOLO26 (2025), from the published table of layers: YOLO11's body with a residual pooling block and attention in the
//! last block, plain distances instead of distributions, and a second head that predicts without suppression.

use super::yolo::{BoxHead, ClassTower, Scale, Yolo, YoloClassifier};
use super::yolo11::{Variation, varied_pyramid};
use crate::model::CellDetail;
use octant_graph::Tensor;
use octant_nn::Scope;

/// The sizes n, s, m, l and x.
pub const SIZES: [Scale; 5] = super::yolo11::SIZES;
/// A small one for tests.
pub const TINY: Scale = super::yolo11::TINY;

const TWENTY_SIX: Variation = Variation { residual_pooling: true, deep_neck: true, attention_at_the_end: true };

/// The network of that size.
pub const fn yolo26(scale: Scale, classes: usize) -> Yolo {
    let head = BoxHead { bins: 1, tower: ClassTower::Separable, one_to_one: true, detail: CellDetail::None };
    Yolo { scale, pyramid, head_layer: 23, head, classes }
}

/// The classifier of that size, which is YOLO11's.
pub const fn yolo26_cls(scale: Scale, classes: usize) -> YoloClassifier {
    super::yolo11::yolo11_cls(scale, classes)
}

fn pyramid(scale: &Scale, cx: &Scope, images: &Tensor) -> [Tensor; 3] {
    varied_pyramid(scale, cx, images, TWENTY_SIX)
}
