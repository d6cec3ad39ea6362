//! COCO's average precision and recall (Lin et al., 2014), by the rules of its published evaluation code: precision as a
//! step function of recall, 101 points, at most 100 predictions per image, crowds ignored, absent classes left out.

use super::matching::{ImageClass, PredictionMatch, THRESHOLDS};
use super::{BoxScores, ClassBoxes, by_score, envelope};
use crate::{Metric, in_parts};

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
pub(super) const MOST: [usize; 3] = [1, 10, 100];
const POINTS: usize = 101;

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
    /// Recall at overlaps of 0.50 and 0.75, which COCO reports of keypoints.
    pub recall_50_75: [f64; 2],
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

    /// Names of the ten figures that COCO has of keypoints.
    pub const KEYPOINT_NAMES: [&'static str; 10] =
        ["mAP50-95", "mAP50", "mAP75", "mAP-medium", "mAP-large", "AR", "AR50", "AR75", "AR-medium", "AR-large"];

    /// COCO's ten figures of keypoints, in its order: it knows no small objects with keypoints, and one limit on predictions.
    pub fn keypoint_figures(&self) -> [f64; 10] {
        let [ap, ap_50, ap_75, _, ap_medium, ap_large, _, _, ar, _, ar_medium, ar_large] = self.figures;
        let [ar_50, ar_75] = self.recall_50_75;
        [ap, ap_50, ap_75, ap_medium, ap_large, ar, ar_50, ar_75, ar_medium, ar_large]
    }

    /// The figures that exist, with their names.
    pub fn metrics(&self) -> Vec<Metric> {
        let named = Self::NAMES.into_iter().zip(self.figures).filter(|(_, value)| *value >= 0.0);
        named.map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// Precision and recall of one class over one range of sizes.
struct Cell {
    /// `[threshold][point]`.
    precision: [[f64; POINTS]; THRESHOLDS],
    /// `[limit][threshold]`.
    recall: [[f64; THRESHOLDS]; MOST.len()],
}

/// The cells of a class, by range of sizes; nothing where there are no objects.
type Cells = [Option<Cell>; SizeRange::EACH.len()];

impl BoxScores {
    /// COCO's twelve figures and what they are per class.
    pub fn coco(&self) -> CocoSummary {
        CocoSummary::of(&self.by_class(), self.limits)
    }
}

impl CocoSummary {
    pub(super) fn of(classes: &[ClassBoxes], limits: [usize; 3]) -> CocoSummary {
        let thresholds = thresholds();
        let cells: Vec<Cells> = in_parts(classes.len(), 1, |part| cells(&classes[part.start], &thresholds, limits));
        let of_size = |size: usize| cells.iter().filter_map(move |sizes| sizes[size].as_ref());
        let mean_precision = |size: usize, chosen: std::ops::Range<usize>| {
            mean(of_size(size).flat_map(|cell| cell.precision[chosen.clone()].iter().flatten().copied()))
        };
        let mean_recall = |size: usize, limit: usize| mean(of_size(size).flat_map(|cell| cell.recall[limit]));
        let figures = [
            mean_precision(0, 0..THRESHOLDS),
            mean_precision(0, 0..1),
            mean_precision(0, 5..6),
            mean_precision(1, 0..THRESHOLDS),
            mean_precision(2, 0..THRESHOLDS),
            mean_precision(3, 0..THRESHOLDS),
            mean_recall(0, 0),
            mean_recall(0, 1),
            mean_recall(0, 2),
            mean_recall(1, 2),
            mean_recall(2, 2),
            mean_recall(3, 2),
        ];
        let of_class = |chosen: std::ops::Range<usize>| -> Vec<f64> {
            let rows = |cell: &Cell| cell.precision[chosen.clone()].concat();
            cells.iter().map(|sizes| mean(sizes[0].iter().flat_map(rows))).collect()
        };
        let recall_at = |threshold: usize| mean(of_size(0).map(|cell| cell.recall[2][threshold]));
        let recall_50_75 = [0, 5].map(recall_at);
        CocoSummary { figures, per_class: of_class(0..THRESHOLDS), per_class_50: of_class(0..1), recall_50_75 }
    }
}

fn cells(class: &ClassBoxes, thresholds: &[f64; THRESHOLDS], limits: [usize; 3]) -> Cells {
    let limited = |found: &'_ [&_]| found.len().min(limits[2]);
    let images: Vec<ImageClass> = class.images().map(|image| ImageClass::new(image, limits[2])).collect();
    let predictions: Vec<RankedPrediction> = class
        .images()
        .flat_map(|image| image.found[..limited(image.found)].iter().enumerate())
        .map(|(rank, prediction)| RankedPrediction { score: prediction.score, rank })
        .collect();
    let order = by_score(predictions.iter().map(|prediction| prediction.score));
    SizeRange::EACH.map(|size| {
        let mut matches = Vec::with_capacity(predictions.len());
        let wanted = images.iter().map(|image| image.matched(thresholds, size.areas(), &mut matches)).sum();
        let sorted: Vec<(PredictionMatch, usize)> =
            order.iter().map(|&index| (matches[index], predictions[index].rank)).collect();
        cell(&sorted, wanted, limits)
    })
}

/// A prediction of any image.
struct RankedPrediction {
    score: f64,
    /// How many predictions of its image and class score higher.
    rank: usize,
}

/// The cell of predictions in order of score, each with its rank.
fn cell(predictions: &[(PredictionMatch, usize)], wanted: usize, limits: [usize; 3]) -> Option<Cell> {
    if wanted == 0 {
        return None;
    }
    let mut result = Cell { precision: [[0.0; POINTS]; THRESHOLDS], recall: [[0.0; THRESHOLDS]; MOST.len()] };
    let (mut precision, mut recall) = (vec![0.0; predictions.len()], vec![0.0; predictions.len()]);
    for threshold in 0..THRESHOLDS {
        let (mut right, mut wrong) = (0.0, 0.0);
        for (index, (one_match, _)) in predictions.iter().enumerate() {
            right += f64::from(u8::from(one_match.is_right(threshold)));
            wrong += f64::from(u8::from(one_match.is_wrong(threshold)));
            recall[index] = right / wanted as f64;
            precision[index] = right / (wrong + right + f64::EPSILON);
        }
        envelope(&mut precision);
        result.precision[threshold] = std::array::from_fn(|point| {
            let least = if point == POINTS - 1 { 1.0 } else { point as f64 * 0.01 };
            let position = recall.partition_point(|&recall| recall < least);
            precision.get(position).copied().unwrap_or(0.0)
        });
        for (recall, most) in result.recall.iter_mut().zip(limits) {
            let right =
                predictions.iter().filter(|(one_match, rank)| *rank < most && one_match.is_right(threshold)).count();
            recall[threshold] = right as f64 / wanted as f64;
        }
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
