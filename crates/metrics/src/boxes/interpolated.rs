//! Average precision as Ultralytics prints it: an answer is paired with the object that it overlaps most and with no other,
//! an object with the surest of its answers, and precision is interpolated linearly between points of recall.

use super::coco::{THRESHOLDS, thresholds};
use super::{BoxScores, ClassBoxes, TrueBox, by_score, envelope};
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

/// An answer of one class: its score, and at which thresholds it found an object.
pub(super) struct Judged {
    pub score: f64,
    pub right: [bool; THRESHOLDS],
}

/// All answers of one class, the surest first.
pub(super) struct JudgedClass {
    pub class: usize,
    pub answers: Vec<Judged>,
    /// Groups not counted.
    pub objects: usize,
}

impl BoxScores {
    /// Average precision by Ultralytics' rules. Groups are left out: its label files have none.
    pub fn interpolated(&self) -> Interpolated {
        Interpolated::of(&judged(&self.by_class()))
    }
}

impl Interpolated {
    pub(super) fn of(judged: &[JudgedClass]) -> Interpolated {
        let of_class = |judged: &JudgedClass| {
            let average = |threshold| average_precision(&judged.answers, threshold, judged.objects);
            (judged.class, std::array::from_fn(average))
        };
        Interpolated { per_class: in_parts(judged.len(), 1, |part| of_class(&judged[part.start])) }
    }
}

/// The classes that have objects.
pub(super) fn judged(classes: &[ClassBoxes]) -> Vec<JudgedClass> {
    let thresholds = thresholds();
    let judged = in_parts(classes.len(), 1, |part| judged_class(&classes[part.start], &thresholds));
    judged.into_iter().filter(|judged| judged.objects > 0).collect()
}

fn judged_class(class: &ClassBoxes, thresholds: &[f64; THRESHOLDS]) -> JudgedClass {
    let (mut all, mut count) = (Vec::new(), 0);
    for (truth, found) in class.images() {
        let objects: Vec<&TrueBox> = truth.iter().copied().filter(|object| !object.crowd).collect();
        count += objects.len();
        // The surest answer of every object, threshold by threshold.
        let mut taken = vec![[false; THRESHOLDS]; objects.len()];
        for answer in found {
            let overlaps = objects.iter().map(|object| answer.rectangle.iou(&object.rectangle)).enumerate();
            let nearest = overlaps.max_by(|left, right| left.1.total_cmp(&right.1));
            let mut right = [false; THRESHOLDS];
            if let Some((object, overlap)) = nearest {
                for (threshold, least) in thresholds.iter().enumerate() {
                    right[threshold] = overlap >= *least && !taken[object][threshold];
                    taken[object][threshold] |= overlap >= *least;
                }
            }
            all.push(Judged { score: answer.score, right });
        }
    }
    let order = by_score(all.iter().map(|judged| judged.score));
    let answers = order.into_iter().map(|index| Judged { ..all[index] }).collect();
    JudgedClass { class: class.class, answers, objects: count }
}

/// Recall and precision after every answer.
pub(super) fn recall_and_precision(judged: &[Judged], threshold: usize, objects: usize) -> (Vec<f64>, Vec<f64>) {
    let mut right = 0.0;
    let points = judged.iter().enumerate().map(|(index, answer)| {
        right += f64::from(u8::from(answer.right[threshold]));
        (right / (objects as f64 + 1e-16), right / (index + 1) as f64)
    });
    points.unzip()
}

fn average_precision(judged: &[Judged], threshold: usize, objects: usize) -> f64 {
    if judged.is_empty() {
        return 0.0;
    }
    let (recall, precision) = recall_and_precision(judged, threshold, objects);
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
