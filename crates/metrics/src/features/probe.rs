//! A linear layer on features that stay as they are: multinomial logistic regression on the host.
//!
//! The loss is convex and smooth, so accelerated gradient descent with the step that its curvature allows finds the minimum
//! without a learning rate to choose, and always the same one.

use super::{Labeled, dot};
use crate::in_parts;

/// How the layer is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeSettings {
    /// The factor of half the squared norm of the weights, beside the mean cross-entropy.
    pub decay: f64,
    /// Steps.
    pub iterations: usize,
}

impl Default for ProbeSettings {
    fn default() -> ProbeSettings {
        ProbeSettings { decay: 1e-4, iterations: 300 }
    }
}

/// A linear layer over standardized features.
#[derive(Debug, Clone)]
pub struct LinearProbe {
    mean: Vec<f32>,
    /// One over the standard deviation.
    sharpness: Vec<f32>,
    /// Per class a weight per feature, then the bias.
    weights: Vec<f32>,
    classes: usize,
}

/// Rows that one thread sums over at a time.
const PART: usize = 256;

impl LinearProbe {
    /// Fits the layer that separates the classes of these samples best.
    pub fn fit(train: &Labeled, classes: usize, settings: &ProbeSettings) -> LinearProbe {
        let (mean, sharpness) = standardization(train);
        let weights = vec![0f32; classes * (train.width + 1)];
        let mut probe = LinearProbe { mean, sharpness, weights, classes };
        let rows = probe.rows(&train.values);
        // The curvature of a softmax is at most half that of its inputs.
        let step = 1.0 / (0.5 * largest_curvature(&rows, train.width + 1) + settings.decay).max(1e-12);
        let mut ahead = probe.weights.clone();
        for iteration in 0..settings.iterations {
            let gradient = gradient(&rows, &train.classes, &ahead, classes, settings.decay);
            let next: Vec<f32> = ahead.iter().zip(&gradient).map(|(w, g)| (f64::from(*w) - step * g) as f32).collect();
            let momentum = iteration as f32 / (iteration as f32 + 3.0);
            ahead = next.iter().zip(&probe.weights).map(|(new, old)| new + momentum * (new - old)).collect();
            probe.weights = next;
        }
        probe
    }

    /// The classes of rows of features.
    pub fn classify(&self, values: &[f32]) -> Vec<usize> {
        let width = self.mean.len().max(1);
        let best = |row: &[f32]| {
            let logits = self.logits(row);
            (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
        };
        values.chunks(width).map(best).collect()
    }

    /// The logits of one row.
    pub fn logits(&self, row: &[f32]) -> Vec<f32> {
        let row = self.rows(row);
        self.weights.chunks(row.len().max(1)).take(self.classes).map(|weights| dot(weights, &row)).collect()
    }

    /// Standardized features with a 1 behind each row.
    fn rows(&self, values: &[f32]) -> Vec<f32> {
        let width = self.mean.len().max(1);
        let row = |row: &[f32]| {
            let standard =
                row.iter().zip(&self.mean).zip(&self.sharpness).map(|((value, mean), by)| (value - mean) * by);
            standard.chain([1.0]).collect::<Vec<f32>>()
        };
        values.chunks(width).flat_map(row).collect()
    }
}

fn standardization(train: &Labeled) -> (Vec<f32>, Vec<f32>) {
    let count = train.classes.len().max(1) as f64;
    let (mut sums, mut squares) = (vec![0f64; train.width], vec![0f64; train.width]);
    for row in train.rows() {
        for (index, &value) in row.iter().enumerate() {
            sums[index] += f64::from(value);
            squares[index] += f64::from(value) * f64::from(value);
        }
    }
    let mean: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
    let deviation = squares.iter().zip(&mean).map(|(square, mean)| (square / count - mean * mean).max(0.0).sqrt());
    // Constant features have no weight.
    let sharpness = deviation.map(|deviation| if deviation > 1e-9 { (1.0 / deviation) as f32 } else { 0.0 }).collect();
    (mean.iter().map(|&mean| mean as f32).collect(), sharpness)
}

/// The largest eigenvalue of the mean outer product of rows, by power iteration, rounded up a little.
fn largest_curvature(rows: &[f32], width: usize) -> f64 {
    let count = (rows.len() / width).max(1);
    let mut direction = vec![1.0 / (width as f32).sqrt(); width];
    let mut largest = 0.0;
    for _ in 0..20 {
        let parts = in_parts(count, PART, |part| {
            let mut sum = vec![0f64; width];
            for row in rows[part.start * width..part.end * width].chunks(width) {
                let along = dot(row, &direction);
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(along * value));
            }
            sum
        });
        let next: Vec<f64> =
            (0..width).map(|index| parts.iter().map(|part| part[index]).sum::<f64>() / count as f64).collect();
        largest = next.iter().map(|value| value * value).sum::<f64>().sqrt();
        direction = next.iter().map(|value| (value / largest.max(1e-30)) as f32).collect();
    }
    1.1 * largest
}

/// The gradient of the mean cross-entropy and of the decay, biases without it.
fn gradient(rows: &[f32], labels: &[usize], weights: &[f32], classes: usize, decay: f64) -> Vec<f64> {
    let width = weights.len() / classes.max(1);
    let parts = in_parts(labels.len(), PART, |part| {
        let mut sum = vec![0f32; weights.len()];
        for sample in part {
            let row = &rows[sample * width..(sample + 1) * width];
            let logits: Vec<f32> = weights.chunks(width).map(|weights| dot(weights, row)).collect();
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let total: f32 = logits.iter().map(|logit| (logit - max).exp()).sum();
            for (class, sum) in sum.chunks_mut(width).enumerate() {
                let error = (logits[class] - max).exp() / total - f32::from(u8::from(class == labels[sample]));
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += error * value);
            }
        }
        sum
    });
    let count = labels.len().max(1) as f64;
    let decayed = |index: usize| if index % width == width - 1 { 0.0 } else { decay * f64::from(weights[index]) };
    (0..weights.len())
        .map(|index| parts.iter().map(|part| f64::from(part[index])).sum::<f64>() / count + decayed(index))
        .collect()
}
