//! From a detector's numbers to objects in pixels of the original image.

use octant_data::ObjectDetail;
use octant_data::detection::Fitted;
use octant_imaging::polygon::RotatedRectangle;
use octant_imaging::rle::Rle;
use octant_metrics::boxes::{CellRow, Kept, PredictedBox, Rectangle, Suppression, suppress_cells};
use octant_zoo::CellDetail;

/// How the predictions of one image are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectedRows {
    /// How many classes there are.
    pub classes: usize,
    /// What comes behind the scores of a cell.
    pub detail: CellDetail,
    /// Height and width of the network's images.
    pub image: [usize; 2],
}

/// An object in pixels of the original image.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundObject {
    /// Its class, score and box; of a rotated box the upright one around it.
    pub found: PredictedBox,
    /// The box before it was cut at the image's border.
    pub uncut: PredictedBox,
    /// What else was predicted.
    pub detail: ObjectDetail,
}

/// Where the original image lies in the network's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlacedOriginal {
    /// How it was fitted.
    pub fitted: Fitted,
    /// Its height and width.
    pub size: [usize; 2],
}

impl PlacedOriginal {
    /// An original of that height and width in a square of that side.
    pub fn of([height, width]: [usize; 2], side: usize) -> PlacedOriginal {
        PlacedOriginal { fitted: Fitted::of(height, width, side), size: [height, width] }
    }

    /// The network's image itself.
    pub fn itself(size: [usize; 2]) -> PlacedOriginal {
        PlacedOriginal { fitted: Fitted { scale: [1.0; 2], offset: [0; 2] }, size }
    }

    fn back(&self, prediction: &PredictedBox) -> [PredictedBox; 2] {
        let Rectangle { x, y, width, height } = prediction.rectangle;
        let corners = [x, y, x + width, y + height];
        let of = |corners| PredictedBox { rectangle: Rectangle::of_corners(corners), ..*prediction };
        let cut = self.fitted.back(corners, self.size[0], self.size[1]);
        [of(cut), of(self.fitted.back_uncut(corners))]
    }

    /// A box of the network's image that has nothing else.
    pub(super) fn object(&self, prediction: PredictedBox) -> FoundObject {
        let [found, uncut] = self.back(&prediction);
        FoundObject { found, uncut, detail: ObjectDetail::None }
    }

    fn point(&self, x: f64, y: f64) -> [f64; 2] {
        let [x, y, _, _] = self.fitted.back_uncut([x, y, x, y]);
        [x, y]
    }

    /// Both sides have nearly the same scale; a rectangle stays one.
    fn rectangle(&self, rectangle: &RotatedRectangle) -> RotatedRectangle {
        let scale = (self.fitted.scale[0] * self.fitted.scale[1]).sqrt();
        let [x, y] = rectangle.center;
        RotatedRectangle {
            center: self.point(x, y),
            size: rectangle.size.map(|side| side / scale),
            angle: rectangle.angle,
        }
    }
}

impl DetectedRows {
    /// What a row holds.
    pub fn row(&self) -> CellRow {
        CellRow { classes: self.classes, details: self.detail.columns(), rotated: self.detail == CellDetail::Angle }
    }

    /// Height, width and number of the maps that masks are made of.
    pub fn prototypes(&self) -> [usize; 3] {
        match self.detail {
            CellDetail::Mask { prototypes, stride } => [self.image[0] / stride, self.image[1] / stride, prototypes],
            CellDetail::None | CellDetail::Keypoints { .. } | CellDetail::Angle => [0; 3],
        }
    }

    /// The rows of an image, and the prototypes behind them.
    pub fn split<'a>(&self, values: &'a [f32]) -> (&'a [f32], &'a [f32]) {
        let basis_length = self.prototypes().iter().product::<usize>().min(values.len());
        values.split_at(values.len() - basis_length)
    }

    /// The objects of an image, the highest score first.
    pub fn found(&self, values: &[f32], rules: &Suppression, original: &PlacedOriginal) -> Vec<FoundObject> {
        let (rows, basis) = self.split(values);
        let kept = suppress_cells(rows, self.row(), rules);
        kept.iter().map(|kept| self.object(rows, basis, kept, original)).collect()
    }

    fn object(&self, rows: &[f32], basis: &[f32], kept: &Kept, original: &PlacedOriginal) -> FoundObject {
        let [mut found, uncut] = original.back(&kept.found);
        let numbers = self.row().details(rows, kept.cell);
        let detail = match self.detail {
            CellDetail::None => ObjectDetail::None,
            CellDetail::Mask { stride, .. } => {
                let logits = MaskLogits::of(numbers, basis, self.prototypes(), stride, &kept.found.rectangle);
                ObjectDetail::Mask(logits.mask(&found.rectangle, original))
            }
            CellDetail::Keypoints { columns, .. } => {
                let point = |point: &[f32]| {
                    let [x, y] = original.point(f64::from(point[0]), f64::from(point[1]));
                    [x, y, point.get(2).map_or(1.0, |&seen| f64::from(seen))]
                };
                ObjectDetail::Keypoints(numbers.chunks_exact(columns).map(point).collect())
            }
            CellDetail::Angle => {
                let rectangle = original.rectangle(&self.row().rectangle(rows, kept.cell)).normalized();
                // The upright box is the one around it, which may reach over the image's border.
                let corners = octant_imaging::polygon::bounds(rectangle.corners()).unwrap_or_default();
                found.rectangle = Rectangle::of_corners(corners);
                ObjectDetail::Rotated(rectangle)
            }
        };
        FoundObject { found, uncut, detail }
    }
}

/// The pixels of the original image that are marked by logits of a grid, height by width, each for `stride` pixels of the
/// network's image: those inside of the box, which is one of the original image.
pub fn mask_of_logits(
    logits: &[f32],
    size: [usize; 2],
    stride: f64,
    rectangle: &Rectangle,
    original: &PlacedOriginal,
) -> Rle {
    MaskLogits { first: [0; 2], size, values: logits.to_vec(), stride }.mask(rectangle, original)
}

/// The logits of one object's mask around its box.
struct MaskLogits {
    /// Row and column of the first.
    first: [usize; 2],
    /// Rows and columns.
    size: [usize; 2],
    values: Vec<f32>,
    stride: f64,
}

impl MaskLogits {
    /// Products of coefficients and prototypes at the pixels that the box needs, with those beside it.
    fn of(
        coefficients: &[f32],
        basis: &[f32],
        [height, width, count]: [usize; 3],
        stride: usize,
        rectangle: &Rectangle,
    ) -> MaskLogits {
        let range = |low: f64, length: f64, limit: usize| {
            let from = (low / stride as f64 - 1.0).floor().clamp(0.0, limit as f64) as usize;
            let to = ((low + length) / stride as f64 + 1.0).ceil().clamp(0.0, limit as f64) as usize;
            from..to.max(from)
        };
        let rows = range(rectangle.y, rectangle.height, height);
        let columns = range(rectangle.x, rectangle.width, width);
        let mut values = Vec::with_capacity(rows.len() * columns.len());
        for row in rows.clone() {
            for column in columns.clone() {
                let maps = &basis[(row * width + column) * count..][..count];
                values.push(maps.iter().zip(coefficients).map(|(a, b)| a * b).sum());
            }
        }
        MaskLogits {
            first: [rows.start, columns.start],
            size: [rows.len(), columns.len()],
            values,
            stride: stride as f64,
        }
    }

    /// Between which two logits the pixels of a range lie, and how near to the second.
    fn places(
        &self,
        axis: usize,
        range: std::ops::Range<usize>,
        original: &PlacedOriginal,
    ) -> Vec<(usize, usize, f32)> {
        // Columns are the first axis of a fitted image, the second of the grid.
        let (scale, offset) = (original.fitted.scale[1 - axis], original.fitted.offset[1 - axis] as f64);
        let last = self.size[axis] as f64 - 1.0;
        let place = |pixel: usize| {
            let position = ((pixel as f64 + 0.5) * scale + offset) / self.stride - 0.5 - self.first[axis] as f64;
            let position = position.clamp(0.0, last);
            let low = position.floor();
            (low as usize, (low + 1.0).min(last) as usize, (position - low) as f32)
        };
        range.map(place).collect()
    }

    /// The pixels of the original image inside of the box where the logit, interpolated between its neighbors, is above 0.
    fn mask(&self, rectangle: &Rectangle, original: &PlacedOriginal) -> Rle {
        let [height, width] = original.size;
        let range = |low: f64, length: f64, limit: usize| {
            let from = (low - 0.5).ceil().clamp(0.0, limit as f64) as usize;
            from..((low + length - 0.5).ceil().clamp(0.0, limit as f64) as usize).max(from)
        };
        let rows = range(rectangle.y, rectangle.height, height);
        let columns = range(rectangle.x, rectangle.width, width);
        if self.values.is_empty() || rows.is_empty() || columns.is_empty() {
            return Rle::of_window([height, width], [0, 0], 0, &[]);
        }
        let across = self.places(1, columns.clone(), original);
        let mut window = Vec::with_capacity(rows.len() * columns.len());
        for (top, bottom, down) in self.places(0, rows.clone(), original) {
            let [upper, lower] = [top, bottom].map(|row| &self.values[row * self.size[1]..][..self.size[1]]);
            window.extend(across.iter().map(|&(left, right, share)| {
                let above = upper[left] + share * (upper[right] - upper[left]);
                let below = lower[left] + share * (lower[right] - lower[left]);
                above + down * (below - above) > 0.0
            }));
        }
        Rle::of_window([height, width], [columns.start, rows.start], columns.len(), &window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A square of 64 pixels: one prototype that is positive in the left half.
    #[test]
    fn masks_are_enlarged_and_cut_at_their_boxes() {
        let detail = CellDetail::Mask { prototypes: 1, stride: 4 };
        let rows = DetectedRows { classes: 1, detail, image: [64, 64] };
        let basis: Vec<f32> = (0..256).map(|index| if index % 16 < 8 { 1.0 } else { -1.0 }).collect();
        let cell = [16.0, 8.0, 60.0, 24.0, 0.9, 2.0];
        let values = [&cell[..], &basis].concat();
        let original = PlacedOriginal::of([128, 128], 64);
        let objects = rows.found(&values, &Suppression::prediction(), &original);
        let ObjectDetail::Mask(mask) = &objects[0].detail else { panic!("a mask") };
        // From column 32 to 64 and row 16 to 48 of twice the size.
        assert_eq!(mask.bounds(), [32.0, 16.0, 32.0, 32.0]);
        assert_eq!(mask.area(), 32 * 32);
    }

    #[test]
    fn rotated_boxes_and_keypoints_come_back_to_the_original() {
        let rows = DetectedRows { classes: 1, detail: CellDetail::Angle, image: [64, 64] };
        // An image of 128 × 64 lies 16 rows lower at half the size.
        let original = PlacedOriginal::of([64, 128], 64);
        let objects = rows.found(&[20.0, 30.0, 40.0, 40.0, 0.9, 0.5], &Suppression::prediction(), &original);
        let ObjectDetail::Rotated(rectangle) = &objects[0].detail else { panic!("a rotated box") };
        assert_eq!((rectangle.center, rectangle.size, rectangle.angle), ([60.0, 38.0], [40.0, 20.0], 0.5));
        let detail = CellDetail::Keypoints { count: 2, columns: 3 };
        let rows = DetectedRows { detail, ..rows };
        let values = [20.0, 30.0, 40.0, 40.0, 0.9, 32.0, 32.0, 0.7, 0.0, 16.0, 0.1];
        let objects = rows.found(&values, &Suppression::prediction(), &original);
        let ObjectDetail::Keypoints(points) = &objects[0].detail else { panic!("keypoints") };
        assert_eq!([points[0][0], points[0][1], points[1][0], points[1][1]], [64.0, 32.0, 0.0, 0.0]);
    }
}
