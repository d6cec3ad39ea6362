//! Queries that begin with an object and noise (Zhang et al., "DINO: DETR with Improved DeNoising Anchor Boxes", 2023): they are not
//! matched, so that the decoder learns from its first step on.

use super::selection::Selected;
use super::{Detr, inverse_sigmoid};
use crate::model::{BoxDistribution, SetObjects, SetPrediction};
use octant_graph::{DType, HostTensor, Tensor};
use octant_nn::Scope;

/// About how many such queries there are for the objects of an image, each of them with little noise.
const COUNT: usize = 100;
/// The share of them that another class is given to is half of this.
const RELABELED: f64 = 0.5;
/// What one query must not see of another.
const HIDDEN: f32 = -1e30;

/// What the decoder begins with.
pub(super) struct Queries {
    /// Features, `[n, queries, width]`.
    pub features: Tensor,
    /// Center and size as shares, `[n, queries, 4]`.
    pub boxes: Tensor,
    /// What is added to the scores of attention among them, `[1, 1, queries, queries]`.
    pub bias: Option<Tensor>,
}

impl Queries {
    pub fn of(selected: &Selected) -> Queries {
        Queries { features: selected.queries.clone(), boxes: selected.boxes.stop_gradient(), bias: None }
    }
}

/// Queries of objects with noise.
pub(super) struct Noisy {
    features: Tensor,
    boxes: Tensor,
    pub groups: usize,
}

impl Detr {
    /// As many groups of the objects as there are about a hundred of, each of them once with little noise and once with much. Without
    /// randomness there are none.
    pub(super) fn noisy(&self, cx: &Scope, embedding: &Tensor, objects: &SetObjects) -> Option<Noisy> {
        let key = cx.at("model.denoising").random_key()?;
        let [n, count] = [objects.classes.dim(0), objects.classes.dim(1)];
        let groups = (COUNT / count.max(1)).max(1);
        let all = 2 * groups * count;
        let tiled = |tensor: &Tensor| Tensor::concatenate(&vec![tensor.clone(); 2 * groups], 1);
        let (classes, boxes) = (tiled(&objects.classes.convert(DType::F32)), tiled(&objects.boxes).stop_gradient());
        let exists = tiled(&objects.exists.convert(DType::F32));
        let exists = exists.greater(&exists.scalar_like(0.5));
        let other = (key.fold_in(1).uniform(&[n, all]) * self.classes as f64).floor();
        let chance = key.fold_in(2).uniform(&[n, all]);
        let classes = chance.less(&chance.scalar_like(RELABELED / 2.0)).select(&other, &classes);
        let classes = exists.select(&classes, &classes.full_like(self.classes as f64)).convert(DType::I32);
        // The row that stands for none does not learn.
        let last = self.classes;
        let none = embedding.slice_axis(0, last, last + 1).stop_gradient();
        let table = Tensor::concatenate(&[embedding.slice_axis(0, 0, last), none], 0);
        let features = classes.one_hot(last + 1, DType::F32).reshape(&[n * all, last + 1]).matmul(&table);
        let features = features.reshape(&[n, all, self.width]).convert(cx.dtype());
        // Every edge moves by up to half a side, or by half a side to a whole one.
        let far: Vec<f32> = (0..all).map(|at| if at / count % 2 == 1 { 1.0 } else { 0.0 }).collect();
        let far = embedding.trace().constant(HostTensor::new([1, all, 1], &far).expect("one number per query"));
        let sign = (key.fold_in(3).uniform(&[n, all, 4]) * 2.0).floor() * 2.0 - 1.0;
        let moved = (key.fold_in(4).uniform(&[n, all, 4]) + far.broadcast_to(&[n, all, 4])) * sign;
        let (middle, size) = (boxes.slice_axis(2, 0, 2), boxes.slice_axis(2, 2, 4));
        let half = size * 0.5;
        let edges = Tensor::concatenate(&[&middle - &half, &middle + &half], 2);
        let edges = edges + moved * Tensor::concatenate(&[half.clone(), half], 2);
        let edges = edges.clamp(&edges.scalar_like(0.0), &edges.scalar_like(1.0));
        let (low, high) = (edges.slice_axis(2, 0, 2), edges.slice_axis(2, 2, 4));
        let boxes = Tensor::concatenate(&[(&low + &high) * 0.5, high - low], 2);
        Some(Noisy { features, boxes: inverse_sigmoid(&boxes).logistic(), groups })
    }
}

impl Noisy {
    /// These before the queries that were selected, which do not see them; groups do not see each other.
    pub fn before(&self, selected: &Selected) -> Queries {
        let (noisy, own) = (self.boxes.dim(1), selected.boxes.dim(1));
        let (all, group) = (noisy + own, noisy / self.groups);
        let hidden = |query: usize, key: usize| key < noisy && (query >= noisy || query / group != key / group);
        let bias: Vec<f32> = (0..all * all).map(|at| if hidden(at / all, at % all) { HIDDEN } else { 0.0 }).collect();
        let bias = HostTensor::new([1, 1, all, all], &bias).expect("one number per pair");
        let joined =
            |noisy: &Tensor, own: &Tensor| Tensor::concatenate(&[noisy.clone(), own.convert(noisy.dtype())], 1);
        Queries {
            features: joined(&self.features, &selected.queries),
            boxes: joined(&self.boxes, &selected.boxes).stop_gradient(),
            bias: Some(self.boxes.trace().constant(bias)),
        }
    }
}

impl SetPrediction {
    /// Some of the queries.
    pub(super) fn part(&self, from: usize, to: usize) -> SetPrediction {
        let part = |tensor: &Tensor| tensor.slice_axis(1, from, to);
        let distribution = self.distribution.as_ref().map(|whole| BoxDistribution {
            logits: part(&whole.logits),
            first: part(&whole.first),
            ..whole.clone()
        });
        SetPrediction { boxes: part(&self.boxes), logits: part(&self.logits), distribution }
    }
}
