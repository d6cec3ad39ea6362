//! Which of several classes.

use crate::{Metric, defined_ratio, ratio};
use octant_graph::{DType, Tensor};

/// How many rows have the label among their `k` largest logits; ties count in the label's favor only when it comes
/// first, as sorting would have it. `weights` is 0 for rows that do not count.
pub fn in_top_k(logits: &Tensor, labels: &Tensor, weights: &Tensor, k: usize) -> Tensor {
    let rows = logits.dim(0);
    let of_label = logits.pick(labels).reshape(&[rows, 1]);
    let positions = logits.trace().iota(logits.shape().with_dtype(DType::I32), 1);
    let label_places = labels.reshape(&[rows, 1]);
    let before = logits.equal(&of_label).and(&positions.less(&label_places));
    let ahead = logits.greater(&of_label).or(&before).convert(DType::F32).sum(&[1]);
    (ahead.less(&ahead.scalar_like(k as f64)).convert(DType::F32) * weights).sum_all()
}

/// The confusion matrix of a batch, `[classes · classes]`: rows are labels, columns are predictions.
pub fn confusion(labels: &Tensor, predicted: &Tensor, weights: &Tensor, classes: usize) -> Tensor {
    let rows = labels.dim(0);
    let truth = labels.one_hot(classes, DType::F32) * weights.reshape(&[rows, 1]);
    let guess = predicted.one_hot(classes, DType::F32);
    truth.transpose(&[1, 0]).matmul(&guess).reshape(&[classes * classes])
}

/// A confusion matrix that was added up.
#[derive(Debug, Clone, PartialEq)]
pub struct Confusion {
    /// Rows are labels, columns are predictions.
    pub counts: Vec<f64>,
    /// How many classes there are.
    pub classes: usize,
}

impl Confusion {
    fn cell(&self, label: usize, predicted: usize) -> f64 {
        self.counts[label * self.classes + predicted]
    }

    /// Of everything predicted as a class, how much was it; NaN where nothing was.
    pub fn precision(&self, class: usize) -> f64 {
        defined_ratio(self.cell(class, class), (0..self.classes).map(|label| self.cell(label, class)).sum())
    }

    /// Of everything that was a class, how much was predicted as it; NaN where nothing was.
    pub fn recall(&self, class: usize) -> f64 {
        defined_ratio(self.cell(class, class), (0..self.classes).map(|predicted| self.cell(class, predicted)).sum())
    }

    /// The harmonic mean of both; NaN where the class occurs neither as a label nor as a prediction.
    pub fn f1(&self, class: usize) -> f64 {
        let (precision, recall) = (self.precision(class), self.recall(class));
        match (precision.is_nan(), recall.is_nan()) {
            (true, true) => f64::NAN,
            (true, false) | (false, true) => 0.0,
            (false, false) => ratio(2.0 * precision * recall, precision + recall),
        }
    }

    /// Means over the classes that occur, as labels or as predictions (the macro average of scikit-learn).
    pub fn metrics(&self) -> Vec<Metric> {
        let occurs = |class: &usize| {
            (0..self.classes).any(|other| self.cell(*class, other) > 0.0 || self.cell(other, *class) > 0.0)
        };
        let present: Vec<usize> = (0..self.classes).filter(occurs).collect();
        // scikit-learn counts an undefined figure of a class as 0.
        let defined = |value: f64| if value.is_nan() { 0.0 } else { value };
        let mean = |of: &dyn Fn(usize) -> f64| {
            defined_ratio(present.iter().map(|&class| defined(of(class))).sum(), present.len() as f64)
        };
        vec![
            ("precision".into(), mean(&|class| self.precision(class))),
            ("recall".into(), mean(&|class| self.recall(class))),
            ("f1".into(), mean(&|class| self.f1(class))),
        ]
    }

    /// The pairs of classes that are mistaken most: label, prediction, count.
    pub fn mistakes(&self, most: usize) -> Vec<(usize, usize, f64)> {
        let pairs = (0..self.classes).flat_map(|label| (0..self.classes).map(move |predicted| (label, predicted)));
        let mut mistakes: Vec<(usize, usize, f64)> = pairs
            .filter(|(label, predicted)| label != predicted)
            .map(|(label, predicted)| (label, predicted, self.cell(label, predicted)))
            .filter(|(_, _, count)| *count > 0.0)
            .collect();
        mistakes.sort_by(|a, b| b.2.total_cmp(&a.2));
        mistakes.truncate(most);
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_recall_and_f1_of_a_small_matrix() {
        // Class 0: 3 right, 1 taken for 1. Class 1: 2 right. Class 2 does not occur.
        let matrix = Confusion { counts: vec![3.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0], classes: 3 };
        assert_eq!((matrix.precision(0), matrix.recall(0)), (1.0, 0.75));
        assert!((matrix.precision(1) - 2.0 / 3.0).abs() < 1e-12);
        assert!((matrix.metrics()[1].1 - 0.875).abs() < 1e-12);
        assert_eq!(matrix.mistakes(5), [(0, 1, 1.0)]);
        assert!(matrix.precision(2).is_nan() && matrix.recall(2).is_nan() && matrix.f1(2).is_nan(), "not zero");
    }
}
