//! A grid of validation images with what the network makes of them, as a plot and as an event.

mod classes;
mod progress;

use crate::Result;
use crate::error::make_folder;
use octant_archive::{Archive, Fit};
use octant_data::{AnyImage, LabeledBox, Sample, SampleRng, Target, Transform};
use octant_events::{Canvas, EventWriter, Value};
use octant_imaging::Image;
use octant_metrics::boxes::{Rectangle, Suppression};
use octant_metrics::images::psnr;
use octant_predict::draw;
use octant_recipe::{Data, Recipe, TaskEntry};
use octant_runtime::{Backend, CompileOptions};
use octant_tensor::HostTensor;
use octant_train::step::{StepOptions, StepPlan};
use octant_train::{DetectedRows, FoundObject, Phase, PlacedOriginal, Predictor, RunProgress, Session, Task, Values};
use octant_zoo::CellDetail;
use octant_zoo::identity::Card;
use std::path::Path;
use std::sync::Arc;

const COLUMNS: usize = 6;
const ROWS: usize = 3;
/// Small images are enlarged to about this many pixels.
const SIDE: usize = 168;
/// Boxes have names, which need room.
const BOXES_SIDE: usize = 288;
const CAPTION: usize = 46;
/// Scores from this on count as marked.
const MARKED: f64 = 128.0;
const INK: [u8; 3] = [40; 3];
const RIGHT: [u8; 3] = [0, 120, 60];
const WRONG: [u8; 3] = [200, 30, 30];

/// The samples of a gallery, as the network sees them.
pub(crate) struct Gallery {
    backend: Arc<dyn Backend>,
    recipe: Recipe,
    outputs: usize,
    classes: Vec<String>,
    samples: Vec<Sample>,
}

/// A drawn gallery; where masks or boxes are drawn on it, also what they are drawn on, so that the board can fade them.
struct Drawn {
    marked: Canvas,
    plain: Option<Canvas>,
}

impl Drawn {
    fn values(&self, tag: &str) -> Vec<(String, Value)> {
        let tagged = |(tag, canvas): (String, &Canvas)| {
            let [width, height] = canvas.size();
            (tag, Value::Image { height, width, png: canvas.png() })
        };
        let plain = self.plain.iter().map(|plain| (format!("{tag}/plain"), plain));
        plain.chain([(tag.to_string(), &self.marked)]).map(tagged).collect()
    }
}

impl Gallery {
    /// The first samples of the validation data.
    pub fn new(recipe: &Recipe, data: &Data, backend: &Arc<dyn Backend>) -> Result<Gallery> {
        let entry = octant_zoo::find(&recipe.model)?;
        let transform = octant_recipe::transform(recipe, &recipe.eval_transform, false, entry)?;
        let count = data.valid.len().min(COLUMNS * ROWS);
        let prepared = (0..count).map(|index| -> Result<Sample> {
            Ok(transform.apply(data.valid.get(index)?, &mut SampleRng::new(recipe.run.seed, 0, index as u64))?)
        });
        let (samples, classes) = (prepared.collect::<Result<_>>()?, data.classes.clone());
        Ok(Gallery { backend: backend.clone(), recipe: recipe.clone(), outputs: data.outputs, classes, samples })
    }

    fn images(&self) -> Vec<&Image<u8>> {
        let bytes = self.samples.iter().filter_map(|sample| match &sample.image {
            AnyImage::U8(image) => Some(image),
            _ => None,
        });
        bytes.collect()
    }

    /// Height, width and channels; none where images have no bytes to be shown.
    fn dims(&self) -> Option<[usize; 3]> {
        let images = self.images();
        images.first().map(|image| image.dims()).filter(|_| images.len() == self.samples.len())
    }

    /// Whether a sample's target belongs to its image.
    fn has_pairs(&self) -> Result<bool> {
        Ok(!TaskEntry::named(&self.recipe.task)?.unpaired)
    }

    /// What the network makes of the samples with these variables.
    fn draw(&self, task: Arc<dyn Task>, values: &Values) -> Result<Option<Drawn>> {
        let (Some(dims), count) = (self.dims(), self.samples.len()) else { return Ok(None) };
        let images = self.images();
        let step = StepOptions { batch_size: count, ..self.recipe.step.clone() };
        let plan = StepPlan { step, ..StepPlan::new(task, count) };
        let predictor = Predictor::new(&self.backend, &plan, &CompileOptions::default(), values)?;
        let bytes: Vec<u8> = images.iter().flat_map(|image| image.values().iter().copied()).collect();
        let predictions = predictor.predict(&HostTensor::new([count, dims[0], dims[1], dims[2]], &bytes)?)?.to_f64s();
        let (samples, names) = (&self.samples, &self.classes);
        let (model, _) = octant_recipe::model(&self.recipe, self.outputs)?;
        let detail = model.detector().map(|head| head.detail).unwrap_or_default();
        let rows = DetectedRows { classes: self.classes.len(), detail, image: [dims[0], dims[1]] };
        let marked = match samples.iter().all(|sample| matches!(sample.target, Target::Image(_))) {
            true => draw_translated(samples, &images, &predictions, self.has_pairs()?),
            false if self.outputs > 1 && samples.iter().all(|sample| matches!(sample.target, Target::Mask(_))) => {
                classes::draw(samples, &images, &predictions, names)
            }
            false => draw_grid(samples, &images, &predictions, names, &rows, true),
        };
        let has_marks = samples.iter().any(|sample| match &sample.target {
            Target::Mask(mask) => mask.is_of_one_class(),
            target => matches!(target, Target::Boxes(_)),
        });
        let plain = has_marks.then(|| draw_grid(samples, &images, &predictions, names, &rows, false));
        Ok(Some(Drawn { marked, plain }))
    }

    /// The gallery of a run under way, for its event file.
    pub fn now(&self, phase: &Phase, session: &Session) -> Result<Vec<(String, Value)>> {
        let drawn = self.draw(phase.task.clone(), &session.evaluated()?)?;
        Ok(drawn.map(|drawn| drawn.values("predictions")).unwrap_or_default())
    }

    /// The variables of a checkpoint by path.
    fn values(&self, archive: &Archive) -> Result<Values> {
        let (model, entry) = octant_recipe::model(&self.recipe, self.outputs)?;
        let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
        let loaded = octant_zoo::weights::load(archive, &*model, &specs, self.recipe.run.seed);
        loaded.matching.require(Fit::Exact)?;
        Ok(Values::of(&specs, loaded.values))
    }

    /// The gallery of a run that is over: `plots/predictions.png`, and the same image in the event file, at the epoch whose weights
    /// predicted. Where the network makes images, `plots/progress.png` shows one of them over the epochs.
    pub fn write(&self, run: &Path, progress: &RunProgress) -> Result<()> {
        let Some(dims) = self.dims() else { return Ok(()) };
        // The checkpoint that `octant eval` uses: the best epoch, where there is one.
        let (epoch, kept, tag) = match &progress.best {
            Some(best) => (best.epoch, "best", "best/predictions"),
            None => (progress.epoch, "last", "predictions"),
        };
        let archive = Archive::open(&run.join("checkpoints").join(kept).join("model.safetensors"))?;
        let task = octant_recipe::task(&self.recipe, self.outputs, dims, Card::of(&archive).warm_up)?;
        let Some(drawn) = self.draw(task, &self.values(&archive)?)? else { return Ok(()) };
        make_folder(&run.join("plots"))?;
        drawn.marked.save(&run.join("plots/predictions.png"))?;
        let has_pairs = self.has_pairs()?;
        let target = self.samples.first().map(|sample| &sample.target).filter(|_| has_pairs);
        if let Some(strip) = progress::draw(run, self.images()[0], target)? {
            strip.save(&run.join("plots/progress.png"))?;
        }
        Ok(EventWriter::append(run)?.values(epoch, drawn.values(tag))?)
    }
}

/// The grid; without `marks` its images are left as they are.
fn draw_grid(
    samples: &[Sample],
    images: &[&Image<u8>],
    predictions: &[f64],
    names: &[String],
    reader: &DetectedRows,
    marks: bool,
) -> Canvas {
    let has_boxes = samples.iter().any(|sample| matches!(sample.target, Target::Boxes(_)));
    let factor = (if has_boxes { BOXES_SIDE } else { SIDE } / images[0].width().max(1)).max(1);
    let (width, height) = (images[0].width() * factor, images[0].height() * factor);
    let cell = [width.max(144) + 10, height + CAPTION + 8];
    let rows = samples.len().div_ceil(COLUMNS);
    let masks = samples.iter().any(|sample| matches!(sample.target, Target::Mask(_)));
    let mut canvas = Canvas::new(cell[0] * COLUMNS, cell[1] * rows + if masks { CAPTION } else { 0 });
    if masks {
        canvas.letters(
            [4, cell[1] * rows + 8],
            "green: true positive   red: false positive   yellow: false negative",
            INK,
        );
    }
    let share = predictions.len() / samples.len().max(1);
    for (index, (sample, image)) in samples.iter().zip(images).enumerate() {
        let prediction = &predictions[index * share..(index + 1) * share];
        let corner = [index % COLUMNS * cell[0] + 4, index / COLUMNS * cell[1] + 4];
        let target = marks.then_some(&sample.target);
        canvas.image(corner, width, enlarged(image, factor, target, prediction, names, reader).values());
        let (predicted, truth, color) = captions(&sample.target, prediction, names, reader);
        let short = |text: String| Canvas::fitted(&text, cell[0] - 8);
        canvas.letters([corner[0], corner[1] + height + 4], &short(predicted), color);
        canvas.letters([corner[0], corner[1] + height + 24], &short(truth), [60; 3]);
    }
    canvas
}

/// How much boxes of the same object overlap at least.
const SAME: f64 = 0.5;

/// The boxes above the display threshold, in pixels of the network's image. Of several classes for one object the
/// highest-scoring is shown: frames on top of each other cannot be read.
fn found(prediction: &[f64], rows: &DetectedRows) -> Vec<FoundObject> {
    let values: Vec<f32> = prediction.iter().map(|value| *value as f32).collect();
    let mut shown: Vec<FoundObject> = Vec::new();
    for object in rows.found(&values, &Suppression::prediction(), &PlacedOriginal::itself(rows.image)) {
        let overlaps = |other: &FoundObject| other.found.rectangle.iou(&object.found.rectangle) > SAME;
        // Upright boxes around rotated ones say little about whose they are.
        if rows.detail == CellDetail::Angle || !shown.iter().any(overlaps) {
            shown.push(object);
        }
    }
    shown
}

/// How many objects have a prediction of their class that overlaps them.
fn right(found: &[FoundObject], truth: &[LabeledBox]) -> usize {
    let mut free: Vec<&LabeledBox> = truth.iter().collect();
    for prediction in found.iter().map(|object| &object.found) {
        let is_meant = |object: &&LabeledBox| {
            let object_box = Rectangle::of_corners([object.x0, object.y0, object.x1, object.y1].map(f64::from));
            object.class as usize == prediction.class && object_box.iou(&prediction.rectangle) > SAME
        };
        if let Some(position) = free.iter().position(is_meant) {
            free.swap_remove(position);
        }
    }
    truth.len() - free.len()
}

/// What was predicted, what is true, and the color that says whether they agree.
fn captions(target: &Target, prediction: &[f64], names: &[String], rows: &DetectedRows) -> (String, String, [u8; 3]) {
    let name = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
    match target {
        Target::Class(label) => {
            let best = prediction.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(class, _)| class);
            match best == *label as usize {
                true => (name(best), String::new(), RIGHT),
                false => (name(best), format!("is {}", name(*label as usize)), WRONG),
            }
        }
        Target::Labels(labels) => {
            let predicted: Vec<bool> = prediction.iter().map(|&score| score >= 0.5).collect();
            let listed = |chosen: &[bool]| {
                let names = chosen.iter().enumerate().filter(|(_, has)| **has).map(|(label, _)| name(label));
                let text = names.collect::<Vec<_>>().join(" ");
                if text.is_empty() { "none".to_string() } else { text }
            };
            match predicted == *labels {
                true => (listed(&predicted), String::new(), RIGHT),
                false => (listed(&predicted), format!("is {}", listed(labels)), WRONG),
            }
        }
        Target::Values(values) => (format!("{:.3}", prediction[0]), format!("is {:.3}", values[0]), INK),
        Target::Mask(mask) => {
            let marked = prediction.iter().map(|score| *score >= MARKED);
            let pairs = marked.zip(mask.labels.values().iter().map(|value| *value > 0));
            let (both, either) = pairs.fold((0, 0), |(both, either), (marked, truth)| {
                (both + usize::from(marked && truth), either + usize::from(marked || truth))
            });
            let iou = if either == 0 { 1.0 } else { both as f64 / either as f64 };
            (format!("IoU {iou:.2}"), String::new(), INK)
        }
        Target::Boxes(boxes) => {
            let found = found(prediction, rows);
            let right = right(&found, boxes);
            let wrong = match found.len() - right {
                0 => String::new(),
                count => format!("{count} wrong"),
            };
            let color = if right == boxes.len() && wrong.is_empty() { RIGHT } else { INK };
            (format!("{right} of {} found", boxes.len()), wrong, color)
        }
        Target::Image(_) => (String::new(), String::new(), INK),
    }
}

/// The enlarged image in color, as predictions are drawn, with the ground truth beside them.
fn enlarged(
    image: &Image<u8>,
    factor: usize,
    target: Option<&Target>,
    prediction: &[f64],
    names: &[String],
    rows: &DetectedRows,
) -> Image<u8> {
    let is_marked =
        |row: usize, column: usize| prediction.get(row * image.width() + column).is_some_and(|score| *score >= MARKED);
    match target {
        Some(Target::Boxes(truth)) => {
            let objects = found(prediction, rows).into_iter().map(|object| (object.found, object.detail));
            let (boxes, details): (Vec<_>, Vec<_>) = objects.unzip();
            draw::objects(image, factor, truth, &boxes, &details, names)
        }
        Some(Target::Mask(truth)) => draw::mask(image, factor, is_marked, Some(&truth.labels)),
        Some(Target::Class(_) | Target::Labels(_) | Target::Values(_) | Target::Image(_)) | None => {
            draw::enlarged(image, factor)
        }
    }
}

/// Samples side by side.
const PAIRS_ACROSS: usize = 3;
const GAP: usize = 4;

/// A cell per sample with two or three images. `predictions` are levels from 0 to 255; without pairs, the target is another
/// image and not shown.
fn draw_translated(samples: &[Sample], inputs: &[&Image<u8>], predictions: &[f64], paired: bool) -> Canvas {
    let share = predictions.len() / samples.len().max(1);
    let Some(Target::Image(first)) = samples.first().map(|sample| &sample.target) else { return Canvas::new(1, 1) };
    let [height, width, channels] = first.dims();
    let factor = (SIDE / width.max(1)).max(1);
    let shown = if paired { 3 } else { 2 };
    let (wide, tall) = (width * factor, height * factor);
    let cell = [shown * (wide + GAP) + 3 * GAP, tall + CAPTION / 2 + GAP];
    let mut canvas = Canvas::new(cell[0] * PAIRS_ACROSS, cell[1] * samples.len().div_ceil(PAIRS_ACROSS) + CAPTION / 2);
    let names = ["input", "output", "truth"];
    for column in 0..PAIRS_ACROSS {
        for (part, name) in names.iter().take(shown).enumerate() {
            canvas.letters([column * cell[0] + part * (wide + GAP) + GAP, 2], name, INK);
        }
    }
    for (index, (sample, input)) in samples.iter().zip(inputs).enumerate() {
        let levels = predictions[index * share..(index + 1) * share].iter().map(|level| *level as u8).collect();
        let (Ok(made), Target::Image(truth)) = (Image::new(height, width, channels, levels), &sample.target) else {
            continue;
        };
        let corner = [index % PAIRS_ACROSS * cell[0] + GAP, index / PAIRS_ACROSS * cell[1] + CAPTION / 2];
        for (part, image) in [*input, &made, truth].into_iter().take(shown).enumerate() {
            canvas.scaled_image([corner[0] + part * (wide + GAP), corner[1]], [wide, tall], image);
        }
        if paired {
            let error =
                |image: &Image<u8>| decibels(image, truth).map_or(String::new(), |value| format!("{value:.1} dB"));
            let captions = [error(input), error(&made)];
            for (part, caption) in captions.iter().enumerate() {
                canvas.letters([corner[0] + part * (wide + GAP), corner[1] + tall + 2], caption, INK);
            }
        }
    }
    canvas
}

/// The peak signal-to-noise ratio; none between images of different sizes.
fn decibels(image: &Image<u8>, truth: &Image<u8>) -> Option<f64> {
    let squares = image.values().iter().zip(truth.values()).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    (image.dims() == truth.dims()).then(|| psnr(squares.sum::<f64>() / image.values().len().max(1) as f64, 255.0))
}
