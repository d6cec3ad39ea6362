//! A feature pyramid network (Lin et al., CVPR 2017) for segmentation (Kirillov et al., "Panoptic Feature Pyramid Networks", 2019), as
//! segmentation_models_pytorch has it: maps of four sizes, each with the next smaller one added, are brought to a quarter of
//! the image's size and added.

use super::decoder::{Decoder, decoder_init};
use super::encoder::MULTIPLE;
use octant_graph::Tensor;
use octant_nn::layers::{Conv2d, group_norm};
use octant_nn::{Scope, init};

/// The decoder.
#[derive(Debug, Clone)]
pub struct FpnDecoder {
    /// Channels of the pyramid.
    pub pyramid: usize,
    /// Channels of the maps that are added; group norms have [`GROUPS`] groups of them.
    pub width: usize,
    /// Dropout of whole channels before the head.
    pub dropout: f64,
}

/// Groups of the norms.
pub const GROUPS: usize = 32;
const EPSILON: f64 = 1e-5;

impl FpnDecoder {
    /// The usual one.
    pub const STANDARD: FpnDecoder = FpnDecoder { pyramid: 256, width: 128, dropout: 0.2 };

    /// A small one for tests.
    pub const TINY: FpnDecoder = FpnDecoder { pyramid: 12, width: 2 * GROUPS, dropout: 0.2 };

    /// A level of the pyramid at the size of the largest one: every 3×3 convolution doubles it, but for the largest one's.
    fn enlarged(&self, cx: &Scope, level: &Tensor, doublings: usize) -> Tensor {
        (0..doublings.max(1)).fold(level.clone(), |y, number| {
            let path = cx.at(format_args!("block.{number}.block"));
            let conv = Conv2d::new(self.width, 3).bias(false).init(decoder_init, init::zeros);
            let y = group_norm(&path.at("1"), &conv.apply(&path.at("0"), &y), GROUPS, EPSILON).relu();
            if doublings > 0 { y.resize_bilinear(2 * y.dim(1), 2 * y.dim(2), true) } else { y }
        })
    }
}

/// Zeros whole channels of an image with probability `rate` and scales the others.
fn channel_dropout(cx: &Scope, x: &Tensor, rate: f64) -> Tensor {
    let _scope = cx.enter();
    match cx.random_key() {
        Some(key) if rate > 0.0 => x.dropout(rate, &key, &[x.dim(0), 1, 1, x.channels()]),
        _ => x.clone(),
    }
}

impl Decoder for FpnDecoder {
    const OUTPUT_STRIDE: usize = MULTIPLE;
    const HEAD_KERNEL: usize = 1;
    const MAP_STRIDE: usize = 4;

    fn set_dropout(&mut self, rate: f64) {
        self.dropout = rate;
    }

    fn decode(&self, cx: &Scope, _: &Tensor, maps: Vec<Tensor>) -> Tensor {
        let lateral = |name: &str, map: &Tensor| {
            Conv2d::new(self.pyramid, 1).init(decoder_init, init::zeros).apply(&cx.at(name), map)
        };
        let mut levels: Vec<Tensor> = Vec::new();
        for (name, map) in ["p5", "p4.skip_conv", "p3.skip_conv", "p2.skip_conv"].into_iter().zip(maps.iter().rev()) {
            let own = lateral(name, map);
            let smaller = levels.last().map(|smaller| smaller.upsample_nearest(2));
            levels.push(smaller.map_or(own.clone(), |smaller| smaller + own));
        }
        let last = levels.len().saturating_sub(1);
        let enlarged = levels
            .iter()
            .enumerate()
            .map(|(number, level)| self.enlarged(&cx.at(format_args!("seg_blocks.{number}")), level, last - number));
        let sum = enlarged.reduce(|sum, level| sum + level).expect("an encoder has maps");
        channel_dropout(&cx.at("dropout"), &sum, self.dropout)
    }
}
