//! COCO's evaluation of boxes, masks and keypoints, over its files or what is in memory.

mod node;
mod rows;
mod shape;

use crate::error::refused;
use octant_imaging::rle::Rle;
use octant_metrics::boxes::{
    BoxScores, CocoSummary, GroundTruthBox, KeypointObject, Measured, MeasuredImage, PredictedBox, Rectangle,
};
use octant_nn::loss::detection::keypoint_sigmas;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rows::{ListedImage, Reading, Row, Rows};
use shape::Shape;
use std::collections::BTreeMap;

/// What predictions and objects are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Boxes,
    Masks,
    Keypoints,
}

impl Compared {
    /// By the name that COCO's own evaluation has for it.
    fn of(iou_type: &str) -> PyResult<Compared> {
        match iou_type {
            "bbox" => Ok(Compared::Boxes),
            "segm" => Ok(Compared::Masks),
            "keypoints" => Ok(Compared::Keypoints),
            other => Err(refused(format!("`iou_type` is bbox, segm or keypoints, not \"{other}\""))),
        }
    }

    /// How many predictions of an image and a class count; COCO's own numbers if none are given.
    fn limits(self, given: Option<&[i64]>) -> PyResult<[usize; 3]> {
        let own: &[i64] = if self == Compared::Keypoints { &[20] } else { &[1, 10, 100] };
        let given = given.unwrap_or(own);
        let is_right = given.len() == own.len() && given[0] >= 1 && given.is_sorted_by(|a, b| a < b);
        match (is_right, given) {
            (true, &[one]) => Ok([one as usize; 3]),
            (true, &[first, second, last]) => Ok([first, second, last].map(|limit| limit as usize)),
            _ => Err(refused(match self {
                Compared::Keypoints => "`max_dets` of keypoints is a list of one number of at least 1",
                _ => "`max_dets` is a list of three ascending numbers of at least 1",
            })),
        }
    }
}

/// The rows of an image.
struct ImageRows<'r> {
    size: Option<[usize; 2]>,
    /// Each with the number of its class.
    truth: Vec<(usize, &'r Row)>,
    found: Vec<(usize, &'r Row)>,
}

/// One evaluation of two sides.
struct Evaluation<'r> {
    compared: Compared,
    truth: &'r Rows,
    found: &'r Rows,
    /// One per keypoint.
    sigmas: Vec<f64>,
    /// Whether the areas of predictions are those of their boxes: COCO's rule is what the first one has.
    by_box: bool,
}

impl<'r> Evaluation<'r> {
    fn new(compared: Compared, truth: &'r Rows, found: &'r Rows, sigmas: Option<Vec<f64>>) -> PyResult<Self> {
        let by_box = found.rows.first().is_some_and(|row| row.rectangle.is_some());
        if let Some(row) = found.rows.iter().find(|row| by_box && row.rectangle.is_none()) {
            let (number, what) = (row.number, &found.what);
            return Err(refused(format!("row {number} of {what}: it lacks `bbox`, which the first one has")));
        }
        let points = |row: &Row| if let Shape::Keypoints { points, .. } = &row.shape { points.len() } else { 0 };
        let count = truth.rows.iter().chain(&found.rows).map(points).next().unwrap_or_default();
        let sigmas = sigmas.unwrap_or_else(|| keypoint_sigmas(count));
        if sigmas.iter().any(|sigma| !(*sigma > 0.0 && sigma.is_finite())) {
            return Err(refused("`sigmas` are positive numbers, one per keypoint"));
        }
        for side in [truth, found] {
            let other = side.rows.iter().find(|row| compared == Compared::Keypoints && points(row) != sigmas.len());
            if let Some(row) = other {
                let (number, what, own) = (row.number, &side.what, points(row));
                let wanted = sigmas.len();
                return Err(refused(format!("row {number} of {what}: it has {own} keypoints, not {wanted}")));
            }
        }
        Ok(Evaluation { compared, truth, found, sigmas, by_box })
    }

    /// Both sides by image, in the order of COCO's own evaluation: images and categories by number.
    fn images(&self) -> PyResult<(Vec<ImageRows<'r>>, Vec<i64>)> {
        let mut categories =
            self.truth.categories.clone().unwrap_or_else(|| self.truth.rows.iter().map(|row| row.category).collect());
        categories.sort_unstable();
        categories.dedup();
        let of_row = |row: &Row| ListedImage { id: row.image, size: None };
        let images = self.truth.images.clone().unwrap_or_else(|| self.truth.rows.iter().map(of_row).collect());
        let empty = |ListedImage { id, size }| (id, ImageRows { size, truth: Vec::new(), found: Vec::new() });
        let mut by_image: BTreeMap<i64, ImageRows> = images.into_iter().map(empty).collect();
        for (side, is_truth) in [(self.truth, true), (self.found, false)] {
            for row in &side.rows {
                let Ok(class) = categories.binary_search(&row.category) else { continue };
                let unknown = || refused(format!("there is no image {} in the ground truth", row.image));
                let image = by_image.get_mut(&row.image).ok_or_else(unknown)?;
                // Without a list of images, masks say how large theirs is.
                image.size = image.size.or(row.shape.size());
                if is_truth { &mut image.truth } else { &mut image.found }.push((class, row));
            }
        }
        Ok((by_image.into_values().collect(), categories))
    }

    /// COCO's figures, and the categories that those per class are of.
    fn summary(&self, limits: [usize; 3]) -> PyResult<(CocoSummary, Vec<i64>)> {
        let (images, categories) = self.images()?;
        let mut scores = BoxScores::new(categories.len()).with_limits(limits);
        match self.compared {
            Compared::Boxes => images.iter().for_each(|image| {
                let (truth, found) = image.boxes();
                scores.observe(truth, found);
            }),
            Compared::Masks => scores.observe_all(&images, |image| self.masks(image)).map_err(refused)?,
            Compared::Keypoints => scores.observe_all(&images, |image| self.keypoints(image)).map_err(refused)?,
        }
        Ok((scores.coco(), categories))
    }

    fn masks(&self, image: &ImageRows) -> Result<MeasuredImage, String> {
        let of_side = |side: &Rows, rows: &[(usize, &Row)]| -> Result<Vec<(Rle, Rectangle)>, String> {
            let mask = |(_, row): &(usize, &Row)| {
                let mask = row.shape.mask(image.size);
                let mask = mask.map_err(|fault| format!("row {} of {}: {fault}", row.number, side.what))?;
                let [x, y, width, height] = mask.bounds();
                Ok((mask, Rectangle { x, y, width, height }))
            };
            rows.iter().map(mask).collect()
        };
        let (objects, predictions) = (of_side(self.truth, &image.truth)?, of_side(self.found, &image.found)?);
        let (mut truth, found) = image.boxes();
        for ((object, (_, row)), (mask, _)) in truth.iter_mut().zip(&image.truth).zip(&objects) {
            object.area = row.area.unwrap_or(mask.area() as f64);
        }
        let areas = found.iter().zip(&predictions);
        let areas =
            areas.map(|(found, (mask, _))| if self.by_box { found.rectangle.area() } else { mask.area() as f64 });
        let (areas, ignored) = (areas.collect(), vec![false; truth.len()]);
        let measured = Measured::by_class((&truth, &found), areas, ignored, |prediction, object| {
            let ((own, own_bounds), (other, bounds)) = (&predictions[prediction], &objects[object]);
            if own_bounds.common(bounds) == 0.0 { 0.0 } else { own.iou(other, truth[object].crowd) }
        });
        Ok(MeasuredImage { truth, found, measured })
    }

    fn keypoints(&self, image: &ImageRows) -> Result<MeasuredImage, String> {
        let what = &self.truth.what;
        let (mut truth, found) = image.boxes();
        let (mut objects, mut ignored) = (Vec::new(), Vec::new());
        for ((_, row), object) in image.truth.iter().zip(&mut truth) {
            let lacking = |key: &str| format!("row {} of {what}: it lacks `{key}`, which keypoints need", row.number);
            let Rectangle { x, y, width, height } = row.rectangle.ok_or_else(|| lacking("bbox"))?;
            object.area = row.area.ok_or_else(|| lacking("area"))?;
            let Shape::Keypoints { points, known } = &row.shape else { return Err(lacking("keypoints")) };
            let (points, bounds, area) = (points.clone(), [x, y, width, height], object.area);
            let keypoints = KeypointObject { points, bounds, area, crowd: row.crowd };
            ignored.push(row.crowd || known.map_or(!keypoints.has_known(), |known| known == 0));
            objects.push(keypoints);
        }
        let positions = |row: &Row| -> Vec<[f64; 2]> {
            if let Shape::Keypoints { points, .. } = &row.shape {
                points.iter().map(|&[x, y, _]| [x, y]).collect()
            } else {
                Vec::new()
            }
        };
        let predicted: Vec<Vec<[f64; 2]>> = image.found.iter().map(|(_, row)| positions(row)).collect();
        let around = |points: &Vec<[f64; 2]>| {
            let corners = octant_imaging::polygon::bounds(points.iter().copied()).unwrap_or_default();
            Rectangle::of_corners(corners).area()
        };
        let areas = found.iter().zip(&predicted);
        let areas = areas.map(|(found, points)| if self.by_box { found.rectangle.area() } else { around(points) });
        let areas = areas.collect();
        let measured = Measured::by_class((&truth, &found), areas, ignored, |prediction, object| {
            objects[object].similarity(&predicted[prediction], &self.sigmas)
        });
        Ok(MeasuredImage { truth, found, measured })
    }
}

impl ImageRows<'_> {
    /// Objects and predictions by their boxes, as far as they have any.
    fn boxes(&self) -> (Vec<GroundTruthBox>, Vec<PredictedBox>) {
        let rectangle = |row: &Row| row.rectangle.unwrap_or(Rectangle { x: 0.0, y: 0.0, width: 0.0, height: 0.0 });
        let object = |&(class, row): &(usize, &Row)| {
            let rectangle = rectangle(row);
            GroundTruthBox { class, rectangle, area: row.area.unwrap_or(rectangle.area()), crowd: row.crowd }
        };
        let prediction =
            |&(class, row): &(usize, &Row)| PredictedBox { class, rectangle: rectangle(row), score: row.score };
        (self.truth.iter().map(object).collect(), self.found.iter().map(prediction).collect())
    }
}

/// The figures with their names, in COCO's order.
fn named(summary: &CocoSummary, compared: Compared, limits: [usize; 3]) -> Vec<(String, f64)> {
    if compared == Compared::Keypoints {
        let names = CocoSummary::KEYPOINT_NAMES.into_iter().map(str::to_string);
        return names.zip(summary.keypoint_figures()).collect();
    }
    const FIRST_RECALL: usize = 6;
    let name = |(index, name): (usize, &str)| match index.checked_sub(FIRST_RECALL).and_then(|at| limits.get(at)) {
        Some(limit) => format!("AR-{limit}"),
        None => name.to_string(),
    };
    CocoSummary::NAMES.into_iter().enumerate().map(name).zip(summary.figures).collect()
}

/// Figures by name, and AP by category.
type Figures<'py> = (Vec<(String, f64)>, Bound<'py, PyDict>);

/// COCO's figures: see `octant.metrics.coco`.
#[pyfunction]
#[pyo3(signature = (truth, found, iou_type="bbox", max_dets=None, sigmas=None))]
pub(crate) fn coco<'py>(
    py: Python<'py>,
    truth: &Bound<'py, PyAny>,
    found: &Bound<'py, PyAny>,
    iou_type: &str,
    max_dets: Option<Vec<i64>>,
    sigmas: Option<Vec<f64>>,
) -> PyResult<Figures<'py>> {
    let compared = Compared::of(iou_type)?;
    let limits = compared.limits(max_dets.as_deref())?;
    if sigmas.is_some() && compared != Compared::Keypoints {
        return Err(refused("`sigmas` are of keypoints and change nothing otherwise"));
    }
    let truth = Reading { what: "the ground truth", compared, scored: false }.rows(truth)?;
    let found = Reading { what: "the predictions", compared, scored: true }.rows(found)?;
    let (summary, categories) = py.detach(|| Evaluation::new(compared, &truth, &found, sigmas)?.summary(limits))?;
    let per_class = PyDict::new(py);
    categories
        .iter()
        .zip(&summary.per_class)
        .try_for_each(|(category, figure)| per_class.set_item(category, figure))?;
    Ok((named(&summary, compared, limits), per_class))
}
