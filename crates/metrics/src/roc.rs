//! The receiver operating characteristic: what share of the true and of the false is caught at every threshold.

use octant_graph::{DType, Tensor};

/// The intervals of [`scores`].
pub const INTERVALS: usize = 128;

/// Every class against all others, for a batch of probabilities `[n, classes]`: how many probabilities of the right class
/// and how many of wrong ones lie in each of [`INTERVALS`] equal intervals, one after the other.
pub fn scores(probabilities: &Tensor, labels: &Tensor, weights: &Tensor) -> Tensor {
    let (rows, classes) = (probabilities.dim(0), probabilities.dim(1));
    let last = probabilities.scalar_like((INTERVALS - 1) as f64);
    let interval = (probabilities * INTERVALS as f64).floor().min(&last).convert(DType::I32);
    let interval = interval.reshape(&[rows * classes]).one_hot(INTERVALS, DType::F32);
    let right = labels.one_hot(classes, DType::F32);
    let count = |which: Tensor| {
        let counted = (which * weights.reshape(&[rows, 1])).reshape(&[1, rows * classes]);
        counted.matmul(&interval).reshape(&[INTERVALS])
    };
    Tensor::concatenate(&[count(right.clone()), count(1.0 - right)], 0)
}

/// Counts of scores in `0..=1` by truth, in equal intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct Roc {
    positive: Vec<f64>,
    negative: Vec<f64>,
}

impl Roc {
    /// Counts in that many intervals.
    pub fn new(intervals: usize) -> Roc {
        Roc { positive: vec![0.0; intervals.max(1)], negative: vec![0.0; intervals.max(1)] }
    }

    /// What the sums of [`scores`] come to.
    pub fn of_scores(sums: &[f64]) -> Roc {
        let (positive, negative) = sums.split_at(sums.len() / 2);
        Roc { positive: positive.to_vec(), negative: negative.to_vec() }
    }

    /// Adds one score.
    pub fn observe(&mut self, score: f64, truth: bool) {
        let last = self.positive.len() - 1;
        let place = ((score.clamp(0.0, 1.0) * self.positive.len() as f64) as usize).min(last);
        let counts = if truth { &mut self.positive } else { &mut self.negative };
        counts[place] += 1.0;
    }

    /// Points (false positive rate, true positive rate) from the strictest threshold to the loosest.
    pub fn curve(&self) -> Vec<[f64; 2]> {
        let total = |counts: &[f64]| counts.iter().sum::<f64>().max(1.0);
        let (positives, negatives) = (total(&self.positive), total(&self.negative));
        let (mut hits, mut alarms) = (0.0, 0.0);
        let points = self.positive.iter().zip(&self.negative).rev().map(|(positive, negative)| {
            hits += positive;
            alarms += negative;
            [alarms / negatives, hits / positives]
        });
        std::iter::once([0.0, 0.0]).chain(points).collect()
    }

    /// Points (recall, precision) from the strictest threshold to the loosest; thresholds that nothing reaches are left
    /// out.
    pub fn precision_recall(&self) -> Vec<[f64; 2]> {
        let positives = self.positive.iter().sum::<f64>().max(1.0);
        let (mut hits, mut alarms) = (0.0, 0.0);
        let mut points = Vec::new();
        for (positive, negative) in self.positive.iter().zip(&self.negative).rev() {
            hits += positive;
            alarms += negative;
            if hits + alarms > 0.0 {
                points.push([hits / positives, hits / (hits + alarms)]);
            }
        }
        points
    }

    /// The area under the curve: 1 is perfect, 0.5 is chance.
    pub fn area(&self) -> f64 {
        self.curve().windows(2).map(|pair| (pair[1][0] - pair[0][0]) * (pair[0][1] + pair[1][1]) / 2.0).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_one_for_perfect_scores_and_a_half_for_useless_ones() {
        let (mut perfect, mut useless) = (Roc::new(100), Roc::new(100));
        for number in 0..100 {
            let truth = number % 2 == 0;
            perfect.observe(if truth { 0.9 } else { 0.1 }, truth);
            useless.observe((number / 2) as f64 / 50.0, truth);
        }
        assert_eq!(perfect.area(), 1.0);
        assert!((useless.area() - 0.5).abs() < 1e-9);
        assert_eq!(perfect.precision_recall().first(), Some(&[1.0, 1.0]));
        assert_eq!(useless.precision_recall().last(), Some(&[1.0, 0.5]));
    }
}
