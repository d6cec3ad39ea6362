//! A small convolutional network for small images: 3×3 convolutions with batch norms (Ioffe and Szegedy, 2015), twice as wide
//! after each of two poolings, and the mean over positions at the end, as in VGG and its successors. A minute of two
//! processor cores trains it.
//!
//! Names and file layout follow PyTorch: `conv1`, `bn1` … `conv4`, `bn4`, `fc`.

use crate::Model;
use crate::model::head_size;
use octant_graph::{Tensor, composites::Pool};
use octant_nn::layers::{BatchNorm, Conv2d, Dense};
use octant_nn::{Scope, init};

/// The network.
#[derive(Debug, Clone)]
pub struct SmallCnn {
    /// Channels of the first convolution; the later ones have two and four times as many.
    pub width: usize,
    /// Size of the head.
    pub classes: usize,
}

impl SmallCnn {
    /// 16 to 64 channels, 61,000 parameters.
    pub const STANDARD: SmallCnn = SmallCnn { width: 16, classes: 10 };
    /// A small one for tests.
    pub const TINY: SmallCnn = SmallCnn { width: 4, classes: 10 };
}

impl Model for SmallCnn {
    head_size!(classes);

    fn head_paths(&self) -> Vec<String> {
        vec!["fc".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let layer = |number: usize, x: &Tensor, width: usize| {
            let conv = Conv2d::new(width, 3).bias(false).init(init::kaiming_normal_fan_out, init::zeros);
            let y = conv.apply(&cx.at(format_args!("conv{number}")), x);
            BatchNorm::new().apply(&cx.at(format_args!("bn{number}")), &y).relu()
        };
        let y = layer(1, images, self.width).max_pool(Pool::square(2, 2));
        let y = layer(2, &y, 2 * self.width).max_pool(Pool::square(2, 2));
        let y = layer(3, &y, 4 * self.width);
        layer(4, &y, 4 * self.width)
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Dense::new(self.classes).apply(&cx.at("fc"), &self.pool(cx, features))
    }
}
