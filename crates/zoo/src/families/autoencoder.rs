//! A convolutional autoencoder: strided convolutions down to a few numbers per patch, resize convolutions back up, which
//! leave no checkerboard (Odena et al., 2016). It follows no publication; the names are its own.

use crate::Model;
use crate::model::head_size;
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::{Conv2d, Padding};

/// The network.
#[derive(Debug, Clone)]
pub struct AutoEncoder {
    /// How often the image is halved.
    pub depth: usize,
    /// Channels after the first halving; they double at each.
    pub width: usize,
    /// Numbers per position of the code.
    pub code: usize,
    /// Channels of images.
    pub channels: usize,
}

impl AutoEncoder {
    /// Four halvings: 16 numbers for every patch of 16 × 16 pixels.
    pub const STANDARD: AutoEncoder = AutoEncoder { depth: 4, width: 32, code: 16, channels: 3 };
    /// A small one for tests and demonstrations.
    pub const TINY: AutoEncoder = AutoEncoder { depth: 2, width: 8, code: 4, channels: 3 };
}

impl Model for AutoEncoder {
    head_size!(channels);

    fn multiple(&self) -> usize {
        1 << self.depth
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["out".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let halve = |y: Tensor, level: usize| {
            let conv = Conv2d::new(self.width << level, 4).stride(2).padding(Padding::Explicit([(1, 1); 2]));
            conv.apply(&cx.at(format_args!("encoder.{level}")), &y).relu()
        };
        let y = (0..self.depth).fold(images.clone(), halve);
        let code = Conv2d::new(self.code, 1).apply(&cx.at("code"), &y);
        (0..self.depth).rev().fold(code, |y, level| {
            let path = cx.at(format_args!("decoder.{level}"));
            Conv2d::new(self.width << level, 3).apply(&path, &y.upsample_nearest(2)).relu()
        })
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Conv2d::new(self.channels, 3).apply(&cx.at("out"), features)
    }
}
