//! Higher-order tracking accuracy.

use super::{EPSILON, Frame, Sequence};
use octant_graph::assignment::assign;

/// The limits of overlap: 0.05, 0.10, …, 0.95.
const LIMITS: usize = 19;

pub(super) struct Hota {
    pub hota: f64,
    pub deta: f64,
    pub assa: f64,
    pub loca: f64,
}

impl Hota {
    pub fn of(sequence: &Sequence) -> Hota {
        let columns = sequence.found.len();
        let similarity = similarity(sequence);
        let limit = |number: usize| 0.05 * (number + 1) as f64;
        let mut counts = vec![vec![0.0; similarity.len()]; LIMITS];
        let (mut matched, mut overlap, mut boxes) = ([0.0f64; LIMITS], [0.0f64; LIMITS], 0.0);
        for frame in &sequence.frames {
            boxes += (frame.truth.len() + frame.found.len()) as f64;
            let width = frame.found.len();
            // Pairs that belong together over the whole sequence are preferred.
            let cost = |(at, overlap): (usize, &f64)| {
                let (truth, found) = (frame.truth[at / width], frame.found[at % width]);
                -similarity[truth * columns + found] * overlap
            };
            let costs: Vec<f64> = frame.overlaps.iter().enumerate().map(cost).collect();
            for (row, column) in assign(&costs, width).into_iter().enumerate() {
                let Some(column) = column else { continue };
                let own = frame.overlaps[row * width + column];
                for number in (0..LIMITS).filter(|&number| own >= limit(number) - EPSILON) {
                    matched[number] += 1.0;
                    overlap[number] += own;
                    counts[number][frame.truth[row] * columns + frame.found[column]] += 1.0;
                }
            }
        }
        let mut mean = Hota { hota: 0.0, deta: 0.0, assa: 0.0, loca: 0.0 };
        for number in 0..LIMITS {
            let together = |(at, &count): (usize, &f64)| {
                let all = sequence.truth[at / columns] + sequence.found[at % columns] - count;
                count * count / all.max(1.0)
            };
            let assa = counts[number].iter().enumerate().map(together).sum::<f64>() / matched[number].max(1.0);
            // True positives, misses and wrong boxes: a match is in both sides.
            let deta = matched[number] / (boxes - matched[number]).max(1.0);
            mean.hota += (deta * assa).sqrt() / LIMITS as f64;
            mean.deta += deta / LIMITS as f64;
            mean.assa += assa / LIMITS as f64;
            mean.loca += overlap[number].max(1e-10) / matched[number].max(1e-10) / LIMITS as f64;
        }
        mean
    }
}

/// How well every pair of tracks belongs together: the Jaccard index of their frames, in which pairs count by how much of the
/// overlap of both boxes is theirs.
fn similarity(sequence: &Sequence) -> Vec<f64> {
    let columns = sequence.found.len();
    let mut together = vec![0.0; sequence.truth.len() * columns];
    for frame in &sequence.frames {
        let Frame { truth, found, overlaps } = frame;
        let width = found.len();
        let of_row: Vec<f64> = overlaps.chunks(width.max(1)).map(|row| row.iter().sum()).collect();
        let of_column: Vec<f64> =
            (0..width).map(|column| (0..truth.len()).map(|row| overlaps[row * width + column]).sum()).collect();
        for (at, &overlap) in overlaps.iter().enumerate() {
            let (row, column) = (at / width, at % width);
            let all = of_row[row] + of_column[column] - overlap;
            if all > EPSILON {
                together[truth[row] * columns + found[column]] += overlap / all;
            }
        }
    }
    let share =
        |(at, &both): (usize, &f64)| both / (sequence.truth[at / columns] + sequence.found[at % columns] - both);
    together.iter().enumerate().map(share).collect()
}
