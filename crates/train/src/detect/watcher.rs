//! A detector's predictions against the ground truth.

use super::found::{DetectedRows, FoundObject, PlacedOriginal};
use crate::{CountedObjects, Findings, Metric, Observer, TrainError};
use octant_data::{Batch, GroundTruthImage, GroundTruthObject, ObjectDetail, Targets};
use octant_graph::HostTensor;
use octant_imaging::polygon::RotatedRectangle;
use octant_imaging::rle::Rle;
use octant_metrics::boxes::{
    BoxReport, BoxScores, GroundTruthBox, KeypointObject, PredictedBox, Rectangle, Suppression, kept, mask_overlaps,
    rotated_overlaps,
};
use octant_metrics::classes::Confusion;
use octant_nn::loss::detection::keypoint_sigmas;
use octant_zoo::CellDetail;
use std::cell::OnceCell;

/// Collects predictions and ground truth, in pixels of the network's images or, where the data set has objects and
/// areas of its own for that, of its files.
pub(super) struct BoxWatcher {
    rows: DetectedRows,
    rules: Suppression,
    /// By upright boxes; none where boxes are rotated.
    scores: BoxScores,
    /// By what else is predicted, each with the beginning of its metrics' names.
    details: Vec<(&'static str, BoxScores)>,
    /// The number of every image that was seen.
    indices: Vec<u64>,
    /// What else was predicted, for every image.
    found: Vec<Vec<ObjectDetail>>,
    /// The metrics, computed when they are first read.
    reports: OnceCell<Vec<(&'static str, BoxReport)>>,
}

impl BoxWatcher {
    /// Nothing seen.
    pub fn new(rows: DetectedRows, rules: Suppression) -> BoxWatcher {
        let scores = || BoxScores::new(rows.classes);
        let details = match rows.detail {
            CellDetail::None => vec![],
            CellDetail::Mask { .. } => vec![("mask_", scores())],
            // COCO counts 20 people per image.
            CellDetail::Keypoints { .. } => vec![("keypoint_", scores().with_limits([20; 3]))],
            CellDetail::Angle => vec![("rotated_", scores()), ("probiou_", scores())],
        };
        let (indices, found, reports) = (Vec::new(), Vec::new(), OnceCell::new());
        BoxWatcher { scores: scores(), rows, rules, details, indices, found, reports }
    }

    /// The reports with the beginnings of their metrics' names, the one that decides first.
    fn reports(&self) -> &[(&'static str, BoxReport)] {
        self.reports.get_or_init(|| {
            let mut reports: Vec<_> = self.details.iter().map(|(name, scores)| (*name, scores.report())).collect();
            match self.rows.detail {
                CellDetail::None => reports.push(("", self.scores.report())),
                CellDetail::Angle => {}
                CellDetail::Mask { .. } | CellDetail::Keypoints { .. } => reports.push(("box_", self.scores.report())),
            }
            reports
        })
    }

    fn report(&self) -> &BoxReport {
        &self.reports()[0].1
    }

    /// Evaluates by the data set's own objects and areas, in pixels of its files.
    fn observe_in_file(&mut self, image: &GroundTruthImage, found: Vec<FoundObject>) {
        let truth: Vec<GroundTruthBox> = image.objects.iter().map(boxed).collect();
        let (cut, uncut): (Vec<_>, Vec<_>) = found.iter().map(|object| (object.found, object.uncut)).unzip();
        let mut details: Vec<ObjectDetail> = found.into_iter().map(|object| object.detail).collect();
        self.observe_details(image, &truth, &cut, &details);
        // Boxes that are not compared by anything else have nothing to keep.
        if self.rows.detail == CellDetail::None {
            details.clear();
        }
        self.found.push(details);
        self.scores.observe_cut(truth, cut, uncut);
    }

    fn observe_details(
        &mut self,
        image: &GroundTruthImage,
        truth: &[GroundTruthBox],
        found: &[PredictedBox],
        details: &[ObjectDetail],
    ) {
        let measured = match self.rows.detail {
            CellDetail::None => return,
            CellDetail::Mask { .. } => {
                let mask = |detail: &ObjectDetail| {
                    let mask = detail.mask(image.height, image.width);
                    mask.unwrap_or_else(|| Rle::of(image.height, image.width, |_, _| false))
                };
                let crowds: Vec<bool> = truth.iter().map(|object| object.crowd).collect();
                let objects: Vec<Rle> = image.objects.iter().map(|object| mask(&object.detail)).collect();
                let found: Vec<Rle> = details.iter().map(mask).collect();
                vec![mask_overlaps(&found, &objects, &crowds)]
            }
            CellDetail::Keypoints { count, .. } => {
                let points = |detail: &ObjectDetail| match detail {
                    ObjectDetail::Keypoints(points) => points.clone(),
                    // None of them is visible.
                    ObjectDetail::None
                    | ObjectDetail::Polygons(_)
                    | ObjectDetail::Mask(_)
                    | ObjectDetail::Rotated(_) => vec![[0.0; 3]; count],
                };
                let object = |object: &GroundTruthObject| {
                    let Rectangle { x, y, width, height } = Rectangle::of_corners(object.corners);
                    let (points, bounds) = (points(&object.detail), [x, y, width, height]);
                    KeypointObject { points, bounds, area: object.area, crowd: object.crowd }
                };
                let objects: Vec<KeypointObject> = image.objects.iter().map(object).collect();
                let positions = |detail| points(detail).into_iter().map(|[x, y, _]| [x, y]).collect();
                let found: Vec<Vec<[f64; 2]>> = details.iter().map(positions).collect();
                vec![KeypointObject::similarities(&found, &objects, &keypoint_sigmas(count))]
            }
            CellDetail::Angle => {
                let rectangle = |detail: &ObjectDetail| match detail {
                    ObjectDetail::Rotated(rectangle) => *rectangle,
                    // It overlaps with nothing.
                    ObjectDetail::None
                    | ObjectDetail::Polygons(_)
                    | ObjectDetail::Mask(_)
                    | ObjectDetail::Keypoints(_) => RotatedRectangle { center: [0.0; 2], size: [0.0; 2], angle: 0.0 },
                };
                let objects: Vec<RotatedRectangle> =
                    image.objects.iter().map(|object| rectangle(&object.detail)).collect();
                let found: Vec<RotatedRectangle> = details.iter().map(rectangle).collect();
                [false, true].map(|probabilistic| rotated_overlaps(&found, &objects, probabilistic)).to_vec()
            }
        };
        for ((_, scores), measured) in self.details.iter_mut().zip(measured) {
            scores.observe_measured(truth.to_vec(), found.to_vec(), measured);
        }
    }
}

fn boxed(object: &GroundTruthObject) -> GroundTruthBox {
    GroundTruthBox {
        class: object.class as usize,
        rectangle: Rectangle::of_corners(object.corners),
        area: object.area,
        crowd: object.crowd,
    }
}

impl Observer for BoxWatcher {
    fn observe(&mut self, batch: &Batch, predictions: &HostTensor) -> Result<(), TrainError> {
        let Targets::Boxes { corners, classes, ground_truth, .. } = &batch.targets else { return Ok(()) };
        self.reports = OnceCell::new();
        let wrong = |error: octant_tensor::TensorError| TrainError::Data(error.to_string());
        let (values, corners) =
            (predictions.elements::<f32>().map_err(wrong)?, corners.elements::<f32>().map_err(wrong)?);
        let classes = classes.elements::<i32>().map_err(wrong)?;
        let rows = batch.indices.len().max(1);
        let (per_row, listed) = (values.len() / rows, classes.len() / rows);
        let counted: Vec<usize> = (0..batch.indices.len()).filter(|&row| batch.indices[row] != u64::MAX).collect();
        // Devices with memory of their own return what is left after suppression, in rows.
        let is_reduced = predictions.dims().len() == 2;
        let side = batch.images.dims()[1];
        let of_row = |row: usize| ground_truth.get(row).and_then(Option::as_ref);
        let found = in_threads(&counted, |row| {
            let values = &values[row * per_row..][..per_row];
            let original = match of_row(row) {
                Some(image) => PlacedOriginal::of([image.height, image.width], side),
                None => PlacedOriginal::itself([side; 2]),
            };
            match is_reduced {
                true => kept(values).into_iter().map(|found| original.object(found)).collect(),
                false => self.rows.found(values, &self.rules, &original),
            }
        });
        for (&row, found) in counted.iter().zip(found) {
            self.indices.push(batch.indices[row]);
            if let Some(image) = of_row(row) {
                self.observe_in_file(image, found);
                continue;
            }
            if self.rows.detail != CellDetail::None {
                return Err(TrainError::Data("the validation data does not say what objects look like".into()));
            }
            let objects = (row * listed..(row + 1) * listed).filter(|&slot| classes[slot] >= 0);
            let truth = objects.map(|slot| {
                let corner = |index: usize| f64::from(corners[4 * slot + index]);
                let rectangle = Rectangle::of_corners([corner(0), corner(1), corner(2), corner(3)]);
                GroundTruthBox::new(classes[slot] as usize, rectangle)
            });
            self.found.push(Vec::new());
            self.scores.observe(truth.collect(), found.into_iter().map(|object| object.uncut).collect());
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<Metric> {
        let of_report = |(name, report): &(&str, BoxReport)| -> Vec<Metric> {
            report.metrics().into_iter().map(|(metric, value)| (format!("{name}{metric}"), value)).collect()
        };
        self.reports().iter().flat_map(of_report).collect()
    }

    fn boxes(&self) -> Vec<CountedObjects<'_>> {
        let images = self.indices.iter().zip(self.scores.found()).zip(&self.found);
        images.map(|((&index, boxes), details)| CountedObjects { index, boxes, details }).collect()
    }

    fn findings(&self) -> Findings {
        let report = self.report();
        let classes = report.confusion.classes + 1;
        // Theirs has the prediction in the row, ours the truth.
        let at = |at: usize| report.confusion.count(at % classes, at / classes) as f64;
        let counts = (0..classes * classes).map(at).collect();
        Findings { confusion: Some(Confusion { classes, counts }), boxes: Some(report.clone()), ..Findings::default() }
    }
}

/// Does the work of every row, on as many threads as there are cores; results come in order.
fn in_threads<T: Send>(rows: &[usize], work: impl Fn(usize) -> Vec<T> + Sync) -> Vec<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let share = rows.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let work = &work;
        let parts: Vec<_> = rows
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(|&row| work(row)).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("suppression does not panic")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_data::{GroundTruthObject, Position};
    use octant_graph::{DType, Shape};
    use std::sync::Arc;

    /// An image of 200×100 in a square of 100: one object, a group with two predictions in it, one prediction beside everything.
    #[test]
    fn groups_are_ignored_and_areas_are_those_of_the_file() {
        let object = |corners, area, crowd| {
            let detail = ObjectDetail::None;
            GroundTruthObject { class: 0, corners, area, crowd, detail }
        };
        let objects =
            vec![object([20.0, 20.0, 60.0, 60.0], 900.0, false), object([100.0, 0.0, 200.0, 100.0], 10_000.0, true)];
        let image = GroundTruthImage { height: 100, width: 200, objects };
        // Half the size, 25 rows lower: corners and a score.
        let values = [
            [10.0f32, 35.0, 30.0, 55.0, 0.9],
            [60.0, 30.0, 70.0, 40.0, 0.8],
            [80.0, 50.0, 90.0, 60.0, 0.7],
            [0.0, 60.0, 9.0, 70.0, 0.1],
        ];
        let evaluate = |ground_truth| {
            let batch = Batch {
                position: Position::default(),
                images: HostTensor::zeros(Shape::new(DType::U8, [1, 100, 100, 3])),
                targets: Targets::Boxes {
                    corners: HostTensor::new([1, 1, 4], &[10.0f32, 35.0, 30.0, 55.0]).unwrap(),
                    classes: HostTensor::new([1, 1], &[0i32]).unwrap(),
                    details: None,
                    ground_truth,
                },
                mask: HostTensor::new([1], &[1.0f32]).unwrap(),
                valid: 1,
                indices: vec![0],
            };
            let rows = DetectedRows { classes: 1, detail: CellDetail::None, image: [100; 2] };
            let mut watcher = BoxWatcher::new(rows, Suppression::evaluation());
            watcher.observe(&batch, &HostTensor::new([1, 4, 5], &values.concat()).unwrap()).unwrap();
            let counts = watcher.findings().confusion.unwrap().counts;
            (watcher.report().sizes, counts)
        };
        let (sizes, counts) = evaluate(vec![Some(Arc::new(image))]);
        // 40 × 40 pixels would be medium; the outline's 900 are small.
        assert_eq!(sizes, [1, 0, 0]);
        assert_eq!(counts, [1.0, 0.0, 0.0, 0.0], "predictions in the group are not mistakes");
        let (sizes, counts) = evaluate(vec![None]);
        assert_eq!(sizes, [1, 0, 0]);
        assert_eq!(counts, [1.0, 0.0, 2.0, 0.0], "the group is unknown");
    }
}
