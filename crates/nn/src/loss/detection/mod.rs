//! Losses of detectors without anchor boxes: every cell of the feature maps may predict one object.
//!
//! Which cell is assigned to which object is decided inside the graph from the network's own predictions: the task-aligned
//! assignment of TOOD (Feng et al., 2021) in `aligned`, the simplified optimal transport of YOLOX (Ge et al., 2021) in
//! `transport`. Shapes never depend on how many objects there are: their boxes are padded to the same number per image,
//! and a mask says which ones exist. Assignments have no gradient.
//!
//! Start reading at [`Cells`] and [`Truth`], then `aligned`.

mod aligned;
mod assign;
mod boxes;
mod details;
mod local;
mod rotated;
mod rows;
mod sets;
mod transport;

pub use aligned::{Aligned, DetectionLoss, Head};
pub use assign::{Assigned, TaskAligned};
pub use boxes::{Boxes, ciou, giou, iou};
pub use details::{COCO_SIGMAS, KeypointTruth, MaskTruth, keypoint_sigmas, keypoints_in_pixels};
pub use local::Distribution;
pub use rotated::{RotatedBoxes, prob_iou};
pub use sets::{NoisyQueries, Queries, SetLoss};
pub use transport::{TransportLoss, transport, transport_predictions};

use octant_graph::{DType, Gather, HostTensor, Shape, Tensor, Trace};

/// The cells of all feature maps, level by level and row by row, as constants of a graph.
#[derive(Debug, Clone)]
pub struct Cells {
    /// Columns of the centers in cells, f32 `[1, cells]`.
    pub x: Tensor,
    /// Rows of the centers in cells, f32 `[1, cells]`.
    pub y: Tensor,
    /// The side of a cell in pixels, f32 `[1, cells]`.
    pub stride: Tensor,
    /// Height and width of the images in pixels.
    pub image: [usize; 2],
    /// The sides of the cells, fine to coarse.
    pub strides: Vec<usize>,
}

impl Cells {
    /// The cells over images of that height and width, with centers in the middle.
    pub fn new(trace: &Trace, image: [usize; 2], strides: &[usize]) -> Cells {
        let [height, width] = image;
        let mut columns: [Vec<f32>; 3] = Default::default();
        for &stride in strides {
            for row in 0..height / stride {
                for column in 0..width / stride {
                    let cell = [column as f32 + 0.5, row as f32 + 0.5, stride as f32];
                    columns.iter_mut().zip(cell).for_each(|(column, value)| column.push(value));
                }
            }
        }
        let [x, y, stride] = columns.map(|column| {
            let tensor = HostTensor::new([1, column.len()], &column).expect("one value per cell");
            trace.constant(tensor)
        });
        Cells { x, y, stride, image, strides: strides.to_vec() }
    }

    /// How many cells there are.
    pub fn count(&self) -> usize {
        self.x.dim(1)
    }

    /// How many cells there are over images of that height and width.
    pub fn number(image: [usize; 2], strides: &[usize]) -> usize {
        strides.iter().map(|stride| (image[0] / stride) * (image[1] / stride)).sum()
    }
}

/// The objects of a batch, padded to the same number per image.
#[derive(Debug, Clone)]
pub struct Truth {
    /// Corners in pixels, each f32 `[n, objects]`.
    pub boxes: Boxes,
    /// Class numbers, i32 `[n, objects]`; anything where there is no object.
    pub classes: Tensor,
    /// Which objects exist, bool `[n, objects]`.
    pub exists: Tensor,
    /// Which images count, f32 `[n]`: 0 for those that only fill the batch.
    pub counts: Tensor,
    /// What else is known of the objects.
    pub details: TruthDetails,
}

/// What is known of the objects of a batch beside their boxes and classes.
#[derive(Debug, Clone, Default)]
pub enum TruthDetails {
    /// Nothing.
    #[default]
    None,
    /// Their masks.
    Masks(MaskTruth),
    /// Their keypoints.
    Keypoints(KeypointTruth),
    /// By how much their boxes are rotated, each `[n, objects]` in pixels.
    Rotated(RotatedBoxes),
}

impl Truth {
    /// From what a loader delivers: corners f32 `[n, objects, 4]`, classes i32 `[n, objects]` (negative where there is no
    /// object) and the rows' mask f32 `[n]`.
    pub fn new(corners: &Tensor, classes: &Tensor, counts: &Tensor) -> Truth {
        let [n, objects] = [classes.dim(0), classes.dim(1)];
        let counted = counts.greater(&counts.scalar_like(0.5)).reshape(&[n, 1]).broadcast_to(&[n, objects]);
        let exists = classes.greater_equal(&classes.scalar_like(0.0)).and(&counted);
        let classes = classes.max(&classes.scalar_like(0.0));
        let details = TruthDetails::None;
        Truth { boxes: Boxes::of_corners(corners), classes, exists, counts: counts.clone(), details }
    }

    /// The same with what else is known of the objects. Rotated boxes with a side below two pixels do not count.
    pub fn with(mut self, details: TruthDetails) -> Truth {
        if let TruthDetails::Rotated(rotated) = &details {
            let shorter = rotated.width.min(&rotated.height);
            self.exists = self.exists.and(&shorter.greater_equal(&shorter.scalar_like(RotatedBoxes::SHORTEST)));
        }
        Truth { details, ..self }
    }

    /// Centers and sizes as shares of the sides of an image of that height and width, `[n, objects, 4]`.
    pub fn shares(&self, [height, width]: [usize; 2]) -> Tensor {
        let Boxes { x0, y0, x1, y1 } = &self.boxes;
        let (across, down) = (1.0 / width as f64, 1.0 / height as f64);
        let columns = [(x0 + x1) * (0.5 * across), (y0 + y1) * (0.5 * down), (x1 - x0) * across, (y1 - y0) * down];
        Tensor::concatenate(&columns.map(|column| column.unsqueeze(2)), 2)
    }

    /// How many objects an image may have.
    pub fn slots(&self) -> usize {
        self.classes.dim(1)
    }
}

/// What [`pick`] took of every row.
struct Picked {
    /// Which elements, bool of the rows' shape.
    mask: Tensor,
    /// Their sum.
    sum: Tensor,
    /// Their positions in the row, largest first, each i32 without the last axis.
    positions: Vec<Tensor>,
}

/// Up to `count` elements of every row (the last axis) of f32 `values`, largest first and the first of equals. With `limit`
/// (f32, without the last axis) a row stops after that many.
///
/// Repeated maxima cost `count` passes over the values. Sorting thousands of cells per object to keep ten costs more on
/// every backend.
fn pick(values: &Tensor, count: usize, limit: Option<&Tensor>) -> Picked {
    let axis = values.rank() - 1;
    let number = values.trace().iota(values.shape().with_dtype(DType::I32), axis);
    let nothing = f64::from(f32::MIN);
    let mut left = values.clone();
    let mut picked = values.zeros_like().convert(DType::Bool);
    let mut sum = values.sum(&[axis]).zeros_like();
    let mut positions = Vec::new();
    for turn in 0..count.min(values.dim(axis as isize)) {
        let (largest, index) = left.arg_max(axis);
        let mut here = number.equal(&index.unsqueeze(axis).broadcast_to(values.dims()));
        if let Some(limit) = limit {
            let is_taken = limit.greater(&limit.scalar_like(turn as f64));
            here = here.and(&is_taken.unsqueeze(axis).broadcast_to(values.dims()));
        }
        picked = picked.or(&here);
        left = here.select(&left.full_like(nothing), &left);
        sum = sum + largest;
        positions.push(index);
    }
    Picked { mask: picked, sum, positions }
}

/// A row of `[n, cells]` against every object: `[n, 1, cells]` as `[n, objects, cells]`.
fn per_object(cells: &Tensor, objects: usize) -> Tensor {
    let (n, count) = (cells.dim(0), cells.dim(1));
    cells.reshape(&[n, 1, count]).broadcast_to(&[n, objects, count])
}

/// `[n, objects]` repeated for every cell.
fn per_cell(objects: &Tensor, cells: usize) -> Tensor {
    let (n, count) = (objects.dim(0), objects.dim(1));
    objects.reshape(&[n, count, 1]).broadcast_to(&[n, count, cells])
}

/// From scores `[n, cells, classes]` those of every object's class: `[n, objects, cells]`.
///
/// Images are named in the index vectors, not by rows of all images together: partitioners then see that every device finds
/// its images at home, and move no scores.
fn of_class(scores: &Tensor, classes: &Tensor) -> Tensor {
    let [n, cells, count] = [scores.dim(0), scores.dim(1), scores.dim(2)];
    let objects = classes.dim(1);
    let image = classes.trace().iota(Shape::new(DType::I32, [n, objects, 1]), 0);
    let classes = classes.convert(DType::I32);
    let class = classes.min(&classes.scalar_like(count as f64 - 1.0)).unsqueeze(2);
    let gather = Gather {
        offset_axes: vec![2],
        collapsed_axes: vec![0, 1],
        start_index_map: vec![0, 1],
        index_vector_axis: 2,
        slice_sizes: vec![1, 1, cells],
    };
    scores.transpose(&[0, 2, 1]).gather(&Tensor::concatenate(&[image, class], 2), gather)
}

/// The object's own value per cell, where at most one object has the cell: `[n, objects]` becomes `[n, cells]`.
fn of_owner(owned: &Tensor, objects: &Tensor) -> Tensor {
    let cells = owned.dim(2);
    let values = per_cell(objects, cells);
    owned.select(&values, &values.zeros_like()).sum(&[1])
}

/// Binary cross-entropy with logits, element by element.
fn binary_cross_entropy(logits: &Tensor, targets: &Tensor) -> Tensor {
    logits.softplus() - logits * targets
}
