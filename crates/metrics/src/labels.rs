//! Images with any number of labels each: what the scores of every label are worth, and where to cut them.

use crate::{Metric, OneVersusRest, defined_ratio, ratio};

/// What the scores of one label are worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelScore {
    /// How many images have it.
    pub positives: f64,
    /// The mean precision over these; NaN where there are none.
    pub average_precision: f64,
    /// The probability from which on it is predicted.
    pub threshold: f64,
    /// The F1 at that threshold.
    pub f1: f64,
}

/// The scores of all labels of all images.
#[derive(Debug, Clone)]
pub struct LabelScores {
    curves: OneVersusRest,
    /// The thresholds that are decided by, one per label; those with the highest F1 where there are none.
    fixed: Vec<f64>,
    /// Right, wrongly predicted and missed, by label, at the thresholds that were given or at one half.
    decided: Vec<[f64; 3]>,
    /// Images whose labels are all right, and all images.
    exact: [f64; 2],
}

/// Where a label is predicted without any other threshold.
const HALF: f64 = 0.5;

fn probability(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// The harmonic mean of precision and recall; 0 where nothing was right.
fn f1([right, wrong, missed]: [f64; 3]) -> f64 {
    ratio(2.0 * right, 2.0 * right + wrong + missed)
}

impl LabelScores {
    /// For so many labels. `thresholds` are probabilities, one per label or a single one for all; none: they are chosen.
    pub fn new(labels: usize, thresholds: &[f64]) -> LabelScores {
        let fixed = match thresholds {
            [only] => vec![*only; labels],
            several => several.to_vec(),
        };
        LabelScores { curves: OneVersusRest::new(labels), fixed, decided: vec![[0.0; 3]; labels], exact: [0.0; 2] }
    }

    /// Adds the logits of one image and whether it has each label.
    pub fn observe(&mut self, logits: &[f32], labels: impl Iterator<Item = bool> + Clone) {
        self.curves.observe_labels(logits, labels.clone());
        let mut is_exact = true;
        for (label, ((&logit, has), counts)) in logits.iter().zip(labels).zip(&mut self.decided).enumerate() {
            let predicted = probability(logit.into()) >= self.fixed.get(label).copied().unwrap_or(HALF);
            match (predicted, has) {
                (true, true) => counts[0] += 1.0,
                (true, false) => counts[1] += 1.0,
                (false, true) => counts[2] += 1.0,
                (false, false) => {}
            }
            is_exact &= predicted == has;
        }
        self.exact[0] += f64::from(u8::from(is_exact));
        self.exact[1] += 1.0;
    }

    /// Every label for itself.
    pub fn labels(&self) -> Vec<LabelScore> {
        let of_label = |(label, roc): (usize, &crate::Roc)| {
            let chosen = || roc.best_threshold().map(|(logit, f1)| (probability(logit), f1));
            let (threshold, f1) = match self.fixed.get(label) {
                Some(&fixed) => (fixed, f1(self.decided[label])),
                // Of a label that no image has, no threshold is better than another.
                None => chosen().unwrap_or((HALF, 0.0)),
            };
            let (positives, average_precision) = (roc.positives(), roc.average_precision());
            LabelScore { positives, average_precision, threshold, f1 }
        };
        self.curves.classes().iter().enumerate().map(of_label).collect()
    }

    /// Means over the labels: `mAP` of the average precisions and `auc_macro` of the areas, over the labels that images have
    /// and lack; `f1_macro` and, over all decisions together, `f1_micro` and `mAP_micro`. `exact` is the share of images whose
    /// labels are all right. Decisions are at the thresholds that were given, or at one half; then `f1_tuned` is the mean F1 at
    /// the thresholds that are best on these images.
    pub fn metrics(&self) -> Vec<Metric> {
        let labels = self.labels();
        let precisions: Vec<f64> =
            labels.iter().map(|label| label.average_precision).filter(|value| !value.is_nan()).collect();
        let mean = |values: &[f64]| defined_ratio(values.iter().sum(), values.len() as f64);
        let all = self.decided.iter().fold([0.0; 3], |all, one| [0, 1, 2].map(|at| all[at] + one[at]));
        let decided: Vec<f64> = self.decided.iter().map(|&counts| f1(counts)).collect();
        let mut metrics = vec![
            ("mAP".into(), mean(&precisions)),
            ("mAP_micro".into(), self.curves.pooled().average_precision()),
            ("auc_macro".into(), self.curves.mean_area()),
            ("f1_macro".into(), mean(&decided)),
            ("f1_micro".into(), f1(all)),
            ("exact".into(), defined_ratio(self.exact[0], self.exact[1])),
        ];
        if self.fixed.is_empty() {
            let tuned: Vec<f64> = labels.iter().map(|label| label.f1).collect();
            metrics.push(("f1_tuned".into(), mean(&tuned)));
        }
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_lie_between_the_scores_that_they_part() {
        let mut scores = LabelScores::new(2, &[]);
        for (logit, has) in [(2.0f32, true), (0.5, true), (-1.0, false), (-3.0, false)] {
            scores.observe(&[logit, logit], [has, false].into_iter());
        }
        let labels = scores.labels();
        assert_eq!((labels[0].f1, labels[0].average_precision), (1.0, 1.0));
        assert!((labels[0].threshold - probability(-0.25)).abs() < 1e-12);
        assert!(labels[1].average_precision.is_nan() && labels[1].threshold == 0.5 && labels[1].positives == 0.0);
        let metric = |name: &str| scores.metrics().into_iter().find(|(own, _)| own == name).map(|(_, value)| value);
        assert_eq!((metric("mAP"), metric("exact"), metric("f1_tuned")), (Some(1.0), Some(0.5), Some(0.5)));
    }

    #[test]
    fn given_thresholds_decide() {
        let mut scores = LabelScores::new(1, &[0.9]);
        [(2.0f32, true), (3.0, true)].iter().for_each(|(logit, has)| scores.observe(&[*logit], [*has].into_iter()));
        let label = scores.labels()[0];
        assert_eq!((label.threshold, label.f1), (0.9, 2.0 / 3.0));
        assert!(scores.metrics().iter().all(|(name, _)| name != "f1_tuned"));
    }
}
