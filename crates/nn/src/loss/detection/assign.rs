//! Task-aligned assignment (Feng et al., "TOOD: Task-aligned One-stage Object Detection", 2021): an object takes the cells
//! inside its box that are best at both naming and enclosing it.

use super::boxes::{Boxes, ciou};
use super::rotated::{RotatedBoxes, prob_iou};
use super::{Cells, Truth, of_class, of_owner, per_cell, per_object, pick};
use octant_graph::{DType, Tensor};

/// How many cells an object takes, and which are candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskAligned {
    /// Cells per object before conflicts are settled.
    pub cells: usize,
    /// Cells per object afterwards, if fewer.
    pub kept: usize,
    /// Sides shorter than this are taken for [`TaskAligned::ENLARGED`] pixels when cells are looked for, so that small
    /// objects have some.
    pub smallest_side: f64,
}

/// Which object every cell is assigned to, and how well it fits.
#[derive(Debug, Clone)]
pub struct Assigned {
    /// Which cells are assigned to an object, bool `[n, cells]`.
    pub taken: Tensor,
    /// The object's box in pixels, each `[n, cells]`; zeros where there is none.
    pub boxes: Boxes,
    /// The object's class, i32 `[n, cells]`.
    pub classes: Tensor,
    /// The score that the cell should give to the class, f32 `[n, cells]`; 0 where there is no object.
    pub targets: Tensor,
    /// Which cell is assigned to which object, bool `[n, objects, cells]`.
    pub owned: Tensor,
    /// Which cells every object chose before conflicts were settled, bool `[n, objects, cells]`.
    pub(super) claimed: Tensor,
    /// The cells that every object considered, the best first, each i32 `[n, objects]`; those that count are claimed.
    pub(super) choices: Vec<Tensor>,
}

impl TaskAligned {
    /// The sides that small boxes get.
    pub const ENLARGED: f64 = 16.0;

    /// Ten cells per object.
    pub const MANY: TaskAligned = TaskAligned { cells: 10, kept: 10, smallest_side: 16.0 };
    /// The best of seven, for heads that predict without suppression.
    pub const ONE: TaskAligned = TaskAligned { cells: 7, kept: 1, smallest_side: 16.0 };

    /// Assigns from `scores` (probabilities `[n, cells, classes]`) and predicted `boxes` (in pixels, each `[n, cells]`).
    pub fn assign(&self, cells: &Cells, scores: &Tensor, boxes: &Boxes, truth: &Truth) -> Assigned {
        let boxes = boxes.map(Tensor::stop_gradient);
        let (objects, count) = (truth.slots(), cells.count());
        let ground_truth = truth.boxes.map(|column| per_cell(column, count));
        let overlap = ciou(&ground_truth, &boxes.map(|column| per_object(column, objects)));
        self.assign_by(scores, &overlap, &self.inside(cells, truth), truth)
    }

    /// The same for boxes that are rotated, by their probabilistic overlap. The truth's are those of `objects`.
    pub fn assign_rotated(
        &self,
        cells: &Cells,
        scores: &Tensor,
        boxes: &RotatedBoxes,
        objects: &RotatedBoxes,
        truth: &Truth,
    ) -> Assigned {
        let boxes = boxes.map(Tensor::stop_gradient);
        let (slots, count) = (truth.slots(), cells.count());
        let ground_truth = objects.map(|column| per_cell(column, count));
        let overlap = prob_iou(&ground_truth, &boxes.map(|column| per_object(column, slots)), 0.0);
        let enlarged = |side: &Tensor| {
            let is_small = side.less(&side.scalar_like(self.smallest_side));
            is_small.select(&side.full_like(Self::ENLARGED), side)
        };
        let reach =
            RotatedBoxes { width: enlarged(&objects.width), height: enlarged(&objects.height), ..objects.clone() };
        self.assign_by(scores, &overlap, &reach.hold(cells), truth)
    }

    /// Assigns by how much every predicted box overlaps every object, f32 `[n, objects, cells]`, among cells that are `inside`.
    fn assign_by(&self, scores: &Tensor, overlap: &Tensor, inside: &Tensor, truth: &Truth) -> Assigned {
        let scores = scores.stop_gradient();
        let candidates = inside.and(&per_cell(&truth.exists, overlap.dim(2)));
        let zero = overlap.zeros_like();
        let overlap = candidates.select(&overlap.max(&overlap.scalar_like(0.0)), &zero);
        let alignment = of_class(&scores, &truth.classes).sqrt() * sixth_power(&overlap);
        let alignment = candidates.select(&alignment, &zero);
        let best = pick(&alignment, self.cells, None);
        let claimed = best.mask.and(&candidates);
        let owned = self.resolve_conflicts(&claimed, &overlap, &alignment);
        let targets = targets(&owned, &overlap, &alignment);
        Assigned {
            taken: owned.any(&[1]),
            boxes: truth.boxes.map(|column| of_owner(&owned, column)),
            classes: of_owner(&owned, &truth.classes.convert(DType::F32)).convert(DType::I32),
            targets,
            owned,
            claimed,
            choices: best.positions,
        }
    }

    /// Which cells' centers lie inside which boxes, `[n, objects, cells]`.
    fn inside(&self, cells: &Cells, truth: &Truth) -> Tensor {
        let (objects, count, n) = (truth.slots(), cells.count(), truth.classes.dim(0));
        let widened = |low: &Tensor, high: &Tensor| {
            let side = high - low;
            let is_small = side.less(&side.scalar_like(self.smallest_side));
            let (middle, half) = ((low + high) * 0.5, side.full_like(Self::ENLARGED / 2.0));
            (is_small.select(&(&middle - &half), low), is_small.select(&(&middle + &half), high))
        };
        let within = |low: &Tensor, high: &Tensor, center: &Tensor| {
            let (low, high) = widened(low, high);
            let center = (center * &cells.stride).reshape(&[1, 1, count]).broadcast_to(&[n, objects, count]);
            let above = &center - per_cell(&low, count);
            let below = per_cell(&high, count) - &center;
            above.min(&below)
        };
        let x = within(&truth.boxes.x0, &truth.boxes.x1, &cells.x);
        let y = within(&truth.boxes.y0, &truth.boxes.y1, &cells.y);
        x.min(&y).greater(&x.full_like(1e-9))
    }

    /// A cell claimed by several objects goes to the one it overlaps most, of all objects; then every object keeps its best.
    fn resolve_conflicts(&self, claimed: &Tensor, overlap: &Tensor, alignment: &Tensor) -> Tensor {
        let (n, objects, count) = (claimed.dim(0), claimed.dim(1), claimed.dim(2));
        let claims = claimed.convert(DType::F32).sum(&[1]);
        let disputed = claims.greater(&claims.scalar_like(1.5));
        let (_, nearest) = overlap.arg_max(1);
        let number = claimed.trace().iota(overlap.shape().with_dtype(DType::I32), 1);
        let is_nearest = number.equal(&per_object(&nearest, objects));
        let disputed = disputed.reshape(&[n, 1, count]).broadcast_to(claimed.dims());
        let owned = disputed.select(&is_nearest, claimed);
        if self.kept >= self.cells {
            return owned;
        }
        let best = pick(&owned.select(alignment, &alignment.zeros_like()), self.kept, None).mask;
        best.and(&owned)
    }
}

/// `x⁶`.
fn sixth_power(x: &Tensor) -> Tensor {
    let cube = x.square() * x;
    cube.square()
}

/// The alignment of every cell, scaled so that an object's best cell has the object's best overlap.
fn targets(owned: &Tensor, overlap: &Tensor, alignment: &Tensor) -> Tensor {
    let zero = alignment.zeros_like();
    let (overlap, alignment) = (owned.select(overlap, &zero), owned.select(alignment, &zero));
    let factor = overlap.max_keep(&[2]) / (alignment.max_keep(&[2]) + 1e-9);
    (alignment * factor).reduce_max(&[1])
}
