//! Boxes as four tensors of corners, and how much two of them overlap.

use octant_graph::Tensor;
use std::f64::consts::PI;

/// Corners of boxes; all four have the same shape.
#[derive(Debug, Clone)]
pub struct Boxes {
    /// Left.
    pub x0: Tensor,
    /// Top.
    pub y0: Tensor,
    /// Right.
    pub x1: Tensor,
    /// Bottom.
    pub y1: Tensor,
}

impl Boxes {
    /// From corners on the last axis.
    pub fn of_corners(corners: &Tensor) -> Boxes {
        let axis = corners.rank() - 1;
        let column = |index| corners.slice_axis(axis, index, index + 1).reshape(&corners.dims()[..axis]);
        Boxes { x0: column(0), y0: column(1), x1: column(2), y1: column(3) }
    }

    /// Corners on a new last axis.
    pub fn corners(&self) -> Tensor {
        let columns = [&self.x0, &self.y0, &self.x1, &self.y1].map(|column| column.unsqueeze(column.rank()));
        Tensor::concatenate(&columns, self.x0.rank())
    }

    /// Applies a function to every coordinate.
    pub fn map(&self, change: impl Fn(&Tensor) -> Tensor) -> Boxes {
        Boxes { x0: change(&self.x0), y0: change(&self.y0), x1: change(&self.x1), y1: change(&self.y1) }
    }

    /// These where the condition holds, the others elsewhere.
    pub fn select(&self, condition: &Tensor, others: &Boxes) -> Boxes {
        let choose = |a: &Tensor, b: &Tensor| condition.select(a, b);
        Boxes {
            x0: choose(&self.x0, &others.x0),
            y0: choose(&self.y0, &others.y0),
            x1: choose(&self.x1, &others.x1),
            y1: choose(&self.y1, &others.y1),
        }
    }
}

/// Keeps divisions finite; the references' value.
const EPSILON: f64 = 1e-7;

/// What the overlaps are computed from.
struct Overlap {
    inside: Tensor,
    widths: [Tensor; 2],
    heights: [Tensor; 2],
}

impl Overlap {
    fn new(a: &Boxes, b: &Boxes, height_epsilon: f64) -> Overlap {
        let zero = a.x0.scalar_like(0.0);
        let along = |low: [&Tensor; 2], high: [&Tensor; 2]| (high[0].min(high[1]) - low[0].max(low[1])).max(&zero);
        let inside = along([&a.x0, &b.x0], [&a.x1, &b.x1]) * along([&a.y0, &b.y0], [&a.y1, &b.y1]);
        let widths = [a, b].map(|boxes| &boxes.x1 - &boxes.x0);
        let heights = [a, b].map(|boxes| &boxes.y1 - &boxes.y0 + height_epsilon);
        Overlap { inside, widths, heights }
    }

    fn union(&self) -> Tensor {
        let [area_a, area_b] = [0, 1].map(|index| &self.widths[index] * &self.heights[index]);
        area_a + area_b - &self.inside
    }
}

/// Intersection over union of boxes that broadcast against each other; `epsilon` is added to the union.
pub fn iou(a: &Boxes, b: &Boxes, epsilon: f64) -> Tensor {
    let overlap = Overlap::new(a, b, 0.0);
    &overlap.inside / (overlap.union() + epsilon)
}

/// Generalized IoU (Rezatofighi et al., 2019): the IoU less the share of the box around both that neither covers.
pub fn giou(a: &Boxes, b: &Boxes) -> Tensor {
    let overlap = Overlap::new(a, b, 0.0);
    let union = overlap.union();
    let around = |low: [&Tensor; 2], high: [&Tensor; 2]| high[0].max(high[1]) - low[0].min(low[1]);
    let area = around([&a.x0, &b.x0], [&a.x1, &b.x1]) * around([&a.y0, &b.y0], [&a.y1, &b.y1]);
    &overlap.inside / &union - (&area - &union) / area
}

/// Complete IoU (Zheng et al., "Distance-IoU Loss", 2020): the IoU less the squared distance of the centers, relative to
/// the box around both, and less the difference of the aspect ratios. The weight of the latter has no gradient.
pub fn ciou(a: &Boxes, b: &Boxes) -> Tensor {
    let overlap = Overlap::new(a, b, EPSILON);
    let iou = &overlap.inside / (overlap.union() + EPSILON);
    let around = |low: [&Tensor; 2], high: [&Tensor; 2]| high[0].max(high[1]) - low[0].min(low[1]);
    let width = around([&a.x0, &b.x0], [&a.x1, &b.x1]);
    let height = around([&a.y0, &b.y0], [&a.y1, &b.y1]);
    let diagonal = width.square() + height.square() + EPSILON;
    let between_centers = |low: [&Tensor; 2], high: [&Tensor; 2]| (low[1] + high[1] - (low[0] + high[0])).square();
    let x = between_centers([&a.x0, &b.x0], [&a.x1, &b.x1]);
    let y = between_centers([&a.y0, &b.y0], [&a.y1, &b.y1]);
    let distance = (x + y) * 0.25;
    let angle = |index: usize| {
        let ratio = &overlap.widths[index] / &overlap.heights[index];
        ratio.atan2(&ratio.full_like(1.0))
    };
    let aspect = (angle(1) - angle(0)).square() * (4.0 / (PI * PI));
    let weight = (&aspect / (&aspect - &iou + (1.0 + EPSILON))).stop_gradient();
    iou - (distance / diagonal + aspect * weight)
}
