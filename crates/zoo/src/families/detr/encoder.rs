//! The hybrid encoder: attention over the coarsest map, then a pyramid down and up.

use super::attention::self_attention;
use super::{Detr, EPSILON};
use octant_graph::{HostTensor, Tensor};
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, Conv2d, Dense, layer_norm};

/// A 1×1 convolution and a norm.
pub(super) fn projected(cx: &Scope, map: &Tensor, width: usize) -> Tensor {
    let y = Conv2d::new(width, 1).bias(false).apply(&cx.at("0"), map);
    BatchNorm::new().apply(&cx.at("1"), &y)
}

/// A convolution and a norm.
fn conv_norm(cx: &Scope, x: &Tensor, conv: Conv2d) -> Tensor {
    BatchNorm::new().apply(&cx.at("norm"), &conv.bias(false).apply(&cx.at("conv"), x))
}

fn conv(cx: &Scope, x: &Tensor, width: usize, kernel: usize) -> Tensor {
    conv_norm(cx, x, Conv2d::new(width, kernel)).silu()
}

/// The base of the wavelengths of positions.
const TEMPERATURE: f64 = 10_000.0;

/// Sines and cosines of rows and columns, `[1, height · width, width of the tokens]`.
fn positions(like: &Tensor, [height, width]: [usize; 2], features: usize) -> Tensor {
    let quarter = features / 4;
    let wave = |number: usize| TEMPERATURE.powf(-(number as f64) / quarter as f64);
    let mut values: Vec<f32> = Vec::with_capacity(height * width * features);
    for at in 0..height * width {
        for place in [at / width, at % width] {
            values.extend((0..quarter).map(|number| (place as f64 * wave(number)).sin() as f32));
            values.extend((0..quarter).map(|number| (place as f64 * wave(number)).cos() as f32));
        }
    }
    let table = HostTensor::new([1, height * width, 4 * quarter], &values).expect("four parts per pixel");
    like.trace().constant(table)
}

impl Detr {
    /// Maps fine to coarse, all of the encoder's width.
    pub(super) fn pyramid(&self, cx: &Scope, mut maps: Vec<Tensor>) -> Vec<Tensor> {
        let last = maps.len() - 1;
        maps[last] = self.mixed(&cx.at("aifi.0.layers.0"), &maps[last]);
        // Down: what coarse maps know goes to the finer ones.
        let mut down = vec![maps[last].clone()];
        for step in 0..last {
            let lateral = Conv2d::new(self.encoder_width, 1);
            let top = conv_norm(&cx.at(format_args!("lateral_convs.{step}")), &down[step], lateral);
            let top = if self.is_fine() { top } else { top.silu() };
            let joined = Tensor::concatenate(&[top.upsample_nearest(2), maps[last - step - 1].clone()], 3);
            down[step] = top;
            down.push(self.fused(&cx.at(format_args!("fpn_blocks.{step}")), &joined));
        }
        down.reverse();
        let mut up = vec![down[0].clone()];
        for step in 0..last {
            let path = cx.at(format_args!("downsample_convs.{step}"));
            let halved = match self.is_fine() {
                false => conv_norm(&path, &up[step], Conv2d::new(self.encoder_width, 3).stride(2)).silu(),
                true => {
                    let y = conv_norm(&path.at("conv1"), &up[step], Conv2d::new(self.encoder_width, 1));
                    let depthwise = Conv2d::new(self.encoder_width, 3).stride(2).groups(self.encoder_width);
                    conv_norm(&path.at("conv2"), &y, depthwise)
                }
            };
            let joined = Tensor::concatenate(&[halved, down[step + 1].clone()], 3);
            up.push(self.fused(&cx.at(format_args!("pan_blocks.{step}")), &joined));
        }
        up
    }

    /// Attention among the pixels of a map.
    fn mixed(&self, cx: &Scope, map: &Tensor) -> Tensor {
        let [n, height, width, features] = [0, 1, 2, 3].map(|axis| map.dim(axis));
        let x = map.reshape(&[n, height * width, features]);
        let positions = positions(map, [height, width], features).broadcast_to(x.dims());
        let x = &x + self_attention(&cx.at("self_attn"), &x, &positions, None, self.heads);
        let x = layer_norm(&cx.at("self_attn_layer_norm"), &x, EPSILON);
        let y = self.mlp(cx, &x, self.encoder_hidden, Tensor::gelu);
        layer_norm(&cx.at("final_layer_norm"), &(x + y), EPSILON).reshape(map.dims())
    }

    /// A hidden layer at every token, under the names of either network.
    pub(super) fn mlp(&self, cx: &Scope, x: &Tensor, hidden: usize, activation: fn(&Tensor) -> Tensor) -> Tensor {
        let [first, second] = if self.is_fine() { ["mlp.layers.0", "mlp.layers.1"] } else { ["mlp.fc1", "mlp.fc2"] };
        let y = activation(&Dense::new(hidden).apply(&cx.at(first), x));
        Dense::new(x.dim(2)).apply(&cx.at(second), &y)
    }

    /// Two joined maps as one.
    fn fused(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let width = self.encoder_width;
        if !self.is_fine() {
            return self.partial(cx, x, (width as f64 * self.expansion) as usize, width);
        }
        // Layers whose results are all joined at the end, and two of the blocks of the other network between them.
        let inner = (self.expansion * width as f64 / 2.0).floor() as usize;
        let y = conv(&cx.at("conv1"), x, 2 * width, 1);
        let mut parts = vec![y.slice_axis(3, 0, width), y.slice_axis(3, width, 2 * width)];
        for (block, after) in [("csp_rep1", "conv2"), ("csp_rep2", "conv3")] {
            let y = self.partial(&cx.at(block), &parts[parts.len() - 1], inner, inner);
            parts.push(conv(&cx.at(after), &y, inner, 3));
        }
        conv(&cx.at("conv4"), &Tensor::concatenate(&parts, 3), width, 1)
    }

    /// A cross-stage partial block: one half goes through convolutions, 3×3 and 1×1 at a time.
    fn partial(&self, cx: &Scope, x: &Tensor, inner: usize, width: usize) -> Tensor {
        let mut y = conv(&cx.at("conv1"), x, inner, 1);
        for block in 0..self.blocks {
            let cx = cx.at(format_args!("bottlenecks.{block}"));
            let of = |name: &str, kernel: usize| conv_norm(&cx.at(name), &y, Conv2d::new(inner, kernel));
            y = (of("conv1", 3) + of("conv2", 1)).silu();
        }
        let y = y + conv(&cx.at("conv2"), x, inner, 1);
        if inner == width { y } else { conv(&cx.at("conv3"), &y, width, 1) }
    }
}
