//! U-Net (Ronneberger et al., 2015) over the maps of a classifier, as segmentation_models_pytorch has it: every block of the decoder
//! doubles the map (nearest neighbor), joins the encoder's map of that size, and has two 3×3 convolutions.

use super::encoder::{Encoder, MULTIPLE, decoder_init, head_init};
use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d};
use octant_nn::{Scope, init};

/// The network.
#[derive(Debug, Clone)]
pub struct EncoderUNet {
    /// The lower part.
    pub encoder: Encoder,
    /// Channels of the decoder's blocks, the first of which sees the smallest map.
    pub widths: [usize; 5],
    /// Maps of the head.
    pub classes: usize,
}

impl EncoderUNet {
    /// A network over that encoder.
    pub fn new(encoder: Encoder) -> EncoderUNet {
        EncoderUNet { encoder, widths: [256, 128, 64, 32, 16], classes: 1 }
    }

    /// A small one for tests.
    pub fn tiny(encoder: Encoder) -> EncoderUNet {
        EncoderUNet { widths: [16, 12, 8, 8, 4], ..EncoderUNet::new(encoder) }
    }
}

/// A 3×3 convolution with norm and ReLU.
fn conv_relu(cx: &Scope, x: &Tensor, width: usize) -> Tensor {
    let conv = Conv2d::new(width, 3).bias(false).init(decoder_init, init::zeros);
    BatchNorm::new().apply(&cx.at("1"), &conv.apply(&cx.at("0"), x)).relu()
}

impl Model for EncoderUNet {
    head_size!(classes);

    fn set_drop(&mut self, _: f64, stochastic_depth: f64) {
        self.encoder.set_stochastic_depth(stochastic_depth);
    }

    fn multiple(&self) -> usize {
        MULTIPLE
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["segmentation_head".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let mut maps = self.encoder.pyramid(cx, images, MULTIPLE);
        let mut y = maps.pop().expect("an encoder has maps");
        for (block, &width) in self.widths.iter().enumerate() {
            let path = cx.at(format_args!("decoder.blocks.{block}"));
            let larger = y.upsample_nearest(2);
            // Some encoders have no map of half the image's size, and none has one of the whole.
            let skip = maps.pop_if(|map| map.dim(1) == larger.dim(1));
            let joined = skip.map_or(larger.clone(), |skip| Tensor::concatenate(&[larger, skip], 3));
            y = conv_relu(&path.at("conv2"), &conv_relu(&path.at("conv1"), &joined, width), width);
        }
        y
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Conv2d::new(self.classes, 3).init(head_init, init::zeros).apply(&cx.at("segmentation_head.0"), features)
    }
}
