//! Quality of features without training the network: how well they separate classes, by k nearest neighbors and by a linear
//! probe, and the distance between two sets of images.

mod distance;
mod probe;

pub use distance::{FeatureSet, frechet_distance, kernel_distance};
pub use probe::{LinearProbe, ProbeSettings};

use crate::{in_parts, ratio};

/// Features of samples, one row after another, with the samples' classes.
#[derive(Debug, Clone, Default)]
pub struct Labeled {
    /// `rows · width` numbers.
    pub values: Vec<f32>,
    /// Numbers per sample.
    pub width: usize,
    /// The class of every row.
    pub classes: Vec<usize>,
}

impl Labeled {
    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks(self.width.max(1))
    }
}

/// The share of classes that were guessed right.
pub fn accuracy(guesses: &[usize], classes: &[usize]) -> f64 {
    let right = guesses.iter().zip(classes).filter(|(guess, class)| guess == class).count();
    ratio(right as f64, classes.len() as f64)
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    // Several sums at once, so that the compiler uses vectors.
    let mut sums = [0f32; 16];
    let (a, b) = (left.chunks_exact(16), right.chunks_exact(16));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    for (a, b) in a.zip(b) {
        (0..16).for_each(|lane| sums[lane] += a[lane] * b[lane]);
    }
    sums.iter().sum::<f32>() + rest
}

/// What similarities are divided by before they become weights, in DINO's evaluation.
pub const TEMPERATURE: f64 = 0.07;

/// Queries per chunk of a thread.
const PART: usize = 64;

/// The classes of queries by a vote of the `count` training samples with the largest cosine similarity, each with the
/// weight `exp(similarity / temperature)`.
pub fn nearest_neighbors(
    train: &Labeled,
    queries: &[f32],
    classes: usize,
    count: usize,
    temperature: f64,
) -> Vec<usize> {
    let width = train.width.max(1);
    let known: Vec<f32> = train.rows().flat_map(normalized).collect();
    let predictions = in_parts(queries.len() / width, PART, |part| {
        part.map(|query| {
            let query = normalized(&queries[query * width..(query + 1) * width]);
            let similar = known.chunks(width).map(|row| dot(row, &query));
            vote(similar.zip(train.classes.iter().copied()).collect(), classes, count, temperature)
        })
        .collect::<Vec<usize>>()
    });
    predictions.concat()
}

fn vote(mut similar: Vec<(f32, usize)>, classes: usize, count: usize, temperature: f64) -> usize {
    let count = count.min(similar.len());
    if count == 0 {
        return 0;
    }
    similar.select_nth_unstable_by(count - 1, |a, b| b.0.total_cmp(&a.0));
    let mut votes = vec![0f64; classes.max(1)];
    for &(similarity, class) in &similar[..count] {
        if let Some(vote) = votes.get_mut(class) {
            *vote += ((f64::from(similarity) - 1.0) / temperature).exp();
        }
    }
    // The first of equals.
    (0..votes.len()).rev().max_by(|&a, &b| votes[a].total_cmp(&votes[b])).unwrap_or(0)
}

fn normalized(row: &[f32]) -> Vec<f32> {
    let norm = dot(row, row).sqrt().max(1e-12);
    row.iter().map(|value| value / norm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three classes in the corners of a triangle, with some spread.
    fn triangle(count: usize, phase: f32) -> Labeled {
        let mut labeled = Labeled { width: 3, ..Labeled::default() };
        for index in 0..count {
            let class = index % 3;
            let noise = |axis: usize| ((index * 7 + axis * 3) as f32 * 0.9 + phase).sin() * 0.4;
            labeled.values.extend((0..3).map(|axis| f32::from(u8::from(axis == class)) + noise(axis)));
            labeled.classes.push(class);
        }
        labeled
    }

    #[test]
    fn neighbors_and_a_linear_layer_find_classes_that_lie_apart() {
        let (train, test) = (triangle(90, 0.0), triangle(30, 0.5));
        let guesses = nearest_neighbors(&train, &test.values, 3, 5, TEMPERATURE);
        assert!(accuracy(&guesses, &test.classes) > 0.9, "{guesses:?}");
        let probe = LinearProbe::fit(&train, 3, &ProbeSettings::default());
        assert!(accuracy(&probe.classify(&test.values), &test.classes) > 0.9);
    }

    #[test]
    fn a_vote_of_the_nearest_outweighs_two_far_ones() {
        let train = Labeled { values: vec![1.0, 0.0, 0.0, 1.0, -0.1, 1.0], width: 2, classes: vec![0, 1, 1] };
        assert_eq!(nearest_neighbors(&train, &[1.0, 0.1], 2, 3, TEMPERATURE), [0]);
        // Without a temperature to speak of, all votes are alike.
        assert_eq!(nearest_neighbors(&train, &[1.0, 0.1], 2, 3, 1e3), [1]);
    }

    #[test]
    fn a_linear_layer_minimizes_its_loss() {
        // Logistic regression on one feature at ±1, both classes alike but for one sample: log-odds are known.
        let train = Labeled {
            values: vec![1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0],
            width: 1,
            classes: vec![1, 1, 1, 0, 0, 0, 0, 1],
        };
        let settings = ProbeSettings { decay: 0.0, iterations: 2000 };
        let probe = LinearProbe::fit(&train, 2, &settings);
        let logits = probe.logits(&[1.0]);
        assert!((logits[1] - logits[0] - 3f32.ln()).abs() < 1e-3, "{logits:?}");
    }
}
