//! The convolutional network for Fashion-MNIST of the TPU chapter of "A Concise Handbook of TensorFlow 2": one
//! convolution, one pooling, one linear layer, on raw values from 0 to 255.
//!
//! The reference is Keras: glorot-uniform kernels and zero biases. Names and file layout follow PyTorch, so that the same
//! network written there (`conv`, max-pool, ReLU, flatten, `fc`) reads the file.

use crate::Model;
use crate::model::head_size;
use octant_graph::{Tensor, composites::Pool};
use octant_nn::layers::{Conv2d, Dense, Padding};
use octant_nn::{Scope, WeightLayout, init};

/// The network.
#[derive(Debug, Clone)]
pub struct FashionCnn {
    /// Channels of the convolution.
    pub width: usize,
    /// Size of the head.
    pub classes: usize,
}

impl FashionCnn {
    /// 64 channels, ten classes.
    pub const STANDARD: FashionCnn = FashionCnn { width: 64, classes: 10 };
    /// A small one for tests.
    pub const TINY: FashionCnn = FashionCnn { width: 4, classes: 10 };
}

impl Model for FashionCnn {
    head_size!(classes);

    fn head_paths(&self) -> Vec<String> {
        vec!["fc".into()]
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let conv = Conv2d::new(self.width, 3).padding(Padding::Valid).init(init::glorot_uniform, init::zeros);
        conv.apply(&cx.at("conv"), images).max_pool(Pool::square(2, 2)).relu()
    }

    fn pool(&self, _: &Scope, features: &Tensor) -> Tensor {
        features.flatten_from(1)
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let layout = WeightLayout::Flattened { height: features.dim(1), width: features.dim(2) };
        let dense = Dense::new(self.classes).layout(layout).init(init::glorot_uniform, init::zeros);
        dense.apply(&cx.at("fc"), &self.pool(cx, features))
    }
}
