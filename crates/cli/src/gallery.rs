//! A grid of validation images with what the network makes of them, as a plot and as an event.

mod progress;
mod translated;

use crate::boxes;
use crate::judged::Judged;
use crate::prepare::{self, Data};
use crate::recipes::Recipe;
use anyhow::Result;
use octant_archive::Archive;
use octant_data::{AnyImage, Sample, SampleRng, Target, Transform};
use octant_events::{Canvas, EventWriter, Value};
use octant_imaging::Image;
use octant_metrics::boxes::{FoundBox, Suppression, suppress};
use octant_runtime::{Backend, CompileOptions};
use octant_tensor::HostTensor;
use octant_train::Predictor;
use octant_train::step::{StepOptions, StepPlan};
use octant_zoo::identity::Card;
use std::path::Path;

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

/// Writes `plots/predictions.png` and the same image into the event file. Where the network makes images,
/// `plots/progress.png` shows one of them over the epochs.
pub(crate) fn write(run: &Path, recipe: &Recipe, data: &Data, backend: &dyn Backend, epoch: u64) -> Result<()> {
    let entry = octant_zoo::find(&recipe.model)?;
    let transform = prepare::transform(recipe, &recipe.eval_transform, false, entry)?;
    let count = data.valid.len().min(COLUMNS * ROWS);
    let prepared = (0..count).map(|index| -> Result<Sample> {
        Ok(transform.apply(data.valid.get(index)?, &mut SampleRng::new(recipe.run.seed, 0, index as u64))?)
    });
    let samples: Vec<Sample> = prepared.collect::<Result<_>>()?;
    let images: Vec<&Image<u8>> = samples
        .iter()
        .filter_map(|sample| match &sample.image {
            AnyImage::U8(image) => Some(image),
            _ => None,
        })
        .collect();
    let Some(dims) = images.first().map(|image| image.dims()).filter(|_| images.len() == count) else {
        return Ok(());
    };
    // The checkpoint that `octant eval` uses: the best epoch, where there is one.
    let [best, last] = ["best", "last"].map(|name| run.join("checkpoints").join(name).join("model.safetensors"));
    let weights = if best.is_file() { best } else { last };
    let archive = Archive::open(&weights)?;
    let judged = Judged { recipe: recipe.clone(), weights, card: Card::of(&archive), archive };
    let task = judged.task(data.outputs, dims)?;
    let plan =
        StepPlan { step: StepOptions { batch_size: count, ..recipe.step.clone() }, ..StepPlan::new(&*task, count) };
    let values = judged.values(data.outputs)?;
    let predictor = Predictor::new(backend, &plan, &CompileOptions::default(), &values)?;
    let bytes: Vec<u8> = images.iter().flat_map(|image| image.values().iter().copied()).collect();
    let answers = predictor.predict(&HostTensor::new([count, dims[0], dims[1], dims[2]], &bytes)?)?.to_f64s();
    let canvas = match samples.iter().all(|sample| matches!(sample.target, Target::Image(_))) {
        true => translated::draw(&samples, &images, &answers, recipe.task != "cyclegan"),
        false => draw(&samples, &images, &answers, &data.classes),
    };
    std::fs::create_dir_all(run.join("plots"))?;
    canvas.save(&run.join("plots/predictions.png"))?;
    if let Some(strip) = progress::draw(run, images[0], Some(&samples[0].target).filter(|_| recipe.task != "cyclegan"))?
    {
        strip.save(&run.join("plots/progress.png"))?;
    }
    let [width, height] = canvas.size();
    let mut events = EventWriter::append(run)?;
    Ok(events.values(epoch, vec![("predictions".into(), Value::Image { height, width, png: canvas.png() })])?)
}

fn draw(samples: &[Sample], images: &[&Image<u8>], answers: &[f64], names: &[String]) -> Canvas {
    let has_boxes = samples.iter().any(|sample| matches!(sample.target, Target::Boxes(_)));
    let factor = (if has_boxes { BOXES_SIDE } else { SIDE } / images[0].width().max(1)).max(1);
    let (width, height) = (images[0].width() * factor, images[0].height() * factor);
    let cell = [width.max(144) + 10, height + CAPTION + 8];
    let rows = samples.len().div_ceil(COLUMNS);
    let masks = samples.iter().any(|sample| matches!(sample.target, Target::Mask(_)));
    let mut canvas = Canvas::new(cell[0] * COLUMNS, cell[1] * rows + if masks { CAPTION } else { 0 });
    if masks {
        canvas.letters([4, cell[1] * rows + 8], "green: found   red: marked in vain   yellow: missed", INK);
    }
    let share = answers.len() / samples.len().max(1);
    for (index, (sample, image)) in samples.iter().zip(images).enumerate() {
        let answer = &answers[index * share..(index + 1) * share];
        let corner = [index % COLUMNS * cell[0] + 4, index / COLUMNS * cell[1] + 4];
        canvas.image(corner, width, &enlarged(image, factor, &sample.target, answer, names));
        let (said, truth, color) = captions(&sample.target, answer, names);
        let short = |text: String| Canvas::fitted(&text, cell[0] - 8);
        canvas.letters([corner[0], corner[1] + height + 4], &short(said), color);
        canvas.letters([corner[0], corner[1] + height + 24], &short(truth), [60; 3]);
    }
    canvas
}

/// The boxes above the display threshold, in pixels of the network's image.
fn found(answer: &[f64], names: &[String]) -> Vec<FoundBox> {
    let rows: Vec<f32> = answer.iter().map(|value| *value as f32).collect();
    suppress(&rows, names.len(), &Suppression { overlap: 0.5, ..Suppression::prediction() })
}

/// What was predicted, what is true, and the color that says whether they agree.
fn captions(target: &Target, answer: &[f64], names: &[String]) -> (String, String, [u8; 3]) {
    let name = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
    match target {
        Target::Class(label) => {
            let best = answer.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(class, _)| class);
            match best == *label as usize {
                true => (name(best), String::new(), RIGHT),
                false => (name(best), format!("is {}", name(*label as usize)), WRONG),
            }
        }
        Target::Values(values) => (format!("{:.3}", answer[0]), format!("is {:.3}", values[0]), INK),
        Target::Mask(mask) => {
            let marked = answer.iter().map(|score| *score >= MARKED);
            let pairs = marked.zip(mask.values().iter().map(|value| *value > 0));
            let (both, either) = pairs.fold((0, 0), |(both, either), (marked, truth)| {
                (both + usize::from(marked && truth), either + usize::from(marked || truth))
            });
            let iou = if either == 0 { 1.0 } else { both as f64 / either as f64 };
            (format!("IoU {iou:.2}"), String::new(), INK)
        }
        Target::Boxes(boxes) => {
            let found = found(answer, names);
            (format!("{} found", found.len()), format!("of {}", boxes.len()), INK)
        }
        Target::Image(_) => (String::new(), String::new(), INK),
    }
}

/// Color pixels of the enlarged image; on masks, what was found is green, what was marked in vain red, what was missed
/// yellow.
fn enlarged(image: &Image<u8>, factor: usize, target: &Target, answer: &[f64], names: &[String]) -> Vec<u8> {
    if let Target::Boxes(truth) = target {
        return boxes::drawn(image, factor, truth, &found(answer, names), names).into_values();
    }
    let [height, width, _] = image.dims();
    let positions =
        (0..height * factor).flat_map(|row| (0..width * factor).map(move |column| (row / factor, column / factor)));
    positions
        .flat_map(|(row, column)| {
            let pixel = image.pixel(row, column);
            let plain = [0, 1, 2].map(|channel| pixel[channel.min(pixel.len() - 1)]);
            let Target::Mask(mask) = target else { return plain };
            let marked = answer.get(row * width + column).is_some_and(|score| *score >= MARKED);
            match (marked, mask.pixel(row, column)[0] > 0) {
                (true, true) => [plain[0] / 3, 255, plain[2] / 3],
                (true, false) => [255, plain[1] / 3, plain[2] / 3],
                (false, true) => [255, 220, plain[2] / 3],
                (false, false) => plain,
            }
        })
        .collect()
}
