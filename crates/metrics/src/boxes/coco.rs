//! COCO's average precision and recall (Lin et al., 2014), by the rules of its published evaluation code: precision as a
//! step function of recall, 101 points, at most 100 predictions per image, crowds ignored, absent classes left out.

use super::matching::{ImageClass, Matched};
use super::{BoxScores, by_score, envelope};
use crate::Metric;

/// Objects by area in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeRange {
    /// All.
    All,
    /// Below 32².
    Small,
    /// From 32² to 96².
    Medium,
    /// Above 96².
    Large,
}

impl SizeRange {
    const EACH: [SizeRange; 4] = [SizeRange::All, SizeRange::Small, SizeRange::Medium, SizeRange::Large];

    /// The minimum and the maximum area.
    pub fn areas(self) -> [f64; 2] {
        const HUGE: f64 = 1e10;
        match self {
            SizeRange::All => [0.0, HUGE],
            SizeRange::Small => [0.0, 1024.0],
            SizeRange::Medium => [1024.0, 9216.0],
            SizeRange::Large => [9216.0, HUGE],
        }
    }
}

/// Limits on predictions per image.
const MOST: [usize; 3] = [1, 10, 100];
const POINTS: usize = 101;
const THRESHOLDS: usize = 10;

/// 0.50, 0.55 … 0.95 as NumPy's `linspace` makes them.
pub(super) fn thresholds() -> [f64; THRESHOLDS] {
    let step = (0.95 - 0.5) / 9.0;
    std::array::from_fn(|index| if index == THRESHOLDS - 1 { 0.95 } else { index as f64 * step + 0.5 })
}

/// COCO's summary. Values are −1 where there are no objects.
#[derive(Debug, Clone, PartialEq)]
pub struct CocoSummary {
    /// In COCO's order: AP, AP50, AP75, AP of small, medium and large objects; AR with 1, 10 and 100 predictions, AR of small,
    /// medium and large objects.
    pub figures: [f64; 12],
    /// AP per class.
    pub per_class: Vec<f64>,
    /// AP50 per class.
    pub per_class_50: Vec<f64>,
}

impl CocoSummary {
    /// Names of the twelve figures.
    pub const NAMES: [&'static str; 12] = [
        "mAP50-95",
        "mAP50",
        "mAP75",
        "mAP-small",
        "mAP-medium",
        "mAP-large",
        "AR-1",
        "AR-10",
        "AR-100",
        "AR-small",
        "AR-medium",
        "AR-large",
    ];

    /// The figures that exist, with their names.
    pub fn metrics(&self) -> Vec<Metric> {
        let named = Self::NAMES.into_iter().zip(self.figures).filter(|(_, value)| *value >= 0.0);
        named.map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// Precision and recall of one class over one range of sizes with one limit on predictions.
struct Cell {
    /// `[threshold][point]`.
    precision: Vec<[f64; POINTS]>,
    /// `[threshold]`.
    recall: Vec<f64>,
}

impl BoxScores {
    /// COCO's twelve figures and what they are per class.
    pub fn coco(&self) -> CocoSummary {
        let thresholds = thresholds();
        // [class][size][most]
        let cells: Vec<Vec<[Option<Cell>; 3]>> =
            (0..self.classes).map(|class| self.class_cells(class, &thresholds)).collect();
        let mean_precision = |size: usize, chosen: &dyn Fn(usize) -> bool| {
            let of_cell = |cell: &Cell| -> Vec<f64> {
                let rows = cell.precision.iter().enumerate().filter(|(threshold, _)| chosen(*threshold));
                rows.flat_map(|(_, row)| *row).collect()
            };
            mean(cells.iter().filter_map(|sizes| sizes[size][2].as_ref()).flat_map(of_cell))
        };
        let mean_recall = |size: usize, most: usize| {
            mean(cells.iter().filter_map(|sizes| sizes[size][most].as_ref()).flat_map(|cell| cell.recall.clone()))
        };
        let all = |_: usize| true;
        let figures = [
            mean_precision(0, &all),
            mean_precision(0, &|threshold| threshold == 0),
            mean_precision(0, &|threshold| threshold == 5),
            mean_precision(1, &all),
            mean_precision(2, &all),
            mean_precision(3, &all),
            mean_recall(0, 0),
            mean_recall(0, 1),
            mean_recall(0, 2),
            mean_recall(1, 2),
            mean_recall(2, 2),
            mean_recall(3, 2),
        ];
        let of_class = |rows: &dyn Fn(&Cell) -> Vec<f64>| -> Vec<f64> {
            cells.iter().map(|sizes| mean(sizes[0][2].iter().flat_map(rows))).collect()
        };
        let per_class = of_class(&|cell| cell.precision.concat());
        let per_class_50 = of_class(&|cell| cell.precision[0].to_vec());
        CocoSummary { figures, per_class, per_class_50 }
    }

    fn class_cells(&self, class: usize, thresholds: &[f64]) -> Vec<[Option<Cell>; 3]> {
        let images: Vec<ImageClass> =
            self.images.iter().filter_map(|(truth, found)| ImageClass::new(class, truth, found, MOST[2])).collect();
        let of_size = |size: SizeRange| {
            let matched: Vec<Matched> = images.iter().map(|image| image.matched(thresholds, size.areas())).collect();
            MOST.map(|most| cell(&matched, most, thresholds.len()))
        };
        SizeRange::EACH.map(of_size).into()
    }
}

fn cell(images: &[Matched], most: usize, thresholds: usize) -> Option<Cell> {
    let wanted: usize = images.iter().map(|image| image.wanted).sum();
    if wanted == 0 {
        return None;
    }
    // Predictions of all images: image and index, in order of score.
    let answers: Vec<(usize, usize)> = images
        .iter()
        .enumerate()
        .flat_map(|(image, matched)| (0..matched.scores.len().min(most)).map(move |position| (image, position)))
        .collect();
    let order = by_score(answers.iter().map(|&(image, position)| images[image].scores[position]));
    let mut result = Cell { precision: Vec::new(), recall: Vec::new() };
    for threshold in 0..thresholds {
        let (mut right, mut wrong) = (0.0, 0.0);
        let (mut precision, mut recall) = (Vec::new(), Vec::new());
        for &index in &order {
            let (image, position) = answers[index];
            let matched = images[image].matched[threshold][position];
            if !images[image].ignored[threshold][position] {
                if matched { right += 1.0 } else { wrong += 1.0 }
            }
            recall.push(right / wanted as f64);
            precision.push(right / (wrong + right + f64::EPSILON));
        }
        envelope(&mut precision);
        result.recall.push(recall.last().copied().unwrap_or(0.0));
        result.precision.push(std::array::from_fn(|point| {
            let least = if point == POINTS - 1 { 1.0 } else { point as f64 * 0.01 };
            let position = recall.partition_point(|&recall| recall < least);
            precision.get(position).copied().unwrap_or(0.0)
        }));
    }
    Some(result)
}

/// The mean, or −1 of nothing.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for value in values {
        sum += value;
        count += 1;
    }
    if count == 0 { -1.0 } else { sum / count as f64 }
}
