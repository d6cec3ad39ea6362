//! The loss of detectors that predict a set of boxes: every object is matched with one query, such that the total cost is lowest
//! (Carion et al., "End-to-End Object Detection with Transformers", 2020), for every layer by itself. The weights and the varifocal
//! loss are RT-DETR's (Zhao et al., 2024); the losses of distributions are in `local`.

use super::boxes::{Boxes, giou, iou};
use super::local::Distribution;
use super::{Truth, binary_cross_entropy};
use octant_graph::{DType, Tensor};

/// What the parts of the matching's cost count.
const CLASS_COST: f64 = 2.0;
const DISTANCE_COST: f64 = 5.0;
const OVERLAP_COST: f64 = 2.0;
/// The focal terms of that cost.
const ALPHA: f64 = 0.25;
const GAMMA: f64 = 2.0;
/// The weight of queries without object in the varifocal loss.
const VARIFOCAL: f64 = 0.75;

/// The boxes and class logits of one layer's queries.
#[derive(Debug, Clone)]
pub struct Queries {
    /// Center and size as shares of the image's sides, `[n, queries, 4]`.
    pub boxes: Tensor,
    /// Class logits, `[n, queries, classes]`.
    pub logits: Tensor,
    /// The distributions that the boxes follow from, where they do.
    pub distribution: Option<Distribution>,
}

/// The parts of the loss, summed over layers, as scalars.
#[derive(Debug, Clone)]
pub struct SetLoss {
    /// 1 − generalized IoU.
    pub boxes: Tensor,
    /// Varifocal loss of the classes.
    pub classes: Tensor,
    /// The distance of centers and sizes.
    pub distances: Tensor,
    /// Fine-grained localization: the cross-entropy of distributions, weighted by the overlap.
    pub local: Tensor,
    /// How far distributions are from those of the last layer.
    pub distilled: Tensor,
}

/// Queries that began with an object and noise, in groups that have each object twice: with little noise and with much.
#[derive(Debug, Clone)]
pub struct NoisyQueries {
    /// Those of every layer.
    pub layers: Vec<Queries>,
    /// How many groups there are.
    pub groups: usize,
}

impl SetLoss {
    /// What the parts count: boxes, classes, distances, localization and distillation.
    pub const GAINS: [f64; 5] = [2.0, 1.0, 5.0, 0.15, 1.5];

    /// The loss of all layers, the last one's last. Sums are over objects and divided by their number in the batch; those of noisy
    /// queries also by the number of groups. Distillation is a mean.
    pub fn new(layers: &[Queries], noisy: Option<&NoisyQueries>, truth: &Truth, image: [usize; 2]) -> SetLoss {
        let wanted = Wanted::new(truth, image);
        let found = matched(layers, &wanted);
        let objects = wanted.exists.convert(DType::F32).sum_all();
        let objects = objects.max(&objects.scalar_like(1.0));
        let images = wanted.exists.dim(0);
        let zero = objects.zeros_like();
        let mut sums: [Tensor; 5] = std::array::from_fn(|_| zero.clone());
        let mut add = |parts: [Tensor; 5], count: &Tensor| {
            for (number, (sum, part)) in sums.iter_mut().zip(parts).enumerate() {
                let part = if number == DISTILLED { part } else { part / count };
                *sum = &*sum + part;
            }
        };
        let teacher = layers.last();
        for (layer, queries) in layers.iter().zip(&found) {
            add(losses(layer, queries, &wanted, teacher, images), &objects);
        }
        if let Some(NoisyQueries { layers, groups }) = noisy {
            let layers: Vec<Queries> = layers.iter().map(|layer| layer.in_groups(*groups)).collect();
            let (wanted, teacher) = (wanted.repeated(*groups), layers.last());
            // The first half of a group has the objects in their order.
            let queries = wanted.exists.trace().iota(wanted.exists.shape().with_dtype(DType::I32), 1);
            let count = &objects * *groups as f64;
            for layer in &layers {
                add(losses(layer, &queries, &wanted, teacher, images), &count);
            }
        }
        let [boxes, classes, distances, local, distilled] = sums;
        SetLoss { boxes, classes, distances, local, distilled }
    }

    /// The sum of all parts by what they count.
    pub fn total(&self) -> Tensor {
        let parts = [&self.boxes, &self.classes, &self.distances, &self.local, &self.distilled];
        let weighted = parts.into_iter().zip(SetLoss::GAINS).map(|(part, gain)| part * gain);
        weighted.reduce(|a, b| a + b).expect("there are five parts")
    }
}

/// The part that is a mean already.
const DISTILLED: usize = 4;

impl Queries {
    /// Every group as an element of the batch.
    fn in_groups(&self, groups: usize) -> Queries {
        let split = |tensor: &Tensor| {
            let [n, queries, features] = [0, 1, 2].map(|axis| tensor.dim(axis));
            tensor.reshape(&[n * groups, queries / groups, features])
        };
        let distribution = self.distribution.as_ref().map(|whole| Distribution {
            logits: split(&whole.logits),
            first: split(&whole.first),
            ..whole.clone()
        });
        Queries { boxes: split(&self.boxes), logits: split(&self.logits), distribution }
    }
}

/// The objects, as queries have them.
struct Wanted {
    /// `[n, objects, 4]`.
    boxes: Tensor,
    classes: Tensor,
    exists: Tensor,
}

impl Wanted {
    fn new(truth: &Truth, image: [usize; 2]) -> Wanted {
        let (classes, exists) = (truth.classes.convert(DType::I32), truth.exists.clone());
        Wanted { boxes: truth.shares(image), classes, exists }
    }

    /// The objects of every image so many times, one after another.
    fn repeated(&self, times: usize) -> Wanted {
        let repeat = |tensor: &Tensor| {
            let (n, rest) = (tensor.dim(0), &tensor.dims()[1..]);
            let wide = tensor.unsqueeze(1).broadcast_to(&[&[n, times], rest].concat());
            wide.reshape(&[&[n * times], rest].concat())
        };
        let exists = repeat(&self.exists.convert(DType::F32));
        let exists = exists.greater(&exists.scalar_like(0.5));
        Wanted { boxes: repeat(&self.boxes), classes: repeat(&self.classes), exists }
    }
}

/// Corners of centers and sizes on the last axis.
fn corners(boxes: &Tensor) -> Boxes {
    let axis = boxes.rank() - 1;
    let column = |index| boxes.slice_axis(axis, index, index + 1).reshape(&boxes.dims()[..axis]);
    let [x, y, width, height] = [0, 1, 2, 3].map(column);
    let half = |side: &Tensor| side * 0.5;
    Boxes { x0: &x - half(&width), y0: &y - half(&height), x1: x + half(&width), y1: y + half(&height) }
}

/// The query of every object for each layer, i32 `[n, objects]`. All layers go through one matching.
fn matched(layers: &[Queries], wanted: &Wanted) -> Vec<Tensor> {
    let costs: Vec<Tensor> = layers.iter().map(|layer| costs(layer, wanted)).collect();
    let [n, objects] = [wanted.exists.dim(0), wanted.exists.dim(1)];
    let exists = Tensor::concatenate(&vec![wanted.exists.clone(); layers.len()], 0);
    let found = Tensor::concatenate(&costs, 0).assignment(&exists);
    (0..layers.len()).map(|layer| found.slice_axis(0, layer * n, (layer + 1) * n).reshape(&[n, objects])).collect()
}

/// What it costs to give an object to a query, `[n, objects, queries]`.
fn costs(layer: &Queries, wanted: &Wanted) -> Tensor {
    let (boxes, logits) = (layer.boxes.stop_gradient(), layer.logits.stop_gradient());
    let [n, queries, objects] = [boxes.dim(0), boxes.dim(1), wanted.boxes.dim(1)];
    let share = logits.logistic();
    let cost = |share: &Tensor, weight: f64| {
        let other = 1.0 - share;
        other.pow(&other.full_like(GAMMA)) * -(share + 1e-8).log() * weight
    };
    let classes = cost(&share, ALPHA) - cost(&(1.0 - &share), 1.0 - ALPHA);
    // Few objects times few classes: a product with what is 1 at the object's class needs no gather.
    let hot = wanted.classes.one_hot(logits.dim(2), DType::F32);
    let classes = hot.matmul(&classes.transpose(&[0, 2, 1]));
    let dims = [n, objects, queries];
    let of_query = |tensor: &Tensor| tensor.reshape(&[n, 1, queries]).broadcast_to(&dims);
    let of_object = |tensor: &Tensor| tensor.reshape(&[n, objects, 1]).broadcast_to(&dims);
    let part = |tensor: &Tensor, index: usize| tensor.slice_axis(2, index, index + 1);
    let distance = (0..4)
        .map(|index| (of_query(&part(&boxes, index)) - of_object(&part(&wanted.boxes, index))).abs())
        .reduce(|a, b| a + b)
        .expect("a box has four numbers");
    let overlap =
        giou(&corners(&boxes).map(|edge| of_query(edge)), &corners(&wanted.boxes).map(|edge| of_object(edge)));
    classes * CLASS_COST + distance * DISTANCE_COST - overlap * OVERLAP_COST
}

/// Boxes, classes, distances and localization of one layer, each a sum over the batch, and its distillation from the last one.
fn losses(layer: &Queries, queries: &Tensor, wanted: &Wanted, teacher: Option<&Queries>, images: usize) -> [Tensor; 5] {
    let [n, count, classes] = [layer.logits.dim(0), layer.logits.dim(1), layer.logits.dim(2)];
    let exists = wanted.exists.convert(DType::F32);
    let own = layer.boxes.take_rows(queries);
    let (found, there) = (corners(&own), corners(&wanted.boxes));
    let boxes = ((1.0 - giou(&found, &there)) * &exists).sum_all();
    let distances = ((&own - &wanted.boxes).abs().sum(&[2]) * &exists).sum_all();
    // The score that a query should give to its object's class is how much both overlap.
    let overlap = iou(&found, &there, 0.0).stop_gradient() * &exists;
    let here = queries.one_hot(count, DType::F32) * exists.unsqueeze(2).broadcast_to(&[n, exists.dim(1), count]);
    let class = wanted.classes.one_hot(classes, DType::F32);
    let here = here.transpose(&[0, 2, 1]);
    let is_class = here.matmul(&class);
    let scores = here.matmul(&(class * overlap.unsqueeze(2).broadcast_to(&[n, exists.dim(1), classes])));
    let likely = layer.logits.stop_gradient().logistic();
    let weights = likely.square() * VARIFOCAL * (1.0 - is_class) + &scores;
    let classes = (binary_cross_entropy(&layer.logits, &scores) * weights).sum_all();
    let zero = classes.zeros_like();
    let (mut local, mut distilled) = (zero.clone(), zero);
    if let Some(distribution) = &layer.distribution {
        local = distribution.localization(queries, &there, &overlap);
        let teacher = teacher.and_then(|teacher| Some((teacher.distribution.as_ref()?, &teacher.logits)));
        if let Some((other, logits)) = teacher.filter(|(other, _)| !same(&other.logits, &distribution.logits)) {
            // Which queries have an object, and how much their boxes overlap it.
            let is_matched = here.sum(&[2]);
            let overlap = here.matmul(&overlap.unsqueeze(2)).reshape(&[n, count]);
            distilled = distribution.distillation(other, logits, &is_matched, &overlap, images);
        }
    }
    [boxes, classes, distances, local, distilled]
}

/// Whether two handles are of one value.
fn same(a: &Tensor, b: &Tensor) -> bool {
    a.id() == b.id()
}
