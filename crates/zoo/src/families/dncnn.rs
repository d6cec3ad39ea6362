//! DnCNN (Zhang et al., 2017) in the form in which its weights are published for PyTorch: batch norms merged into the
//! convolutions. The network predicts the noise, which is taken off the image.

use crate::Model;
use octant_graph::Tensor;
use octant_nn::Scope;
use octant_nn::layers::Conv2d;

/// The network.
#[derive(Debug, Clone)]
pub struct DnCnn {
    /// Convolutions: 17 for gray images and one level of noise, 20 for color and any level.
    pub depth: usize,
    /// Channels between them.
    pub width: usize,
    /// Channels of images.
    pub channels: usize,
}

impl DnCnn {
    /// The published network for gray images.
    pub const GRAY: DnCnn = DnCnn { depth: 17, width: 64, channels: 1 };
    /// The published network for color images and any level of noise.
    pub const COLOR: DnCnn = DnCnn { depth: 20, width: 64, channels: 3 };
}

impl Model for DnCnn {
    fn classes(&self) -> usize {
        self.channels
    }

    fn reset_head(&mut self, _: usize) {}

    fn head_paths(&self) -> Vec<String> {
        vec![format!("model.{}", 2 * (self.depth - 1))]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        (0..self.depth - 1).fold(images.clone(), |y, number| {
            Conv2d::new(self.width, 3).apply(&cx.at(format_args!("model.{}", 2 * number)), &y).relu()
        })
    }

    /// The noise.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let last = cx.at(format_args!("model.{}", 2 * (self.depth - 1)));
        Conv2d::new(self.channels, 3).apply(&last, features)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let noise = self.head(cx, &self.features(cx, images));
        images.convert(noise.dtype()) - noise
    }
}
