//! MSHNet (Liu et al., "Infrared Small Target Detection with Scale and Location Sensitivity", CVPR 2024): a U-shaped
//! network of residual blocks with channel and spatial attention, and a head at each of four scales. Names and numbers
//! are those of the authors' code.
//!
//! During warm-up only the finest head is trained and is the output. Afterwards the four heads, enlarged to the
//! image's size, are merged by one more convolution, and the loss uses all five maps.

use crate::Model;
use crate::model::head_size;
use octant_graph::{Tensor, composites::Pool};
use octant_nn::layers::{BatchNorm, Conv2d, Dense};
use octant_nn::{Scope, WeightLayout};

/// The network.
#[derive(Debug, Clone)]
pub struct MshNet {
    /// Channels of the five scales, fine to coarse.
    pub widths: [usize; 5],
    /// Blocks per scale.
    pub depths: [usize; 5],
    /// Maps of each head.
    pub classes: usize,
}

impl MshNet {
    /// The published network.
    pub const STANDARD: MshNet = MshNet { widths: [16, 32, 64, 128, 256], depths: [1, 2, 2, 2, 2], classes: 1 };
    /// A small one for tests: one block per scale. Attention divides channels by 16, so widths stay.
    pub const TINY: MshNet = MshNet { widths: [16, 16, 32, 32, 32], depths: [1; 5], classes: 1 };
}

/// Attention over channels: mean and max of every channel, through one small network.
fn channel_attention(cx: &Scope, x: &Tensor) -> Tensor {
    let dense = |features| Dense::new(features).bias(false).layout(WeightLayout::Pointwise);
    let channels = x.channels();
    let look = |pooled: Tensor| dense(channels / 16).apply(&cx.at("fc1"), &pooled).relu();
    // The second layer adds what it makes of both, which is what it makes of their sum.
    let weights = dense(channels).apply(&cx.at("fc2"), &(look(x.global_avg_pool()) + look(x.global_max_pool())));
    weights.logistic().reshape(&[x.dim(0), 1, 1, channels])
}

/// Attention over pixels: mean and max over channels, through one 7×7 convolution.
fn spatial_attention(cx: &Scope, x: &Tensor) -> Tensor {
    let summary = [x.mean_keep(&[3]), x.max_keep(&[3])];
    Conv2d::new(1, 7).bias(false).apply(&cx.at("conv1"), &Tensor::concatenate(&summary, 3)).logistic()
}

fn block(cx: &Scope, x: &Tensor, width: usize) -> Tensor {
    let shortcut = match x.channels() == width {
        true => x.clone(),
        false => {
            let y = Conv2d::new(width, 1).apply(&cx.at("shortcut.0"), x);
            BatchNorm::new().apply(&cx.at("shortcut.1"), &y)
        }
    };
    let y = Conv2d::new(width, 3).apply(&cx.at("conv1"), x);
    let y = BatchNorm::new().apply(&cx.at("bn1"), &y).relu();
    let y = Conv2d::new(width, 3).apply(&cx.at("conv2"), &y);
    let y = BatchNorm::new().apply(&cx.at("bn2"), &y);
    let y = channel_attention(&cx.at("ca"), &y) * y;
    let y = spatial_attention(&cx.at("sa"), &y) * y;
    (y + shortcut).relu()
}

fn layer(cx: &Scope, x: &Tensor, width: usize, depth: usize) -> Tensor {
    (0..depth).fold(x.clone(), |y, index| cx.at(index).block(&y, |cx, y| block(cx, y, width)))
}

fn enlarge(x: &Tensor, factor: usize) -> Tensor {
    x.resize_bilinear(x.dim(1) * factor, x.dim(2) * factor, true)
}

impl MshNet {
    /// The decoder's four maps of features, fine to coarse.
    fn decoded(&self, cx: &Scope, images: &Tensor) -> [Tensor; 4] {
        let [w0, w1, w2, w3, w4] = self.widths;
        let [d0, d1, d2, d3, d4] = self.depths;
        let half = |x: &Tensor| x.max_pool(Pool::square(2, 2));
        let stem = Conv2d::new(w0, 1).apply(&cx.at("conv_init"), images);
        let e0 = layer(&cx.at("encoder_0"), &stem, w0, d0);
        let e1 = layer(&cx.at("encoder_1"), &half(&e0), w1, d1);
        let e2 = layer(&cx.at("encoder_2"), &half(&e1), w2, d2);
        let e3 = layer(&cx.at("encoder_3"), &half(&e2), w3, d3);
        let middle = layer(&cx.at("middle_layer"), &half(&e3), w4, d4);
        let join = |fine: &Tensor, coarse: &Tensor| Tensor::concatenate(&[fine.clone(), enlarge(coarse, 2)], 3);
        let x3 = layer(&cx.at("decoder_3"), &join(&e3, &middle), w3, d3);
        let x2 = layer(&cx.at("decoder_2"), &join(&e2, &x3), w2, d2);
        let x1 = layer(&cx.at("decoder_1"), &join(&e1, &x2), w1, d1);
        let x0 = layer(&cx.at("decoder_0"), &join(&e0, &x1), w0, d0);
        [x0, x1, x2, x3]
    }

    /// The four heads' maps, each at its own scale.
    fn masks(&self, cx: &Scope, decoded: &[Tensor; 4]) -> Vec<Tensor> {
        let head = |(index, x)| Conv2d::new(self.classes, 1).apply(&cx.at(format_args!("output_{index}")), x);
        decoded.iter().enumerate().map(head).collect()
    }

    /// The merged map.
    fn merged(&self, cx: &Scope, masks: &[Tensor]) -> Tensor {
        let enlarged: Vec<Tensor> = masks.iter().enumerate().map(|(index, mask)| enlarge(mask, 1 << index)).collect();
        Conv2d::new(self.classes, 3).apply(&cx.at("final"), &Tensor::concatenate(&enlarged, 3))
    }
}

impl Model for MshNet {
    head_size!(classes);

    /// Four scales, each half the size of the one before, are joined again.
    fn multiple(&self) -> usize {
        16
    }

    fn head_paths(&self) -> Vec<String> {
        ["output_0", "output_1", "output_2", "output_3", "final"].map(String::from).to_vec()
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let [finest, ..] = self.decoded(cx, images);
        finest
    }

    /// The finest head alone; the merged output needs all scales and is what [`forward`](Model::forward) makes.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        Conv2d::new(self.classes, 1).apply(&cx.at("output_0"), features)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.outputs(cx, images, false).swap_remove(0)
    }

    fn outputs(&self, cx: &Scope, images: &Tensor, warm_up: bool) -> Vec<Tensor> {
        let masks = self.masks(cx, &self.decoded(cx, images));
        let merged = self.merged(cx, &masks);
        match warm_up {
            // What the coarser heads compute is unused and falls away; their variables stay declared.
            true => vec![masks[0].clone()],
            false => std::iter::once(merged).chain(masks).collect(),
        }
    }
}
