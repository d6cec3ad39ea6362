//! What makes the maps.

use super::{HgNet, ResNetVd};
use octant_graph::Tensor;
use octant_nn::Scope;

/// The backbone of a network. Its norms stay as the published weights have them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Backbone {
    /// ResNet-vd.
    ResNetVd(ResNetVd),
    /// HGNetV2.
    HgNet(HgNet),
}

impl Backbone {
    /// The maps that the encoder takes, fine to coarse; the coarsest has a 32nd of the image's size.
    pub(super) fn maps(&self, cx: &Scope, images: &Tensor) -> Vec<Tensor> {
        match self {
            Backbone::ResNetVd(net) => net.maps(cx, images),
            Backbone::HgNet(net) => net.maps(cx, images),
        }
    }
}
