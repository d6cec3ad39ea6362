//! Non-maximum suppression: of predictions for the same object, the highest-scoring stays.

use super::{PredictedBox, Rectangle, by_score};
use octant_imaging::polygon::{RotatedRectangle, bounds};

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

/// What a row of predictions holds: left, top, right, bottom, one score per class, and so many further numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellRow {
    /// How many classes there are.
    pub classes: usize,
    /// Numbers behind the scores.
    pub details: usize,
    /// The first of them are the radians by which the box is rotated around its center.
    pub rotated: bool,
}

impl CellRow {
    /// Numbers per row.
    pub fn width(&self) -> usize {
        4 + self.classes + self.details
    }

    /// What comes behind the scores of a row.
    pub fn details<'a>(&self, rows: &'a [f32], cell: usize) -> &'a [f32] {
        &rows[cell * self.width() + 4 + self.classes..][..self.details]
    }

    /// The rotated box of a row.
    pub fn rectangle(&self, rows: &[f32], cell: usize) -> RotatedRectangle {
        let corners = &rows[cell * self.width()..][..4];
        let [x0, y0, x1, y1] = [corners[0], corners[1], corners[2], corners[3]].map(f64::from);
        let angle = self.details(rows, cell).first().map_or(0.0, |&angle| f64::from(angle));
        RotatedRectangle { center: [(x0 + x1) / 2.0, (y0 + y1) / 2.0], size: [x1 - x0, y1 - y0], angle }
    }
}

/// A prediction that was kept, and the row that it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kept {
    /// The prediction; of a rotated box the upright rectangle around it.
    pub found: PredictedBox,
    /// The number of its row.
    pub cell: usize,
}

/// The predictions of one image, from rows of left, top, right, bottom and one score per class. Every image is looked at to the
/// end, however long that takes.
pub fn suppress(rows: &[f32], classes: usize, rules: &Suppression) -> Vec<PredictedBox> {
    let row = CellRow { classes, ..CellRow::default() };
    suppress_cells(rows, row, rules).into_iter().map(|kept| kept.found).collect()
}

/// The same for rows that hold more. Rotated boxes suppress each other by their probabilistic overlap.
pub fn suppress_cells(rows: &[f32], row: CellRow, rules: &Suppression) -> Vec<Kept> {
    let (classes, width) = (row.classes, row.width());
    let wanted = |class: &usize| rules.only.is_empty() || rules.only.contains(class);
    let mut candidates: Vec<(f32, usize, usize)> = Vec::new();
    for (cell, numbers) in rows.chunks_exact(width.max(1)).enumerate() {
        let scores = &numbers[4..4 + classes];
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
    let mut kept: Vec<Kept> = Vec::new();
    let mut rotated: Vec<RotatedRectangle> = Vec::new();
    for &index in order.iter().take(CONSIDERED) {
        let (score, cell, class) = candidates[index];
        let corners = &rows[cell * width..][..4];
        let own = row.rotated.then(|| row.rectangle(rows, cell));
        let rectangle = match &own {
            Some(own) => Rectangle::of_corners(bounds(own.corners()).unwrap_or_default()),
            None => Rectangle::of_corners([corners[0], corners[1], corners[2], corners[3]].map(f64::from)),
        };
        let limit = f64::from(rules.overlap);
        let repeats = |(number, other): (usize, &Kept)| {
            other.found.class == class
                && match &own {
                    Some(own) => rotated[number].prob_iou(own) > limit,
                    None => other.found.rectangle.iou(&rectangle) > limit,
                }
        };
        if rules.overlap >= 1.0 || !kept.iter().enumerate().any(repeats) {
            kept.push(Kept { found: PredictedBox { class, rectangle, score: f64::from(score) }, cell });
            rotated.extend(own);
            if kept.len() == rules.most {
                break;
            }
        }
    }
    kept
}
