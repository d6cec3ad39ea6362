//! YOLOv8 (2023), from the published table of layers: C2f blocks, shortcuts in the backbone only, boxes as distributions
//! over 16 bins per side (Li et al., "Generalized Focal Loss", 2020).

use super::yolo::{BoxHead, ClassTower, Scale, Yolo, YoloClassifier, c2f, conv, join_up, sppf};
use crate::model::CellDetail;
use octant_graph::Tensor;
use octant_nn::Scope;

/// The sizes n, s, m, l and x.
pub const SIZES: [Scale; 5] = [
    Scale::new(0.33, 0.25, 1024),
    Scale::new(0.33, 0.5, 1024),
    Scale::new(0.67, 0.75, 768),
    Scale::new(1.0, 1.0, 512),
    Scale::new(1.0, 1.25, 512),
];
/// A small one for tests.
pub const TINY: Scale = Scale::new(0.33, 0.0625, 1024);

/// The network of that size.
pub const fn yolov8(scale: Scale, classes: usize) -> Yolo {
    let head = BoxHead { bins: 16, tower: ClassTower::Full, one_to_one: false, detail: CellDetail::None };
    Yolo { scale, pyramid, head_layer: 22, head, classes }
}

/// The sizes of the classifiers, which bound no width.
pub const CLASSIFIERS: [Scale; 5] = [
    Scale::new(0.33, 0.25, 1024),
    Scale::new(0.33, 0.5, 1024),
    Scale::new(0.67, 0.75, 1024),
    Scale::new(1.0, 1.0, 1024),
    Scale::new(1.0, 1.25, 1024),
];

/// The classifier of that size: the backbone up to its last stage.
pub const fn yolov8_cls(scale: Scale, classes: usize) -> YoloClassifier {
    YoloClassifier { scale, body: |scale, cx, images| backbone(scale, cx, images)[2].clone(), head_layer: 9, classes }
}

/// The last three stages, fine to coarse.
fn backbone(scale: &Scale, cx: &Scope, images: &Tensor) -> [Tensor; 3] {
    let down = |index: usize, x: &Tensor, channels| conv(&cx.at(index), x, scale.channels(channels), 3, 2);
    let stage = |index: usize, x: &Tensor, channels, count| {
        c2f(&cx.at(index), x, scale.channels(channels), scale.repeats(count), true)
    };
    let x = down(1, &down(0, images, 64), 128);
    let x = stage(2, &x, 128, 3);
    let p3 = stage(4, &down(3, &x, 256), 256, 6);
    let p4 = stage(6, &down(5, &p3, 512), 512, 6);
    let p5 = stage(8, &down(7, &p4, 1024), 1024, 3);
    [p3, p4, p5]
}

fn pyramid(scale: &Scale, cx: &Scope, images: &Tensor) -> [Tensor; 3] {
    let down = |index: usize, x: &Tensor, channels| conv(&cx.at(index), x, scale.channels(channels), 3, 2);
    let stage = |index: usize, x: &Tensor, channels, count| {
        c2f(&cx.at(index), x, scale.channels(channels), scale.repeats(count), false)
    };
    let join = |x: &Tensor, y: &Tensor| Tensor::concatenate(&[x.clone(), y.clone()], 3);
    let [p3, p4, x] = backbone(scale, cx, images);
    let p5 = sppf(&cx.at(9), &x, scale.channels(1024), false);
    let x12 = stage(12, &join_up(&p5, &p4), 512, 3);
    let fine = stage(15, &join_up(&x12, &p3), 256, 3);
    let middle = stage(18, &join(&down(16, &fine, 256), &x12), 512, 3);
    let coarse = stage(21, &join(&down(19, &middle, 512), &p5), 1024, 3);
    [fine, middle, coarse]
}
