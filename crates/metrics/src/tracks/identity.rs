//! Identity metrics.

use super::{MATCH, Sequence};
use octant_graph::assignment::assign;

/// Boxes of the right identity, wrong ones and missed ones, where every object is matched with at most one track such that most
/// boxes are right.
pub(super) fn counts(sequence: &Sequence) -> [f64; 3] {
    let columns = sequence.found.len();
    let mut together = vec![0.0; sequence.truth.len() * columns];
    for frame in &sequence.frames {
        let width = frame.found.len();
        for (at, _) in frame.overlaps.iter().enumerate().filter(|(_, overlap)| **overlap >= MATCH) {
            together[frame.truth[at / width] * columns + frame.found[at % width]] += 1.0;
        }
    }
    let costs: Vec<f64> = together.iter().map(|count| -count).collect();
    let right: f64 = assign(&costs, columns)
        .into_iter()
        .enumerate()
        .filter_map(|(row, column)| Some(together[row * columns + column?]))
        .sum();
    let [truth, found]: [f64; 2] = [&sequence.truth, &sequence.found].map(|counts| counts.iter().sum());
    [right, found - right, truth - right]
}
