//! Fine-grained distribution refinement: D-FINE's decoder refines distributions of the distances from a first box to the sides.

use super::noise::Queries;
use super::selection::{head, scores};
use super::{Detr, EPSILON, inverse_sigmoid};
use crate::model::{BoxDistribution, SetPrediction};
use octant_graph::composites::SampledMap;
use octant_graph::{DType, HostTensor, Tensor};
use octant_nn::layers::{Dense, layer_norm};
use octant_nn::{Init, Scope, init};

/// Bins of a distribution but one.
const BINS: usize = 32;
/// The largest interior bin is this share of a side.
const UP: f64 = 0.5;
/// Probabilities of a distribution that its quality is read from.
const TOP: usize = 4;
/// The hidden layer that reads them.
const QUALITY: usize = 64;
/// Beyond this, half-precision training would overflow.
const LARGEST: f64 = 65_504.0;

/// The bins of distances and how boxes follow from them.
pub(super) struct Bins {
    /// What every bin stands for, `[33]`.
    values: Tensor,
    /// `[1]`.
    scale: Tensor,
}

impl Bins {
    /// The variables `up` and `reg_scale`, which stay as they are, decide how far apart bins are: finely around 0, and
    /// coarser the farther out.
    pub fn new(cx: &Scope, scale: f64) -> Bins {
        let scale = cx.statistic("reg_scale", &[1], Init::Constant(scale));
        let up = cx.statistic("up", &[1], Init::Constant(UP));
        let middle = BINS as i64 / 2;
        let row = |value: &dyn Fn(i64) -> f64| {
            let values: Vec<f32> = (-middle..=middle).map(|bin| value(bin) as f32).collect();
            cx.context().trace().constant(HostTensor::new([BINS + 1], &values).expect("one value per bin"))
        };
        let (distance, sign) = (row(&|bin| bin.abs() as f64), row(&|bin| bin.signum() as f64));
        let bound = (up.abs() * scale.abs()).broadcast_to(&[BINS + 1]);
        let step = (&bound + 1.0).log() * (2.0 / (BINS as f64 - 2.0));
        let inner = (step * &distance).exp() - 1.0;
        let is_end = distance.greater(&distance.scalar_like(middle as f64 - 0.5));
        let values = is_end.select(&(bound * 2.0), &inner) * sign;
        Bins { values, scale }
    }

    /// The mean distance of distributions `[n, queries, 4 · 33]`, `[n, queries, 4]`.
    fn mean(&self, logits: &Tensor) -> Tensor {
        let [n, queries] = [logits.dim(0), logits.dim(1)];
        let shares = logits.reshape(&[n, queries, 4, BINS + 1]).softmax(3);
        (shares * &self.values).sum(&[3])
    }

    /// Boxes whose sides lie that far from the centers of others, in units of their sides.
    fn boxes(&self, first: &Tensor, distances: &Tensor) -> Tensor {
        let column = |tensor: &Tensor, index: usize| tensor.slice_axis(2, index, index + 1);
        let scale = self.scale.abs().reshape(&[1, 1, 1]).broadcast_to(&[first.dim(0), first.dim(1), 1]);
        let far =
            |side: usize, length: usize| (&scale * 0.5 + column(distances, side)) * (column(first, length) / &scale);
        let [left, right] = [column(first, 0) - far(0, 2), column(first, 0) + far(2, 2)];
        let [top, bottom] = [column(first, 1) - far(1, 3), column(first, 1) + far(3, 3)];
        let middle = |a: &Tensor, b: &Tensor| (a + b) * 0.5;
        Tensor::concatenate(&[middle(&left, &right), middle(&top, &bottom), right - left, bottom - top], 2)
    }
}

impl Detr {
    /// The prediction of every layer, the first layer's first box before them.
    pub(super) fn refined_distributions(
        &self,
        cx: &Scope,
        queries: &Queries,
        memory: &Tensor,
        maps: &[SampledMap],
        scale: f64,
    ) -> Vec<SetPrediction> {
        let bins = Bins::new(cx, scale);
        let mut boxes = queries.boxes.clone();
        let mut x = queries.features.clone();
        let mut first: Option<Tensor> = None;
        // The features and distributions of the layer before.
        let mut before: Option<[Tensor; 2]> = None;
        let mut predictions = Vec::new();
        let width = self.width;
        for number in 0..self.layers {
            let layer = cx.at(format_args!("layers.{number}"));
            let positions = within(&self.placed(cx, &boxes), 10.0);
            x = self.among_queries(&layer, &x, &positions, queries.bias.as_ref());
            let placed = &x + positions.convert(x.dtype());
            let seen = self.cross_attention(&layer.at("encoder_attn"), &placed, &boxes, memory, maps);
            x = self.gated(&layer.at("gateway"), &x, &seen);
            let y = self.mlp(&layer, &x, self.hidden, Tensor::relu);
            x = layer_norm(&layer.at("final_layer_norm"), &within(&(&x + y), LARGEST), EPSILON);
            let logits = scores(&cx.at(format_args!("class_embed.{number}")), &x, self.classes);
            if number == 0 {
                let moved = head(&cx.at("pre_bbox_head"), &x, &[width, width, 4], false).convert(DType::F32);
                let refined = (moved + inverse_sigmoid(&boxes)).logistic();
                first = Some(refined.stop_gradient());
                predictions.push(SetPrediction { boxes: refined, logits: logits.clone(), distribution: None });
            }
            let Some(first) = &first else { continue };
            let all = [width, width, 4 * (BINS + 1)];
            let embed = cx.at(format_args!("bbox_embed.{number}"));
            let corners = match &before {
                None => head(&embed, &x, &all, true).convert(DType::F32),
                Some([features, corners]) => head(&embed, &(&x + features), &all, true).convert(DType::F32) + corners,
            };
            let refined = bins.boxes(first, &bins.mean(&corners));
            let logits = logits + quality(&cx.at(format_args!("lqe_layers.{number}")), &corners);
            boxes = refined.stop_gradient();
            let distribution = BoxDistribution {
                logits: corners.clone(),
                first: first.clone(),
                bins: bins.values.clone(),
                scale: bins.scale.clone(),
            };
            before = Some([x.stop_gradient(), corners]);
            predictions.push(SetPrediction { boxes: refined, logits, distribution: Some(distribution) });
        }
        predictions
    }

    /// How much of what was known and of what was seen is kept, by two gates.
    fn gated(&self, cx: &Scope, known: &Tensor, seen: &Tensor) -> Tensor {
        let width = self.width;
        let gate = Dense::new(2 * width).init(init::zeros, init::zeros);
        let gates = gate.apply(&cx.at("gate"), &Tensor::concatenate(&[known.clone(), seen.clone()], 2)).logistic();
        let part = |from: usize| gates.slice_axis(2, from, from + width);
        layer_norm(&cx.at("norm"), &(part(0) * known + part(width) * seen), EPSILON)
    }
}

/// How good a box is, by how sure its distributions are: added to its class logits, `[n, queries, 1]` for all classes.
fn quality(cx: &Scope, corners: &Tensor) -> Tensor {
    let [n, queries] = [corners.dim(0), corners.dim(1)];
    let shares = corners.reshape(&[n, queries, 4, BINS + 1]).softmax(3);
    let (largest, _) = shares.top_k(TOP);
    let facts = Tensor::concatenate(&[largest.clone(), largest.mean_keep(&[3])], 3);
    let facts = facts.reshape(&[n, queries, 4 * (TOP + 1)]);
    head(&cx.at("reg_conf"), &facts, &[QUALITY, 1], true).convert(DType::F32)
}

fn within(x: &Tensor, bound: f64) -> Tensor {
    x.clamp(&x.scalar_like(-bound), &x.scalar_like(bound))
}
