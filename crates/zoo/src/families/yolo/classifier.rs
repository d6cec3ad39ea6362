//! The classifiers: the backbone of a detector, then one convolution, a mean and a linear layer.

use super::Scale;
use super::blocks::pointwise;
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, Dense};

/// A classifier of one of the families.
#[derive(Debug, Clone, Copy)]
pub struct YoloClassifier {
    /// The size.
    pub scale: Scale,
    /// From images to the last feature map. The scope is that of the layers' list.
    pub body: fn(&Scale, &Scope, &Tensor) -> Tensor,
    /// The layer's number of the head.
    pub head_layer: usize,
    /// How many classes there are.
    pub classes: usize,
}

/// Features that the linear layer sees, whatever the size.
const FEATURES: usize = 1280;

impl YoloClassifier {
    fn head_scope(&self, cx: &Scope) -> Scope {
        cx.at(format_args!("model.{}", self.head_layer)).with_norm(BatchNorm::new())
    }
}

impl Model for YoloClassifier {
    head_size!(classes);

    fn head_paths(&self) -> Vec<String> {
        vec![format!("model.{}.linear", self.head_layer)]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let map = (self.body)(&self.scale, &cx.at("model").with_norm(BatchNorm::new()), images);
        pointwise(&self.head_scope(cx).at("conv"), &map, FEATURES)
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let pooled = self.pool(cx, features);
        Dense::new(self.classes).apply(&self.head_scope(cx).at("linear"), &pooled)
    }
}
