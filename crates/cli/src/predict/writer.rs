//! Text and JSON output of predictions.

use crate::output::Json;
use anyhow::{Context, Result};
use octant_data::transforms::Placed;
use octant_data::write_png_u8;
use octant_imaging::Image;
use octant_tensor::HostTensor;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What the outputs mean.
pub(super) struct Names {
    /// The names of classes or columns, as far as they are known.
    pub names: Vec<String>,
    /// How many outputs there are.
    pub outputs: usize,
}

impl Names {
    fn of(&self, output: usize) -> String {
        self.names.get(output).cloned().unwrap_or_else(|| output.to_string())
    }

    /// One name per column of values.
    fn columns(&self) -> Vec<String> {
        match self.names.len() == self.outputs {
            true => self.names.clone(),
            false => (1..=self.outputs).map(|number| format!("value_{number}")).collect(),
        }
    }
}

/// What is written of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// The likeliest classes.
    Classes,
    /// A mask and an overlay.
    Mask,
    /// Numbers in columns.
    Values,
}

impl AnswerKind {
    /// The answers of a recipe's task.
    pub fn of_task(task: &str) -> AnswerKind {
        match task {
            "classify" => AnswerKind::Classes,
            "segment" => AnswerKind::Mask,
            _ => AnswerKind::Values,
        }
    }
}

/// An image and what the network answered.
pub(super) struct Answered<'a> {
    pub path: &'a Path,
    /// The path of files that are written about it, below the output folder and without an ending.
    pub name: &'a Path,
    pub image: &'a Image<u8>,
    /// Where the image lies in what the network saw; none where the transform is random.
    pub placed: Option<&'a Placed>,
    pub answer: &'a HostTensor,
}

/// Writes what was predicted.
pub(super) struct Writer {
    pub kind: AnswerKind,
    pub names: Names,
    /// How many classes are shown of each image.
    pub top: usize,
    /// Where masks go.
    pub folder: PathBuf,
    pub json: bool,
}

/// A field of CSV: quoted where it has to be.
fn field(text: impl std::fmt::Display) -> String {
    let text = text.to_string();
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

impl Writer {
    pub fn header(&self) {
        if self.json {
            return;
        }
        match self.kind {
            AnswerKind::Classes => println!("path,class,name,probability"),
            AnswerKind::Mask => println!("path,marked_pixels,components,mask,overlay"),
            AnswerKind::Values => {
                let columns: Vec<String> = self.names.columns().iter().map(field).collect();
                println!("path,{}", columns.join(","));
            }
        }
    }

    /// Writes what was answered for one image.
    pub fn row(&self, answered: &Answered) -> Result<()> {
        match self.kind {
            AnswerKind::Classes => self.classes(answered.path, &answered.answer.to_f64s()),
            AnswerKind::Mask => self.mask(answered)?,
            AnswerKind::Values => self.values(answered.path, &answered.answer.to_f64s()),
        }
        Ok(())
    }

    /// One column per value.
    fn values(&self, path: &Path, values: &[f64]) {
        if self.json {
            let columns = self.names.columns();
            let named: serde_json::Map<String, serde_json::Value> =
                columns.into_iter().zip(values.iter().map(|&value| value.into())).collect();
            return Json::line(json!({ "path": path, "values": values, "columns": named }));
        }
        let text: Vec<String> = values.iter().map(f64::to_string).collect();
        println!("{},{}", field(path.display()), text.join(","));
    }

    /// The likeliest classes, one row each.
    fn classes(&self, path: &Path, probabilities: &[f64]) {
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
        let name = |class: usize| self.names.of(class);
        let top = &order[..self.top.min(order.len())];
        if self.json {
            let best = top.first().copied().unwrap_or_default();
            let listed: Vec<_> = top
                .iter()
                .map(|&class| json!({ "class": class, "name": name(class), "probability": probabilities[class] }))
                .collect();
            return Json::line(json!({
                "path": path, "class": best, "name": name(best), "probability": probabilities.get(best), "top": listed,
                "probabilities": probabilities,
            }));
        }
        for &class in top {
            println!("{},{class},{},{:.6}", field(path.display()), field(name(class)), probabilities[class]);
        }
    }

    /// A mask of 0 and 255 of the image's own size in `masks/`, and the image with what was marked in red in `overlays/`.
    fn mask(&self, &Answered { path, name, image, placed, answer }: &Answered) -> Result<()> {
        let &[_, height, width, _] = answer.dims() else { anyhow::bail!("the network's answer is no map") };
        let seen = Image::new(height, width, 1, answer.bytes().to_vec())?;
        let placed = placed.context(
            "the recipe's eval_transform moves pixels at random, so masks cannot be mapped back to the images",
        )?;
        let scores = placed.back(&seen, 0);
        let marked: Vec<bool> = scores.values().iter().map(|&score| score >= 128).collect();
        let (height, width) = (image.height(), image.width());
        let [mask_path, overlay_path] =
            ["masks", "overlays"].map(|kind| self.folder.join(kind).join(format!("{}.png", name.display())));
        for folder in [&mask_path, &overlay_path].into_iter().filter_map(|path| path.parent()) {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        }
        write_png_u8(
            &mask_path,
            &Image::from_fn(height, width, 1, |row, column, _| if marked[row * width + column] { 255u8 } else { 0 }),
        )?;
        let overlay = Image::from_fn(height, width, 3, |row, column, channel| {
            let pixel = image.pixel(row, column);
            let value = pixel[channel.min(pixel.len() - 1)];
            match (marked[row * width + column], channel) {
                (true, 0) => 255,
                (true, _) => value / 3,
                (false, _) => value,
            }
        });
        write_png_u8(&overlay_path, &overlay)?;
        let count = marked.iter().filter(|&&marked| marked).count();
        let components = octant_metrics::components(&marked, width).len();
        match self.json {
            true => Json::line(
                json!({ "path": path, "marked_pixels": count, "components": components, "mask": mask_path, "overlay": overlay_path }),
            ),
            false => {
                let [path, mask, overlay] = [path, &mask_path, &overlay_path].map(|path| field(path.display()));
                println!("{path},{count},{components},{mask},{overlay}")
            }
        }
        Ok(())
    }
}
