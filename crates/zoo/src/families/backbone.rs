//! Classifiers without their head as the lower part of networks for segmentation, as torchvision takes them: names begin with
//! `backbone`, and the last stages are dilated.

use super::mobilenetv3::{MobileGrid, MobileNetV3};
use super::resnet::{EIGHTH, ResNet};
use octant_graph::Tensor;
use octant_nn::Scope;

/// Which classifier.
#[derive(Debug, Clone)]
pub enum Backbone {
    /// Its first convolution and its four stages.
    ResNet(ResNet),
    /// Its rows and the last convolution.
    MobileNetV3(MobileNetV3),
}

/// The maps that heads read.
pub(crate) struct BackboneMaps {
    /// The last one.
    pub last: Tensor,
    /// An earlier one: auxiliary heads read it, and LR-ASPP takes fine details from it.
    pub early: Tensor,
}

impl Backbone {
    pub(crate) fn maps(&self, cx: &Scope, images: &Tensor) -> BackboneMaps {
        let (mut maps, early) = match self {
            Backbone::ResNet(network) => (network.maps(&cx.at("backbone"), images, &EIGHTH), 3),
            Backbone::MobileNetV3(network) => {
                (network.maps(cx, images, Some("backbone"), MobileGrid::Dilated), network.fine())
            }
        };
        let early = maps[early].clone();
        BackboneMaps { last: maps.pop().expect("a network has maps"), early }
    }
}
