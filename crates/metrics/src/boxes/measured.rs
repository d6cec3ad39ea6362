//! How much predictions and objects of an image overlap by something else than their boxes: masks, keypoints, rotated boxes.

use super::{GroundTruthBox, PredictedBox};
use octant_imaging::polygon::RotatedRectangle;
use octant_imaging::rle::Rle;

/// Overlaps of all predictions and objects of an image.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    /// Per prediction, from 0 to 1 for every object; of a group, the share of the prediction that lies in it.
    pub overlaps: Vec<f64>,
    /// What decides whether a prediction that matches nothing is small or large.
    pub areas: Vec<f64>,
    /// Objects that count for nothing: predictions that match them are neither right nor wrong.
    pub ignored: Vec<bool>,
}

impl Measured {
    /// By a function of the numbers of a prediction and an object; areas are per prediction.
    pub fn by(areas: Vec<f64>, ignored: Vec<bool>, overlap: impl Fn(usize, usize) -> f64) -> Measured {
        let objects = ignored.len();
        let overlaps = (0..areas.len() * objects).map(|pair| overlap(pair / objects, pair % objects)).collect();
        Measured { overlaps, areas, ignored }
    }

    /// The same where the overlap matters between objects and predictions of one class alone, as in COCO's evaluation; it is 0
    /// between others.
    pub fn by_class(
        image: (&[GroundTruthBox], &[PredictedBox]),
        areas: Vec<f64>,
        ignored: Vec<bool>,
        overlap: impl Fn(usize, usize) -> f64,
    ) -> Measured {
        let (truth, found) = image;
        Measured::by(areas, ignored, |prediction, object| match found[prediction].class == truth[object].class {
            true => overlap(prediction, object),
            false => 0.0,
        })
    }

    pub(super) fn overlap(&self, prediction: usize, object: usize) -> f64 {
        self.overlaps[prediction * self.ignored.len() + object]
    }

    /// Those of some objects and predictions, by number.
    pub(super) fn of(&self, objects: &[usize], predictions: &[usize]) -> Measured {
        let pairs = predictions.iter().flat_map(|&prediction| objects.iter().map(move |&object| (prediction, object)));
        Measured {
            overlaps: pairs.map(|(prediction, object)| self.overlap(prediction, object)).collect(),
            areas: predictions.iter().map(|&prediction| self.areas[prediction]).collect(),
            ignored: objects.iter().map(|&object| self.ignored[object]).collect(),
        }
    }

    /// Without objects and predictions of classes beyond a number, or without a score.
    pub(super) fn retained(
        &self,
        truth: Vec<GroundTruthBox>,
        found: Vec<PredictedBox>,
        classes: usize,
    ) -> (Vec<GroundTruthBox>, Vec<PredictedBox>, Measured) {
        let objects: Vec<usize> = (0..truth.len()).filter(|&number| truth[number].class < classes).collect();
        let is_known = |prediction: &PredictedBox| prediction.class < classes && prediction.score.is_finite();
        let predictions: Vec<usize> = (0..found.len()).filter(|&number| is_known(&found[number])).collect();
        let measured = self.of(&objects, &predictions);
        let truth = objects.into_iter().map(|number| truth[number]).collect();
        (truth, predictions.into_iter().map(|number| found[number]).collect(), measured)
    }
}

/// An image whose predictions and objects were compared by something else than their boxes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredImage {
    /// Its objects.
    pub truth: Vec<GroundTruthBox>,
    /// What was predicted.
    pub found: Vec<PredictedBox>,
    /// How much they overlap.
    pub measured: Measured,
}

/// Overlaps of masks; `crowds` says which objects are groups.
pub fn mask_overlaps(found: &[Rle], truth: &[Rle], crowds: &[bool]) -> Measured {
    let areas = found.iter().map(|mask| mask.area() as f64).collect();
    Measured::by(areas, vec![false; truth.len()], |prediction, object| {
        found[prediction].iou(&truth[object], crowds[object])
    })
}

/// Intersection over union of rotated boxes as polygons, or their probabilistic overlap.
pub fn rotated_overlaps(found: &[RotatedRectangle], truth: &[RotatedRectangle], probabilistic: bool) -> Measured {
    let areas = found.iter().map(RotatedRectangle::area).collect();
    Measured::by(areas, vec![false; truth.len()], |prediction, object| match probabilistic {
        true => found[prediction].prob_iou(&truth[object]).max(0.0),
        false => found[prediction].iou(&truth[object]),
    })
}

/// The keypoints of an object, as COCO evaluates them.
#[derive(Debug, Clone, PartialEq)]
pub struct KeypointObject {
    /// Column, row and visibility; 0 is not known.
    pub points: Vec<[f64; 3]>,
    /// Left, top, width and height.
    pub bounds: [f64; 4],
    /// The area of the object.
    pub area: f64,
    /// A group of objects.
    pub crowd: bool,
}

impl KeypointObject {
    /// Whether any keypoint is known.
    pub fn has_known(&self) -> bool {
        self.points.iter().any(|point| point[2] > 0.0)
    }

    /// Object keypoint similarity: the mean over known keypoints of exp(-distance² / (2 · area · (2σ)²)). Without known
    /// keypoints, distances are those to twice the object's box.
    pub fn similarity(&self, found: &[[f64; 2]], sigmas: &[f64]) -> f64 {
        let [x, y, width, height] = self.bounds;
        let has_known = self.has_known();
        let outside = |v: f64, low: f64, high: f64| (low - v).max(0.0) + (v - high).max(0.0);
        let (mut sum, mut count) = (0.0, 0);
        for ((point, found), sigma) in self.points.iter().zip(found).zip(sigmas) {
            if has_known && point[2] <= 0.0 {
                continue;
            }
            let (dx, dy) = match has_known {
                true => (found[0] - point[0], found[1] - point[1]),
                false => {
                    (outside(found[0], x - width, x + 2.0 * width), outside(found[1], y - height, y + 2.0 * height))
                }
            };
            let variance = (2.0 * sigma).powi(2);
            let spacing = f64::EPSILON;
            sum += (-(dx * dx + dy * dy) / variance / (self.area + spacing) / 2.0).exp();
            count += 1;
        }
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    }

    /// Similarities of predicted keypoints. Objects without known keypoints, and groups, count for nothing.
    pub fn similarities(found: &[Vec<[f64; 2]>], truth: &[KeypointObject], sigmas: &[f64]) -> Measured {
        let area = |points: &Vec<[f64; 2]>| {
            octant_imaging::polygon::bounds(points.iter().copied())
                .map_or(0.0, |[x0, y0, x1, y1]| (x1 - x0) * (y1 - y0))
        };
        let ignored = truth.iter().map(|object| object.crowd || !object.has_known()).collect();
        Measured::by(found.iter().map(area).collect(), ignored, |prediction, object| {
            truth[object].similarity(&found[prediction], sigmas)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::BoxScores;
    use super::*;

    #[test]
    fn images_are_measured_in_their_order_and_the_first_failure_ends_it() {
        let object = |class| GroundTruthBox::new(class, super::super::Rectangle::of_corners([0.0, 0.0, 50.0, 50.0]));
        let measure = |&image: &usize| -> Result<MeasuredImage, usize> {
            let truth = vec![object(0), object(1)];
            let score = 1.0 / (image + 1) as f64;
            let found = [1, 0, 2].map(|class| PredictedBox { class, rectangle: truth[0].rectangle, score }).to_vec();
            // Overlaps with objects of other classes do not count.
            let measured = Measured::by_class((&truth, &found), vec![2500.0; 3], vec![false; 2], |_, _| 0.82);
            assert_eq!(measured.overlaps, [0.0, 0.82, 0.82, 0.0, 0.0, 0.0]);
            if image == 60 || image == 90 { Err(image) } else { Ok(MeasuredImage { truth, found, measured }) }
        };
        let mut scores = BoxScores::new(2);
        assert_eq!(scores.observe_all(&(0..50).collect::<Vec<_>>(), measure), Ok(()));
        let best = scores.found().map(|found| found[0].score).collect::<Vec<_>>();
        assert_eq!((best.len(), best[49], best.is_sorted_by(|a, b| a > b)), (50, 0.02, true));
        assert_eq!(scores.found().map(<[_]>::len).max(), Some(2), "a class that is not known");
        // Right at overlaps of 0.50 to 0.80.
        let figures = scores.coco().figures;
        assert!((figures[0] - 0.7).abs() < 1e-9 && (figures[2] - 1.0).abs() < 1e-9, "{figures:?}");
        assert_eq!(scores.observe_all(&(0..100).collect::<Vec<_>>(), measure), Err(60));
    }
}
