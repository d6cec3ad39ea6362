//! LR-ASPP (Howard et al., "Searching for MobileNetV3", 2019) as torchvision has it: the last map, weighted by its mean over the
//! image, and details of an earlier map.

use super::backbone::Backbone;
use super::fcn::enlarged;
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, Conv2d};

/// The network.
#[derive(Debug, Clone)]
pub struct LrAspp {
    /// The lower part.
    pub backbone: Backbone,
    /// Channels of the head.
    pub width: usize,
    /// Size of the head.
    pub classes: usize,
}

impl LrAspp {
    /// A network over that backbone.
    pub const fn new(backbone: Backbone) -> LrAspp {
        LrAspp { backbone, width: 128, classes: 21 }
    }

    /// The last map's part, at its own size and before its classifier.
    fn weighted(&self, cx: &Scope, last: &Tensor) -> Tensor {
        let y = Conv2d::new(self.width, 1).bias(false).apply(&cx.at("cbr.0"), last);
        let y = BatchNorm::new().apply(&cx.at("cbr.1"), &y).relu();
        let scale = Conv2d::new(self.width, 1).bias(false).apply(&cx.at("scale.1"), &last.mean_keep(&[1, 2]));
        &y * scale.logistic().broadcast_to(y.dims())
    }
}

impl Model for LrAspp {
    head_size!(classes);

    fn head_paths(&self) -> Vec<String> {
        vec!["classifier".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.backbone.maps(cx, images).last
    }

    /// Without the details of the earlier map, which [`forward`](Model::forward) adds.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let cx = cx.at("classifier");
        Conv2d::new(self.classes, 1).apply(&cx.at("high_classifier"), &self.weighted(&cx, features))
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let maps = self.backbone.maps(cx, images);
        let head = cx.at("classifier");
        let high = self.weighted(&head, &maps.last);
        let high = high.resize_bilinear(maps.early.dim(1), maps.early.dim(2), false);
        let low = Conv2d::new(self.classes, 1).apply(&head.at("low_classifier"), &maps.early);
        let high = Conv2d::new(self.classes, 1).apply(&head.at("high_classifier"), &high);
        enlarged(&(low + high), images)
    }
}
