//! The CLEAR metrics.

use super::{EPSILON, MATCH, Sequence};
use octant_graph::assignment::assign;

/// A pair that was matched in the frame before is matched again if it still overlaps enough.
const AGAIN: f64 = 1000.0;

#[derive(Default)]
pub(super) struct Clear {
    pub matched: f64,
    pub wrong: f64,
    pub missed: f64,
    pub switches: f64,
    pub fragments: f64,
    pub overlap: f64,
    pub followed: [f64; 3],
}

impl Clear {
    pub fn of(sequence: &Sequence) -> Clear {
        let objects = sequence.truth.len();
        // The track that an object was last matched with, and the one of the frame before.
        let (mut last, mut before): (Vec<Option<usize>>, Vec<Option<usize>>) =
            (vec![None; objects], vec![None; objects]);
        let (mut followed, mut begun) = (vec![0.0; objects], vec![0.0; objects]);
        let mut sums = Clear::default();
        for frame in &sequence.frames {
            // Frames without objects or without tracks change nothing of what was matched before.
            if frame.truth.is_empty() || frame.found.is_empty() {
                sums.wrong += frame.found.len() as f64;
                sums.missed += frame.truth.len() as f64;
                continue;
            }
            let width = frame.found.len();
            let worth = |(at, &overlap): (usize, &f64)| {
                let is_again = before[frame.truth[at / width]] == Some(frame.found[at % width]);
                let worth = if is_again { AGAIN + overlap } else { overlap };
                if overlap < MATCH - EPSILON { 0.0 } else { worth }
            };
            let costs: Vec<f64> = frame.overlaps.iter().enumerate().map(|pair| -worth(pair)).collect();
            let mut now = vec![None; objects];
            let mut matched = 0.0;
            for (row, column) in assign(&costs, width).into_iter().enumerate() {
                let Some(column) = column.filter(|column| costs[row * width + column] < -EPSILON) else { continue };
                let (object, track) = (frame.truth[row], frame.found[column]);
                matched += 1.0;
                sums.overlap += frame.overlaps[row * width + column];
                sums.switches += f64::from(u8::from(last[object].is_some_and(|last| last != track)));
                followed[object] += 1.0;
                begun[object] += f64::from(u8::from(before[object].is_none()));
                (last[object], now[object]) = (Some(track), Some(track));
            }
            before = now;
            sums.matched += matched;
            sums.wrong += width as f64 - matched;
            sums.missed += frame.truth.len() as f64 - matched;
        }
        for (object, frames) in sequence.truth.iter().enumerate() {
            let share = followed[object] / frames;
            let class = if share > 0.8 {
                0
            } else if share >= 0.2 {
                1
            } else {
                2
            };
            sums.followed[class] += 1.0;
            sums.fragments += (begun[object] - 1.0f64).max(0.0);
        }
        sums
    }
}
