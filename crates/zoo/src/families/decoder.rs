//! Networks for segmentation over an [`Encoder`], as segmentation_models_pytorch has them: a decoder joins the encoder's maps, and the
//! head is one convolution. What the families share is here; each family's file has its decoder.

use super::encoder::Encoder;
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::layers::Conv2d;
use octant_nn::{Fans, Init, Scope, init};
use std::fmt::Debug;

/// What joins an encoder's maps.
pub trait Decoder: Debug + Clone + Send + Sync + 'static {
    /// The image's size over the encoder's last map; the sides of images are multiples of it.
    const OUTPUT_STRIDE: usize;
    /// The side of the head's kernel.
    const HEAD_KERNEL: usize;
    /// The image's size over the decoder's map: the head's output is enlarged as much.
    const MAP_STRIDE: usize;

    /// Another rate of dropout, where the decoder has it.
    fn set_dropout(&mut self, rate: f64) {
        let _ = rate;
    }

    /// From the encoder's maps of the images, large ones first, to the map that the head reads.
    fn decode(&self, cx: &Scope, images: &Tensor, maps: Vec<Tensor>) -> Tensor;
}

/// A decoder over an encoder.
#[derive(Debug, Clone)]
pub struct EncoderDecoder<D> {
    /// The lower part.
    pub encoder: Encoder,
    /// The upper part.
    pub decoder: D,
    /// Maps of the head.
    pub classes: usize,
}

impl<D: Decoder> EncoderDecoder<D> {
    /// A network whose head marks one class.
    pub fn new(encoder: Encoder, decoder: D) -> EncoderDecoder<D> {
        EncoderDecoder { encoder, decoder, classes: 1 }
    }
}

impl<D: Decoder> Model for EncoderDecoder<D> {
    head_size!(classes);

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        self.decoder.set_dropout(dropout);
        self.encoder.set_stochastic_depth(stochastic_depth);
    }

    fn multiple(&self) -> usize {
        D::OUTPUT_STRIDE
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["segmentation_head".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let maps = self.encoder.pyramid(cx, images, D::OUTPUT_STRIDE);
        self.decoder.decode(&cx.at("decoder"), images, maps)
    }

    /// At the image's size.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let head = Conv2d::new(self.classes, D::HEAD_KERNEL).init(head_init, init::zeros);
        let y = head.apply(&cx.at("segmentation_head.0"), features);
        match D::MAP_STRIDE {
            1 => y,
            stride => y.resize_bilinear(stride * y.dim(1), stride * y.dim(2), true),
        }
    }
}

/// The first values of decoders: Kaiming's uniform distribution by inputs, for ReLU.
pub(super) fn decoder_init(fans: Fans) -> Init {
    Init::Uniform { bound: (6.0 / fans.inputs as f64).sqrt() }
}

/// The first values of heads: Xavier's uniform distribution.
fn head_init(fans: Fans) -> Init {
    Init::Uniform { bound: (6.0 / (fans.inputs + fans.outputs) as f64).sqrt() }
}
