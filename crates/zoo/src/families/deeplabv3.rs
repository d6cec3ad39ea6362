//! DeepLabV3 (Chen et al., "Rethinking Atrous Convolution for Semantic Image Segmentation", 2017) as torchvision has it: a dilated
//! backbone, four convolutions of growing dilation beside the mean over the image, and an auxiliary head in training.

use super::backbone::Backbone;
use super::fcn::{AUXILIARY, HEADS, enlarged, fcn_head};
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, Conv2d, dropout};

/// The network.
#[derive(Debug, Clone)]
pub struct DeepLabV3 {
    /// The lower part.
    pub backbone: Backbone,
    /// Channels of the head.
    pub width: usize,
    /// Dropout after the pyramid, and before the last layer of the auxiliary head.
    pub dropout: [f64; 2],
    /// Size of the heads.
    pub classes: usize,
}

/// Dilations of the pyramid's 3×3 convolutions.
const RATES: [usize; 3] = [12, 24, 36];

impl DeepLabV3 {
    /// A network over that backbone.
    pub const fn new(backbone: Backbone) -> DeepLabV3 {
        DeepLabV3 { backbone, width: 256, dropout: [0.5, 0.1], classes: 21 }
    }

    fn conv_norm(&self, cx: &Scope, [conv, norm]: [&str; 2], x: &Tensor, kernel: usize, dilation: usize) -> Tensor {
        let layer = Conv2d::new(self.width, kernel).dilation(dilation).bias(false);
        BatchNorm::new().apply(&cx.at(norm), &layer.apply(&cx.at(conv), x)).relu()
    }

    /// Atrous spatial pyramid pooling.
    fn pyramid(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let [n, h, w] = [0, 1, 2].map(|axis| x.dim(axis));
        let mut maps = vec![self.conv_norm(&cx.at("convs.0"), ["0", "1"], x, 1, 1)];
        for (index, rate) in RATES.into_iter().enumerate() {
            maps.push(self.conv_norm(&cx.at(format_args!("convs.{}", index + 1)), ["0", "1"], x, 3, rate));
        }
        let mean = x.mean_keep(&[1, 2]);
        let mean = self.conv_norm(&cx.at("convs.4"), ["1", "2"], &mean, 1, 1);
        maps.push(mean.broadcast_to(&[n, h, w, self.width]));
        let joined = Tensor::concatenate(&maps, 3);
        let y = self.conv_norm(&cx.at("project"), ["0", "1"], &joined, 1, 1);
        dropout(&cx.at("project.3"), &y, self.dropout[0])
    }
}

impl Model for DeepLabV3 {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, _: f64) {
        self.dropout = [dropout; 2];
    }

    fn head_paths(&self) -> Vec<String> {
        HEADS.map(String::from).to_vec()
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.backbone.maps(cx, images).last
    }

    /// At the size of the features; the output is enlarged.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let cx = cx.at(HEADS[0]);
        let y = self.pyramid(&cx.at("0"), features);
        let y = self.conv_norm(&cx, ["1", "2"], &y, 3, 1);
        Conv2d::new(self.classes, 1).apply(&cx.at("4"), &y)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.outputs(cx, images, false).swap_remove(0)
    }

    fn outputs(&self, cx: &Scope, images: &Tensor, _: bool) -> Vec<Tensor> {
        let maps = self.backbone.maps(cx, images);
        let output = self.head(cx, &maps.last);
        let auxiliary = fcn_head(&cx.at(HEADS[1]), &maps.early, self.classes, self.dropout[1]);
        [output, auxiliary].map(|map| enlarged(&map, images)).to_vec()
    }

    fn auxiliary_weight(&self) -> Option<f64> {
        Some(AUXILIARY)
    }
}
