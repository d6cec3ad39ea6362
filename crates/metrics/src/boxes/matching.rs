//! COCO's matching within one image and class: answers by descending score, each takes the free object it overlaps most.

use super::{FoundBox, TrueBox, by_score};

/// The objects and answers of one class in one image, with all overlaps.
pub(super) struct ImageClass<'a> {
    truth: Vec<&'a TrueBox>,
    /// By descending score, up to the largest limit.
    found: Vec<&'a FoundBox>,
    /// Per answer, the overlap with every object.
    overlaps: Vec<Vec<f64>>,
}

/// What became of the answers for one range of sizes, per threshold.
pub(super) struct Matched {
    /// By descending score.
    pub scores: Vec<f64>,
    /// `[threshold][answer]`.
    pub matched: Vec<Vec<bool>>,
    /// `[threshold][answer]`.
    pub ignored: Vec<Vec<bool>>,
    /// Objects that should be found.
    pub wanted: usize,
}

impl<'a> ImageClass<'a> {
    /// Nothing when the class neither is there nor was answered.
    pub fn new(class: usize, truth: &'a [TrueBox], found: &'a [FoundBox], most: usize) -> Option<ImageClass<'a>> {
        let truth: Vec<&TrueBox> = truth.iter().filter(|object| object.class == class).collect();
        let answers: Vec<&FoundBox> = found.iter().filter(|answer| answer.class == class).collect();
        if truth.is_empty() && answers.is_empty() {
            return None;
        }
        let order = by_score(answers.iter().map(|answer| answer.score));
        let found: Vec<&FoundBox> = order.into_iter().take(most).map(|index| answers[index]).collect();
        let overlap = |answer: &FoundBox, object: &TrueBox| {
            let common = answer.rectangle.common(&object.rectangle);
            let (own, other) = (answer.rectangle.area(), object.rectangle.area());
            match () {
                () if common == 0.0 => 0.0,
                () if object.crowd => common / own,
                () => common / (own + other - common),
            }
        };
        let overlaps =
            found.iter().map(|answer| truth.iter().map(|object| overlap(answer, object)).collect()).collect();
        Some(ImageClass { truth, found, overlaps })
    }

    /// Matches at every threshold. Objects outside of `sizes` and groups are ignored: who matches them does not count.
    pub fn matched(&self, thresholds: &[f64], sizes: [f64; 2]) -> Matched {
        let outside = |area: f64| area < sizes[0] || area > sizes[1];
        let ignored_truth: Vec<bool> = self.truth.iter().map(|object| object.crowd || outside(object.area)).collect();
        // Objects that count are tried first.
        let mut order: Vec<usize> = (0..self.truth.len()).collect();
        order.sort_by_key(|&index| ignored_truth[index]);
        let mut result = Matched {
            scores: self.found.iter().map(|answer| answer.score).collect(),
            matched: Vec::new(),
            ignored: Vec::new(),
            wanted: ignored_truth.iter().filter(|&&ignored| !ignored).count(),
        };
        for &threshold in thresholds {
            let mut taken = vec![false; self.truth.len()];
            let (mut matched, mut ignored) = (Vec::new(), Vec::new());
            for (answer, overlaps) in self.found.iter().zip(&self.overlaps) {
                let partner = self.partner(overlaps, &order, &taken, &ignored_truth, threshold);
                if let Some(index) = partner {
                    taken[index] = true;
                }
                matched.push(partner.is_some());
                ignored.push(match partner {
                    Some(index) => ignored_truth[index],
                    None => outside(answer.rectangle.area()),
                });
            }
            result.matched.push(matched);
            result.ignored.push(ignored);
        }
        result
    }

    /// The object that an answer takes. The last one of equal overlaps wins, as in COCO's loop.
    fn partner(
        &self,
        overlaps: &[f64],
        order: &[usize],
        taken: &[bool],
        ignored: &[bool],
        threshold: f64,
    ) -> Option<usize> {
        let mut least = threshold.min(1.0 - 1e-10);
        let mut best: Option<usize> = None;
        for &index in order {
            if taken[index] && !self.truth[index].crowd {
                continue;
            }
            if best.is_some_and(|best| !ignored[best] && ignored[index]) {
                break;
            }
            if overlaps[index] < least {
                continue;
            }
            least = overlaps[index];
            best = Some(index);
        }
        best
    }
}
