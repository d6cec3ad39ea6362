//! Objects of large images: predicted in overlapping tiles, and merged.

use crate::error::{Result, refuse};
use crate::predictor::BATCH;
use crate::{Boxes, Cancel, Output, Prediction, Predictor};
use octant_data::ObjectDetail;
use octant_data::detection::ImageTiles;
use octant_imaging::Image;
use octant_imaging::geometry::{PixelWindow, crop};
use octant_imaging::polygon::RotatedRectangle;
use octant_imaging::rle::Rle;
use octant_metrics::boxes::{PredictedBox, Rectangle, Suppression};

/// How near to a tile's edge a box is that continues in the next tile, in pixels.
const EDGE: f64 = 2.0;

/// An object in pixels of the whole image.
#[derive(Debug, Clone)]
struct TiledObject {
    found: PredictedBox,
    detail: ObjectDetail,
    tile: usize,
    /// It reaches an edge of its tile that is none of the image's.
    is_cut: bool,
}

impl Predictor {
    /// The objects of an image in tiles of at most `side` pixels, which overlap by a fifth.
    pub(crate) fn predict_in_tiles(&self, image: &Image<u8>, side: usize, cancel: &Cancel) -> Result<Prediction> {
        let Ok(tiles) = side.to_string().parse::<ImageTiles>() else {
            refuse!("tiles of {side} pixels are too small for objects; give 32 or more");
        };
        let size = [image.height(), image.width()];
        let windows = tiles.windows(size);
        if windows.len() == 1 {
            let mut whole = self.predict_whole(std::slice::from_ref(image), cancel)?;
            return Ok(whole.remove(0));
        }
        let (mut shown, mut evaluated) = (Vec::new(), Vec::new());
        let mut names = Default::default();
        for (number, some) in windows.chunks(BATCH).enumerate() {
            let crops: Vec<Image<u8>> = some.iter().map(|window| crop(image, *window)).collect();
            for (at, prediction) in self.predict_whole(&crops, cancel)?.into_iter().enumerate() {
                let Output::Boxes(boxes) = prediction.output else { refuse!("a tile has no boxes") };
                let (window, tile) = (&some[at], number * BATCH + at);
                shown.extend(objects(&boxes.shown, &boxes.details, size, window, tile));
                evaluated.extend(objects(&boxes.evaluated, &boxes.evaluated_details, size, window, tile));
                names = boxes.names;
            }
        }
        let options = self.options();
        let (shown, details) = merged(shown, &options.boxes);
        let (evaluated, evaluated_details) =
            options.evaluated_boxes.as_ref().map(|rules| merged(evaluated, rules)).unwrap_or_default();
        Ok(Prediction::of(size, Output::Boxes(Boxes { shown, details, evaluated, evaluated_details, names })))
    }
}

/// What was found in a tile, in pixels of the image.
fn objects(
    boxes: &[PredictedBox],
    details: &[ObjectDetail],
    [height, width]: [usize; 2],
    window: &PixelWindow,
    tile: usize,
) -> Vec<TiledObject> {
    let (left, top) = (window.left as f64, window.top as f64);
    let (right, bottom) = ((window.left + window.width) as f64, (window.top + window.height) as f64);
    let object = |(number, found): (usize, &PredictedBox)| {
        let Rectangle { x, y, width: wide, height: high } = found.rectangle;
        let rectangle = Rectangle { x: x + left, y: y + top, width: wide, height: high };
        let is_cut = rectangle.x < left + EDGE && window.left > 0
            || rectangle.y < top + EDGE && window.top > 0
            || rectangle.x + wide > right - EDGE && window.left + window.width < width
            || rectangle.y + high > bottom - EDGE && window.top + window.height < height;
        let detail = details.get(number).map_or(ObjectDetail::None, |detail| moved(detail, [height, width], window));
        TiledObject { found: PredictedBox { rectangle, ..*found }, detail, tile, is_cut }
    };
    boxes.iter().enumerate().map(object).collect()
}

fn moved(detail: &ObjectDetail, size: [usize; 2], window: &PixelWindow) -> ObjectDetail {
    let (left, top) = (window.left as f64, window.top as f64);
    match detail {
        ObjectDetail::None => ObjectDetail::None,
        ObjectDetail::Polygons(polygons) => {
            let moved = |polygon: &Vec<f64>| {
                polygon.iter().zip([left, top].into_iter().cycle()).map(|(number, shift)| number + shift).collect()
            };
            ObjectDetail::Polygons(polygons.iter().map(moved).collect())
        }
        ObjectDetail::Mask(mask) => {
            ObjectDetail::Mask(Rle::of_window(size, [window.left, window.top], window.width, &mask.pixels()))
        }
        ObjectDetail::Keypoints(points) => {
            ObjectDetail::Keypoints(points.iter().map(|[x, y, seen]| [x + left, y + top, *seen]).collect())
        }
        ObjectDetail::Rotated(rectangle) => {
            let [x, y] = rectangle.center;
            ObjectDetail::Rotated(RotatedRectangle { center: [x + left, y + top], ..*rectangle })
        }
    }
}

/// Every object once, the highest score first. Objects that are whole come before those that a tile cut; what lies in another
/// object of its class that another tile saw goes.
fn merged(mut objects: Vec<TiledObject>, rules: &Suppression) -> (Vec<PredictedBox>, Vec<ObjectDetail>) {
    objects.sort_by(|a, b| a.is_cut.cmp(&b.is_cut).then(b.found.score.total_cmp(&a.found.score)));
    let mut kept: Vec<TiledObject> = Vec::new();
    for object in objects {
        if !kept.iter().any(|other| repeats(&object, other, f64::from(rules.overlap))) {
            kept.push(object);
        }
    }
    kept.sort_by(|a, b| b.found.score.total_cmp(&a.found.score));
    kept.truncate(rules.most);
    let has_details = kept.iter().any(|object| object.detail != ObjectDetail::None);
    let (boxes, details) = kept.into_iter().map(|object| (object.found, object.detail)).unzip();
    (boxes, if has_details { details } else { Vec::new() })
}

/// Whether an object is one that another tile saw.
fn repeats(object: &TiledObject, other: &TiledObject, limit: f64) -> bool {
    if object.tile == other.tile || object.found.class != other.found.class {
        return false;
    }
    let (overlap, share) = match (&object.detail, &other.detail) {
        (ObjectDetail::Rotated(own), ObjectDetail::Rotated(other)) => {
            (own.prob_iou(other), own.common(other) / own.area().max(f64::MIN_POSITIVE))
        }
        _ => {
            let (own, other) = (&object.found.rectangle, &other.found.rectangle);
            (own.iou(other), own.common(other) / own.area().max(f64::MIN_POSITIVE))
        }
    };
    overlap > limit || object.is_cut && share > limit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(corners: [f64; 4], score: f64, tile: usize, is_cut: bool) -> TiledObject {
        let found = PredictedBox { class: 0, rectangle: Rectangle::of_corners(corners), score };
        TiledObject { found, detail: ObjectDetail::None, tile, is_cut }
    }

    #[test]
    fn an_object_of_two_tiles_is_one_and_its_cut_half_goes() {
        let whole = object([40.0, 10.0, 60.0, 30.0], 0.7, 0, false);
        let again = object([40.5, 10.0, 60.0, 30.0], 0.6, 1, false);
        let half = object([40.0, 10.0, 50.0, 30.0], 0.9, 2, true);
        let beside = object([80.0, 10.0, 90.0, 30.0], 0.5, 1, false);
        // Two of one tile are two: the suppression within it has decided that.
        let twin = object([41.0, 10.0, 61.0, 30.0], 0.4, 0, false);
        let all = vec![half, again, twin, whole, beside];
        let (boxes, details) = merged(all, &Suppression::prediction());
        let scores: Vec<f64> = boxes.iter().map(|found| found.score).collect();
        assert_eq!((scores, details.len()), (vec![0.7, 0.5, 0.4], 0));
    }

    #[test]
    fn rotated_boxes_of_two_tiles_meet_by_their_probabilistic_overlap() {
        let window = PixelWindow { top: 0, left: 100, height: 128, width: 128 };
        let rotated =
            |center: [f64; 2]| ObjectDetail::Rotated(RotatedRectangle { center, size: [40.0, 8.0], angle: 0.8 });
        let found =
            |x: f64| PredictedBox { class: 0, rectangle: Rectangle::of_corners([x, 20.0, x + 34.0, 54.0]), score: 0.8 };
        let first = PixelWindow { left: 0, ..window };
        let mut all = objects(&[found(103.0)], &[rotated([120.0, 37.0])], [128, 228], &first, 0);
        all.extend(objects(&[found(3.0)], &[rotated([20.0, 37.0])], [128, 228], &window, 1));
        assert!(all[0].is_cut && !all[1].is_cut);
        let (boxes, details) = merged(all, &Suppression::prediction());
        assert_eq!((boxes.len(), &details[0]), (1, &rotated([120.0, 37.0])));
    }
}
