//! Which of several classes every pixel has.

use crate::classes::Confusion;
use crate::{Metric, defined_ratio};
use octant_graph::{DType, Tensor};

/// Counts of an image are kept in two parts, quotient and remainder of this, so that the sums of tens of thousands of images stay
/// exact in f32.
const PART: f64 = 1024.0;

/// How many sums [`confusion`] has for so many classes.
pub const fn sums(classes: usize) -> usize {
    2 * classes * classes
}

/// The confusion matrix over the pixels of a batch, in two parts: rows are labels, columns are predictions. Both are class
/// numbers per pixel, labels `[n, h, w, 1]` and predictions `[n, h, w]`; a pixel whose label is no class is left out.
pub fn confusion(labels: &Tensor, predicted: &Tensor, classes: usize) -> Tensor {
    let rows = labels.dim(0);
    let pixels = labels.shape().elements() / rows.max(1);
    let one_hot = |numbers: &Tensor| numbers.convert(DType::I32).reshape(&[rows, pixels]).one_hot(classes, DType::F32);
    let counts = one_hot(labels).transpose(&[0, 2, 1]).matmul(&one_hot(predicted));
    let quotients = (&counts * (1.0 / PART)).floor();
    let remainders = counts - &quotients * PART;
    let parts = [quotients, remainders].map(|part| part.sum(&[0]).reshape(&[classes * classes]));
    Tensor::concatenate(&parts, 0)
}

/// The matrix of such sums.
pub fn matrix(sums: &[f64], classes: usize) -> Confusion {
    let (quotients, remainders) = sums.split_at(classes * classes);
    let counts = quotients.iter().zip(remainders).map(|(quotient, remainder)| quotient * PART + remainder).collect();
    Confusion { counts, classes }
}

/// The overlap of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassOverlap {
    /// Pixels that have the class.
    pub labeled: f64,
    /// Pixels that it was predicted for.
    pub predicted: f64,
    /// Pixels that are in both.
    pub both: f64,
}

impl ClassOverlap {
    /// Intersection over union; NaN where neither labels nor predictions have the class.
    pub fn iou(&self) -> f64 {
        defined_ratio(self.both, self.labeled + self.predicted - self.both)
    }

    /// The Dice coefficient; NaN as for the other.
    pub fn dice(&self) -> f64 {
        defined_ratio(2.0 * self.both, self.labeled + self.predicted)
    }

    /// The share of the class's pixels that were found; NaN where there are none.
    pub fn accuracy(&self) -> f64 {
        defined_ratio(self.both, self.labeled)
    }
}

/// The overlap of every class.
pub fn overlaps(confusion: &Confusion) -> Vec<ClassOverlap> {
    let classes = confusion.classes;
    let cell = |label: usize, predicted: usize| confusion.counts[label * classes + predicted];
    let of_class = |class: usize| ClassOverlap {
        labeled: (0..classes).map(|other| cell(class, other)).sum(),
        predicted: (0..classes).map(|other| cell(other, class)).sum(),
        both: cell(class, class),
    };
    (0..classes).map(of_class).collect()
}

/// Means over the classes that occur: intersection over union (`miou`, torchmetrics' `MulticlassJaccardIndex` with
/// `average="macro"`), Dice coefficient and share of found pixels (`mean_accuracy`, over classes with labels); `accuracy`, the
/// share of all pixels that are right; and `fwiou`, the mean weighted by how frequent classes are.
pub fn metrics(confusion: &Confusion) -> Vec<Metric> {
    let overlaps = overlaps(confusion);
    let mean = |value: fn(&ClassOverlap) -> f64| {
        let defined: Vec<f64> = overlaps.iter().map(value).filter(|value| !value.is_nan()).collect();
        defined_ratio(defined.iter().sum(), defined.len() as f64)
    };
    let all: f64 = overlaps.iter().map(|overlap| overlap.labeled).sum();
    let right: f64 = overlaps.iter().map(|overlap| overlap.both).sum();
    let present = overlaps.iter().filter(|overlap| overlap.labeled > 0.0);
    let weighted: f64 = present.map(|overlap| overlap.labeled * overlap.iou()).sum();
    vec![
        ("miou".into(), mean(ClassOverlap::iou)),
        ("dice".into(), mean(ClassOverlap::dice)),
        ("accuracy".into(), defined_ratio(right, all)),
        ("mean_accuracy".into(), mean(ClassOverlap::accuracy)),
        ("fwiou".into(), defined_ratio(weighted, all)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_graph::evaluate::evaluate;
    use octant_graph::{HostTensor, Trace};

    #[test]
    fn counts_beyond_what_f32_counts_stay_exact() {
        let (classes, side) = (3, 64);
        let trace = Trace::new();
        let labels: Vec<u8> = (0..side * side).map(|at| if at == 7 { 255 } else { u8::from(at % 5 == 0) }).collect();
        let predicted: Vec<i32> = (0..side * side).map(|at| (at % 3) as i32).collect();
        let label = trace.constant(HostTensor::new([1, side, side, 1], &labels).unwrap());
        let guess = trace.constant(HostTensor::new([1, side, side], &predicted).unwrap());
        let sums = confusion(&label, &guess, classes);
        let graph = trace.finish(&[sums]).unwrap();
        let once = evaluate(&graph, &[]).unwrap()[0].to_f64s();
        // As the device adds them up.
        let images = 10_000;
        let sums: Vec<f64> =
            once.iter().map(|&part| (0..images).fold(0f32, |sum, _| sum + part as f32).into()).collect();
        let matrix = matrix(&sums, classes);
        for (class, guess) in (0..9).map(|cell| (cell / 3, cell % 3)) {
            let count = (0..side * side).filter(|&at| labels[at] as usize == class && predicted[at] as usize == guess);
            assert_eq!(matrix.counts[class * 3 + guess], (images * count.count()) as f64);
        }
        assert!(matrix.counts.iter().sum::<f64>() > (1 << 24) as f64);
        assert!(overlaps(&matrix)[2].accuracy().is_nan() && overlaps(&matrix)[2].iou() == 0.0);
    }
}
