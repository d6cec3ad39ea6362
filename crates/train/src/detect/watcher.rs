//! A detector's predictions against the ground truth.

use crate::{Findings, Metric, Observer, TrainError};
use octant_data::detection::Fitted;
use octant_data::{Batch, GroundTruthImage, Targets};
use octant_graph::HostTensor;
use octant_metrics::boxes::{
    BoxReport, BoxScores, GroundTruthBox, PredictedBox, Rectangle, Suppression, kept, suppress,
};
use octant_metrics::classes::Confusion;
use std::cell::OnceCell;

/// Collects predictions and ground truth, in pixels of the network's images or, where the data set has objects and
/// areas of its own for that, of its files.
pub(super) struct BoxWatcher {
    scores: BoxScores,
    /// The number of every image that was seen.
    indices: Vec<u64>,
    classes: usize,
    rules: Suppression,
    /// The metrics, computed when they are first read.
    report: OnceCell<BoxReport>,
}

impl BoxWatcher {
    /// Nothing seen of that many classes.
    pub fn new(classes: usize, rules: Suppression) -> BoxWatcher {
        BoxWatcher { scores: BoxScores::new(classes), indices: Vec::new(), classes, rules, report: OnceCell::new() }
    }

    fn report(&self) -> &BoxReport {
        self.report.get_or_init(|| self.scores.report())
    }

    /// Evaluates by the data set's own objects and areas, in pixels of its files.
    fn observe_in_file(&mut self, image: &GroundTruthImage, found: Vec<PredictedBox>, side: usize) {
        let fitted = Fitted::of(image.height, image.width, side);
        let placed = |back: &dyn Fn([f64; 4]) -> [f64; 4]| -> Vec<PredictedBox> {
            let moved = |prediction: &PredictedBox| {
                let Rectangle { x, y, width, height } = prediction.rectangle;
                let rectangle = Rectangle::of_corners(back([x, y, x + width, y + height]));
                PredictedBox { rectangle, ..*prediction }
            };
            found.iter().map(moved).collect()
        };
        let cut = placed(&|corners| fitted.back(corners, image.height, image.width));
        let uncut = placed(&|corners| fitted.back_uncut(corners));
        let truth = image.objects.iter().map(|object| GroundTruthBox {
            class: object.class as usize,
            rectangle: Rectangle::of_corners(object.corners),
            area: object.area,
            crowd: object.crowd,
        });
        self.scores.observe_cut(truth.collect(), cut, uncut);
    }
}

impl Observer for BoxWatcher {
    fn observe(&mut self, batch: &Batch, predictions: &HostTensor) -> Result<(), TrainError> {
        let Targets::Boxes { corners, classes, ground_truth } = &batch.targets else { return Ok(()) };
        self.report = OnceCell::new();
        let wrong = |error: octant_tensor::TensorError| TrainError::Data(error.to_string());
        let (values, corners) =
            (predictions.elements::<f32>().map_err(wrong)?, corners.elements::<f32>().map_err(wrong)?);
        let classes = classes.elements::<i32>().map_err(wrong)?;
        let rows = batch.indices.len().max(1);
        let (per_row, listed) = (values.len() / rows, classes.len() / rows);
        let counted: Vec<usize> = (0..batch.indices.len()).filter(|&row| batch.indices[row] != u64::MAX).collect();
        // Devices with memory of their own return what is left after suppression, in rows.
        let is_reduced = predictions.dims().len() == 2;
        let found = in_threads(&counted, |row| {
            let values = &values[row * per_row..][..per_row];
            if is_reduced { kept(values) } else { suppress(values, self.classes, &self.rules) }
        });
        let side = batch.images.dims()[1];
        for (&row, found) in counted.iter().zip(found) {
            self.indices.push(batch.indices[row]);
            if let Some(Some(image)) = ground_truth.get(row) {
                self.observe_in_file(image, found, side);
                continue;
            }
            let objects = (row * listed..(row + 1) * listed).filter(|&slot| classes[slot] >= 0);
            let truth = objects.map(|slot| {
                let corner = |index: usize| f64::from(corners[4 * slot + index]);
                let rectangle = Rectangle::of_corners([corner(0), corner(1), corner(2), corner(3)]);
                GroundTruthBox::new(classes[slot] as usize, rectangle)
            });
            self.scores.observe(truth.collect(), found);
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<Metric> {
        self.report().metrics()
    }

    fn boxes(&self) -> Vec<(u64, &[PredictedBox])> {
        self.indices.iter().copied().zip(self.scores.found()).collect()
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
fn in_threads(rows: &[usize], work: impl Fn(usize) -> Vec<PredictedBox> + Sync) -> Vec<Vec<PredictedBox>> {
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
        let object = |corners, area, crowd| GroundTruthObject { class: 0, corners, area, crowd };
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
                    ground_truth,
                },
                mask: HostTensor::new([1], &[1.0f32]).unwrap(),
                valid: 1,
                indices: vec![0],
            };
            let mut watcher = BoxWatcher::new(1, Suppression::evaluation());
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
