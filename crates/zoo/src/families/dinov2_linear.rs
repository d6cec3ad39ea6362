//! A linear layer on DINOv2's patches, as "DINOv2: Learning Robust Visual Features without Supervision" (Oquab et al., 2023)
//! evaluates its features for a class per pixel: a batch norm and a 1×1 convolution. The backbone has timm's names below
//! `encoder.model`, as other encoders of timm; the head has those of the published heads.

use super::transformer::VisionTransformer;
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d};
use octant_nn::{Fans, Init, Scope, init};

/// The network.
#[derive(Debug, Clone)]
pub struct DinoLinear {
    /// The lower part.
    pub backbone: VisionTransformer,
    /// Maps of the head.
    pub classes: usize,
}

const HEAD: &str = "decode_head";

fn narrow(_: Fans) -> Init {
    Init::Normal { deviation: 0.01 }
}

impl DinoLinear {
    /// A network over that backbone.
    pub const fn new(backbone: VisionTransformer) -> DinoLinear {
        DinoLinear { backbone, classes: 1 }
    }
}

impl Model for DinoLinear {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        self.backbone.set_drop(dropout, stochastic_depth);
    }

    fn multiple(&self) -> usize {
        self.backbone.multiple()
    }

    fn head_paths(&self) -> Vec<String> {
        vec![HEAD.into()]
    }

    /// The tokens of patches as a map; those in front of them are left out.
    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let tokens = self.backbone.features(&cx.at("encoder.model"), images);
        let [rows, columns] = [1, 2].map(|axis| images.dim(axis) / self.backbone.patch);
        let patches = tokens.slice_axis(1, tokens.dim(1) - rows * columns, tokens.dim(1));
        patches.reshape(&[images.dim(0), rows, columns, self.backbone.width])
    }

    /// At the size of the features.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let cx = cx.at(HEAD);
        let y = BatchNorm::new().apply(&cx.at("bn"), features);
        Conv2d::new(self.classes, 1).init(narrow, init::zeros).apply(&cx.at("conv_seg"), &y)
    }
}
