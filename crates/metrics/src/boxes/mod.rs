//! Detection of boxes: ground truth, predictions, and how good they are.
//!
//! [`BoxScores`] collects images. [`BoxScores::coco`] is COCO's evaluation, number for number; [`BoxScores::interpolated`]
//! is the average precision that Ultralytics prints, which interpolates between points where COCO steps. Both are offered
//! because figures of one must not be compared with figures of the other.
//!
//! Start reading at [`BoxScores`], then [`coco`](BoxScores::coco).

mod coco;
mod confusion;
mod curves;
mod interpolated;
mod matching;
mod measured;
mod report;
mod suppress;
mod suppress_on_device;

pub use coco::{CocoSummary, SizeRange};
pub use confusion::BoxConfusion;
pub use curves::{Curves, OperatingPoint};
pub use interpolated::Interpolated;
pub use measured::{KeypointObject, Measured, MeasuredImage, mask_overlaps, rotated_overlaps};
pub use report::BoxReport;
pub use suppress::{CellRow, Kept, Suppression, suppress, suppress_cells};
pub use suppress_on_device::{kept, suppressed};

use crate::in_parts;

/// An upright rectangle: left, top, width and height in pixels, as COCO keeps it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rectangle {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Rectangle {
    /// From left, top, right and bottom.
    pub fn of_corners([x0, y0, x1, y1]: [f64; 4]) -> Rectangle {
        Rectangle { x: x0, y: y0, width: x1 - x0, height: y1 - y0 }
    }

    /// Width times height.
    pub fn area(&self) -> f64 {
        self.width * self.height
    }

    /// The area that both cover.
    pub fn common(&self, other: &Rectangle) -> f64 {
        let width = (self.x + self.width).min(other.x + other.width) - self.x.max(other.x);
        let height = (self.y + self.height).min(other.y + other.height) - self.y.max(other.y);
        if width <= 0.0 || height <= 0.0 { 0.0 } else { width * height }
    }

    /// Intersection over union; 0 where both are empty.
    pub fn iou(&self, other: &Rectangle) -> f64 {
        let common = self.common(other);
        if common == 0.0 { 0.0 } else { common / (self.area() + other.area() - common) }
    }
}

/// An object that is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroundTruthBox {
    /// Its class.
    pub class: usize,
    /// Where it is.
    pub rectangle: Rectangle,
    /// What decides whether it is small or large: the area of its outline where that is known, else of the rectangle.
    pub area: f64,
    /// A group of objects: predictions inside are neither right nor wrong.
    pub crowd: bool,
}

impl GroundTruthBox {
    /// A single object whose area is the rectangle's.
    pub fn new(class: usize, rectangle: Rectangle) -> GroundTruthBox {
        GroundTruthBox { class, rectangle, area: rectangle.area(), crowd: false }
    }
}

/// A predicted box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedBox {
    /// The class it names.
    pub class: usize,
    /// The predicted box.
    pub rectangle: Rectangle,
    /// Its confidence.
    pub score: f64,
}

/// Everything seen so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BoxScores {
    classes: usize,
    images: Vec<(Vec<GroundTruthBox>, Vec<PredictedBox>)>,
    /// The predictions of every image before they were cut at its border, where they were.
    uncut: Vec<Option<Vec<PredictedBox>>>,
    /// How much predictions and objects of every image overlap, where that is not the overlap of their boxes.
    measured: Vec<Option<Measured>>,
    /// How many predictions per image count for the three figures of recall; the last one limits everything.
    limits: [usize; 3],
}

impl BoxScores {
    /// Nothing seen of that many classes.
    pub fn new(classes: usize) -> BoxScores {
        BoxScores { classes, images: vec![], uncut: vec![], measured: vec![], limits: coco::MOST }
    }

    /// With other limits on predictions per image than COCO's 1, 10 and 100 for boxes and masks.
    pub fn with_limits(self, limits: [usize; 3]) -> BoxScores {
        BoxScores { limits, ..self }
    }

    /// Adds an image whose predictions and objects are compared by something else than their boxes.
    pub fn observe_measured(&mut self, truth: Vec<GroundTruthBox>, found: Vec<PredictedBox>, measured: Measured) {
        let classes = self.classes;
        let is_known = truth.iter().all(|object| object.class < classes)
            && found.iter().all(|prediction| prediction.class < classes && prediction.score.is_finite());
        let (truth, found, measured) = match is_known {
            true => (truth, found, measured),
            false => measured.retained(truth, found, classes),
        };
        self.images.push((truth, found));
        self.uncut.push(None);
        self.measured.push(Some(measured));
    }

    /// Adds images that are measured on all cores, in their order. The first one that cannot be measured ends it.
    pub fn observe_all<T: Sync, E: Send>(
        &mut self,
        images: &[T],
        measure: impl Fn(&T) -> Result<MeasuredImage, E> + Sync,
    ) -> Result<(), E> {
        const PART: usize = 32;
        let parts =
            in_parts(images.len(), PART, |part| images[part].iter().map(&measure).collect::<Result<Vec<_>, E>>());
        for part in parts {
            for MeasuredImage { truth, found, measured } in part? {
                self.observe_measured(truth, found, measured);
            }
        }
        Ok(())
    }

    /// Adds an image. Classes beyond the number given at the start are left out.
    pub fn observe(&mut self, truth: Vec<GroundTruthBox>, found: Vec<PredictedBox>) {
        self.add(truth, found, None);
    }

    /// Adds an image whose predictions were cut at its border. COCO's rules are for these; by Ultralytics' rule they count as
    /// they were before, `uncut`, in the same order.
    pub fn observe_cut(&mut self, truth: Vec<GroundTruthBox>, found: Vec<PredictedBox>, uncut: Vec<PredictedBox>) {
        self.add(truth, found, Some(uncut));
    }

    fn add(
        &mut self,
        mut truth: Vec<GroundTruthBox>,
        mut found: Vec<PredictedBox>,
        mut uncut: Option<Vec<PredictedBox>>,
    ) {
        let classes = self.classes;
        truth.retain(|object| object.class < classes);
        [Some(&mut found), uncut.as_mut()].into_iter().flatten().for_each(|boxes| {
            boxes.retain(|prediction| prediction.class < classes && prediction.score.is_finite());
        });
        self.images.push((truth, found));
        self.uncut.push(uncut);
        self.measured.push(None);
    }

    /// How many images were seen.
    pub fn images(&self) -> usize {
        self.images.len()
    }

    /// The predicted boxes of every image, in the order in which they were observed.
    pub fn found(&self) -> impl Iterator<Item = &[PredictedBox]> {
        self.images.iter().map(|(_, found)| found.as_slice())
    }

    /// How many objects there are per class, groups not counted.
    pub fn objects(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes];
        for object in self.images.iter().flat_map(|(truth, _)| truth).filter(|object| !object.crowd) {
            counts[object.class] += 1;
        }
        counts
    }

    /// Everything seen, class by class.
    fn by_class(&self) -> Vec<ClassBoxes<'_>> {
        self.divided(self.images.iter().map(|(truth, found)| (truth, found)))
    }

    /// The same with predictions as they were before they were cut.
    fn uncut_by_class(&self) -> Vec<ClassBoxes<'_>> {
        let found = self.images.iter().zip(&self.uncut);
        self.divided(found.map(|((truth, cut), uncut)| (truth, uncut.as_ref().unwrap_or(cut))))
    }

    fn divided<'s>(
        &self,
        images: impl Iterator<Item = (&'s Vec<GroundTruthBox>, &'s Vec<PredictedBox>)>,
    ) -> Vec<ClassBoxes<'s>> {
        let mut classes: Vec<ClassBoxes> =
            (0..self.classes).map(|class| ClassBoxes { class, ..ClassBoxes::default() }).collect();
        for ((truth, found), measured) in images.zip(&self.measured) {
            for (number, object) in truth.iter().enumerate() {
                classes[object.class].objects.push(object);
                classes[object.class].numbers[0].push(number);
            }
            for index in by_score(found.iter().map(|prediction| prediction.score)) {
                classes[found[index].class].predictions.push(&found[index]);
                classes[found[index].class].numbers[1].push(index);
            }
            classes.iter_mut().for_each(|class| class.end_image(measured.as_ref()));
        }
        classes
    }
}

/// The objects and predictions of one class in all images.
#[derive(Default)]
struct ClassBoxes<'a> {
    class: usize,
    objects: Vec<&'a GroundTruthBox>,
    /// Image by image, by descending score in each.
    predictions: Vec<&'a PredictedBox>,
    /// Behind the last object and the last prediction of every image that has any.
    ends: Vec<[usize; 2]>,
    /// The numbers of the objects and predictions of the image under way in it.
    numbers: [Vec<usize>; 2],
    /// What was measured of every image that has any.
    measured: Vec<Option<Measured>>,
}

/// The objects and predictions of one class in one image.
struct ClassImage<'a> {
    truth: &'a [&'a GroundTruthBox],
    /// By descending score.
    found: &'a [&'a PredictedBox],
    measured: Option<&'a Measured>,
}

impl ClassImage<'_> {
    /// How much a prediction and an object overlap; of a group, how much of the prediction lies in it.
    fn overlap(&self, prediction: usize, object: usize) -> f64 {
        if let Some(measured) = self.measured {
            return measured.overlap(prediction, object);
        }
        let (found, truth) = (self.found[prediction].rectangle, self.truth[object]);
        let (common, own) = (found.common(&truth.rectangle), found.area());
        match () {
            () if common == 0.0 => 0.0,
            () if truth.crowd => common / own,
            () => common / (own + truth.rectangle.area() - common),
        }
    }

    fn area(&self, prediction: usize) -> f64 {
        self.measured.map_or_else(|| self.found[prediction].rectangle.area(), |measured| measured.areas[prediction])
    }

    /// Whether an object counts for nothing, whatever its size.
    fn is_ignored(&self, object: usize) -> bool {
        self.truth[object].crowd || self.measured.is_some_and(|measured| measured.ignored[object])
    }
}

impl ClassBoxes<'_> {
    fn end_image(&mut self, measured: Option<&Measured>) {
        let end = [self.objects.len(), self.predictions.len()];
        let [objects, predictions] = std::mem::take(&mut self.numbers);
        if end != self.ends.last().copied().unwrap_or_default() {
            self.ends.push(end);
            self.measured.push(measured.map(|measured| measured.of(&objects, &predictions)));
        }
    }

    /// The objects and predictions of every image that has any.
    fn images(&self) -> impl Iterator<Item = ClassImage<'_>> {
        let starts = std::iter::once(&[0; 2]).chain(&self.ends);
        let ranges = starts.zip(&self.ends).zip(&self.measured);
        ranges.map(|((start, end), measured)| ClassImage {
            truth: &self.objects[start[0]..end[0]],
            found: &self.predictions[start[1]..end[1]],
            measured: measured.as_ref(),
        })
    }
}

/// Indices that put scores into descending order; equal scores keep their order, as in NumPy's merge sort.
fn by_score(scores: impl Iterator<Item = f64>) -> Vec<usize> {
    let scores: Vec<f64> = scores.collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order
}

/// Makes every value at least as large as all after it.
fn envelope(values: &mut [f64]) {
    for index in (1..values.len()).rev() {
        values[index - 1] = values[index - 1].max(values[index]);
    }
}
