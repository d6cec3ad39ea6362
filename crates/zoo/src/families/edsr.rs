//! EDSR (Lim et al., 2017): residual blocks without norms, then pixel shuffles. Names, and the mean that is taken off the
//! images, are those of the authors' PyTorch implementation; values lie within 0 and 255.

use crate::Model;
use octant_graph::{DType, HostTensor, Tensor};
use octant_nn::Scope;
use octant_nn::layers::{Conv2d, pixel_shuffle};

/// The network.
#[derive(Debug, Clone)]
pub struct Edsr {
    /// Residual blocks.
    pub blocks: usize,
    /// Channels of all layers.
    pub width: usize,
    /// How many times larger the output is: 2, 3 or 4.
    pub scale: usize,
}

/// The mean of DIV2K, which the network was made for.
const MEAN: [f32; 3] = [0.4488, 0.4371, 0.4040];

impl Edsr {
    /// The published baseline.
    pub const fn baseline(scale: usize) -> Edsr {
        Edsr { blocks: 16, width: 64, scale }
    }

    fn mean(x: &Tensor) -> Tensor {
        let values = MEAN.map(|mean| mean * 255.0);
        x.trace().constant(HostTensor::new([3], &values).expect("three values")).convert(x.dtype())
    }

    fn block(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let y = Conv2d::new(self.width, 3).apply(&cx.at("body.0"), x).relu();
        x + Conv2d::new(self.width, 3).apply(&cx.at("body.2"), &y)
    }
}

impl Model for Edsr {
    fn classes(&self) -> usize {
        3
    }

    fn reset_head(&mut self, _: usize) {}

    fn enlarges(&self) -> usize {
        self.scale
    }

    fn head_paths(&self) -> Vec<String> {
        vec!["tail.1".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let x = (images - Edsr::mean(images)).convert(cx.dtype());
        let first = Conv2d::new(self.width, 3).apply(&cx.at("head.0"), &x);
        let mut y = first.clone();
        for number in 0..self.blocks {
            y = cx.at(format_args!("body.{number}")).block(&y, |cx, y| self.block(cx, y));
        }
        let mut y = first + Conv2d::new(self.width, 3).apply(&cx.at(format_args!("body.{}", self.blocks)), &y);
        // A scale of 4 doubles twice; a shuffle has no variables, but a number.
        let (steps, factor) = if self.scale == 4 { (2, 2) } else { (1, self.scale) };
        for step in 0..steps {
            let path = cx.at(format_args!("tail.0.{}", 2 * step));
            y = pixel_shuffle(&Conv2d::new(self.width * factor * factor, 3).apply(&path, &y), factor);
        }
        y
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let y = Conv2d::new(3, 3).apply(&cx.at("tail.1"), features).convert(DType::F32);
        &y + Edsr::mean(&y)
    }

    /// The published files hold the mean as two convolutions that never learn.
    fn ignores(&self, key: &str) -> bool {
        key.starts_with("sub_mean.") || key.starts_with("add_mean.")
    }
}
