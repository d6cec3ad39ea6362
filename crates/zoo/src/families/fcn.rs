//! Fully convolutional networks (Long et al., CVPR 2015) as torchvision has them: a dilated ResNet, a 3×3 convolution and a
//! classifier per pixel at an eighth of the image's size, enlarged; in training a second such head on the third stage.

use super::backbone::Backbone;
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, Conv2d, dropout};

/// The network.
#[derive(Debug, Clone)]
pub struct Fcn {
    /// The lower part.
    pub backbone: Backbone,
    /// Dropout before the last layer of each head.
    pub dropout: f64,
    /// Size of the heads.
    pub classes: usize,
}

/// The paths below which heads lie.
pub(super) const HEADS: [&str; 2] = ["classifier", "aux_classifier"];

impl Fcn {
    /// A network over that backbone.
    pub const fn new(backbone: Backbone) -> Fcn {
        Fcn { backbone, dropout: 0.1, classes: 21 }
    }
}

/// A 3×3 convolution to a quarter of the channels, and a classifier per pixel.
pub(super) fn fcn_head(cx: &Scope, x: &Tensor, classes: usize, rate: f64) -> Tensor {
    let y = Conv2d::new(x.channels() / 4, 3).bias(false).apply(&cx.at("0"), x);
    let y = BatchNorm::new().apply(&cx.at("1"), &y).relu();
    Conv2d::new(classes, 1).apply(&cx.at("4"), &dropout(&cx.at("3"), &y, rate))
}

/// A map at the size of the images.
pub(super) fn enlarged(map: &Tensor, images: &Tensor) -> Tensor {
    map.resize_bilinear(images.dim(1), images.dim(2), false)
}

impl Model for Fcn {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, _: f64) {
        self.dropout = dropout;
    }

    fn head_paths(&self) -> Vec<String> {
        HEADS.map(String::from).to_vec()
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.backbone.maps(cx, images).last
    }

    /// At the size of the features; the output is enlarged.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        fcn_head(&cx.at(HEADS[0]), features, self.classes, self.dropout)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.outputs(cx, images, false).swap_remove(0)
    }

    fn outputs(&self, cx: &Scope, images: &Tensor, _: bool) -> Vec<Tensor> {
        let maps = self.backbone.maps(cx, images);
        let output = self.head(cx, &maps.last);
        let auxiliary = fcn_head(&cx.at(HEADS[1]), &maps.early, self.classes, self.dropout);
        [output, auxiliary].map(|map| enlarged(&map, images)).to_vec()
    }

    fn auxiliary_weight(&self) -> Option<f64> {
        Some(AUXILIARY)
    }
}

/// What torchvision's training counts an auxiliary head.
pub(super) const AUXILIARY: f64 = 0.4;
