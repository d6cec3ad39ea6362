//! The loss of task-aligned detectors (YOLOv8 and its successors): class scores by binary cross-entropy, boxes by complete
//! IoU, and the distances themselves by the distribution focal loss (Li et al., "Generalized Focal Loss", 2020).

use super::assign::{Assigned, TaskAligned};
use super::boxes::{Boxes, ciou};
use super::details::{keypoint_loss, mask_loss};
use super::rotated::{RotatedBoxes, prob_iou};
use super::rows::AssignedRows;
use super::{Cells, Truth, TruthDetails, binary_cross_entropy, of_owner};
use octant_graph::{DType, Shape, Tensor};

/// One head's raw output, taken to pieces.
#[derive(Debug, Clone)]
pub struct Head {
    /// Distances to left, top, right and bottom as logits, `[n, cells, 4, bins]`.
    pub logits: Tensor,
    /// The distances in cells, `[n, cells, 4]`.
    pub distances: Tensor,
    /// Class logits, `[n, cells, classes]`.
    pub scores: Tensor,
    /// Corners in cells, each `[n, cells]`.
    pub boxes: Boxes,
    /// What else is predicted of an object, `[n, cells, columns]` as it is.
    pub details: Tensor,
}

impl Head {
    /// From raw outputs `[n, cells, 4 · bins + classes + details]`.
    pub fn new(cells: &Cells, raw: &Tensor, bins: usize, details: usize) -> Head {
        let raw = raw.convert(DType::F32);
        let [n, count, columns] = [raw.dim(0), raw.dim(1), raw.dim(2)];
        let logits = raw.slice_axis(2, 0, 4 * bins).reshape(&[n, count, 4, bins]);
        let first_detail = columns.saturating_sub(details);
        let scores = raw.slice_axis(2, 4 * bins, first_detail);
        let details = raw.slice_axis(2, first_detail, columns);
        let distances = match bins {
            1 => logits.reshape(&[n, count, 4]),
            _ => {
                let numbers = raw.trace().iota(Shape::new(DType::F32, [1, 1, 1, bins]), 3);
                logits.softmax_mean(&numbers, 3)
            }
        };
        let side = Boxes::of_corners(&distances);
        let boxes = Boxes {
            x0: &cells.x - &side.x0,
            y0: &cells.y - &side.y0,
            x1: &cells.x + &side.x1,
            y1: &cells.y + &side.y1,
        };
        Head { logits, distances, scores, boxes, details }
    }

    /// Corners in pixels.
    pub fn pixels(&self, cells: &Cells) -> Boxes {
        self.boxes.map(|column| column * &cells.stride)
    }

    /// The boxes of a head whose detail is their angle, in cells.
    pub fn rotated(&self, cells: &Cells) -> RotatedBoxes {
        let logit = self.details.slice_axis(2, 0, 1).reshape(&self.details.dims()[..2]);
        RotatedBoxes::of_distances(cells, &self.distances, &RotatedBoxes::angle_of(&logit))
    }
}

/// The parts of the loss, before their gains.
#[derive(Debug, Clone)]
pub struct DetectionLoss {
    /// 1 − complete IoU, weighted by the targets.
    pub boxes: Tensor,
    /// Binary cross-entropy of all scores.
    pub classes: Tensor,
    /// The distribution focal loss, or the absolute error of distances that have no distribution.
    pub distances: Tensor,
    /// What belongs to the details: of masks their cross-entropy; of keypoints one less their similarity, then the cross-entropy
    /// of their visibility; of rotated boxes the error of the angle.
    pub details: Vec<Tensor>,
}

/// What is added to the variances of rotated boxes in the loss, in cells.
const WIDENED: f64 = 0.01;
/// The angle of boxes counts less the longer they are: by a Gaussian of this width over the logarithm of their proportion.
const LONG_BOX: f64 = 3.0;

/// How the parts are weighted and how cells are assigned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aligned {
    /// The assignment.
    pub assignment: TaskAligned,
    /// Numbers per distance.
    pub bins: usize,
    /// Numbers behind the class logits.
    pub details: usize,
}

impl Aligned {
    /// What boxes, classes and distances are multiplied by.
    pub const GAINS: [f64; 3] = [7.5, 0.5, 1.5];
    /// What masks, keypoints, their visibility and angles are multiplied by.
    pub const DETAIL_GAINS: [f64; 4] = [7.5, 12.0, 1.0, 1.0];

    /// The loss of one head's raw outputs.
    pub fn loss(&self, cells: &Cells, raw: &Tensor, truth: &Truth) -> DetectionLoss {
        let head = Head::new(cells, raw, self.bins, self.details);
        if let TruthDetails::Rotated(objects) = &truth.details {
            return self.rotated_loss(cells, &head, objects, truth);
        }
        let assigned = self.assignment.assign(cells, &head.scores.logistic(), &head.pixels(cells), truth);
        let total = assigned.targets.sum_all().max(&assigned.targets.scalar_like(1.0));
        let rows = || AssignedRows::of(&assigned);
        let details = match &truth.details {
            TruthDetails::None | TruthDetails::Rotated(_) => Vec::new(),
            TruthDetails::Masks(masks) => vec![mask_loss(cells, &head.details, masks, &rows(), truth)],
            TruthDetails::Keypoints(points) => keypoint_loss(cells, &head.details, points, &rows(), truth).to_vec(),
        };
        let target = assigned.boxes.map(|column| column / &cells.stride);
        let sides = Boxes {
            x0: &cells.x - &target.x0,
            y0: &cells.y - &target.y0,
            x1: &target.x1 - &cells.x,
            y1: &target.y1 - &cells.y,
        };
        DetectionLoss {
            classes: class_loss(&head.scores, &assigned, &truth.counts) / &total,
            boxes: box_loss(cells, &head, &target, &assigned) / &total,
            distances: self.distance_loss(cells, &head, &sides.corners(), &assigned) / &total,
            details,
        }
    }

    /// The same for boxes that are rotated: by their probabilistic overlap, with distances along their own axes.
    fn rotated_loss(&self, cells: &Cells, head: &Head, objects: &RotatedBoxes, truth: &Truth) -> DetectionLoss {
        let predicted = head.rotated(cells);
        let pixels = predicted.scaled(&cells.stride);
        let assigned = self.assignment.assign_rotated(cells, &head.scores.logistic(), &pixels, objects, truth);
        let total = assigned.targets.sum_all().max(&assigned.targets.scalar_like(1.0));
        let target = objects.map(|column| of_owner(&assigned.owned, column)).scaled(&(1.0 / &cells.stride));
        let distances = self.distance_loss(cells, head, &target.distances(cells), &assigned) / &total;
        // Boxes that do not count are replaced: their gradient is multiplied by 0 and must be finite.
        let unit = predicted.map(|column| column.full_like(1.0));
        let chosen = |boxes: &RotatedBoxes| {
            let choose = |a: &Tensor, b: &Tensor| assigned.taken.select(a, b);
            RotatedBoxes {
                x: choose(&boxes.x, &unit.x),
                y: choose(&boxes.y, &unit.y),
                width: choose(&boxes.width, &unit.width),
                height: choose(&boxes.height, &unit.height),
                angle: choose(&boxes.angle, &unit.angle),
            }
        };
        let (predicted, target) = (chosen(&predicted), chosen(&target));
        // The angle of a square has no meaning beyond a quarter turn, and that of a long box the more.
        let turned = ((&predicted.angle - &target.angle) * 2.0).sin().square();
        let length = (&target.width / &target.height).log().square();
        let angle = turned * (length * (-1.0 / LONG_BOX.powi(2))).exp();
        let overlap = prob_iou(&predicted, &target, WIDENED);
        DetectionLoss {
            classes: class_loss(&head.scores, &assigned, &truth.counts) / &total,
            boxes: weighted(&assigned.taken, &(1.0 - overlap), &assigned.targets) / &total,
            distances,
            details: vec![weighted(&assigned.taken, &angle, &assigned.targets) / total],
        }
    }

    /// Distances by their distributions, or by their error relative to the image where they have none.
    fn distance_loss(&self, cells: &Cells, head: &Head, wanted: &Tensor, assigned: &Assigned) -> Tensor {
        let per_cell = match self.bins {
            1 => {
                let [height, width] = cells.image.map(|side| side as f64);
                let error = Boxes::of_corners(&(&head.distances - wanted).abs());
                let error = error.map(|column| column * &cells.stride);
                ((error.x0 + error.x1) / width + (error.y0 + error.y1) / height) * 0.25
            }
            bins => distribution_loss(&head.logits, wanted, bins),
        };
        weighted(&assigned.taken, &per_cell, &assigned.targets)
    }
}

/// Cross-entropy against the two bins next to a distance, each weighted by how near it is; the mean over the four sides.
fn distribution_loss(logits: &Tensor, wanted: &Tensor, bins: usize) -> Tensor {
    let (low, high) = (wanted.scalar_like(0.0), wanted.scalar_like(bins as f64 - 1.01));
    let wanted = wanted.max(&low).min(&high).unsqueeze(3);
    let numbers = wanted.trace().iota(Shape::new(DType::F32, [1, 1, 1, bins]), 3);
    let nearness = 1.0 - (numbers - wanted).abs();
    let nearness = nearness.max(&nearness.scalar_like(0.0));
    -(logits.log_softmax(3) * nearness).sum(&[3]).mean(&[2])
}

fn class_loss(logits: &Tensor, assigned: &Assigned, counts: &Tensor) -> Tensor {
    let [n, cells, classes] = [logits.dim(0), logits.dim(1), logits.dim(2)];
    let targets = assigned.classes.one_hot(classes, DType::F32) * assigned.targets.reshape(&[n, cells, 1]);
    (binary_cross_entropy(logits, &targets).sum(&[1, 2]) * counts.convert(DType::F32)).sum_all()
}

fn box_loss(cells: &Cells, head: &Head, target: &Boxes, assigned: &Assigned) -> Tensor {
    // Boxes that do not count are replaced: their gradient is multiplied by 0 and must be finite.
    let count = |column: &Tensor| column.broadcast_to(head.boxes.x0.dims());
    let unit = Boxes {
        x0: count(&(&cells.x - 0.5)),
        y0: count(&(&cells.y - 0.5)),
        x1: count(&(&cells.x + 0.5)),
        y1: count(&(&cells.y + 0.5)),
    };
    let (predicted, target) = (head.boxes.select(&assigned.taken, &unit), target.select(&assigned.taken, &unit));
    weighted(&assigned.taken, &(1.0 - ciou(&predicted, &target)), &assigned.targets)
}

/// The sum over cells that have an object, each times its target.
fn weighted(taken: &Tensor, losses: &Tensor, targets: &Tensor) -> Tensor {
    taken.select(&(losses * targets), &targets.zeros_like()).sum_all()
}
