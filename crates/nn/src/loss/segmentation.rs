//! Losses over masks. Predictions are logits `[n, h, w, 1]`, targets are 0 or 1 of the same shape.

use super::{classification, sample_axes};
use octant_graph::{DType, Shape, Tensor};
use std::f64::consts::PI;

/// Binary cross-entropy, the mean over all positions.
pub fn binary_cross_entropy_map(logits: &Tensor, targets: &Tensor) -> Tensor {
    classification::binary_cross_entropy(logits, targets)
}

/// Sums over an image that overlap losses are made of.
struct Overlap {
    prediction: Tensor,
    target: Tensor,
    both: Tensor,
}

impl Overlap {
    fn new(probabilities: &Tensor, targets: &Tensor) -> Overlap {
        let axes = sample_axes(probabilities);
        let [prediction, target, both] =
            [probabilities, targets, &(probabilities * targets)].map(|tensor| tensor.sum(&axes));
        Overlap { prediction, target, both }
    }

    fn union(&self) -> Tensor {
        &self.prediction + &self.target - &self.both
    }
}

/// 1 − Dice coefficient, smoothed by 1.
pub fn dice(logits: &Tensor, targets: &Tensor) -> Tensor {
    let (probabilities, targets) = probabilities(logits, targets);
    let overlap = Overlap::new(&probabilities, &targets);
    1.0 - (&overlap.both * 2.0 + 1.0) / (&overlap.prediction + &overlap.target + 1.0)
}

/// 1 − intersection over union, smoothed by 1.
pub fn soft_iou(logits: &Tensor, targets: &Tensor) -> Tensor {
    let (probabilities, targets) = probabilities(logits, targets);
    let overlap = Overlap::new(&probabilities, &targets);
    1.0 - (&overlap.both + 1.0) / (overlap.union() + 1.0)
}

/// The scale- and location-sensitive loss of MSHNet (Liu et al., CVPR 2024). During warm-up it is 1 − IoU; afterwards
/// the IoU is weighted by how alike the areas are, and the distance of the centers is added.
pub fn sls_iou(logits: &Tensor, targets: &Tensor, warm_up: bool) -> Tensor {
    let (probabilities, targets) = probabilities(logits, targets);
    let overlap = Overlap::new(&probabilities, &targets);
    let iou = &overlap.both / overlap.union();
    if warm_up {
        return 1.0 - iou;
    }
    let (prediction, target) = (&overlap.prediction, &overlap.target);
    let distance = ((prediction - target) * 0.5).square();
    let alike = (prediction.min(target) + &distance) / (prediction.max(target) + &distance);
    1.0 - alike * iou + location(&probabilities, &targets)
}

/// The distance of the centers in polar coordinates around the corner (0, 0): by angle and by length. The centers are means over all
/// positions, not over the mask, so a larger mask has a farther center; that is how the reference defines them.
fn location(probabilities: &Tensor, targets: &Tensor) -> Tensor {
    const SMOOTH: f64 = 1e-8;
    let [(x, y), (target_x, target_y)] = [center(probabilities), center(targets)];
    let angle = |x: &Tensor, y: &Tensor| y.atan2(&(x + SMOOTH));
    let angle_loss = (angle(&x, &y) - angle(&target_x, &target_y)).square() * (4.0 / (PI * PI));
    let length = |x: &Tensor, y: &Tensor| (x.square() + y.square() + SMOOTH).sqrt();
    let (length, target_length) = (length(&x, &y), length(&target_x, &target_y));
    let length_ratio = length.min(&target_length) / (length.max(&target_length) + SMOOTH);
    1.0 - length_ratio + angle_loss
}

/// The mean over all positions of (mass × column / width) and (mass × row / height).
fn center(mass: &Tensor) -> (Tensor, Tensor) {
    let [_, height, width, channels] = [0, 1, 2, 3].map(|axis| mass.dim(axis));
    let grid = Shape::new(DType::F32, [1, height, width, channels]);
    let along = |axis: usize, length: usize| {
        let position = mass.trace().iota(grid.clone(), axis) / length as f64;
        (mass * position).mean(&[1, 2, 3])
    };
    (along(2, width), along(1, height))
}

fn probabilities(logits: &Tensor, targets: &Tensor) -> (Tensor, Tensor) {
    (logits.convert(DType::F32).logistic(), targets.convert(DType::F32))
}
