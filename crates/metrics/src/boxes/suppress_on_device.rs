//! Non-maximum suppression inside a program, for devices from which the scores of all cells would have to be copied.

use super::{FoundBox, Rectangle, Suppression};
use octant_graph::{DType, Shape, Tensor};

/// Left, top, right, bottom, score and class.
const COLUMNS: usize = 6;
/// The score of an answer that is out of the game.
const OUT: f64 = -1.0;

/// What [`suppress`](super::suppress) leaves of answers `[n, cells, 4 + classes]`, as `[n, most · 6]`: left, top, right,
/// bottom, score and class of every answer, the surest first; class −1 after the last one. [`kept`] reads a row.
///
/// Every round keeps the surest answer that is left and drops those of its class that overlap it. That is a pass over the
/// scores per answer, for all images at once, in shapes that depend on nothing; to sort hundreds of thousands of scores per
/// image costs more. No image is cut short.
pub fn suppressed(answers: &Tensor, rules: &Suppression) -> Tensor {
    let answers = answers.convert(DType::F32);
    let [n, cells, columns] = [answers.dim(0), answers.dim(1), answers.dim(2)];
    let corners = [0, 1, 2, 3].map(|index| answers.slice_axis(2, index, index + 1).reshape(&[n, cells]));
    let scores = candidates(&answers.slice_axis(2, 4, columns), rules);
    let trace = answers.trace();
    let kept = trace.full(&Shape::new(DType::F32, [n, rules.most, COLUMNS]), -1.0);
    let carried = [trace.scalar(DType::I32, 0.0), trace.scalar(DType::F32, f64::INFINITY), scores, kept];
    let goes_on = |carried: &[Tensor]| {
        let (round, surest) = (&carried[0], &carried[1]);
        let has_room = round.less(&round.scalar_like(rules.most as f64));
        has_room.and(&surest.greater(&surest.scalar_like(f64::from(rules.score))))
    };
    let results = trace.while_loop(&carried, None, goes_on, |carried| {
        let [round, _, scores, kept] = carried else { unreachable!("four values are carried") };
        self::round(round, scores, kept, &corners, rules)
    });
    results[3].reshape(&[n, rules.most * COLUMNS])
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

/// One answer per image: the carried values after it.
fn round(round: &Tensor, scores: &Tensor, kept: &Tensor, corners: &[Tensor; 4], rules: &Suppression) -> Vec<Tensor> {
    let [n, cells, classes] = [scores.dim(0), scores.dim(1), scores.dim(2)];
    let trace = scores.trace();
    let (surest, index) = scores.reshape(&[n, cells * classes]).arg_max(1);
    let cell = &index / classes as f64;
    let class = &index - &cell * classes as f64;
    let is_at = |position: &Tensor, count: usize| {
        let number = trace.iota(Shape::new(DType::I32, [n, count]), 1);
        number.equal(&position.unsqueeze(1).broadcast_to(&[n, count]))
    };
    let (is_cell, is_class) = (is_at(&cell, cells), is_at(&class, classes));
    // One element of every row is not 0, so the sum is that element.
    let own = corners.each_ref().map(|corner| is_cell.select(corner, &corner.zeros_like()).sum(&[1]));
    let drops = match rules.overlap >= 1.0 {
        true => is_cell,
        false => is_cell.or(&overlaps(corners, &own, rules.overlap)),
    };
    let drops = drops.unsqueeze(2).broadcast_to(scores.dims());
    let drops = drops.and(&is_class.unsqueeze(1).broadcast_to(scores.dims()));
    let [x0, y0, x1, y1] = own;
    let row = [x0, y0, x1, y1, surest.clone(), class.convert(DType::F32)].map(|column| column.unsqueeze(1));
    let row = Tensor::concatenate(&row, 1).unsqueeze(1).broadcast_to(kept.dims());
    let number = trace.iota(kept.shape().with_dtype(DType::I32), 1);
    let is_found = surest.greater(&surest.full_like(f64::from(rules.score)));
    let is_here = number.equal(&round.broadcast_to(kept.dims()));
    let is_here = is_here.and(&is_found.reshape(&[n, 1, 1]).broadcast_to(kept.dims()));
    let scores = drops.select(&scores.full_like(OUT), scores);
    vec![round + 1.0, surest.reduce_max(&[0]), scores, is_here.select(&row, kept)]
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

/// The answers of a row of [`suppressed`].
pub fn kept(row: &[f32]) -> Vec<FoundBox> {
    let is_answer = |answer: &&[f32]| answer[COLUMNS - 1] >= 0.0;
    let answer = |answer: &[f32]| FoundBox {
        class: answer[5] as usize,
        rectangle: Rectangle::of_corners([answer[0], answer[1], answer[2], answer[3]].map(f64::from)),
        score: f64::from(answer[4]),
    };
    row.chunks_exact(COLUMNS).take_while(is_answer).map(answer).collect()
}
