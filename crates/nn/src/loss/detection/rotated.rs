//! Rotated boxes, and how much two of them overlap as Gaussians (Llerena et al., "Gaussian Bounding Boxes and Probabilistic
//! Intersection-over-Union", 2021).

use super::Cells;
use octant_graph::Tensor;
use std::f64::consts::PI;

/// Rotated boxes; all five tensors have the same shape.
#[derive(Debug, Clone)]
pub struct RotatedBoxes {
    /// Columns of the centers.
    pub x: Tensor,
    /// Rows of the centers.
    pub y: Tensor,
    /// Widths before the rotation.
    pub width: Tensor,
    /// Heights before the rotation.
    pub height: Tensor,
    /// Radians, clockwise where rows count downwards.
    pub angle: Tensor,
}

impl RotatedBoxes {
    /// Boxes with a shorter side are too small to be learned from, in pixels.
    pub const SHORTEST: f64 = 2.0;

    /// From column, row, width, height and angle on the last axis.
    pub fn of_columns(columns: &Tensor) -> RotatedBoxes {
        let axis = columns.rank() - 1;
        let column = |index| columns.slice_axis(axis, index, index + 1).reshape(&columns.dims()[..axis]);
        RotatedBoxes { x: column(0), y: column(1), width: column(2), height: column(3), angle: column(4) }
    }

    /// Column, row, width, height and angle on a new last axis.
    pub fn columns(&self) -> Tensor {
        let columns = [&self.x, &self.y, &self.width, &self.height, &self.angle];
        Tensor::concatenate(&columns.map(|column| column.unsqueeze(column.rank())), self.x.rank())
    }

    /// Applies a function to every number.
    pub fn map(&self, change: impl Fn(&Tensor) -> Tensor) -> RotatedBoxes {
        RotatedBoxes {
            x: change(&self.x),
            y: change(&self.y),
            width: change(&self.width),
            height: change(&self.height),
            angle: change(&self.angle),
        }
    }

    /// Every length multiplied.
    pub fn scaled(&self, factor: &Tensor) -> RotatedBoxes {
        let scaled = |length: &Tensor| length * factor;
        RotatedBoxes {
            x: scaled(&self.x),
            y: scaled(&self.y),
            width: scaled(&self.width),
            height: scaled(&self.height),
            angle: self.angle.clone(),
        }
    }

    /// From distances to left, top, right and bottom, `[n, cells, 4]` in cells, along axes that are rotated by `angle`.
    pub fn of_distances(cells: &Cells, distances: &Tensor, angle: &Tensor) -> RotatedBoxes {
        let column = |index| distances.slice_axis(2, index, index + 1).reshape(angle.dims());
        let [left, top, right, bottom] = [0, 1, 2, 3].map(column);
        let (u, v) = ((&right - &left) * 0.5, (&bottom - &top) * 0.5);
        let (sin, cos) = (angle.sin(), angle.cos());
        RotatedBoxes {
            x: &u * &cos - &v * &sin + &cells.x,
            y: u * sin + v * cos + &cells.y,
            width: left + right,
            height: top + bottom,
            angle: angle.clone(),
        }
    }

    /// The angle of a cell's logit.
    pub fn angle_of(logit: &Tensor) -> Tensor {
        (logit.logistic() - 0.25) * PI
    }

    /// Columns and rows relative to the centers, along the boxes' own axes.
    fn local(&self, x: &Tensor, y: &Tensor) -> [Tensor; 2] {
        let (sin, cos) = (self.angle.sin(), self.angle.cos());
        let (dx, dy) = (x - &self.x, y - &self.y);
        [&dx * &cos + &dy * &sin, dy * cos - dx * sin]
    }

    /// Distances from the cells' centers to left, top, right and bottom along the boxes' own axes, `[n, cells, 4]`; both in cells.
    pub(super) fn distances(&self, cells: &Cells) -> Tensor {
        let [u, v] = self.local(&cells.x, &cells.y);
        let (width, height) = (&self.width * 0.5, &self.height * 0.5);
        let sides = [&width + &u, &height + &v, width - u, height - v];
        Tensor::concatenate(&sides.map(|side| side.unsqueeze(2)), 2)
    }

    /// Which cells' centers lie inside which boxes, `[n, objects, cells]`.
    pub(super) fn hold(&self, cells: &Cells) -> Tensor {
        let [n, objects] = [self.x.dim(0), self.x.dim(1)];
        let count = cells.count();
        let boxes = self.map(|column| super::per_cell(column, count));
        let center =
            |center: &Tensor| (center * &cells.stride).reshape(&[1, 1, count]).broadcast_to(&[n, objects, count]);
        let [u, v] = boxes.local(&center(&cells.x), &center(&cells.y));
        let within = |distance: Tensor, side: &Tensor| distance.abs().less_equal(&(side * 0.5));
        within(u, &boxes.width).and(&within(v, &boxes.height))
    }

    /// The variances along columns and rows, and the covariance, of the Gaussians that stand for boxes.
    fn covariance(&self, widened: f64) -> [Tensor; 3] {
        let variance = |side: &Tensor| side.square() * (1.0 / 12.0) + widened;
        let (a, b) = (variance(&self.width), variance(&self.height));
        let (sin, cos) = (self.angle.sin(), self.angle.cos());
        let (sin2, cos2) = (sin.square(), cos.square());
        [&a * &cos2 + &b * &sin2, &a * sin2 + &b * cos2, (a - b) * cos * sin]
    }
}

/// One less the Hellinger distance of the Gaussians of boxes of one shape, each of whose variances is `widened`.
pub fn prob_iou(a: &RotatedBoxes, b: &RotatedBoxes, widened: f64) -> Tensor {
    const EPSILON: f64 = 1e-7;
    let ([a1, b1, c1], [a2, b2, c2]) = (a.covariance(widened), b.covariance(widened));
    let (x, y) = (&a.x - &b.x, &a.y - &b.y);
    let (va, vb, vc) = (&a1 + &a2, &b1 + &b2, &c1 + &c2);
    let determinant = &va * &vb - vc.square();
    let quotient = &determinant + EPSILON;
    let near = (va * y.square() + vb * x.square()) / &quotient * 0.25 - vc * x * y / quotient * 0.5;
    let own = |a: &Tensor, b: &Tensor, c: &Tensor| {
        let determinant = a * b - c.square();
        determinant.max(&determinant.scalar_like(0.0))
    };
    let both = (own(&a1, &b1, &c1) * own(&a2, &b2, &c2)).sqrt();
    let shape = (determinant / (both * 4.0 + EPSILON) + EPSILON).log() * 0.5;
    let distance = near + shape;
    let distance = distance.clamp(&distance.scalar_like(EPSILON), &distance.scalar_like(100.0));
    1.0 - (1.0 - (-distance).exp() + EPSILON).sqrt()
}
