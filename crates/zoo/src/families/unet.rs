//! U-Net (Ronneberger et al., 2015) with batch norm and padded convolutions, under the names of the brain-segmentation
//! network on PyTorch Hub (Buda et al., 2019). That one ends with a sigmoid; here the output is its logits.

use crate::Model;
use crate::model::head_size;
use octant_graph::{Tensor, composites::Pool};
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, Conv2d, ConvTranspose2d};

/// The network.
#[derive(Debug, Clone)]
pub struct UNet {
    /// Channels of the finest scale; each coarser one has twice as many.
    pub width: usize,
    /// Maps of the head.
    pub classes: usize,
}

impl UNet {
    /// The published network.
    pub const STANDARD: UNet = UNet { width: 32, classes: 1 };
    /// A small one for tests.
    pub const TINY: UNet = UNet { width: 4, classes: 1 };
}

/// Two 3×3 convolutions. The reference repeats the block's short name in the names of its layers.
fn block(cx: &Scope, name: &str, x: &Tensor, width: usize) -> Tensor {
    (1..=2).fold(x.clone(), |y, number| {
        let conv = Conv2d::new(width, 3).bias(false);
        let y = conv.apply(&cx.at(format_args!("{name}conv{number}")), &y);
        BatchNorm::new().apply(&cx.at(format_args!("{name}norm{number}")), &y).relu()
    })
}

impl Model for UNet {
    head_size!(classes);

    /// Four scales, each half the size of the one before, are joined again.
    fn multiple(&self) -> usize {
        16
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["conv".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let mut encoded: Vec<Tensor> = Vec::new();
        let mut y = images.clone();
        for scale in 1..5usize {
            let path = cx.at(format_args!("encoder{scale}"));
            let fine = block(&path, &format!("enc{scale}"), &y, self.width << (scale - 1));
            y = fine.max_pool(Pool::square(2, 2));
            encoded.push(fine);
        }
        y = block(&cx.at("bottleneck"), "bottleneck", &y, self.width << 4);
        for (scale, fine) in (1..5usize).zip(&encoded).rev() {
            let width = self.width << (scale - 1);
            let up = ConvTranspose2d::new(width, 2).apply(&cx.at(format_args!("upconv{scale}")), &y);
            let joined = Tensor::concatenate(&[up, fine.clone()], 3);
            y = block(&cx.at(format_args!("decoder{scale}")), &format!("dec{scale}"), &joined, width);
        }
        y
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Conv2d::new(self.classes, 1).apply(&cx.at("conv"), features)
    }
}
