//! The blocks that YOLOv8, 11, 12 and 26 share. Every convolution is followed by a batch norm and, unless it says otherwise, by
//! SiLU.

use octant_graph::{AttentionOptions, Tensor, composites::Pool};
use octant_nn::Scope;
use octant_nn::layers::{BatchNorm, Conv2d};

/// The batch norm of the detectors; that of the classifiers is PyTorch's.
fn detectors_norm() -> BatchNorm {
    BatchNorm::new().epsilon(1e-3).momentum(0.03)
}

/// A convolution and its batch norm, without an activation.
pub(in super::super) fn conv_norm(cx: &Scope, x: &Tensor, conv: Conv2d) -> Tensor {
    let y = conv.bias(false).apply(&cx.at("conv"), x);
    cx.norm().unwrap_or_else(detectors_norm).apply(&cx.at("bn"), &y)
}

/// Convolution, batch norm, SiLU.
pub(in super::super) fn conv(cx: &Scope, x: &Tensor, features: usize, kernel: usize, stride: usize) -> Tensor {
    conv_norm(cx, x, Conv2d::new(features, kernel).stride(stride)).silu()
}

/// A 1×1 convolution with batch norm and SiLU.
pub(in super::super) fn pointwise(cx: &Scope, x: &Tensor, features: usize) -> Tensor {
    conv(cx, x, features, 1, 1)
}

/// The two halves of the channels.
fn split_half(x: &Tensor) -> [Tensor; 2] {
    let half = x.channels() / 2;
    [x.slice_axis(3, 0, half), x.slice_axis(3, half, 2 * half)]
}

/// A coarse map enlarged to the size of a finer one, with that one behind it.
pub(in super::super) fn join_up(coarse: &Tensor, fine: &Tensor) -> Tensor {
    Tensor::concatenate(&[coarse.upsample_nearest(2), fine.clone()], 3)
}

/// Two 3×3 convolutions, `hidden` channels between them, and the input added if `shortcut`.
fn bottleneck(cx: &Scope, x: &Tensor, hidden: usize, shortcut: bool) -> Tensor {
    let y = conv(&cx.at("cv1"), x, hidden, 3, 1);
    let y = conv(&cx.at("cv2"), &y, x.channels(), 3, 1);
    if shortcut { x + y } else { y }
}

/// C3 with two bottlenecks of full width: one half of the channels goes through them, the other past them.
pub(in super::super) fn c3k(cx: &Scope, x: &Tensor, shortcut: bool) -> Tensor {
    let hidden = x.channels() / 2;
    let y = pointwise(&cx.at("cv1"), x, hidden);
    let y = (0..2).fold(y, |y, index| bottleneck(&cx.at(format_args!("m.{index}")), &y, hidden, shortcut));
    let past = pointwise(&cx.at("cv2"), x, hidden);
    pointwise(&cx.at("cv3"), &Tensor::concatenate(&[y, past], 3), x.channels())
}

/// Half of the channels goes through a chain of blocks; every link of the chain and the other half are concatenated.
fn chained(
    cx: &Scope,
    x: &Tensor,
    features: usize,
    hidden: usize,
    count: usize,
    block: impl Fn(&Scope, &Tensor) -> Tensor,
) -> Tensor {
    let mut parts = split_half(&pointwise(&cx.at("cv1"), x, 2 * hidden)).to_vec();
    for index in 0..count {
        let next = cx.at(format_args!("m.{index}")).block(&parts[parts.len() - 1], &block);
        parts.push(next);
    }
    pointwise(&cx.at("cv2"), &Tensor::concatenate(&parts, 3), features)
}

/// C2f of YOLOv8: a chain of bottlenecks of full width.
pub(in super::super) fn c2f(cx: &Scope, x: &Tensor, features: usize, count: usize, shortcut: bool) -> Tensor {
    let hidden = features / 2;
    chained(cx, x, features, hidden, count, |cx, y| bottleneck(cx, y, hidden, shortcut))
}

/// What the chain of a [`c3k2`] consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Block {
    /// Bottlenecks of half the width.
    Bottleneck,
    /// C3 blocks.
    C3k,
    /// A bottleneck and attention.
    Attention,
}

/// C3k2 of YOLO11: a chain of small blocks over `expansion` of the features.
pub(in super::super) fn c3k2(
    cx: &Scope,
    x: &Tensor,
    features: usize,
    count: usize,
    expansion: f64,
    block: Block,
) -> Tensor {
    let hidden = (features as f64 * expansion) as usize;
    chained(cx, x, features, hidden, count, |cx, y| match block {
        Block::Bottleneck => bottleneck(cx, y, hidden / 2, true),
        Block::C3k => c3k(cx, y, true),
        Block::Attention => {
            let y = bottleneck(&cx.at("0"), y, hidden / 2, true);
            attention_block(&cx.at("1"), &y, (hidden / 64).max(1))
        }
    })
}

/// Fast spatial pyramid pooling: three max pools one after another, all concatenated. YOLO26 has no activation in front
/// of the pools and adds the input (`residual`).
pub(in super::super) fn sppf(cx: &Scope, x: &Tensor, features: usize, residual: bool) -> Tensor {
    let narrow = Conv2d::new(x.channels() / 2, 1);
    let y = conv_norm(&cx.at("cv1"), x, narrow);
    let mut maps = vec![if residual { y } else { y.silu() }];
    for index in 0..3 {
        maps.push(maps[index].max_pool(Pool::square(5, 1).padded(2)));
    }
    let y = pointwise(&cx.at("cv2"), &Tensor::concatenate(&maps, 3), features);
    if residual && x.channels() == features { x + y } else { y }
}

/// Half of the channels goes through blocks of attention and of 1×1 convolutions.
pub(in super::super) fn c2psa(cx: &Scope, x: &Tensor, count: usize) -> Tensor {
    let hidden = x.channels() / 2;
    let [past, mut y] = split_half(&pointwise(&cx.at("cv1"), x, 2 * hidden));
    for index in 0..count {
        y = cx.at(format_args!("m.{index}")).block(&y, |cx, y| attention_block(cx, y, hidden / 64));
    }
    pointwise(&cx.at("cv2"), &Tensor::concatenate(&[past, y], 3), x.channels())
}

/// Attention, then two 1×1 convolutions, the input added to each.
fn attention_block(cx: &Scope, x: &Tensor, heads: usize) -> Tensor {
    let x = x + position_attention(&cx.at("attn"), x, heads);
    let y = pointwise(&cx.at("ffn.0"), &x, 2 * x.channels());
    let y = conv_norm(&cx.at("ffn.1"), &y, Conv2d::new(x.channels(), 1));
    x + y
}

/// Self-attention over pixels whose queries and keys have half the features of the values; a depthwise convolution of the
/// values says where each one lies.
fn position_attention(cx: &Scope, x: &Tensor, heads: usize) -> Tensor {
    let [batch, height, width, channels] = [0, 1, 2, 3].map(|axis| x.dim(axis));
    let heads = heads.max(1);
    let features = channels / heads;
    let keys = features / 2;
    let joint = conv_norm(&cx.at("qkv"), x, Conv2d::new(channels + 2 * keys * heads, 1));
    let joint = joint.reshape(&[batch, height * width, heads, 2 * keys + features]);
    let part = |from: usize, to: usize| joint.slice_axis(3, from, to);
    let (query, key, value) = (part(0, keys), part(keys, 2 * keys), part(2 * keys, 2 * keys + features));
    let [mixed, _] = query.attention(&key, &value, &AttentionOptions::default());
    let position = Conv2d::new(channels, 3).groups(channels);
    let position = conv_norm(&cx.at("pe"), &value.reshape(x.dims()), position);
    conv_norm(&cx.at("proj"), &(mixed.reshape(x.dims()) + position), Conv2d::new(channels, 1))
}
