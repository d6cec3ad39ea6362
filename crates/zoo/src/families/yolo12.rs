//! YOLO12 (Tian et al., "YOLOv12: Attention-Centric Real-Time Object Detectors", 2025), from the published table of
//! layers: attention within areas of the image, no pooling block.

use super::yolo::{Block, BoxHead, ClassTower, Scale, Yolo, c3k, c3k2, conv, conv_norm, join_up, pointwise};
use crate::model::CellDetail;
use octant_graph::{AttentionOptions, Tensor};
use octant_nn::layers::Conv2d;
use octant_nn::{Init, Scope, WeightLayout};

/// The sizes n, s, m, l and x.
pub const SIZES: [Scale; 5] = super::yolo11::SIZES;
/// A small one for tests.
pub const TINY: Scale = Scale::new(0.5, 0.25, 256);

/// Channels of one head of attention.
const HEAD: usize = 32;

/// The network of that size.
pub const fn yolo12(scale: Scale, classes: usize) -> Yolo {
    let head = BoxHead { bins: 16, tower: ClassTower::Separable, one_to_one: false, detail: CellDetail::None };
    Yolo { scale, pyramid, head_layer: 21, head, classes }
}

/// Large networks add their input, scaled per channel, and have narrower 1×1 layers behind the attention.
fn large(scale: &Scale) -> bool {
    scale.depth >= 1.0
}

/// What a stage's chain consists of.
#[derive(Debug, Clone, Copy)]
enum Chain {
    /// Pairs of attention blocks over this many areas.
    Attention { areas: usize },
    /// C3 blocks.
    Convolutions,
}

/// A chain of blocks on a narrower map, every link of which is concatenated.
fn a2c2f(scale: &Scale, cx: &Scope, x: &Tensor, features: usize, count: usize, chain: Chain) -> Tensor {
    let mut parts = vec![pointwise(&cx.at("cv1"), x, features / 2)];
    for index in 0..count {
        let next = cx.at(format_args!("m.{index}")).block(&parts[index], |cx, y| match chain {
            Chain::Attention { areas } => {
                (0..2).fold(y.clone(), |y, index| area_block(scale, &cx.at(index), &y, areas))
            }
            Chain::Convolutions => c3k(cx, y, true),
        });
        parts.push(next);
    }
    let y = pointwise(&cx.at("cv2"), &Tensor::concatenate(&parts, 3), features);
    match chain {
        Chain::Attention { .. } if large(scale) => {
            let gamma = cx.param("gamma", &[features], Init::Constant(0.01), WeightLayout::Same);
            x + y * gamma.convert(x.dtype())
        }
        _ => y,
    }
}

/// Attention, then two 1×1 convolutions, the input added to each.
fn area_block(scale: &Scale, cx: &Scope, x: &Tensor, areas: usize) -> Tensor {
    let widening = if large(scale) { 1.2 } else { 2.0 };
    let x = x + area_attention(&cx.at("attn"), x, areas);
    let y = pointwise(&cx.at("mlp.0"), &x, (x.channels() as f64 * widening) as usize);
    let y = conv_norm(&cx.at("mlp.1"), &y, Conv2d::new(x.channels(), 1));
    x + y
}

/// Self-attention among the pixels of each of `areas` strips of rows, and a depthwise convolution of the values.
fn area_attention(cx: &Scope, x: &Tensor, areas: usize) -> Tensor {
    let [batch, height, width, channels] = [0, 1, 2, 3].map(|axis| x.dim(axis));
    let pixels = height * width;
    if !pixels.is_multiple_of(areas) {
        let message = format!("a map of {height}×{width} does not fall into {areas} areas; choose another image size");
        return x.trace().fail(message, x.shape().clone());
    }
    let joint = conv_norm(&cx.at("qkv"), x, Conv2d::new(3 * channels, 1));
    let joint = joint.reshape(&[batch * areas, pixels / areas, channels / HEAD, 3 * HEAD]);
    let part = |index: usize| joint.slice_axis(3, index * HEAD, (index + 1) * HEAD);
    let value = part(2);
    let [mixed, _] = part(0).attention(&part(1), &value, &AttentionOptions::default());
    let position = Conv2d::new(channels, 7).groups(channels);
    let position = conv_norm(&cx.at("pe"), &value.reshape(x.dims()), position);
    conv_norm(&cx.at("proj"), &(mixed.reshape(x.dims()) + position), Conv2d::new(channels, 1))
}

fn pyramid(scale: &Scale, cx: &Scope, images: &Tensor) -> [Tensor; 3] {
    let block = if scale.deep { Block::C3k } else { Block::Bottleneck };
    let down = |index: usize, x: &Tensor, channels| conv(&cx.at(index), x, scale.channels(channels), 3, 2);
    let early = |index: usize, x: &Tensor, channels| {
        c3k2(&cx.at(index), x, scale.channels(channels), scale.repeats(2), 0.25, block)
    };
    let stage = |index: usize, x: &Tensor, channels, count, chain| {
        a2c2f(scale, &cx.at(index), x, scale.channels(channels), scale.repeats(count), chain)
    };
    let join = |x: &Tensor, y: &Tensor| Tensor::concatenate(&[x.clone(), y.clone()], 3);
    let x = down(1, &down(0, images, 64), 128);
    let x = early(2, &x, 256);
    let p3 = early(4, &down(3, &x, 256), 512);
    let p4 = stage(6, &down(5, &p3, 512), 512, 4, Chain::Attention { areas: 4 });
    let p5 = stage(8, &down(7, &p4, 1024), 1024, 4, Chain::Attention { areas: 1 });
    let x11 = stage(11, &join_up(&p5, &p4), 512, 2, Chain::Convolutions);
    let fine = stage(14, &join_up(&x11, &p3), 256, 2, Chain::Convolutions);
    let middle = stage(17, &join(&down(15, &fine, 256), &x11), 512, 2, Chain::Convolutions);
    let x = join(&down(18, &middle, 512), &p5);
    let coarse = c3k2(&cx.at(20), &x, scale.channels(1024), scale.repeats(2), 0.5, Block::C3k);
    [fine, middle, coarse]
}
