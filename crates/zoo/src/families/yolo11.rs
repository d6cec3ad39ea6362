//! YOLO11 (2024), from the published table of layers: C3k2 blocks with shortcuts everywhere, attention on the coarsest
//! map, a separable class tower.

use super::yolo::{Block, BoxHead, ClassTower, Scale, Yolo, YoloClassifier, c2psa, c3k2, conv, join_up, sppf};
use crate::model::CellDetail;
use octant_graph::Tensor;
use octant_nn::Scope;

/// The sizes n, s, m, l and x.
pub const SIZES: [Scale; 5] = [
    Scale::new(0.5, 0.25, 1024),
    Scale::new(0.5, 0.5, 1024),
    Scale::new(0.5, 1.0, 512).deep(),
    Scale::new(1.0, 1.0, 512).deep(),
    Scale::new(1.0, 1.5, 512).deep(),
];
/// A small one for tests; attention needs 64 channels per head.
pub const TINY: Scale = Scale::new(0.5, 0.125, 1024);

/// The network of that size.
pub const fn yolo11(scale: Scale, classes: usize) -> Yolo {
    let head = BoxHead { bins: 16, tower: ClassTower::Separable, one_to_one: false, detail: CellDetail::None };
    Yolo { scale, pyramid, head_layer: 23, head, classes }
}

/// What YOLO26 does otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variation {
    /// The pooling block has no activation in front of its pools and adds its input.
    pub residual_pooling: bool,
    /// The neck's blocks are C3 blocks in all sizes.
    pub deep_neck: bool,
    /// The coarsest map's last block holds attention.
    pub attention_at_the_end: bool,
}

const ELEVEN: Variation = Variation { residual_pooling: false, deep_neck: false, attention_at_the_end: false };

/// The classifier of that size: the backbone without pooling, then attention. YOLO26 has the same.
pub const fn yolo11_cls(scale: Scale, classes: usize) -> YoloClassifier {
    YoloClassifier { scale, body: classified, head_layer: 10, classes }
}

fn classified(scale: &Scale, cx: &Scope, images: &Tensor) -> Tensor {
    let [_, _, x] = backbone(scale, cx, images);
    c2psa(&cx.at(9), &x, scale.repeats(2))
}

/// The last three stages, fine to coarse.
fn backbone(scale: &Scale, cx: &Scope, images: &Tensor) -> [Tensor; 3] {
    let early = if scale.deep { Block::C3k } else { Block::Bottleneck };
    let down = |index: usize, x: &Tensor, channels| conv(&cx.at(index), x, scale.channels(channels), 3, 2);
    let stage = |index: usize, x: &Tensor, channels, block, expansion| {
        c3k2(&cx.at(index), x, scale.channels(channels), scale.repeats(2), expansion, block)
    };
    let x = down(1, &down(0, images, 64), 128);
    let x = stage(2, &x, 256, early, 0.25);
    let p3 = stage(4, &down(3, &x, 256), 512, early, 0.25);
    let p4 = stage(6, &down(5, &p3, 512), 512, Block::C3k, 0.5);
    let p5 = stage(8, &down(7, &p4, 1024), 1024, Block::C3k, 0.5);
    [p3, p4, p5]
}

fn pyramid(scale: &Scale, cx: &Scope, images: &Tensor) -> [Tensor; 3] {
    varied_pyramid(scale, cx, images, ELEVEN)
}

/// The body, shared with YOLO26.
pub(super) fn varied_pyramid(scale: &Scale, cx: &Scope, images: &Tensor, variation: Variation) -> [Tensor; 3] {
    let neck = if variation.deep_neck || scale.deep { Block::C3k } else { Block::Bottleneck };
    let down = |index: usize, x: &Tensor, channels| conv(&cx.at(index), x, scale.channels(channels), 3, 2);
    let stage = |index: usize, x: &Tensor, channels, block, expansion| {
        c3k2(&cx.at(index), x, scale.channels(channels), scale.repeats(2), expansion, block)
    };
    let join = |x: &Tensor, y: &Tensor| Tensor::concatenate(&[x.clone(), y.clone()], 3);
    let [p3, p4, x] = backbone(scale, cx, images);
    let x = sppf(&cx.at(9), &x, scale.channels(1024), variation.residual_pooling);
    let p5 = c2psa(&cx.at(10), &x, scale.repeats(2));
    let x13 = stage(13, &join_up(&p5, &p4), 512, neck, 0.5);
    let fine = stage(16, &join_up(&x13, &p3), 256, neck, 0.5);
    let middle = stage(19, &join(&down(17, &fine, 256), &x13), 512, neck, 0.5);
    let x = join(&down(20, &middle, 512), &p5);
    let coarse = match variation.attention_at_the_end {
        true => c3k2(&cx.at(22), &x, scale.channels(1024), 1, 0.5, Block::Attention),
        false => stage(22, &x, 1024, Block::C3k, 0.5),
    };
    [fine, middle, coarse]
}
