//! What belongs to masks, keypoints and rotated boxes in a detector's step: inputs, ground truth, and names and gains of losses.

use crate::{Inputs, TrainError};
use octant_data::{MASK_STRIDE, Targets};
use octant_graph::{DType, HostTensor, Shape, Tensor};
use octant_nn::loss::detection::{KeypointTruth, MaskTruth, RotatedBoxes, TruthDetails};
use octant_zoo::CellDetail;

/// The names of the parts of the loss.
pub(super) fn loss_names(detail: CellDetail) -> &'static [&'static str] {
    match detail {
        CellDetail::None => &["box_loss", "class_loss", "distance_loss"],
        CellDetail::Mask { .. } => &["box_loss", "class_loss", "distance_loss", "mask_loss"],
        CellDetail::Keypoints { .. } => {
            &["box_loss", "class_loss", "distance_loss", "keypoint_loss", "visibility_loss"]
        }
        CellDetail::Angle => &["box_loss", "class_loss", "distance_loss", "angle_loss"],
    }
}

/// What those behind the third count, out of the gains of masks, keypoints, visibility and angles.
pub(super) fn gains(detail: CellDetail, [masks, keypoints, visibility, angles]: [f64; 4]) -> Vec<f64> {
    match detail {
        CellDetail::None => vec![],
        CellDetail::Mask { .. } => vec![masks],
        CellDetail::Keypoints { .. } => vec![keypoints, visibility],
        CellDetail::Angle => vec![angles],
    }
}

/// The inputs with what the labels say beside boxes.
pub(super) fn inputs(
    inputs: Inputs,
    detail: CellDetail,
    batch_size: usize,
    slots: usize,
    [height, width, _]: [usize; 3],
) -> Inputs {
    let (shape, what) = match detail {
        CellDetail::None => return inputs,
        CellDetail::Mask { .. } => {
            let grid = [height, width].map(|side| side.div_ceil(MASK_STRIDE));
            (Shape::new(DType::I32, [batch_size, grid[0], grid[1]]), "outlines")
        }
        CellDetail::Keypoints { count, .. } => (Shape::new(DType::F32, [batch_size, slots, count, 3]), "keypoints"),
        CellDetail::Angle => (Shape::new(DType::F32, [batch_size, slots, 5]), "rotated boxes"),
    };
    let is_per_slot = !matches!(detail, CellDetail::Mask { .. });
    inputs.with("details", shape, move |batch| match &batch.targets {
        Targets::Boxes { details: Some(details), .. } if is_per_slot => super::cut(details, slots),
        Targets::Boxes { details: Some(details), .. } => Ok(details.clone()),
        _ => Err(TrainError::Data(format!("the data set has no {what}; choose a recipe for what it has"))),
    })
}

/// The ground truth of a step whose images are `ratio` times as large as the labels are for.
pub(super) fn truth(details: &Tensor, detail: CellDetail, outputs: &[Tensor], ratio: f64) -> TruthDetails {
    let scaled = |factors: &[f32]| {
        let rank = details.rank();
        let dims: Vec<usize> = (0..rank).map(|axis| if axis + 1 == rank { factors.len() } else { 1 }).collect();
        let factors = HostTensor::new(dims, factors).expect("one factor per column");
        details * details.trace().constant(factors)
    };
    let r = ratio as f32;
    match detail {
        CellDetail::None => TruthDetails::None,
        CellDetail::Mask { .. } => {
            let prototypes = outputs[outputs.len() - 1].clone();
            let owners = resized(details, [prototypes.dim(1), prototypes.dim(2)]);
            TruthDetails::Masks(MaskTruth { owners, prototypes })
        }
        CellDetail::Keypoints { columns, .. } => {
            TruthDetails::Keypoints(KeypointTruth { points: scaled(&[r, r, 1.0]), columns })
        }
        CellDetail::Angle => TruthDetails::Rotated(RotatedBoxes::of_columns(&scaled(&[r, r, r, r, 1.0]))),
    }
}

/// A map `[n, h, w]` at another size, by the nearest pixel.
fn resized(map: &Tensor, [height, width]: [usize; 2]) -> Tensor {
    let along = |map: &Tensor, axis: usize, size: usize| {
        let old = map.dim(axis as isize);
        if old == size {
            return map.clone();
        }
        let nearest: Vec<i32> = (0..size).map(|index| ((2 * index + 1) * old / (2 * size)) as i32).collect();
        let nearest = HostTensor::new([size], &nearest).expect("one index per pixel");
        let order = if axis == 1 { [1, 0, 2] } else { [2, 1, 0] };
        map.transpose(&order).take(&map.trace().constant(nearest)).transpose(&order)
    };
    along(&along(map, 1, height), 2, width)
}

/// Corners before the rotation, scores and radians: `[n, cells, 4 + classes + 1]`.
pub(super) fn rotated_predictions(boxes: &RotatedBoxes, scores: Tensor) -> Tensor {
    let (wide, high) = (&boxes.width * 0.5, &boxes.height * 0.5);
    let corners = [&boxes.x - &wide, &boxes.y - &high, &boxes.x + wide, &boxes.y + high];
    let corners = corners.map(|column| column.unsqueeze(2));
    Tensor::concatenate(&[Tensor::concatenate(&corners, 2), scores, boxes.angle.unsqueeze(2)], 2)
}
