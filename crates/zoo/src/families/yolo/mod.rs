//! What the YOLO detectors have in common: their sizes, the surface of a network, and (in the files below) the blocks and
//! the head. Facts are those of the published tables and state dicts; the families' own files say what differs.

mod blocks;
mod classifier;
mod head;

pub(super) use blocks::{Block, c2f, c2psa, c3k, c3k2, conv, conv_norm, join_up, pointwise, sppf};
pub use classifier::YoloClassifier;
pub(super) use head::output as head_output;
pub use head::{BoxHead, ClassTower};

use crate::model::{BoxCode, CellDetail, head_size};
use crate::{DetectorHead, Model};
use octant_graph::Tensor;
use octant_nn::Scope;

/// How a table of layers is scaled to one of the sizes n, s, m, l, x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// What repeats are multiplied by.
    pub depth: f64,
    /// What widths are multiplied by.
    pub width: f64,
    /// The widest a layer may be before it is scaled.
    pub widest: usize,
    /// The C3k blocks that small networks use in a few stages are used throughout.
    pub deep: bool,
}

impl Scale {
    /// A size of that depth, width and bound.
    pub const fn new(depth: f64, width: f64, widest: usize) -> Scale {
        Scale { depth, width, widest, deep: false }
    }

    /// The same size with C3k blocks throughout.
    pub const fn deep(self) -> Scale {
        Scale { deep: true, ..self }
    }

    /// The channels of a layer that the table lists with `channels`: a multiple of 8.
    pub fn channels(&self, channels: usize) -> usize {
        let scaled = channels.min(self.widest) as f64 * self.width;
        (scaled / 8.0).ceil() as usize * 8
    }

    /// How often a block is repeated that the table lists `count` times.
    pub fn repeats(&self, count: usize) -> usize {
        ((count as f64 * self.depth).round_ties_even() as usize).max(1)
    }
}

/// A network of one of the families: a body that makes three feature maps (strides 8, 16 and 32), and a head.
#[derive(Debug, Clone, Copy)]
pub struct Yolo {
    /// The size.
    pub scale: Scale,
    /// From images to the feature maps, fine to coarse. The scope is that of the layers' list.
    pub pyramid: fn(&Scale, &Scope, &Tensor) -> [Tensor; 3],
    /// The layer's number of the head.
    pub head_layer: usize,
    /// The head.
    pub head: BoxHead,
    /// How many classes there are.
    pub classes: usize,
}

/// What is predicted of an object beside its box and class: a mask of 32 prototypes at a quarter of the image's size.
pub const MASKS: CellDetail = CellDetail::Mask { prototypes: 32, stride: 4 };
/// COCO's 17 keypoints of people, with their visibility.
pub const KEYPOINTS: CellDetail = CellDetail::Keypoints { count: 17, columns: 3 };

/// Sides of a cell of the feature maps, in pixels.
pub const STRIDES: [usize; 3] = [8, 16, 32];

impl Yolo {
    /// The same network with a head that predicts more of every object.
    pub const fn with(self, detail: CellDetail) -> Yolo {
        Yolo { head: BoxHead { detail, ..self.head }, ..self }
    }

    fn head_scope(&self, cx: &Scope) -> Scope {
        cx.at(format_args!("model.{}", self.head_layer))
    }
}

impl Model for Yolo {
    head_size!(classes);

    fn head_paths(&self) -> Vec<String> {
        vec![format!("model.{}", self.head_layer)]
    }

    /// The coarsest feature map.
    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let [_, _, coarsest] = (self.pyramid)(&self.scale, &cx.at("model"), images);
        coarsest
    }

    /// The coarsest level alone; the other levels need the maps that only [`forward`](Model::forward) has.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        self.head.level(&self.head_scope(cx), features, 2, self.scale.channels(256), self.classes)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let outputs = self.outputs(cx, images, false);
        outputs[usize::from(self.head.one_to_one)].clone()
    }

    /// The head's output, or where there are two heads first the one that is trained with many anchors per box, then the
    /// one that predicts; then the prototypes of masks.
    fn outputs(&self, cx: &Scope, images: &Tensor, _: bool) -> Vec<Tensor> {
        let maps = (self.pyramid)(&self.scale, &cx.at("model"), images);
        self.head.apply(&self.head_scope(cx), &maps, self.classes, self.scale.channels(256))
    }

    fn set_keypoints(&mut self, count: usize, columns: usize) {
        if let CellDetail::Keypoints { .. } = self.head.detail {
            self.head.detail = CellDetail::Keypoints { count, columns };
        }
    }

    fn detector(&self) -> Option<DetectorHead> {
        let code = BoxCode::Distances { bins: self.head.bins };
        let BoxHead { one_to_one, detail, .. } = self.head;
        Some(DetectorHead { strides: STRIDES.to_vec(), code, one_to_one, detail })
    }
}
