//! Non-maximum suppression inside a program, for devices from which the scores of all cells would have to be copied.

use super::{PredictedBox, Rectangle, Suppression};
use octant_graph::{DType, Gather, Scatter, ScatterKind, Shape, Tensor};

/// Left, top, right, bottom, score and class.
const COLUMNS: usize = 6;
/// The score of a prediction that is not a candidate.
const OUT: f64 = -1.0;

/// What [`suppress`](super::suppress) leaves of predictions `[n, cells, 4 + classes]`, as `[n, most · 6]`: left, top, right,
/// bottom, score and class of every prediction, the highest score first; class −1 after the last one. [`kept`] reads a row.
///
/// Every round keeps the highest-scoring prediction that is left and drops those of its class that overlap it, for all
/// images at once, in shapes that depend on nothing. The highest-scoring prediction of every class is known, so a round
/// reads and writes the scores of one class per image; to sort hundreds of thousands of scores per image costs more. No
/// image is cut short.
pub fn suppressed(predictions: &Tensor, rules: &Suppression) -> Tensor {
    let predictions = predictions.convert(DType::F32);
    let [n, cells, columns] = [predictions.dim(0), predictions.dim(1), predictions.dim(2)];
    let corners = [0, 1, 2, 3].map(|index| predictions.slice_axis(2, index, index + 1).reshape(&[n, cells]));
    let scores = candidates(&predictions.slice_axis(2, 4, columns), rules).transpose(&[0, 2, 1]);
    let trace = predictions.trace();
    let kept = trace.full(&Shape::new(DType::F32, [n, rules.most, COLUMNS]), -1.0);
    let (best, best_cell) = scores.arg_max(2);
    let carried =
        [trace.scalar(DType::I32, 0.0), trace.scalar(DType::F32, f64::INFINITY), scores, best, best_cell, kept];
    let continues = |carried: &[Tensor]| {
        let (round, highest) = (&carried[0], &carried[1]);
        let has_room = round.less(&round.scalar_like(rules.most as f64));
        has_room.and(&highest.greater(&highest.scalar_like(f64::from(rules.score))))
    };
    let results = trace.while_loop(&carried, None, continues, |carried| {
        let [round, _, scores, best, best_cell, kept] = carried else { unreachable!("six values are carried") };
        let left = Remaining { scores, best, best_cell };
        self::round(round, &left, kept, &corners, rules)
    });
    results[5].reshape(&[n, rules.most * COLUMNS])
}

/// Predictions that are neither kept nor dropped yet.
struct Remaining<'a> {
    /// `[n, classes, cells]`; [`OUT`] for all others.
    scores: &'a Tensor,
    /// The largest score of every class, `[n, classes]`.
    best: &'a Tensor,
    /// The first cell that has it, `[n, classes]`.
    best_cell: &'a Tensor,
}

impl Remaining<'_> {
    /// The highest-scoring prediction of every image: score, cell and class. Of equal ones the first cell counts, then the
    /// first class, as on the host.
    fn highest(&self) -> [Tensor; 3] {
        let classes = self.best.dim(1);
        let highest = self.best.reduce_max(&[1]);
        let is_highest = self.best.equal(&highest.unsqueeze(1).broadcast_to(self.best.dims()));
        let class = self.best.trace().iota(self.best_cell.shape().clone(), 1);
        let index = self.best_cell * classes as f64 + class;
        let index = is_highest.select(&index, &index.full_like(f64::from(i32::MAX))).reduce_min(&[1]);
        let cell = &index / classes as f64;
        let class = &index - &cell * classes as f64;
        [highest, cell, class]
    }
}

/// Scores that may be kept, `[n, cells, classes]`; all others are [`OUT`].
fn candidates(scores: &Tensor, rules: &Suppression) -> Tensor {
    let classes = scores.dim(2);
    let mut stays = scores.greater(&scores.full_like(f64::from(rules.score)));
    let number = scores.trace().iota(scores.shape().with_dtype(DType::I32), 2);
    if !rules.only.is_empty() {
        let is_wanted = |class: &usize| number.equal(&number.full_like(*class as f64));
        let wanted = rules.only.iter().filter(|class| **class < classes).map(is_wanted);
        let none = number.less(&number.zeros_like());
        stays = stays.and(&wanted.fold(none, |all, one| all.or(&one)));
    }
    let scores = stays.select(scores, &scores.full_like(OUT));
    if rules.several_classes {
        return scores;
    }
    let (_, best) = scores.arg_max(2);
    let is_best = number.equal(&best.unsqueeze(2).broadcast_to(scores.dims()));
    is_best.select(&scores, &scores.full_like(OUT))
}

/// One prediction per image: the carried values after it.
fn round(round: &Tensor, left: &Remaining, kept: &Tensor, corners: &[Tensor; 4], rules: &Suppression) -> Vec<Tensor> {
    let [n, classes, cells] = [0, 1, 2].map(|axis| left.scores.dim(axis));
    let trace = kept.trace();
    let [highest, cell, class] = left.highest();
    let is_at = |position: &Tensor, count: usize| {
        let number = trace.iota(Shape::new(DType::I32, [n, count]), 1);
        number.equal(&position.unsqueeze(1).broadcast_to(&[n, count]))
    };
    let is_cell = is_at(&cell, cells);
    // One element of every row is not 0, so the sum is that element.
    let own = corners.each_ref().map(|corner| is_cell.select(corner, &corner.zeros_like()).sum(&[1]));
    let drops = match rules.overlap >= 1.0 {
        true => is_cell,
        false => is_cell.or(&overlaps(corners, &own, rules.overlap)),
    };
    let of_class = OfClass::new(&class);
    let scores = of_class.read(left.scores);
    let scores = drops.select(&scores.full_like(OUT), &scores);
    let (best, best_cell) = scores.arg_max(1);
    let is_class = is_at(&class, classes);
    let replaced = |all: &Tensor, one: &Tensor| is_class.select(&one.unsqueeze(1).broadcast_to(all.dims()), all);
    let [x0, y0, x1, y1] = own;
    let row = [x0, y0, x1, y1, highest.clone(), class.convert(DType::F32)].map(|column| column.unsqueeze(1));
    let row = Tensor::concatenate(&row, 1).unsqueeze(1).broadcast_to(kept.dims());
    let number = trace.iota(kept.shape().with_dtype(DType::I32), 1);
    let is_found = highest.greater(&highest.full_like(f64::from(rules.score)));
    let is_here = number.equal(&round.broadcast_to(kept.dims()));
    let is_here = is_here.and(&is_found.reshape(&[n, 1, 1]).broadcast_to(kept.dims()));
    vec![
        round + 1.0,
        highest.reduce_max(&[0]),
        of_class.lowered(left.scores, &scores),
        replaced(left.best, &best),
        replaced(left.best_cell, &best_cell),
        is_here.select(&row, kept),
    ]
}

/// Rows `[n, cells]` of one class per image in `[n, classes, cells]`. Images are named in the index vectors, so that
/// partitioners see that every device finds its images at home.
struct OfClass {
    indices: Tensor,
}

impl OfClass {
    fn new(class: &Tensor) -> OfClass {
        let image = class.trace().iota(class.shape().clone(), 0);
        OfClass { indices: Tensor::concatenate(&[image.unsqueeze(1), class.unsqueeze(1)], 1) }
    }

    fn read(&self, scores: &Tensor) -> Tensor {
        let gather = Gather {
            offset_axes: vec![1],
            collapsed_axes: vec![0, 1],
            start_index_map: vec![0, 1],
            index_vector_axis: 1,
            slice_sizes: vec![1, 1, scores.dim(2)],
        };
        scores.gather(&self.indices, gather)
    }

    /// The rows replaced by others that are nowhere larger. A minimum, because updates that overwrite need an order.
    fn lowered(&self, scores: &Tensor, rows: &Tensor) -> Tensor {
        let scatter = Scatter {
            update_window_axes: vec![1],
            inserted_window_axes: vec![0, 1],
            scatter_axes: vec![0, 1],
            index_vector_axis: 1,
            kind: ScatterKind::Min,
        };
        scores.scatter(&self.indices, rows, scatter)
    }
}

/// Which boxes overlap the image's `own` one more than that, `[n, cells]`.
fn overlaps(corners: &[Tensor; 4], own: &[Tensor; 4], limit: f32) -> Tensor {
    let [x0, y0, x1, y1] = corners;
    let own = own.each_ref().map(|corner| corner.unsqueeze(1).broadcast_to(x0.dims()));
    let length = |low: &Tensor, high: &Tensor| (high - low).max(&low.zeros_like());
    let common = length(&x0.max(&own[0]), &x1.min(&own[2])) * length(&y0.max(&own[1]), &y1.min(&own[3]));
    let area = (x1 - x0) * (y1 - y0) + (&own[2] - &own[0]) * (&own[3] - &own[1]);
    // Without a quotient: two empty boxes do not overlap.
    common.greater(&((area - &common) * f64::from(limit)))
}

/// The predictions of a row of [`suppressed`].
pub fn kept(row: &[f32]) -> Vec<PredictedBox> {
    let is_prediction = |prediction: &&[f32]| prediction[COLUMNS - 1] >= 0.0;
    let prediction = |prediction: &[f32]| PredictedBox {
        class: prediction[5] as usize,
        rectangle: Rectangle::of_corners([prediction[0], prediction[1], prediction[2], prediction[3]].map(f64::from)),
        score: f64::from(prediction[4]),
    };
    row.chunks_exact(COLUMNS).take_while(is_prediction).map(prediction).collect()
}
