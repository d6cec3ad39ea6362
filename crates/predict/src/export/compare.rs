//! Two sets of predictions of one image.

use super::objects::CheckedObject;
use crate::Labels;
use octant_metrics::boxes::{CellRow, Rectangle, Suppression};

/// Scores that differ less than this may be ordered by rounding alone.
pub(super) const MARGIN: f64 = 1e-4;

/// Boxes that overlap this much are the same box.
pub(super) const SAME_BOX: f64 = 0.99;

/// How far two predictions of an image are apart.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Compared {
    /// The largest difference, relative to the largest magnitude of ours.
    pub difference: f64,
    /// The predictions differ.
    pub changed: bool,
    /// Our own scores are within the margin of a threshold or of the runner-up.
    pub is_close: bool,
    /// Pixels of masks that differ.
    pub pixels: usize,
}

impl Compared {
    /// The same predictions, with the difference of the numbers that they were read from.
    pub fn of(self, ours: &[f64], theirs: &[f64]) -> Compared {
        Compared { difference: difference(ours, theirs), ..self }
    }
}

/// The largest difference relative to the largest magnitude of the first; infinite where lengths differ or a number is NaN.
pub(super) fn difference(ours: &[f64], theirs: &[f64]) -> f64 {
    if ours.len() != theirs.len() {
        return f64::INFINITY;
    }
    let largest = ours.iter().fold(0.0, |largest: f64, number| largest.max(number.abs())).max(f64::MIN_POSITIVE);
    ours.iter().zip(theirs).fold(0.0, |worst: f64, (a, b)| {
        let apart = (a - b).abs();
        if apart.is_nan() { f64::INFINITY } else { worst.max(apart / largest) }
    })
}

/// The same for rows of so many numbers whose order means nothing: how far every row of ours is from the nearest of theirs.
pub(super) fn difference_of_sets(ours: &[f64], theirs: &[f64], width: usize) -> f64 {
    if ours.len() != theirs.len() || theirs.iter().any(|number| number.is_nan()) {
        return f64::INFINITY;
    }
    let largest = ours.iter().fold(f64::MIN_POSITIVE, |largest: f64, number| largest.max(number.abs()));
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs()));
    let nearest = |row: &[f64]| theirs.chunks_exact(width).map(|other| apart(row, other)).fold(f64::INFINITY, f64::min);
    ours.chunks_exact(width).map(nearest).fold(0.0, f64::max) / largest
}

/// Numbers without predictions.
pub(super) fn compare_numbers(ours: &[f64], theirs: &[f64]) -> Compared {
    Compared::default().of(ours, theirs)
}

/// Probabilities of classes: the prediction is the likeliest.
pub(super) fn compare_classes(ours: &[f64], theirs: &[f64]) -> Compared {
    let best = |scores: &[f64]| (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let first = best(ours);
    let runner_up = ours.iter().enumerate().filter(|(class, _)| Some(*class) != first).map(|(_, &score)| score);
    let margin = first.map_or(0.0, |first| ours[first]) - runner_up.fold(0.0, f64::max);
    Compared { changed: first != best(theirs), is_close: margin < MARGIN, ..Compared::default() }.of(ours, theirs)
}

/// Probabilities of labels: the predictions are those from their thresholds on, one half where there is none.
pub(super) fn compare_labels(ours: &[f64], theirs: &[f64], thresholds: &[f64]) -> Compared {
    let threshold = |label: usize| thresholds.get(label).copied().unwrap_or(Labels::HALF);
    let differs = |label: usize, other: f64| (ours[label] >= threshold(label)) != (other >= threshold(label));
    let labels = 0..ours.len().min(theirs.len());
    let changed: Vec<usize> = labels.filter(|&label| differs(label, theirs[label])).collect();
    let is_close = changed.iter().all(|&label| (ours[label] - threshold(label)).abs() < MARGIN);
    Compared { changed: !changed.is_empty(), is_close, ..Compared::default() }.of(ours, theirs)
}

/// A number per pixel: the predictions are the pixels above the threshold.
pub(super) fn compare_mask(ours: &[f64], theirs: &[f64], threshold: f64) -> Compared {
    let differs = |&(a, b): &(&f64, &f64)| (*a > threshold) != (*b > threshold);
    let changed: Vec<(&f64, &f64)> = ours.iter().zip(theirs).filter(differs).collect();
    let is_close = changed.iter().all(|(ours, _)| (*ours - threshold).abs() < MARGIN);
    Compared { changed: !changed.is_empty(), is_close, pixels: changed.len(), difference: 0.0 }.of(ours, theirs)
}

/// Marked pixels of the original image; `scores` are ours before they are compared with the threshold, in levels of which
/// 128 is the first that is marked. A level more or less is what a pixel of another level makes of a resized image.
pub(super) fn compare_marks(ours: &[f64], theirs: &[f64], scores: &[f64]) -> Compared {
    const LEVELS: f64 = 2.0;
    let changed = || ours.iter().zip(theirs).zip(scores).filter(|((a, b), _)| a != b);
    let is_close = changed().all(|(_, score)| (score - 127.5).abs() < LEVELS);
    let (pixels, fits) = (changed().count(), ours.len() == theirs.len());
    let difference = if fits { pixels as f64 / ours.len().max(1) as f64 } else { f64::INFINITY };
    Compared { difference, changed: pixels > 0 || !fits, is_close: is_close && fits, pixels }
}

/// The class of every pixel of the original image. Pixels on the border of two classes may fall to either.
pub(super) fn compare_pixels(ours: &[f64], theirs: &[f64]) -> Compared {
    const MOST: f64 = 0.002;
    let (pixels, fits) = (ours.iter().zip(theirs).filter(|(a, b)| a != b).count(), ours.len() == theirs.len());
    let difference = if fits { pixels as f64 / ours.len().max(1) as f64 } else { f64::INFINITY };
    Compared { difference, changed: pixels > 0 || !fits, is_close: difference <= MOST, pixels }
}

/// Objects after suppression; `rows` are ours before it.
pub(super) fn compare_objects(
    ours: &[CheckedObject],
    theirs: &[CheckedObject],
    rows: &[f32],
    row: CellRow,
    rules: &Suppression,
) -> Compared {
    let mut left: Vec<&CheckedObject> = theirs.iter().collect();
    let mut compared = Compared { changed: ours.len() != theirs.len(), ..Compared::default() };
    for object in ours {
        // Boxes that are cut at the border may be the same for several objects.
        let near = left.iter().enumerate().filter(|(_, other)| object.is_near(other));
        let Some((index, _)) = near.min_by(|(_, a), (_, b)| object.apart(a).total_cmp(&object.apart(b))) else {
            compared.changed = true;
            continue;
        };
        let other = left.swap_remove(index);
        let score = (other.found.score - object.found.score).abs();
        let (apart, pixels) = object.detail.apart(&other.detail);
        compared.difference = compared.difference.max(score).max(apart);
        compared.pixels += pixels;
    }
    Compared { is_close: compared.changed && is_close(rows, row, rules), ..compared }
}

/// How much two boxes overlap; boxes without area do where they are at the same pixel.
pub(super) fn overlap(a: &Rectangle, b: &Rectangle) -> f64 {
    let near = |a: f64, b: f64| (a - b).abs() < 0.1;
    let is_same = near(a.x, b.x) && near(a.y, b.y) && near(a.width, b.width) && near(a.height, b.height);
    if is_same { 1.0 } else { a.iou(b) }
}

/// Whether rounding may decide which boxes are kept: a score is at the threshold or as high as that of another class, two boxes
/// of a class overlap as much as the limit, or two that exclude each other have the same score.
fn is_close(rows: &[f32], row: CellRow, rules: &Suppression) -> bool {
    let limit = f64::from(rules.score);
    let mut candidates: Vec<(usize, f64, usize)> = Vec::new();
    for (cell, numbers) in rows.chunks_exact(row.width()).enumerate() {
        let scores: Vec<f64> = numbers[4..4 + row.classes].iter().map(|&score| f64::from(score)).collect();
        let Some(class) = (0..row.classes).max_by(|&a, &b| scores[a].total_cmp(&scores[b])) else { continue };
        let score = scores[class];
        let others = (0..row.classes).filter(|&other| other != class);
        let runner_up = others.map(|other| scores[other]).fold(0.0, f64::max);
        if (score - limit).abs() < MARGIN || score > limit && score - runner_up < MARGIN {
            return true;
        }
        if score > limit {
            candidates.push((class, score, cell));
        }
    }
    candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
    let overlap = |a: usize, b: usize| match row.rotated {
        true => row.rectangle(rows, a).prob_iou(&row.rectangle(rows, b)),
        false => {
            let [a, b] = [a, b].map(|cell| {
                let corners = &rows[cell * row.width()..][..4];
                Rectangle::of_corners([corners[0], corners[1], corners[2], corners[3]].map(f64::from))
            });
            a.iou(&b)
        }
    };
    // Boxes beyond the last one that is returned are cut off by their scores.
    let is_cut = candidates.len() > rules.most;
    let is_undecided = |(index, &(class, score, cell)): (usize, &(usize, f64, usize))| {
        candidates[index + 1..].iter().any(|&(other_class, other_score, other)| {
            let tie = score - other_score < MARGIN;
            let overlap = if class == other_class { overlap(cell, other) } else { 0.0 };
            let meets = class == other_class && (overlap - f64::from(rules.overlap)).abs() < MARGIN;
            meets || tie && (is_cut || overlap > f64::from(rules.overlap))
        })
    };
    candidates.iter().enumerate().any(is_undecided)
}

#[cfg(test)]
mod tests {
    use super::super::objects::CheckedDetail;
    use super::*;
    use octant_metrics::boxes::PredictedBox;

    #[test]
    fn another_class_counts_unless_ours_was_undecided() {
        let sure = compare_classes(&[0.2, 0.8], &[0.9, 0.1]);
        assert_eq!((sure.changed, sure.is_close), (true, false));
        assert!((sure.difference - 0.875).abs() < 1e-9);
        let undecided = compare_classes(&[0.50001, 0.49999], &[0.49999, 0.50001]);
        assert_eq!((undecided.changed, undecided.is_close), (true, true));
        assert!(!compare_classes(&[0.2, 0.8], &[0.21, 0.79]).changed);
        assert!(compare_numbers(&[1.0], &[f64::NAN]).difference.is_infinite());
    }

    #[test]
    fn pixels_count_unless_they_are_at_the_threshold() {
        let clear = compare_mask(&[-1.0, 2.0, 0.00001], &[1.0, 2.0, -0.00001], 0.0);
        assert_eq!((clear.changed, clear.is_close, clear.pixels), (true, false, 2));
        let close = compare_mask(&[-1.0, 2.0, 0.00001], &[-1.0, 2.0, -0.00001], 0.0);
        assert_eq!((close.changed, close.is_close, close.pixels), (true, true, 1));
    }

    #[test]
    fn marks_count_unless_their_scores_are_at_the_threshold() {
        let of = |scores: &[f64]| compare_marks(&[0.0, 255.0], &[255.0, 255.0], scores);
        assert_eq!((of(&[127.0, 200.0]).is_close, of(&[127.0, 200.0]).pixels), (true, 1));
        assert_eq!((of(&[100.0, 200.0]).is_close, of(&[100.0, 200.0]).difference), (false, 0.5));
    }

    #[test]
    fn a_missing_box_counts_unless_its_score_is_at_the_threshold() {
        let rules = Suppression::prediction();
        let corners = Rectangle::of_corners([0.0, 0.0, 10.0, 10.0]);
        let of = |score: f64| {
            let found = PredictedBox { class: 0, rectangle: corners, score };
            CheckedObject { found, detail: CheckedDetail::None }
        };
        let cells = CellRow { classes: 2, ..CellRow::default() };
        let row = |score: f32| [0.0, 0.0, 10.0, 10.0, score, 0.0];
        let missing = compare_objects(&[of(0.9)], &[], &row(0.9), cells, &rules);
        assert_eq!((missing.changed, missing.is_close), (true, false));
        let close = compare_objects(&[of(0.25005)], &[], &row(0.25005), cells, &rules);
        assert_eq!((close.changed, close.is_close), (true, true));
        let near = |shift: f32| [[0.0, 0.0, 10.0, 10.0, 0.9, 0.0], [0.0, 0.0, 10.0, 9.0, 0.9 - shift, 0.0]].concat();
        let tie = compare_objects(&[of(0.9)], &[], &near(0.00001), cells, &rules);
        assert_eq!((tie.changed, tie.is_close), (true, true), "either of two boxes may be kept");
        let decided = compare_objects(&[of(0.9)], &[], &near(0.1), cells, &rules);
        assert_eq!((decided.changed, decided.is_close), (true, false));
        let moved = compare_objects(&[of(0.9)], &[of(0.8)], &row(0.9), cells, &rules);
        assert!(!moved.changed && (moved.difference - 0.1).abs() < 1e-9);
    }
}
