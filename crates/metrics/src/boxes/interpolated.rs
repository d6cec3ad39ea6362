//! Average precision as Ultralytics prints it: a prediction is paired with the object that it overlaps most and with no other,
//! an object with the highest-scoring of its predictions, and precision is interpolated linearly between points of recall.

use super::coco::thresholds;
use super::matching::THRESHOLDS;
use super::{BoxScores, ClassBoxes, by_score, envelope};
use crate::in_parts;

/// Average precision per class and threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Interpolated {
    /// Classes that have objects, and their average precision at 0.50, 0.55 … 0.95.
    pub per_class: Vec<(usize, [f64; THRESHOLDS])>,
}

impl Interpolated {
    /// The mean over classes and thresholds; NaN where there is no object.
    pub fn map50_95(&self) -> f64 {
        self.mean(|row| row.iter().sum::<f64>() / row.len() as f64)
    }

    /// The mean over classes at 0.50.
    pub fn map50(&self) -> f64 {
        self.mean(|row| row[0])
    }

    fn mean(&self, of_class: impl Fn(&[f64; THRESHOLDS]) -> f64) -> f64 {
        let sum: f64 = self.per_class.iter().map(|(_, row)| of_class(row)).sum();
        crate::defined_ratio(sum, self.per_class.len() as f64)
    }
}

/// A prediction of one class: its score, and at which thresholds it found an object.
pub(super) struct ScoredPrediction {
    pub score: f64,
    pub right: [bool; THRESHOLDS],
}

/// All predictions of one class, the highest score first.
pub(super) struct ScoredClass {
    pub class: usize,
    pub predictions: Vec<ScoredPrediction>,
    /// Groups not counted.
    pub objects: usize,
}

impl BoxScores {
    /// Average precision by Ultralytics' rules. Groups are left out: its label files have none.
    pub fn interpolated(&self) -> Interpolated {
        Interpolated::of(&scored(&self.uncut_by_class()))
    }
}

impl Interpolated {
    pub(super) fn of(scored: &[ScoredClass]) -> Interpolated {
        let of_class = |scored: &ScoredClass| {
            let average = |threshold| average_precision(&scored.predictions, threshold, scored.objects);
            (scored.class, std::array::from_fn(average))
        };
        Interpolated { per_class: in_parts(scored.len(), 1, |part| of_class(&scored[part.start])) }
    }
}

/// The classes that have objects.
pub(super) fn scored(classes: &[ClassBoxes]) -> Vec<ScoredClass> {
    let thresholds = thresholds();
    let scored = in_parts(classes.len(), 1, |part| scored_class(&classes[part.start], &thresholds));
    scored.into_iter().filter(|scored| scored.objects > 0).collect()
}

fn scored_class(class: &ClassBoxes, thresholds: &[f64; THRESHOLDS]) -> ScoredClass {
    let (mut all, mut count) = (Vec::new(), 0);
    for image in class.images() {
        let objects: Vec<usize> = (0..image.truth.len()).filter(|&object| !image.is_ignored(object)).collect();
        count += objects.len();
        // The highest-scoring prediction of every object, threshold by threshold.
        let mut taken = vec![[false; THRESHOLDS]; objects.len()];
        for (number, prediction) in image.found.iter().enumerate() {
            let overlaps = objects.iter().map(|&object| image.overlap(number, object)).enumerate();
            let nearest = overlaps.max_by(|left, right| left.1.total_cmp(&right.1));
            let mut right = [false; THRESHOLDS];
            if let Some((object, overlap)) = nearest {
                for (threshold, least) in thresholds.iter().enumerate() {
                    right[threshold] = overlap >= *least && !taken[object][threshold];
                    taken[object][threshold] |= overlap >= *least;
                }
            }
            all.push(ScoredPrediction { score: prediction.score, right });
        }
    }
    let order = by_score(all.iter().map(|scored| scored.score));
    let predictions = order.into_iter().map(|index| ScoredPrediction { ..all[index] }).collect();
    ScoredClass { class: class.class, predictions, objects: count }
}

/// Recall and precision after every prediction.
pub(super) fn recall_and_precision(
    scored: &[ScoredPrediction],
    threshold: usize,
    objects: usize,
) -> (Vec<f64>, Vec<f64>) {
    let mut right = 0.0;
    let points = scored.iter().enumerate().map(|(index, prediction)| {
        right += f64::from(u8::from(prediction.right[threshold]));
        (right / (objects as f64 + 1e-16), right / (index + 1) as f64)
    });
    points.unzip()
}

fn average_precision(scored: &[ScoredPrediction], threshold: usize, objects: usize) -> f64 {
    if scored.is_empty() {
        return 0.0;
    }
    let (recall, precision) = recall_and_precision(scored, threshold, objects);
    let last = recall.last().copied().unwrap_or(0.0);
    let recall: Vec<f64> = [0.0].into_iter().chain(recall).chain([last, 1.0]).collect();
    let mut precision: Vec<f64> = [1.0].into_iter().chain(precision).chain([0.0, 0.0]).collect();
    envelope(&mut precision);
    let at = |point: usize| interpolate(point as f64 / 100.0, &recall, &precision);
    (0..100).map(|point| (at(point) + at(point + 1)) * 0.5 * 0.01).sum()
}

/// Straight lines between points of ascending x, as NumPy's `interp`: of points with equal x the last counts.
pub(super) fn interpolate(x: f64, xs: &[f64], ys: &[f64]) -> f64 {
    let after = xs.partition_point(|&known| known <= x);
    match after {
        0 => ys[0],
        after if after == xs.len() => ys[after - 1],
        after => {
            let (x0, x1, y0, y1) = (xs[after - 1], xs[after], ys[after - 1], ys[after]);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        }
    }
}
