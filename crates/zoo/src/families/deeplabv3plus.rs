//! DeepLabV3+ (Chen et al., "Encoder-Decoder with Atrous Separable Convolution for Semantic Image Segmentation", 2018), as
//! segmentation_models_pytorch has it: the last map is a sixteenth of the image's size and is seen by separable convolutions of
//! growing dilation beside its mean; a map of a quarter of the image's size adds fine details.

use super::encoder::{Encoder, SIXTEENTH, decoder_init, head_init};
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d, dropout};
use octant_nn::{Scope, init};

/// The network.
#[derive(Debug, Clone)]
pub struct DeepLabV3Plus {
    /// The lower part.
    pub encoder: Encoder,
    /// Channels of the decoder.
    pub width: usize,
    /// Dilations of the pyramid's separable convolutions.
    pub rates: [usize; 3],
    /// Dropout after the pyramid.
    pub dropout: f64,
    /// Maps of the head.
    pub classes: usize,
}

/// Channels that the map of fine details is brought to.
const DETAILS: usize = 48;
/// How much larger the image is than the map of fine details.
const STRIDE: usize = 4;

impl DeepLabV3Plus {
    /// A network over that encoder.
    pub fn new(encoder: Encoder) -> DeepLabV3Plus {
        DeepLabV3Plus { encoder, width: 256, rates: [12, 24, 36], dropout: 0.5, classes: 1 }
    }

    /// A small one for tests, whose dilations fit small maps.
    pub fn tiny(encoder: Encoder) -> DeepLabV3Plus {
        DeepLabV3Plus { width: 12, rates: [1, 2, 3], ..DeepLabV3Plus::new(encoder) }
    }

    /// Atrous spatial pyramid pooling.
    fn pyramid(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let [n, h, w] = [0, 1, 2].map(|axis| x.dim(axis));
        let mut maps = vec![conv_norm(&cx.at("convs.0"), ["0", "1"], x, self.width)];
        for (index, rate) in self.rates.into_iter().enumerate() {
            maps.push(separable(&cx.at(format_args!("convs.{}", index + 1)), ["0", "1"], x, self.width, rate));
        }
        let mean = conv_norm(&cx.at("convs.4"), ["1", "2"], &x.mean_keep(&[1, 2]), self.width);
        maps.push(mean.broadcast_to(&[n, h, w, self.width]));
        let y = conv_norm(&cx.at("project"), ["0", "1"], &Tensor::concatenate(&maps, 3), self.width);
        dropout(&cx.at("project.3"), &y, self.dropout)
    }
}

fn conv(features: usize, kernel: usize) -> Conv2d {
    Conv2d::new(features, kernel).bias(false).init(decoder_init, init::zeros)
}

/// A 1×1 convolution, its norm and ReLU.
fn conv_norm(cx: &Scope, [layer, norm]: [&str; 2], x: &Tensor, features: usize) -> Tensor {
    BatchNorm::new().apply(&cx.at(norm), &conv(features, 1).apply(&cx.at(layer), x)).relu()
}

/// A depthwise 3×3 convolution and a 1×1 one, with one norm and ReLU after both.
fn separable(cx: &Scope, [layer, norm]: [&str; 2], x: &Tensor, features: usize, rate: usize) -> Tensor {
    let layers = cx.at(layer);
    let depthwise = conv(x.channels(), 3).groups(x.channels()).dilation(rate);
    let y = conv(features, 1).apply(&layers.at("1"), &depthwise.apply(&layers.at("0"), x));
    BatchNorm::new().apply(&cx.at(norm), &y).relu()
}

impl Model for DeepLabV3Plus {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        self.dropout = dropout;
        self.encoder.set_stochastic_depth(stochastic_depth);
    }

    fn multiple(&self) -> usize {
        SIXTEENTH
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["segmentation_head".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let maps = self.encoder.pyramid(cx, images, SIXTEENTH);
        let cx = cx.at("decoder");
        let last = maps.last().expect("an encoder has maps");
        let y = self.pyramid(&cx.at("aspp.0"), last);
        let y = separable(&cx.at("aspp"), ["1", "2"], &y, self.width, 1);
        let fine =
            maps.iter().find(|map| STRIDE * map.dim(1) == images.dim(1)).expect("a map of a quarter of the size");
        let y = y.resize_bilinear(fine.dim(1), fine.dim(2), true);
        let fine = conv_norm(&cx.at("block1"), ["0", "1"], fine, DETAILS);
        separable(&cx.at("block2"), ["0", "1"], &Tensor::concatenate(&[y, fine], 3), self.width, 1)
    }

    /// At the image's size.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let head = Conv2d::new(self.classes, 1).init(head_init, init::zeros);
        let y = head.apply(&cx.at("segmentation_head.0"), features);
        y.resize_bilinear(STRIDE * y.dim(1), STRIDE * y.dim(2), true)
    }
}
