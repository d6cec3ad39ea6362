//! The pixels that become queries.

use super::{Detr, EPSILON, prior};
use octant_graph::composites::SampledMap;
use octant_graph::{DType, HostTensor, Tensor};
use octant_nn::layers::{Dense, layer_norm};
use octant_nn::{Scope, WeightLayout, init};

/// What the decoder begins with.
pub(super) struct Selected {
    /// Features of the queries, without gradient.
    pub queries: Tensor,
    /// Their boxes, center and size as shares.
    pub boxes: Tensor,
    /// Their class logits.
    pub logits: Tensor,
}

/// The side of the boxes that pixels of the finest map begin with, as a share; every coarser one doubles it.
const ANCHOR: f64 = 0.05;
/// Boxes whose center or size is nearer than this to 0 or 1 are not used.
const MARGIN: f32 = 1e-2;

/// Class logits in f32, whose bias begins so that every class is as likely as one among all.
pub(super) fn scores(cx: &Scope, x: &Tensor, classes: usize) -> Tensor {
    let y = Dense::new(classes).bias(false).init(init::glorot_uniform, init::zeros).apply(cx, x).convert(DType::F32);
    let _scope = cx.enter();
    y + cx.param("bias", &[classes], prior(classes), WeightLayout::Same)
}

/// Linear layers with ReLU between them, `layers.N`; with `begins_at_zero` the last one begins as zeros.
pub(super) fn head(cx: &Scope, x: &Tensor, widths: &[usize], begins_at_zero: bool) -> Tensor {
    let mut y = x.clone();
    for (number, &width) in widths.iter().enumerate() {
        let is_last = number + 1 == widths.len();
        let layer = match is_last && begins_at_zero {
            true => Dense::new(width).init(init::zeros, init::zeros),
            false => Dense::new(width),
        };
        y = layer.apply(&cx.at(format_args!("layers.{number}")), &y);
        if !is_last {
            y = y.relu();
        }
    }
    y
}

/// The boxes that pixels begin with as logits `[1, pixels, 4]`, and which of them are used, 1 or 0 `[1, pixels, 1]`.
fn anchors(like: &Tensor, maps: &[SampledMap]) -> (Tensor, Tensor) {
    let (mut logits, mut used): (Vec<f32>, Vec<f32>) = Default::default();
    for (level, map) in maps.iter().enumerate() {
        let side = (ANCHOR * (1u32 << level) as f64) as f32;
        for at in 0..map.height * map.width {
            let x = ((at % map.width) as f32 + 0.5) / map.width as f32;
            let y = ((at / map.width) as f32 + 0.5) / map.height as f32;
            let shares = [x, y, side, side];
            let is_used = shares.iter().all(|share| (MARGIN..1.0 - MARGIN).contains(share) && *share != MARGIN);
            let logit = |share: f32| if is_used { (share / (1.0 - share)).ln() } else { f32::MAX };
            logits.extend(shares.map(logit));
            used.push(f32::from(u8::from(is_used)));
        }
    }
    let table = |width: usize, values: &[f32]| {
        let table = HostTensor::new([1, values.len() / width, width], values).expect("one row per pixel");
        like.trace().constant(table)
    };
    (table(4, &logits), table(1, &used))
}

impl Detr {
    /// The pixels with the highest scores of any class.
    pub(super) fn selected(&self, cx: &Scope, memory: &Tensor, maps: &[SampledMap]) -> Selected {
        let (anchors, used) = anchors(memory, maps);
        let [n, pixels] = [memory.dim(0), memory.dim(1)];
        let kept = memory * used.convert(memory.dtype()).broadcast_to(memory.dims());
        let output = Dense::new(self.width).apply(&cx.at("enc_output.0"), &kept);
        let output = layer_norm(&cx.at("enc_output.1"), &output, EPSILON);
        let logits = scores(&cx.at("enc_score_head"), &output, self.classes);
        let boxes = head(&cx.at("enc_bbox_head"), &output, &[self.width, self.width, 4], true).convert(DType::F32);
        let boxes = boxes + anchors.broadcast_to(&[n, pixels, 4]);
        let (_, best) = logits.reduce_max(&[2]).stop_gradient().top_k(self.queries);
        Selected {
            queries: output.take_rows(&best).stop_gradient(),
            boxes: boxes.take_rows(&best).logistic(),
            logits: logits.take_rows(&best),
        }
    }
}
