//! Average precision as Ultralytics prints it: answers and objects are paired by overlap regardless of score, and precision
//! is interpolated linearly between points of recall.

use super::coco::thresholds;
use super::{BoxScores, by_score, envelope};

/// Average precision per class and threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Interpolated {
    /// Classes that have objects, and their average precision at 0.50, 0.55 … 0.95.
    pub per_class: Vec<(usize, [f64; 10])>,
}

impl Interpolated {
    /// The mean over classes and thresholds.
    pub fn map50_95(&self) -> f64 {
        self.mean(|row| row.iter().sum::<f64>() / row.len() as f64)
    }

    /// The mean over classes at 0.50.
    pub fn map50(&self) -> f64 {
        self.mean(|row| row[0])
    }

    fn mean(&self, of_class: impl Fn(&[f64; 10]) -> f64) -> f64 {
        let sum: f64 = self.per_class.iter().map(|(_, row)| of_class(row)).sum();
        crate::ratio(sum, self.per_class.len() as f64)
    }
}

/// An answer of one class: its score, and at which thresholds it found an object.
pub(super) struct Judged {
    pub score: f64,
    pub right: [bool; 10],
}

impl BoxScores {
    /// Average precision by Ultralytics' rules. Groups count as single objects there.
    pub fn interpolated(&self) -> Interpolated {
        let objects = self.all_objects();
        let classes = (0..self.classes).filter(|&class| objects[class] > 0);
        let per_class = classes.map(|class| {
            let judged = self.judged(class);
            (class, std::array::from_fn(|threshold| average_precision(&judged, threshold, objects[class])))
        });
        Interpolated { per_class: per_class.collect() }
    }

    pub(super) fn all_objects(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes];
        self.images.iter().flat_map(|(truth, _)| truth).for_each(|object| counts[object.class] += 1);
        counts
    }

    /// All answers of a class, the surest first.
    pub(super) fn judged(&self, class: usize) -> Vec<Judged> {
        let mut all = Vec::new();
        for (truth, found) in &self.images {
            let objects: Vec<_> = truth.iter().filter(|object| object.class == class).collect();
            let answers: Vec<_> = found.iter().filter(|answer| answer.class == class).collect();
            let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
            for (a, answer) in answers.iter().enumerate() {
                for (o, object) in objects.iter().enumerate() {
                    pairs.push((answer.rectangle.iou(&object.rectangle), a, o));
                }
            }
            pairs.sort_by(|left, right| right.0.total_cmp(&left.0));
            let start = all.len();
            all.extend(answers.iter().map(|answer| Judged { score: answer.score, right: [false; 10] }));
            for (threshold, least) in thresholds().into_iter().enumerate() {
                let (mut used, mut taken) = (vec![false; answers.len()], vec![false; objects.len()]);
                for &(overlap, a, o) in pairs.iter().take_while(|pair| pair.0 >= least) {
                    debug_assert!(overlap >= least);
                    if !used[a] && !taken[o] {
                        (used[a], taken[o]) = (true, true);
                        all[start + a].right[threshold] = true;
                    }
                }
            }
        }
        let order = by_score(all.iter().map(|judged| judged.score));
        order.into_iter().map(|index| Judged { score: all[index].score, right: all[index].right }).collect()
    }
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
