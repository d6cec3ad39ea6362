//! Which classes were taken for which, with the background as one more.

use super::{BoxScores, GroundTruthBox, Measured, PredictedBox};

/// Counts of (predicted, true) pairs; the last row and column are the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoxConfusion {
    /// Classes without the background.
    pub classes: usize,
    /// Row-major: the predicted class is the row, the true one the column.
    pub counts: Vec<u64>,
}

impl BoxConfusion {
    /// Predictions with a lower score are ignored.
    pub const SCORE: f64 = 0.25;
    /// Boxes that overlap more than this belong together.
    pub const OVERLAP: f64 = 0.45;

    fn new(classes: usize) -> BoxConfusion {
        BoxConfusion { classes, counts: vec![0; (classes + 1) * (classes + 1)] }
    }

    /// How often `predicted` was predicted for objects of class `truth`.
    pub fn count(&self, predicted: usize, truth: usize) -> u64 {
        self.counts[predicted * (self.classes + 1) + truth]
    }

    fn add(&mut self, predicted: usize, truth: usize) {
        self.counts[predicted * (self.classes + 1) + truth] += 1;
    }

    /// Groups are no objects, and predictions inside of one are no mistakes.
    fn observe(&mut self, truth: &[GroundTruthBox], found: &[PredictedBox], measured: Option<&Measured>) {
        let is_ignored =
            |number: usize| truth[number].crowd || measured.is_some_and(|measured| measured.ignored[number]);
        let (groups, objects): (Vec<usize>, Vec<usize>) = (0..truth.len()).partition(|&number| is_ignored(number));
        let groups: Vec<&GroundTruthBox> = groups.into_iter().map(|number| &truth[number]).collect();
        let numbered = found.iter().enumerate().filter(|(_, prediction)| prediction.score > Self::SCORE);
        let (numbers, found): (Vec<usize>, Vec<&PredictedBox>) = numbered.unzip();
        let mut pairs = Vec::new();
        for (o, &object) in objects.iter().enumerate() {
            for (a, prediction) in found.iter().enumerate() {
                let overlap = match measured {
                    Some(measured) => measured.overlap(numbers[a], object),
                    None => truth[object].rectangle.iou(&prediction.rectangle),
                };
                if overlap > Self::OVERLAP {
                    pairs.push((overlap, o, a));
                }
            }
        }
        let truth: Vec<&GroundTruthBox> = objects.iter().map(|&number| &truth[number]).collect();
        pairs.sort_by(|left, right| right.0.total_cmp(&left.0));
        let (mut seen, mut used) = (vec![false; truth.len()], vec![false; found.len()]);
        for (_, o, a) in pairs {
            if !seen[o] && !used[a] {
                (seen[o], used[a]) = (true, true);
                self.add(found[a].class, truth[o].class);
            }
        }
        let background = self.classes;
        for (object, _) in truth.iter().zip(seen).filter(|(_, seen)| !seen) {
            self.add(background, object.class);
        }
        let in_group = |prediction: &PredictedBox| {
            let inside =
                |group: &&GroundTruthBox| group.rectangle.common(&prediction.rectangle) / prediction.rectangle.area();
            groups.iter().any(|group| inside(group) > Self::OVERLAP)
        };
        for (prediction, _) in found.iter().zip(used).filter(|(prediction, used)| !used && !in_group(prediction)) {
            self.add(prediction.class, background);
        }
    }
}

impl BoxScores {
    /// Pairs by overlap, whatever their classes; what is left over belongs to the background.
    pub fn confusion(&self) -> BoxConfusion {
        let mut confusion = BoxConfusion::new(self.classes);
        let images = self.images.iter().zip(&self.measured);
        images.for_each(|((truth, found), measured)| confusion.observe(truth, found, measured.as_ref()));
        confusion
    }
}
