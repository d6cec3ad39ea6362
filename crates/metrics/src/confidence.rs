//! What a classifier's confidence is worth: calibration, and the mistakes it was most sure of.

use crate::ratio;
use std::collections::HashMap;

/// Intervals of confidence, as in the literature on calibration (Guo et al., 2017).
const BINS: usize = 15;

/// How often predictions of every confidence are right.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Count, sum of confidences and count of correct ones, by interval.
    bins: [[f64; 3]; BINS],
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration { bins: [[0.0; 3]; BINS] }
    }
}

/// One interval of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationBin {
    /// Where the interval begins; it ends where the next one begins.
    pub from: f64,
    /// How many predictions it has.
    pub count: f64,
    /// Their mean confidence.
    pub confidence: f64,
    /// The share of them that is right.
    pub accuracy: f64,
}

impl Calibration {
    /// Adds one prediction. Intervals are open below and closed above.
    pub fn observe(&mut self, confidence: f64, correct: bool) {
        let bin = ((confidence * BINS as f64).ceil() as usize).clamp(1, BINS) - 1;
        let [count, sum, hits] = &mut self.bins[bin];
        *count += 1.0;
        *sum += confidence;
        *hits += f64::from(u8::from(correct));
    }

    /// The intervals that have any predictions.
    pub fn bins(&self) -> Vec<CalibrationBin> {
        let bins = self.bins.iter().enumerate().filter(|(_, bin)| bin[0] > 0.0);
        bins.map(|(index, [count, sum, hits])| CalibrationBin {
            from: index as f64 / BINS as f64,
            count: *count,
            confidence: ratio(*sum, *count),
            accuracy: ratio(*hits, *count),
        })
        .collect()
    }

    /// The expected calibration error: the mean distance of confidence and accuracy over all predictions.
    pub fn error(&self) -> f64 {
        let all: f64 = self.bins.iter().map(|bin| bin[0]).sum();
        ratio(self.bins.iter().map(|[_, sum, hits]| (sum - hits).abs()).sum(), all)
    }
}

/// A sample that was taken for something else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mistake {
    /// The sample's number in its data set.
    pub index: u64,
    /// What it is.
    pub label: usize,
    /// What it was taken for.
    pub predicted: usize,
    /// How sure the network was.
    pub confidence: f32,
}

/// The mistakes that a network was most sure of: some of every cell of the confusion matrix, bounded however much is
/// observed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mistakes {
    kept: Vec<Mistake>,
}

impl Mistakes {
    /// Mistakes of one cell.
    pub const PER_CELL: usize = 24;
    /// Mistakes in all.
    pub const MOST: usize = 2000;

    /// Adds one.
    pub fn observe(&mut self, mistake: Mistake) {
        self.kept.push(mistake);
        if self.kept.len() >= 2 * Mistakes::MOST {
            self.kept = self.worst();
        }
    }

    /// Those that are kept, the highest confidence first.
    pub fn worst(&self) -> Vec<Mistake> {
        let mut sorted = self.kept.clone();
        sorted.sort_by(|a, b| b.confidence.total_cmp(&a.confidence).then(a.index.cmp(&b.index)));
        let mut cells: HashMap<(usize, usize), usize> = HashMap::new();
        sorted.retain(|mistake| {
            let count = cells.entry((mistake.label, mistake.predicted)).or_default();
            *count += 1;
            *count <= Mistakes::PER_CELL
        });
        sorted.truncate(Mistakes::MOST);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_mean_distance_of_confidence_and_accuracy() {
        let mut calibration = Calibration::default();
        // Three of four are right at 0.9, one of two at 0.5; 0 and 1 belong to the first and the last interval.
        [true, true, true, false].into_iter().for_each(|correct| calibration.observe(0.9, correct));
        [true, false].into_iter().for_each(|correct| calibration.observe(0.5, correct));
        assert!((calibration.error() - 4.0 * 0.15 / 6.0).abs() < 1e-12);
        calibration.observe(0.0, false);
        calibration.observe(1.0, true);
        let bins = calibration.bins();
        assert_eq!(bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [1.0, 2.0, 4.0, 1.0]);
        assert_eq!((bins[2].accuracy, bins[2].from), (0.75, 13.0 / 15.0));
        assert_eq!(Calibration::default().error(), 0.0);
    }

    #[test]
    fn the_most_confident_mistakes_of_every_cell_are_kept_and_no_more() {
        let mut mistakes = Mistakes::default();
        for index in 0..100_000u64 {
            let confidence = (index.wrapping_mul(7919) % 100_003) as f32 / 100_003.0;
            mistakes.observe(Mistake { index, label: 0, predicted: 1, confidence });
        }
        mistakes.observe(Mistake { index: 7, label: 2, predicted: 0, confidence: 0.01 });
        let worst = mistakes.worst();
        assert_eq!(worst.len(), Mistakes::PER_CELL + 1);
        assert!(worst[0].confidence > 0.9999 && worst.windows(2).all(|pair| pair[0].confidence >= pair[1].confidence));
        assert_eq!(worst.last().map(|mistake| mistake.index), Some(7));
    }
}
