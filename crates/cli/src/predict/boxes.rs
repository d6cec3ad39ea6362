//! Detectors asked about images: boxes drawn, printed, and written as label files or COCO results.

use super::Arguments;
use super::images::Asked;
use crate::output::Json;
use crate::{Ending, boxes, device, prepare};
use anyhow::{Context, Result};
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

pub(super) fn ask(asked: &Asked, files: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
    let recipe = &asked.recipe;
    let entry = octant_zoo::find(&recipe.model)?;
    let side = recipe.image_size.unwrap_or(entry.preprocessing.input[0]);
    let task = prepare::task(recipe, asked.outputs, [side, side, 3], false)?;
    let backend = device::open(&arguments.device, arguments.threads)?;
    let batch = files.len().clamp(1, BATCH);
    let step = StepOptions { batch_size: batch, ..recipe.step.clone() };
    let plan = StepPlan { step, ..StepPlan::new(&*task, batch) };
    let predictor = Predictor::new(&*backend, &plan, &CompileOptions::default(), &asked.values)?;
    let (model, _) = prepare::model(recipe, asked.outputs)?;
    let needs_suppression = !model.detector().is_some_and(|head| head.one_to_one);
    let rules = Suppression {
        score: arguments.conf,
        overlap: if needs_suppression { arguments.iou } else { 1.0 },
        most: arguments.max_det,
        only: arguments.only.clone(),
        ..Suppression::prediction()
    };
    let output = Output {
        folder: arguments.output.clone().unwrap_or_else(|| asked.folder.clone()),
        names: &asked.names,
        labels: arguments.labels,
        json: arguments.json,
    };
    output.header()?;
    let mut results: Vec<Value> = Vec::new();
    for (number, part) in files.chunks(batch).enumerate() {
        let mut bytes = Vec::with_capacity(batch * side * side * 3);
        let mut images = Vec::new();
        for path in part {
            let options = DecodeOptions { eight_bits: true, ..DecodeOptions::default() };
            let image = read_image(path, &options)?.to_u8();
            let (square, fitted) = fit(&image, side)?;
            bytes.extend_from_slice(square.values());
            images.push((path, image, fitted));
        }
        bytes.resize(batch * side * side * 3, 0);
        let answers = predictor.predict(&HostTensor::new([batch, side, side, 3], &bytes)?)?;
        let answers = answers.elements::<f32>()?;
        let rows = answers.len() / batch;
        for (index, (path, image, fitted)) in images.iter().enumerate() {
            let mut found = suppress(&answers[index * rows..][..rows], asked.outputs, &rules);
            for answer in &mut found {
                let place = answer.rectangle;
                let corners = [place.x, place.y, place.x + place.width, place.y + place.height];
                answer.rectangle = Rectangle::of_corners(fitted.back(corners, image.height(), image.width()));
            }
            output.write(path, image, &found)?;
            results.extend(found.iter().map(|answer| coco_result(number * batch + index, path, answer)));
        }
    }
    if let Some(path) = &arguments.coco {
        let text = serde_json::to_string(&results).context("results are JSON")?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Ending::Done)
}

/// One entry of a COCO results file. Images are known by the number that their file's name is, else by their place.
fn coco_result(place: usize, path: &Path, answer: &FoundBox) -> Value {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let id = stem.parse::<u64>().unwrap_or(place as u64 + 1);
    let Rectangle { x, y, width, height } = answer.rectangle;
    json!({
        "image_id": id, "file_name": stem, "category_id": answer.class + 1, "bbox": [x, y, width, height],
        "score": answer.score,
    })
}

/// What people and machines see of the boxes.
struct Output<'a> {
    folder: PathBuf,
    names: &'a [String],
    labels: bool,
    json: bool,
}

impl Output<'_> {
    fn header(&self) -> Result<()> {
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot write to {}", self.folder.display()))?;
        if !self.json {
            println!("path,class,name,score,left,top,right,bottom");
        }
        Ok(())
    }

    fn write(&self, path: &Path, image: &Image<u8>, found: &[FoundBox]) -> Result<()> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("image");
        let drawn = self.folder.join(format!("{stem}.png"));
        write_png_u8(&drawn, &boxes::drawn(image, 1, &[], found, self.names))?;
        if self.labels {
            self.label_file(stem, image, found)?;
        }
        let name = |class: usize| self.names.get(class).cloned().unwrap_or_else(|| class.to_string());
        let corners = |answer: &FoundBox| {
            let Rectangle { x, y, width, height } = answer.rectangle;
            [x, y, x + width, y + height]
        };
        if self.json {
            let listed: Vec<Value> = found
                .iter()
                .map(|answer| {
                    json!({ "class": answer.class, "name": name(answer.class), "score": answer.score, "box": corners(answer) })
                })
                .collect();
            Json::line(json!({ "path": path, "boxes": listed, "drawn": drawn }));
            return Ok(());
        }
        for answer in found {
            let [x0, y0, x1, y1] = corners(answer);
            let (class, score) = (answer.class, answer.score);
            println!("{},{class},{},{score:.4},{x0:.1},{y0:.1},{x1:.1},{y1:.1}", path.display(), name(class));
        }
        Ok(())
    }

    /// `class x y w h score` in shares of the image's sides.
    fn label_file(&self, stem: &str, image: &Image<u8>, found: &[FoundBox]) -> Result<()> {
        let folder = self.folder.join("labels");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        let (height, width) = (image.height() as f64, image.width() as f64);
        let mut text = String::new();
        for answer in found {
            let place = answer.rectangle;
            let (x, y) = ((place.x + place.width / 2.0) / width, (place.y + place.height / 2.0) / height);
            let (w, h) = (place.width / width, place.height / height);
            writeln!(text, "{} {x:.6} {y:.6} {w:.6} {h:.6} {:.6}", answer.class, answer.score)?;
        }
        let path = folder.join(format!("{stem}.txt"));
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
