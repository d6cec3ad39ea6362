//! Non-maximum suppression: of predictions for the same object, the highest-scoring stays.

use super::{PredictedBox, Rectangle, by_score};

/// Which predictions stay.
#[derive(Debug, Clone, PartialEq)]
pub struct Suppression {
    /// Predictions that score less than this are dropped.
    pub score: f32,
    /// A prediction that overlaps a higher-scoring one of its class more than this is dropped; 1 keeps all.
    pub overlap: f32,
    /// The most predictions per image.
    pub most: usize,
    /// A cell predicts every class above the threshold, not only its best one.
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

/// The most candidates that are sorted; real images have far fewer.
const CONSIDERED: usize = 30_000;

/// The predictions of one image, from rows of left, top, right, bottom and one score per class. Every image is looked at to the
/// end, however long that takes.
pub fn suppress(rows: &[f32], classes: usize, rules: &Suppression) -> Vec<PredictedBox> {
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
    let mut kept: Vec<PredictedBox> = Vec::new();
    for &index in order.iter().take(CONSIDERED) {
        let (score, cell, class) = candidates[index];
        let corners = &rows[cell * width..][..4];
        let rectangle = Rectangle::of_corners([corners[0], corners[1], corners[2], corners[3]].map(f64::from));
        let repeats =
            |other: &PredictedBox| other.class == class && other.rectangle.iou(&rectangle) > f64::from(rules.overlap);
        if rules.overlap >= 1.0 || !kept.iter().any(repeats) {
            kept.push(PredictedBox { class, rectangle, score: f64::from(score) });
            if kept.len() == rules.most {
                break;
            }
        }
    }
    kept
}
