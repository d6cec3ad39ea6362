//! k-nearest-neighbor classification, weighted as in DINO.

use super::{Labeled, dot, in_parts};

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
    let answers = in_parts(queries.len() / width, PART, |part| {
        part.map(|query| {
            let query = normalized(&queries[query * width..(query + 1) * width]);
            let similar = known.chunks(width).map(|row| dot(row, &query));
            vote(similar.zip(train.classes.iter().copied()).collect(), classes, count, temperature)
        })
        .collect::<Vec<usize>>()
    });
    answers.concat()
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
