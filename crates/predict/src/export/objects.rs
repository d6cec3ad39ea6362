//! Objects as an exported file returns them, beside ours.

use super::compare::{SAME_BOX, overlap};
use crate::error::Result;
use octant_data::ObjectDetail;
use octant_imaging::rle::Rle;
use octant_metrics::boxes::{PredictedBox, Rectangle};
use octant_train::{DetectedRows, FoundObject, PlacedOriginal, mask_of_logits};
use octant_zoo::CellDetail;

/// An object, and what else is predicted of it.
#[derive(Debug, Clone)]
pub(super) struct CheckedObject {
    pub found: PredictedBox,
    pub detail: CheckedDetail,
}

/// What is predicted of an object beside its box.
#[derive(Debug, Clone)]
pub(super) enum CheckedDetail {
    None,
    Points(Vec<[f64; 3]>),
    Corners([[f64; 2]; 4]),
    Mask(Rle),
}

/// Pixels at the border of a mask that may fall to either side, and how large a part of it they may be.
const PIXELS: usize = 4;
const SHARE: f64 = 0.01;

impl CheckedDetail {
    fn of(detail: &ObjectDetail) -> CheckedDetail {
        match detail {
            ObjectDetail::None | ObjectDetail::Polygons(_) => CheckedDetail::None,
            ObjectDetail::Mask(mask) => CheckedDetail::Mask(mask.clone()),
            ObjectDetail::Keypoints(points) => CheckedDetail::Points(points.clone()),
            ObjectDetail::Rotated(rectangle) => CheckedDetail::Corners(rectangle.corners()),
        }
    }

    /// How far two are apart relative to the largest coordinate, and pixels in which they differ.
    pub fn apart(&self, other: &CheckedDetail) -> (f64, usize) {
        match (self, other) {
            (CheckedDetail::None, CheckedDetail::None) => (0.0, 0),
            (CheckedDetail::Points(ours), CheckedDetail::Points(theirs)) if ours.len() == theirs.len() => {
                let largest = ours.iter().flatten().fold(1.0, |largest: f64, number| largest.max(number.abs()));
                let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
                (pairs.fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs() / largest)), 0)
            }
            (CheckedDetail::Corners(ours), CheckedDetail::Corners(theirs)) => {
                let largest = ours.iter().flatten().fold(1.0, |largest: f64, number| largest.max(number.abs()));
                (corners_apart(ours, theirs) / largest, 0)
            }
            (CheckedDetail::Mask(ours), CheckedDetail::Mask(theirs)) if ours.size() == theirs.size() => {
                (0.0, (ours.area() + theirs.area() - 2 * ours.common(theirs)) as usize)
            }
            _ => (f64::INFINITY, 0),
        }
    }

    /// Whether so many other pixels are more than rounding explains.
    fn is_other_mask(&self, pixels: usize) -> bool {
        match self {
            CheckedDetail::Mask(mask) => pixels > PIXELS.max((SHARE * mask.area() as f64) as usize),
            CheckedDetail::None | CheckedDetail::Points(_) | CheckedDetail::Corners(_) => false,
        }
    }
}

/// The largest distance of corners, whichever comes first.
fn corners_apart(a: &[[f64; 2]; 4], b: &[[f64; 2]; 4]) -> f64 {
    let distance = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]);
    let shifted = |shift: usize| (0..4).map(|corner| distance(a[corner], b[(corner + shift) % 4])).fold(0.0, f64::max);
    (0..4).map(shifted).fold(f64::INFINITY, f64::min)
}

impl CheckedObject {
    /// A prediction that is shown.
    pub fn shown(found: &PredictedBox, detail: Option<&ObjectDetail>) -> CheckedObject {
        CheckedObject { found: *found, detail: detail.map_or(CheckedDetail::None, CheckedDetail::of) }
    }

    /// One of ours in pixels of what the network saw, as a file without the preprocessing returns it: the box is not cut.
    pub fn uncut(object: &FoundObject) -> CheckedObject {
        let detail = CheckedDetail::of(&object.detail);
        let found = if matches!(detail, CheckedDetail::Corners(_)) { object.found } else { object.uncut };
        CheckedObject { found, detail }
    }

    /// How much another one differs, in no unit.
    pub fn apart(&self, other: &CheckedObject) -> f64 {
        let (apart, pixels) = self.detail.apart(&other.detail);
        (other.found.score - self.found.score).abs() + apart + pixels as f64
    }

    /// Whether the other one is the same object.
    pub fn is_near(&self, other: &CheckedObject) -> bool {
        let is_same = match (&self.detail, &other.detail) {
            (CheckedDetail::Corners(ours), CheckedDetail::Corners(theirs)) => {
                let Rectangle { width, height, .. } = self.found.rectangle;
                corners_apart(ours, theirs) < 0.1 + (1.0 - SAME_BOX) * width.max(height)
            }
            _ => {
                let (apart, pixels) = self.detail.apart(&other.detail);
                let has_same_detail = apart < 1.0 - SAME_BOX && !self.detail.is_other_mask(pixels);
                has_same_detail && overlap(&other.found.rectangle, &self.found.rectangle) > SAME_BOX
            }
        };
        other.found.class == self.found.class && is_same
    }
}

/// The objects of an image in a file's outputs; rows with score 0 fill them up. `theirs` has the numbers of an output. With
/// `original`, the file has its preprocessing inside and masks are of that height and width.
pub(super) fn objects_of(
    rows: &DetectedRows,
    original: Option<[usize; 2]>,
    theirs: impl Fn(&str) -> Result<Vec<f64>>,
) -> Result<Vec<CheckedObject>> {
    let (corners, scores, classes) = (theirs("boxes")?, theirs("scores")?, theirs("classes")?);
    let details = match rows.detail {
        CellDetail::None => vec![],
        CellDetail::Mask { .. } if original.is_some() => theirs("masks")?,
        CellDetail::Mask { .. } => theirs("mask_logits")?,
        CellDetail::Keypoints { .. } => theirs("keypoints")?,
        CellDetail::Angle => theirs("corners")?,
    };
    let detail = |number: usize, rectangle: &Rectangle| match rows.detail {
        CellDetail::None => CheckedDetail::None,
        CellDetail::Mask { stride, .. } => match original {
            Some([height, width]) => {
                let pixels = details.get(number * height * width..(number + 1) * height * width).unwrap_or_default();
                let is_marked =
                    |row: usize, column: usize| pixels.get(row * width + column).is_some_and(|&at| at > 0.0);
                CheckedDetail::Mask(Rle::of(height, width, is_marked))
            }
            None => {
                let [height, width, _] = rows.prototypes();
                let logits = details.get(number * height * width..(number + 1) * height * width).unwrap_or_default();
                let logits: Vec<f32> = logits.iter().map(|&logit| logit as f32).collect();
                let seen = PlacedOriginal::itself(rows.image);
                CheckedDetail::Mask(mask_of_logits(&logits, [height, width], stride as f64, rectangle, &seen))
            }
        },
        CellDetail::Keypoints { count, columns } => {
            let points = details.chunks_exact(columns).skip(number * count).take(count);
            CheckedDetail::Points(points.map(|at| [at[0], at[1], at.get(2).copied().unwrap_or(1.0)]).collect())
        }
        CellDetail::Angle => {
            let at =
                |corner: usize| [0, 1].map(|axis| details.get(8 * number + 2 * corner + axis).copied().unwrap_or(0.0));
            CheckedDetail::Corners([0, 1, 2, 3].map(at))
        }
    };
    let numbered = corners.chunks_exact(4).zip(scores.iter().zip(&classes)).enumerate();
    let found = numbered.filter(|(_, (_, (score, _)))| **score > 0.0).map(|(number, (corners, (&score, &class)))| {
        let rectangle = Rectangle::of_corners([corners[0], corners[1], corners[2], corners[3]]);
        let found = PredictedBox { class: class as usize, rectangle, score };
        CheckedObject { found, detail: detail(number, &rectangle) }
    });
    Ok(found.collect())
}
