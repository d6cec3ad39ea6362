//! The loss of YOLOX (Ge et al., 2021): cells are assigned by a simplified optimal transport, boxes learn by squared IoU,
//! objectness and classes by binary cross-entropy.

use super::boxes::{Boxes, iou};
use super::{Cells, Truth, binary_cross_entropy, of_class, of_owner, per_cell, per_object, pick};
use octant_graph::{DType, Tensor};

/// The four parts of the loss, each divided by the number of cells that are assigned to an object.
#[derive(Debug, Clone)]
pub struct TransportLoss {
    /// 1 − IoU².
    pub boxes: Tensor,
    /// Whether a cell is assigned to an object.
    pub objectness: Tensor,
    /// Classes, whose targets are the IoU.
    pub classes: Tensor,
    /// The absolute error of the raw box numbers, for the last epochs.
    pub distances: Tensor,
}

impl TransportLoss {
    /// What boxes are multiplied by.
    pub const BOX_GAIN: f64 = 5.0;
}

/// A cell farther from an object's center than this many of its sides is no candidate.
const RADIUS: f64 = 1.5;
/// The most cells that an object takes.
const MOST: usize = 10;
/// The cost of a cell that is a candidate of other objects only.
const OUTSIDE: f64 = 1e6;
/// The cost of a cell that is no object's candidate.
const NEVER: f64 = 1e12;

/// The raw output `[n, cells, 4 + 1 + classes]` of one head, taken to pieces.
struct Raw {
    numbers: Boxes,
    objectness: Tensor,
    scores: Tensor,
    boxes: Boxes,
}

impl Raw {
    fn new(cells: &Cells, raw: &Tensor) -> Raw {
        let raw = raw.convert(DType::F32);
        let [n, count, columns] = [raw.dim(0), raw.dim(1), raw.dim(2)];
        let numbers = Boxes::of_corners(&raw.slice_axis(2, 0, 4));
        let objectness = raw.slice_axis(2, 4, 5).reshape(&[n, count]);
        let boxes = decoded(cells, &numbers);
        Raw { numbers, objectness, scores: raw.slice_axis(2, 5, columns), boxes }
    }
}

/// Corners in pixels of centers relative to the cells' corners and logarithms of sizes, in cells.
fn decoded(cells: &Cells, numbers: &Boxes) -> Boxes {
    let along = |center: &Tensor, size: &Tensor, cell: &Tensor| {
        let middle = (center + (cell - 0.5)) * &cells.stride;
        let half = size.exp() * &cells.stride * 0.5;
        (&middle - &half, middle + half)
    };
    let (x0, x1) = along(&numbers.x0, &numbers.x1, &cells.x);
    let (y0, y1) = along(&numbers.y0, &numbers.y1, &cells.y);
    Boxes { x0, y0, x1, y1 }
}

/// Corners in pixels and scores `[n, cells, classes]` of a raw output.
pub fn transport_predictions(cells: &Cells, raw: &Tensor) -> (Boxes, Tensor) {
    let raw = Raw::new(cells, raw);
    let objectness = raw.objectness.logistic();
    let scores = raw.scores.logistic() * objectness.unsqueeze(2);
    (raw.boxes, scores)
}

/// The loss of a raw output.
pub fn transport(cells: &Cells, raw: &Tensor, truth: &Truth) -> TransportLoss {
    let raw = Raw::new(cells, raw);
    let (owned, overlap) = assign(cells, &raw, truth);
    let taken = owned.any(&[1]);
    let taken_f32 = taken.convert(DType::F32);
    let total = taken_f32.sum_all().max(&taken_f32.scalar_like(1.0));
    let own = truth.boxes.map(|column| of_owner(&owned, column));
    let target_iou = owned.select(&overlap, &overlap.zeros_like()).sum(&[1]);
    let classes = of_owner(&owned, &truth.classes.convert(DType::F32)).convert(DType::I32);
    let class_targets = classes.one_hot(raw.scores.dim(2), DType::F32) * target_iou.unsqueeze(2);
    let class_losses = binary_cross_entropy(&raw.scores, &class_targets).sum(&[2]);
    let only_taken = |losses: &Tensor| taken.select(losses, &losses.zeros_like()).sum_all() / &total;
    let counts = truth.counts.convert(DType::F32);
    let objectness = binary_cross_entropy(&raw.objectness, &taken_f32).sum(&[1]) * counts;
    // Cells without an object compare their box with itself, so that every gradient is finite.
    let safe = own.select(&taken, &raw.boxes.map(Tensor::stop_gradient));
    TransportLoss {
        boxes: only_taken(&(1.0 - iou(&raw.boxes, &safe, 1e-16).square())),
        objectness: objectness.sum_all() / &total,
        classes: only_taken(&class_losses),
        distances: only_taken(&raw_error(cells, &raw.numbers, &safe)),
    }
}

/// The absolute error of the four raw numbers.
fn raw_error(cells: &Cells, numbers: &Boxes, own: &Boxes) -> Tensor {
    let along = |low: &Tensor, high: &Tensor, center: &Tensor, size: &Tensor, cell: &Tensor| {
        let wanted_center = (low + high) * 0.5 / &cells.stride - (cell - 0.5);
        let wanted_size = ((high - low) / &cells.stride + 1e-8).log();
        (center - wanted_center).abs() + (size - wanted_size).abs()
    };
    let x = along(&own.x0, &own.x1, &numbers.x0, &numbers.x1, &cells.x);
    x + along(&own.y0, &own.y1, &numbers.y0, &numbers.y1, &cells.y)
}

/// Which object owns which cell (bool `[n, objects, cells]`), and all overlaps.
fn assign(cells: &Cells, raw: &Raw, truth: &Truth) -> (Tensor, Tensor) {
    let (objects, count) = (truth.slots(), cells.count());
    let exists = per_cell(&truth.exists, count);
    let near = near(cells, truth).and(&exists);
    let candidate = near.any(&[1]);
    let all_candidates = {
        let n = candidate.dim(0);
        candidate.reshape(&[n, 1, count]).broadcast_to(exists.dims()).and(&exists)
    };
    let boxes = raw.boxes.map(|column| per_object(&column.stop_gradient(), objects));
    let overlap = iou(&truth.boxes.map(|column| per_cell(column, count)), &boxes, 1e-16);
    let overlap = all_candidates.select(&overlap, &overlap.zeros_like());
    let cost = class_cost(raw, truth) - (&overlap + 1e-8).log() * 3.0;
    let cost = cost + near.select(&overlap.zeros_like(), &overlap.full_like(OUTSIDE));
    let cost = all_candidates.select(&cost, &cost.full_like(NEVER));
    let best_overlaps = pick(&overlap, MOST, None).sum;
    let limit = best_overlaps.floor();
    let limit = limit.max(&limit.scalar_like(1.0));
    let wanted = pick(&(-&cost), MOST, Some(&limit)).mask;
    let wanted = wanted.and(&all_candidates);
    let claims = wanted.convert(DType::F32).sum(&[1]);
    let (_, cheapest) = cost.arg_min(1);
    let number = cost.trace().iota(cost.shape().with_dtype(DType::I32), 1);
    let is_cheapest = number.equal(&per_object(&cheapest, objects));
    let disputed = claims.greater(&claims.scalar_like(1.5));
    let disputed = disputed.reshape(&[disputed.dim(0), 1, count]).broadcast_to(wanted.dims());
    (disputed.select(&is_cheapest, &wanted), overlap)
}

/// Which cells lie near which objects' centers.
fn near(cells: &Cells, truth: &Truth) -> Tensor {
    let (objects, count, n) = (truth.slots(), cells.count(), truth.classes.dim(0));
    let distance = |low: &Tensor, high: &Tensor, center: &Tensor| {
        let middle = per_cell(&((low + high) * 0.5), count);
        let center = (center * &cells.stride).reshape(&[1, 1, count]).broadcast_to(&[n, objects, count]);
        (center - middle).abs()
    };
    let x = distance(&truth.boxes.x0, &truth.boxes.x1, &cells.x);
    let y = distance(&truth.boxes.y0, &truth.boxes.y1, &cells.y);
    let reach = (&cells.stride * RADIUS).reshape(&[1, 1, count]).broadcast_to(&[n, objects, count]);
    x.max(&y).less(&reach)
}

/// Binary cross-entropy of the geometric mean of class score and objectness against every object's class, summed over
/// classes: `Σ −log(1 − p)` over all classes, corrected at the object's own.
fn class_cost(raw: &Raw, truth: &Truth) -> Tensor {
    let probability = (raw.scores.logistic() * raw.objectness.logistic().unsqueeze(2)).sqrt().stop_gradient();
    // The reference's logarithms end at −100.
    let floor = |x: Tensor| x.max(&x.scalar_like(-100.0));
    let absent = -floor((1.0 - &probability).log());
    let present = -floor(probability.log());
    let total = absent.sum(&[2]);
    per_object(&total, truth.slots()) + of_class(&(present - absent), &truth.classes)
}
