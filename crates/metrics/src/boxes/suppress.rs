//! Non-maximum suppression: of answers that mean the same object, the surest stays.

use super::{FoundBox, Rectangle, by_score};

/// Which answers stay.
#[derive(Debug, Clone, PartialEq)]
pub struct Suppression {
    /// Answers less sure than this are dropped.
    pub score: f32,
    /// An answer that overlaps a surer one of its class more than this is dropped; 1 keeps all.
    pub overlap: f32,
    /// The most answers per image.
    pub most: usize,
    /// A cell answers with every class above the threshold, not only with its best one.
    pub several_classes: bool,
    /// Only these classes, if any are named.
    pub only: Vec<usize>,
}

impl Suppression {
    /// For evaluation: nearly all predictions are kept.
    pub fn evaluation() -> Suppression {
        Suppression { score: 0.001, overlap: 0.7, most: 300, several_classes: true, only: vec![] }
    }

    /// For display.
    pub fn prediction() -> Suppression {
        Suppression { score: 0.25, several_classes: false, ..Suppression::evaluation() }
    }
}

/// Answers that are sorted at all; nothing honest has more.
const CONSIDERED: usize = 30_000;

/// The answers of one image, from rows of left, top, right, bottom and one score per class. Every image is looked at to the
/// end, however long that takes.
pub fn suppress(rows: &[f32], classes: usize, rules: &Suppression) -> Vec<FoundBox> {
    let width = 4 + classes;
    let wanted = |class: &usize| rules.only.is_empty() || rules.only.contains(class);
    let mut candidates: Vec<(f32, usize, usize)> = Vec::new();
    for (cell, row) in rows.chunks_exact(width.max(1)).enumerate() {
        let scores = &row[4..];
        if rules.several_classes {
            let sure = scores.iter().enumerate().filter(|(class, score)| **score > rules.score && wanted(class));
            candidates.extend(sure.map(|(class, &score)| (score, cell, class)));
        } else {
            let best = (0..classes).filter(wanted).rev().max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
            let best = best.map(|class| (scores[class], cell, class)).filter(|(score, ..)| *score > rules.score);
            candidates.extend(best);
        }
    }
    let order = by_score(candidates.iter().map(|&(score, ..)| f64::from(score)));
    let mut kept: Vec<FoundBox> = Vec::new();
    for &index in order.iter().take(CONSIDERED) {
        let (score, cell, class) = candidates[index];
        let corners = &rows[cell * width..][..4];
        let rectangle = Rectangle::of_corners([corners[0], corners[1], corners[2], corners[3]].map(f64::from));
        let repeats =
            |other: &FoundBox| other.class == class && other.rectangle.iou(&rectangle) > f64::from(rules.overlap);
        if rules.overlap >= 1.0 || !kept.iter().any(repeats) {
            kept.push(FoundBox { class, rectangle, score: f64::from(score) });
            if kept.len() == rules.most {
                break;
            }
        }
    }
    kept
}
