//! DeepLabV3+ (Chen et al., "Encoder-Decoder with Atrous Separable Convolution for Semantic Image Segmentation", 2018), as
//! segmentation_models_pytorch has it: the last map is a sixteenth of the image's size and is seen by separable convolutions of
//! growing dilation beside its mean; a map of a quarter of the image's size adds fine details.

use super::decoder::{Decoder, decoder_init};
use super::encoder::SIXTEENTH;
use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d, dropout};
use octant_nn::{Scope, init};

/// The decoder.
#[derive(Debug, Clone)]
pub struct DeepLabV3PlusDecoder {
    /// Channels of its maps.
    pub width: usize,
    /// Dilations of the pyramid's separable convolutions.
    pub rates: [usize; 3],
    /// Dropout after the pyramid.
    pub dropout: f64,
}

/// Channels that the map of fine details is brought to.
const DETAILS: usize = 48;

impl DeepLabV3PlusDecoder {
    /// The usual one.
    pub const STANDARD: DeepLabV3PlusDecoder = DeepLabV3PlusDecoder { width: 256, rates: [12, 24, 36], dropout: 0.5 };

    /// A small one for tests, whose dilations fit small maps.
    pub const TINY: DeepLabV3PlusDecoder = DeepLabV3PlusDecoder { width: 12, rates: [1, 2, 3], dropout: 0.5 };

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

impl Decoder for DeepLabV3PlusDecoder {
    const OUTPUT_STRIDE: usize = SIXTEENTH;
    const HEAD_KERNEL: usize = 1;
    /// That of the map of fine details.
    const MAP_STRIDE: usize = 4;

    fn set_dropout(&mut self, rate: f64) {
        self.dropout = rate;
    }

    fn decode(&self, cx: &Scope, images: &Tensor, maps: Vec<Tensor>) -> Tensor {
        let last = maps.last().expect("an encoder has maps");
        let is_quarter = |map: &&Tensor| Self::MAP_STRIDE * map.dim(1) == images.dim(1);
        let fine = maps.iter().find(is_quarter).expect("a map of a quarter of the size");
        let y = self.pyramid(&cx.at("aspp.0"), last);
        let y = separable(&cx.at("aspp"), ["1", "2"], &y, self.width, 1);
        let y = y.resize_bilinear(fine.dim(1), fine.dim(2), true);
        let fine = conv_norm(&cx.at("block1"), ["0", "1"], fine, DETAILS);
        separable(&cx.at("block2"), ["0", "1"], &Tensor::concatenate(&[y, fine], 3), self.width, 1)
    }
}
