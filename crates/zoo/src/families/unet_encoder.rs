//! U-Net (Ronneberger et al., 2015) over the maps of a classifier, as segmentation_models_pytorch has it: every block of the decoder
//! doubles the map (nearest neighbor), joins the encoder's map of that size, and has two 3×3 convolutions.

use super::decoder::{Decoder, decoder_init};
use super::encoder::MULTIPLE;
use octant_graph::Tensor;
use octant_nn::layers::{BatchNorm, Conv2d};
use octant_nn::{Scope, init};

/// The decoder.
#[derive(Debug, Clone)]
pub struct UNetDecoder {
    /// Channels of the blocks, the first of which sees the smallest map.
    pub widths: [usize; 5],
}

impl UNetDecoder {
    /// The usual one.
    pub const STANDARD: UNetDecoder = UNetDecoder { widths: [256, 128, 64, 32, 16] };

    /// A small one for tests.
    pub const TINY: UNetDecoder = UNetDecoder { widths: [16, 12, 8, 8, 4] };
}

/// A 3×3 convolution with norm and ReLU.
fn conv_relu(cx: &Scope, x: &Tensor, width: usize) -> Tensor {
    let conv = Conv2d::new(width, 3).bias(false).init(decoder_init, init::zeros);
    BatchNorm::new().apply(&cx.at("1"), &conv.apply(&cx.at("0"), x)).relu()
}

impl Decoder for UNetDecoder {
    const OUTPUT_STRIDE: usize = MULTIPLE;
    const HEAD_KERNEL: usize = 3;
    const MAP_STRIDE: usize = 1;

    fn decode(&self, cx: &Scope, _: &Tensor, mut maps: Vec<Tensor>) -> Tensor {
        let mut y = maps.pop().expect("an encoder has maps");
        for (block, &width) in self.widths.iter().enumerate() {
            let path = cx.at(format_args!("blocks.{block}"));
            let larger = y.upsample_nearest(2);
            // Some encoders have no map of half the image's size, and none has one of the whole.
            let skip = maps.pop_if(|map| map.dim(1) == larger.dim(1));
            let joined = skip.map_or(larger.clone(), |skip| Tensor::concatenate(&[larger, skip], 3));
            y = conv_relu(&path.at("conv2"), &conv_relu(&path.at("conv1"), &joined, width), width);
        }
        y
    }
}
