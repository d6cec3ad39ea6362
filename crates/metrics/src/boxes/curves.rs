//! What every threshold on the score would give.

use super::interpolated::{ScoredClass, ScoredPrediction, interpolate, recall_and_precision, scored};
use super::{BoxScores, envelope};

/// Means over the classes that have objects, at overlap 0.50.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curves {
    /// Thresholds on the score, 0 to 1.
    pub scores: Vec<f64>,
    /// Precision at each.
    pub precision: Vec<f64>,
    /// Recall at each.
    pub recall: Vec<f64>,
    /// The harmonic mean of both, per class and then averaged.
    pub f1: Vec<f64>,
    /// Precision at recall 0, 0.01 … 1, averaged over classes.
    pub precision_by_recall: Vec<f64>,
}

/// A threshold and what it gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatingPoint {
    /// The threshold on the score.
    pub score: f64,
    /// How many of the predictions above it are right.
    pub precision: f64,
    /// How many of the objects are found.
    pub recall: f64,
    /// The harmonic mean.
    pub f1: f64,
}

/// Number of score thresholds.
const STEPS: usize = 1000;

impl BoxScores {
    /// The curves over all thresholds.
    pub fn curves(&self) -> Curves {
        Curves::of(&scored(&self.by_class()))
    }
}

impl Curves {
    pub(super) fn of(classes: &[ScoredClass]) -> Curves {
        let scores: Vec<f64> = (0..STEPS).map(|step| step as f64 / (STEPS - 1) as f64).collect();
        let zeros = vec![0.0; STEPS];
        let mut curves = Curves {
            scores,
            precision: zeros.clone(),
            recall: zeros.clone(),
            f1: zeros,
            precision_by_recall: vec![0.0; 101],
        };
        for class in classes {
            curves.add(&class.predictions, class.objects, classes.len() as f64);
        }
        curves
    }

    fn add(&mut self, scored: &[ScoredPrediction], objects: usize, classes: f64) {
        if scored.is_empty() {
            return;
        }
        let (recall, precision) = recall_and_precision(scored, 0, objects);
        // Ascending from the highest score to the lowest.
        let falling: Vec<f64> = scored.iter().map(|prediction| -prediction.score).collect();
        for (step, &score) in self.scores.iter().enumerate() {
            let none_so_sure = -score < falling[0];
            let of = |values: &[f64], without: f64| {
                if none_so_sure { without } else { interpolate(-score, &falling, values) }
            };
            let (p, r) = (of(&precision, 1.0), of(&recall, 0.0));
            self.precision[step] += p / classes;
            self.recall[step] += r / classes;
            self.f1[step] += 2.0 * p * r / (p + r + 1e-16) / classes;
        }
        let mut sinking = precision;
        envelope(&mut sinking);
        for (point, sum) in self.precision_by_recall.iter_mut().enumerate() {
            let position = recall.partition_point(|&recall| recall < point as f64 / 100.0);
            *sum += sinking.get(position).copied().unwrap_or(0.0) / classes;
        }
    }

    /// The threshold where the smoothed harmonic mean is largest.
    pub fn best(&self) -> Option<OperatingPoint> {
        let smoothed = smoothed(&self.f1);
        let best = (0..smoothed.len()).rev().max_by(|&a, &b| smoothed[a].total_cmp(&smoothed[b]))?;
        Some(OperatingPoint {
            score: self.scores[best],
            precision: self.precision[best],
            recall: self.recall[best],
            f1: self.f1[best],
        })
    }
}

/// Means over a window of a twentieth of the points; the ends repeat.
fn smoothed(values: &[f64]) -> Vec<f64> {
    let half = values.len() / 20;
    let at = |index: i64| values[index.clamp(0, values.len() as i64 - 1) as usize];
    let window = |center: usize| {
        let center = center as i64;
        (center - half as i64..=center + half as i64).map(at).sum::<f64>() / (2 * half + 1) as f64
    };
    (0..values.len()).map(window).collect()
}
