//! Losses over what is predicted of an object beside its box: its mask (after Bolya et al., "YOLACT", 2019) and its
//! keypoints (Maji et al., "YOLO-Pose", 2022).

use super::rows::AssignedRows;
use super::{Cells, Truth, binary_cross_entropy};
use octant_graph::{DType, DotGeneral, HostTensor, Shape, Tensor};

/// The masks of a batch.
#[derive(Debug, Clone)]
pub struct MaskTruth {
    /// The object that is seen at every pixel of a grid over the image: its slot from 1 on, 0 for none; i32 `[n, h, w]`.
    pub owners: Tensor,
    /// What predicted masks are made of, f32 `[n, h, w, prototypes]`.
    pub prototypes: Tensor,
}

/// The keypoints of a batch.
#[derive(Debug, Clone)]
pub struct KeypointTruth {
    /// Column and row in pixels, and 0 where a keypoint is not known: f32 `[n, objects, keypoints, 3]`.
    pub points: Tensor,
    /// Numbers that are predicted for each: 2, or 3 with the logit of its visibility.
    pub columns: usize,
}

/// How far people misplace COCO's 17 keypoints, as shares of an object's scale (Ronchi and Perona, 2017).
pub const COCO_SIGMAS: [f64; 17] = [
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089,
    0.089,
];

/// The same for any number of keypoints: COCO's for 17, else all alike.
pub fn keypoint_sigmas(count: usize) -> Vec<f64> {
    if count == COCO_SIGMAS.len() { COCO_SIGMAS.to_vec() } else { vec![1.0 / count.max(1) as f64; count] }
}

/// Binary cross-entropy of every assigned cell's mask against its object's, over the pixels inside of the object's box,
/// relative to the box's area; the mean over all assigned cells.
pub(super) fn mask_loss(
    cells: &Cells,
    coefficients: &Tensor,
    masks: &MaskTruth,
    rows: &AssignedRows,
    truth: &Truth,
) -> Tensor {
    let [n, height, width, prototypes] = [0, 1, 2, 3].map(|axis| masks.prototypes.dim(axis));
    let pixels = height * width;
    let basis = masks.prototypes.convert(DType::F32).reshape(&[n, pixels, prototypes]);
    let product = DotGeneral {
        left_batch: vec![0],
        right_batch: vec![0],
        left_contract: vec![2],
        right_contract: vec![2],
        dtype: DType::F32,
    };
    let logits = rows.of_cells(coefficients).dot_general(&basis, product);
    let dims = logits.dims().to_vec();
    let slot = (&rows.object + 1.0).unsqueeze(2).broadcast_to(&dims);
    let target = masks.owners.reshape(&[n, 1, pixels]).broadcast_to(&dims).equal(&slot).convert(DType::F32);
    let corners = rows.of_objects(&truth.boxes.corners());
    let [image_height, image_width] = cells.image.map(|side| side as f64);
    let corner = |index: usize| corners.slice_axis(2, index, index + 1);
    let trace = logits.trace();
    let inside = |axis: usize, low: Tensor, high: Tensor, scale: f64| {
        let position = trace
            .iota(Shape::new(DType::F32, [1, 1, height, width]), axis)
            .reshape(&[1, 1, pixels])
            .broadcast_to(&dims);
        let edge = |edge: Tensor| (edge * scale).broadcast_to(&dims);
        position.greater_equal(&edge(low)).and(&position.less(&edge(high)))
    };
    let columns = inside(3, corner(0), corner(2), width as f64 / image_width);
    let lines = inside(2, corner(1), corner(3), height as f64 / image_height);
    let losses = binary_cross_entropy(&logits, &target);
    let inside = columns.and(&lines).select(&losses, &losses.zeros_like()).mean(&[2]);
    let area = (corner(2) - corner(0)) * (corner(3) - corner(1)) * (1.0 / (image_width * image_height));
    let area = area.reshape(rows.cell.dims());
    let area = rows.counts.select(&area, &area.full_like(1.0));
    rows.counts.select(&(inside / area), &rows.counts.convert(DType::F32).zeros_like()).sum_all() / rows.total()
}

/// One less the object keypoint similarity of every assigned cell's keypoints, the mean over those that are known, and where
/// there are three columns the binary cross-entropy of their visibility; both as means over all assigned cells.
pub(super) fn keypoint_loss(
    cells: &Cells,
    raw: &Tensor,
    keypoints: &KeypointTruth,
    rows: &AssignedRows,
    truth: &Truth,
) -> [Tensor; 2] {
    let [n, objects, count] = [0, 1, 2].map(|axis| keypoints.points.dim(axis));
    let dims = [n, rows.cell.dim(1), count];
    let predicted = rows.of_cells(raw).reshape(&[n, dims[1], count, keypoints.columns]);
    let target = rows.of_objects(&keypoints.points.reshape(&[n, objects, count * 3])).reshape(&[n, dims[1], count, 3]);
    let column = |of: &Tensor, index: usize| of.slice_axis(3, index, index + 1).reshape(&dims);
    let [x, y, stride] = [&cells.x, &cells.y, &cells.stride].map(|of_cell| {
        let all = of_cell.unsqueeze(2).broadcast_to(&[n, cells.count(), 1]);
        rows.of_cells(&all)
    });
    let along = |index: usize, center: &Tensor| {
        let error = column(&predicted, index) * 2.0 + (center - 0.5) - column(&target, index) / &stride;
        error.square()
    };
    let distance = along(0, &x) + along(1, &y);
    let known = column(&target, 2).greater(&distance.zeros_like());
    let known = known.and(&rows.counts.unsqueeze(2).broadcast_to(&dims)).convert(DType::F32);
    let corners = rows.of_objects(&truth.boxes.corners());
    let corner = |index: usize| corners.slice_axis(2, index, index + 1) / &stride;
    let area = (corner(2) - corner(0)) * (corner(3) - corner(1));
    let sigmas: Vec<f32> = keypoint_sigmas(count).iter().map(|sigma| (2.0 * (2.0 * sigma).powi(2)) as f32).collect();
    let scale = HostTensor::new([1, 1, count], &sigmas).expect("one number per keypoint");
    let scale = raw.trace().constant(scale) * (area + 1e-9);
    let similarity = (-(distance / scale)).exp();
    let factor = count as f64 / (known.sum_keep(&[2]) + 1e-9);
    let total = rows.total() * count as f64;
    let of_points = (factor * ((1.0 - similarity) * &known)).sum_all() / &total;
    let of_visibility = match keypoints.columns {
        3 => {
            let losses = binary_cross_entropy(&column(&predicted, 2), &known);
            let counted = rows.counts.unsqueeze(2).broadcast_to(&dims);
            counted.select(&losses, &losses.zeros_like()).sum_all() / total
        }
        _ => total.zeros_like(),
    };
    [of_points, of_visibility]
}

/// Columns, rows and probabilities of visibility of every cell's keypoints in pixels: `[n, cells, keypoints · columns]`.
pub fn keypoints_in_pixels(cells: &Cells, raw: &Tensor, columns: usize) -> Tensor {
    let [n, count, numbers] = [raw.dim(0), raw.dim(1), raw.dim(2)];
    let points = raw.convert(DType::F32).reshape(&[n, count, numbers / columns, columns]);
    let of_cell = |of_cell: &Tensor| of_cell.reshape(&[1, count, 1, 1]);
    let along = |index: usize, center: &Tensor| {
        (points.slice_axis(3, index, index + 1) * 2.0 + (of_cell(center) - 0.5)) * of_cell(&cells.stride)
    };
    let mut parts = vec![along(0, &cells.x), along(1, &cells.y)];
    if columns == 3 {
        parts.push(points.slice_axis(3, 2, 3).logistic());
    }
    Tensor::concatenate(&parts, 3).reshape(&[n, count, numbers])
}
