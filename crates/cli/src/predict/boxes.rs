//! Predictions of detectors on images and videos: boxes drawn, printed, and written as label files or COCO results.

use super::files::Failed;
use super::video::{Encoder, Frames, is_video};
use super::{Arguments, Asked};
use crate::output::Json;
use crate::{Ending, boxes};
use anyhow::{Context, Result, bail};
use octant_data::decode::{DecodeOptions, read_image};
use octant_data::detection::fit;
use octant_data::write_png_u8;
use octant_imaging::Image;
use octant_metrics::boxes::{FoundBox, Rectangle, Suppression, suppress};
use octant_runtime::CompileOptions;
use octant_tensor::HostTensor;
use octant_train::Predictor;
use octant_train::step::{StepOptions, StepPlan};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Images per step.
const BATCH: usize = 8;

/// Files with the names of what is made of them. One that cannot be read does not end the others.
pub(super) fn ask(asked: &Asked, files: &[(PathBuf, PathBuf)], arguments: &Arguments) -> Result<Ending> {
    let (videos, images): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| is_video(path));
    let recipe = &asked.recipe;
    let entry = octant_zoo::find(&recipe.model)?;
    let side = arguments.size.or(recipe.image_size).unwrap_or(entry.preprocessing.input[0]);
    if side == 0 || !side.is_multiple_of(32) {
        bail!("--size {side}: the side must be a multiple of 32, the coarsest cells of the network");
    }
    let batch = if videos.is_empty() { images.len().clamp(1, BATCH) } else { BATCH };
    let task = octant_recipe::task(recipe, asked.outputs, [side, side, 3], false)?;
    let backend = arguments.device.open()?;
    let step = StepOptions { batch_size: batch, ..recipe.step.clone() };
    let plan = StepPlan { step, ..StepPlan::new(task.clone(), batch) };
    let predictor = Predictor::new(&backend, &plan, &CompileOptions::default(), &asked.values)?;
    let detector = Detector { predictor, batch, side, classes: asked.outputs, rules: rules(asked, arguments)? };
    let mut output = Output {
        folder: arguments.output.clone().unwrap_or_else(|| asked.folder.clone()),
        names: &asked.names,
        labels: arguments.labels,
        json: arguments.json,
        results: arguments.coco.as_ref().map(|_| Vec::new()),
        images: 0,
    };
    output.header()?;
    let mut failed = Failed::new(arguments.json);
    let options = DecodeOptions { eight_bits: true, ..DecodeOptions::default() };
    for part in images.chunks(batch) {
        let read = part.iter().filter_map(|(path, name)| {
            failed.note(path, read_image(path, &options).map(|image| (path, name, image.to_u8())).map_err(Into::into))
        });
        let (files, pixels): (Vec<_>, Vec<_>) = read.map(|(path, name, image)| ((path, name), image)).unzip();
        let found = detector.found(&pixels)?;
        for (((path, name), image), found) in files.into_iter().zip(&pixels).zip(found) {
            let written = output.write(path, name, image, &found);
            failed.note(path, written);
        }
    }
    for (path, name) in videos {
        let watched = watch(&detector, path, name, &mut output);
        failed.note(path, watched);
    }
    if let (Some(path), Some(results)) = (&arguments.coco, &output.results) {
        let text = serde_json::to_string(results).context("results are JSON")?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    failed.ending(files.len())
}

/// Which boxes are shown.
fn rules(asked: &Asked, arguments: &Arguments) -> Result<Suppression> {
    let Arguments { conf, iou, max_det, .. } = *arguments;
    if !(0.0..=1.0).contains(&conf) || !(0.0..=1.0).contains(&iou) {
        bail!("--conf and --iou are shares from 0 to 1");
    }
    let class = |word: &String| {
        let named = asked.names.iter().position(|name| name == word);
        let number = word.parse().ok().filter(|number| *number < asked.outputs);
        named.or(number).with_context(|| {
            let names =
                if asked.names.is_empty() { "its classes have no names".into() } else { asked.names.join(", ") };
            format!("--only {word}: the network has {} classes, numbered from 0: {names}", asked.outputs)
        })
    };
    let only = arguments.only.iter().map(class).collect::<Result<_>>()?;
    let (model, _) = octant_recipe::model(&asked.recipe, asked.outputs)?;
    let needs_suppression = !model.detector().is_some_and(|head| head.one_to_one);
    let overlap = if needs_suppression { iou } else { 1.0 };
    Ok(Suppression { score: conf, overlap, most: max_det, only, ..Suppression::prediction() })
}

/// A network that finds boxes in images of any size.
struct Detector {
    predictor: Predictor,
    batch: usize,
    side: usize,
    classes: usize,
    rules: Suppression,
}

impl Detector {
    /// The boxes of at most a batch of images, in pixels of each.
    fn found(&self, images: &[Image<u8>]) -> Result<Vec<Vec<FoundBox>>> {
        if images.is_empty() {
            return Ok(Vec::new());
        }
        let Detector { batch, side, .. } = *self;
        let mut bytes = Vec::with_capacity(batch * side * side * 3);
        let mut fits = Vec::with_capacity(images.len());
        for image in images {
            let (square, fitted) = fit(image, side)?;
            bytes.extend_from_slice(square.values());
            fits.push(fitted);
        }
        bytes.resize(batch * side * side * 3, 0);
        let answers = self.predictor.predict(&HostTensor::new([batch, side, side, 3], &bytes)?)?;
        let answers = answers.elements::<f32>()?;
        let share = answers.len() / batch;
        let rows = images.iter().zip(fits).enumerate().map(|(index, (image, fitted))| {
            let mut found = suppress(&answers[index * share..][..share], self.classes, &self.rules);
            for answer in &mut found {
                let Rectangle { x, y, width, height } = answer.rectangle;
                let corners = fitted.back([x, y, x + width, y + height], image.height(), image.width());
                answer.rectangle = Rectangle::of_corners(corners);
            }
            found
        });
        Ok(rows.collect())
    }
}

/// A video: the boxes of every frame, and a video with them drawn.
fn watch(detector: &Detector, path: &Path, name: &Path, output: &mut Output) -> Result<()> {
    let mut frames = Frames::open(path)?;
    let drawn = output.file(name, "mp4")?;
    let mut encoder = None;
    let mut number = 0;
    loop {
        let mut images = Vec::new();
        while images.len() < detector.batch
            && let Some(frame) = frames.next()?
        {
            images.push(frame);
        }
        if images.is_empty() {
            return encoder.map_or(Ok(()), Encoder::finish);
        }
        let encoder = match &mut encoder {
            Some(encoder) => encoder,
            // Only now is it certain that there is something to write.
            none => none.insert(Encoder::create(&drawn, frames.rate)?),
        };
        for (image, found) in images.iter().zip(detector.found(&images)?) {
            number += 1;
            encoder.write(&boxes::drawn(image, 1, &[], &found, output.names))?;
            output.row(path, &name.join(format!("{number:06}")), Some(number), image, &found, &drawn)?;
        }
    }
}

/// Numbers that COCO's own annotations leave out between 1 and 90.
const COCO_GAPS: [usize; 10] = [12, 26, 29, 30, 45, 66, 68, 69, 71, 83];

/// The category that COCO's annotations know a class by: with its 80 names their own numbers, else counted from 1.
fn category(class: usize, names: &[String]) -> usize {
    let is_coco = names.len() == 80 && names[0] == "person" && names[79] == "toothbrush";
    match is_coco {
        true => (1..=90).filter(|number| !COCO_GAPS.contains(number)).nth(class).unwrap_or(class + 1),
        false => class + 1,
    }
}

/// Text and JSON output of the boxes.
struct Output<'a> {
    folder: PathBuf,
    names: &'a [String],
    labels: bool,
    json: bool,
    /// Entries of a COCO results file, where one is wanted.
    results: Option<Vec<Value>>,
    images: u64,
}

impl Output<'_> {
    fn header(&self) -> Result<()> {
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot write to {}", self.folder.display()))?;
        if !self.json {
            println!("path,class,name,score,left,top,right,bottom");
        }
        Ok(())
    }

    /// Where a file of that name goes; its folder is made.
    fn file(&self, name: &Path, ending: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("{}.{ending}", name.display()));
        let folder = path.parent().unwrap_or(&self.folder);
        std::fs::create_dir_all(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(path)
    }

    fn write(&mut self, path: &Path, name: &Path, image: &Image<u8>, found: &[FoundBox]) -> Result<()> {
        let drawn = self.file(name, "png")?;
        write_png_u8(&drawn, &boxes::drawn(image, 1, &[], found, self.names))?;
        self.row(path, name, None, image, found, &drawn)
    }

    /// Everything but the drawing; `frame` counts from 1 in videos.
    fn row(
        &mut self,
        path: &Path,
        name: &Path,
        frame: Option<u64>,
        image: &Image<u8>,
        found: &[FoundBox],
        drawn: &Path,
    ) -> Result<()> {
        self.images += 1;
        if self.labels {
            self.label_file(name, image, found)?;
        }
        let number = self.images;
        if let Some(results) = &mut self.results {
            results.extend(found.iter().map(|answer| coco_result(number, name, answer, self.names)));
        }
        let called = |class: usize| self.names.get(class).cloned().unwrap_or_else(|| class.to_string());
        let corners = |answer: &FoundBox| {
            let Rectangle { x, y, width, height } = answer.rectangle;
            [x, y, x + width, y + height]
        };
        if self.json {
            let listed: Vec<Value> = found
                .iter()
                .map(|answer| {
                    json!({ "class": answer.class, "name": called(answer.class), "score": answer.score, "box": corners(answer) })
                })
                .collect();
            let mut line = json!({ "path": path, "boxes": listed, "drawn": drawn });
            if let Some(frame) = frame {
                line["frame"] = frame.into();
            }
            Json::line(line);
            return Ok(());
        }
        let source = frame.map_or_else(|| path.display().to_string(), |frame| format!("{}:{frame}", path.display()));
        for answer in found {
            let [x0, y0, x1, y1] = corners(answer);
            let (class, score) = (answer.class, answer.score);
            println!("{source},{class},{},{score:.4},{x0:.1},{y0:.1},{x1:.1},{y1:.1}", called(class));
        }
        Ok(())
    }

    /// `class x y w h score` in shares of the image's sides.
    fn label_file(&self, name: &Path, image: &Image<u8>, found: &[FoundBox]) -> Result<()> {
        let (height, width) = (image.height() as f64, image.width() as f64);
        let mut text = String::new();
        for answer in found {
            let Rectangle { x, y, width: wide, height: high } = answer.rectangle;
            let (x, y) = ((x + wide / 2.0) / width, (y + high / 2.0) / height);
            let (w, h) = (wide / width, high / height);
            writeln!(text, "{} {x:.6} {y:.6} {w:.6} {h:.6} {:.6}", answer.class, answer.score)?;
        }
        let path = self.file(&Path::new("labels").join(name), "txt")?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// One entry of a COCO results file. An image's id is the number in its file name, else its index.
fn coco_result(number: u64, name: &Path, answer: &FoundBox, names: &[String]) -> Value {
    let stem = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let id = stem.parse::<u64>().unwrap_or(number);
    let Rectangle { x, y, width, height } = answer.rectangle;
    json!({
        "image_id": id, "file_name": stem, "category_id": category(answer.class, names),
        "bbox": [x, y, width, height], "score": answer.score,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_coco_have_its_own_numbers() {
        let mut names: Vec<String> = (0..80).map(|class| format!("class {class}")).collect();
        assert_eq!([0, 79].map(|class| category(class, &names)), [1, 80]);
        (names[0], names[79]) = ("person".into(), "toothbrush".into());
        assert_eq!([0, 10, 11, 24, 79].map(|class| category(class, &names)), [1, 11, 13, 27, 90]);
    }
}
