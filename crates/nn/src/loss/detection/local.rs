//! Losses of distributions of distances (Peng et al., "D-FINE", 2024): fine-grained localization, and distillation from the last layer
//! into the others.

use super::boxes::Boxes;
use octant_graph::{DType, Tensor};

/// Distributions of the distances from a box to the sides of another.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// Logits of left, top, right and bottom, `[n, queries, 4 · bins]`.
    pub logits: Tensor,
    /// The box, center and size, `[n, queries, 4]`.
    pub first: Tensor,
    /// What every bin stands for, `[bins]`, in ascending order.
    pub bins: Tensor,
    /// How many units of the bins a side of the box has, `[1]`.
    pub scale: Tensor,
}

/// How much distributions are smoothed before they are compared.
const TEMPERATURE: f64 = 5.0;

impl Distribution {
    fn count(&self) -> usize {
        self.bins.dim(0)
    }

    /// The cross-entropy of the distributions at the objects' queries against the two bins beside the true distances, times how
    /// much the boxes overlap: a sum. `queries` and `overlap` are `[n, objects]`, where overlaps of objects that do not exist are 0.
    pub(super) fn localization(&self, queries: &Tensor, wanted: &Boxes, overlap: &Tensor) -> Tensor {
        let [n, objects, bins] = [queries.dim(0), queries.dim(1), self.count()];
        let targets = self.targets(&self.first.stop_gradient().take_rows(queries), wanted);
        let logits = self.logits.take_rows(queries).reshape(&[n, objects, 4, bins]);
        let losses = -(logits.log_softmax(3) * targets).sum(&[3]);
        (losses.sum(&[2]) * overlap.stop_gradient()).sum_all()
    }

    /// The share of every bin, `[n, objects, 4, bins]`: a distance between two bins belongs to both, by how near it is.
    fn targets(&self, first: &Tensor, wanted: &Boxes) -> Tensor {
        let dims = [first.dim(0), first.dim(1)];
        let column = |index: usize| first.slice_axis(2, index, index + 1).reshape(&dims);
        let [x, y, width, height] = [0, 1, 2, 3].map(column);
        let scale = self.scale.abs().reshape(&[1, 1]).broadcast_to(&dims);
        let units = |distance: Tensor, side: &Tensor| distance / (side / &scale + 1e-16) - &scale * 0.5;
        let sides = [
            units(&x - &wanted.x0, &width),
            units(&y - &wanted.y0, &height),
            units(&wanted.x1 - x, &width),
            units(&wanted.y1 - y, &height),
        ];
        let distances = Tensor::concatenate(&sides.map(|side| side.unsqueeze(2)), 2);
        // From every bin to the next one: 0 before it, 1 behind it.
        let steps = self.count() - 1;
        let wide = [dims[0], dims[1], 4, steps];
        let part = |from: usize| self.bins.slice_axis(0, from, from + steps);
        let (low, high) = (part(0), part(1));
        let length = (high - &low).broadcast_to(&wide);
        let along = (distances.unsqueeze(3).broadcast_to(&wide) - low.broadcast_to(&wide)) / length;
        let along = along.clamp(&along.scalar_like(0.0), &along.scalar_like(1.0));
        let ones = along.slice_axis(3, 0, 1).full_like(1.0);
        let entered = Tensor::concatenate(&[ones.clone(), along.clone()], 3);
        let left = Tensor::concatenate(&[along, ones.zeros_like()], 3);
        (entered - left).stop_gradient()
    }

    /// How far these distributions are from a later layer's (Kullback and Leibler's divergence), weighted by the overlap where a
    /// query has an object, and by the later layer's score elsewhere. Both kinds of queries count by the root of their number.
    pub(super) fn distillation(
        &self,
        teacher: &Distribution,
        logits: &Tensor,
        is_matched: &Tensor,
        overlap: &Tensor,
        images: usize,
    ) -> Tensor {
        let [n, queries, bins] = [self.logits.dim(0), self.logits.dim(1), self.count()];
        let split = |tensor: &Tensor| tensor.reshape(&[n, queries, 4, bins]) * (1.0 / TEMPERATURE);
        let wanted = split(&teacher.logits.stop_gradient());
        let shares = wanted.softmax(3);
        let divergence = (shares * (wanted.log_softmax(3) - split(&self.logits).log_softmax(3))).sum(&[3]);
        let score = logits.stop_gradient().logistic().reduce_max(&[2]);
        let has_object = is_matched.greater(&is_matched.scalar_like(0.5));
        let weights = has_object.select(&overlap.stop_gradient(), &score);
        let losses = divergence.sum(&[2]) * weights * (TEMPERATURE * TEMPERATURE);
        let of = |flags: &Tensor| {
            let sides = flags.sum_all() * 4.0;
            let mean = (&losses * flags).sum_all() / sides.max(&sides.scalar_like(1.0));
            (mean, (sides / images as f64).sqrt())
        };
        let flags = has_object.convert(DType::F32);
        let ((with, many), (without, others)) = (of(&flags), of(&(1.0 - &flags)));
        let all = &many + &others;
        (with * many + without * others) / all.max(&all.scalar_like(1e-12))
    }
}
