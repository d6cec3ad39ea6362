//! What people and machines see of predictions.

use crate::output::Json;
use anyhow::{Context, Result};
use octant_data::write_png_u8;
use octant_imaging::Image;
use octant_tensor::HostTensor;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Writes what was predicted.
pub(super) struct Writer {
    /// classify, segment or regress.
    pub task: String,
    /// The names of classes, as far as they are known.
    pub names: Vec<String>,
    /// How many classes are shown of each image.
    pub top: usize,
    /// Where masks go.
    pub folder: PathBuf,
    pub json: bool,
}

impl Writer {
    pub fn header(&self) {
        if !self.json {
            println!(
                "{}",
                match self.task.as_str() {
                    "classify" => "path,class,name,probability",
                    "segment" => "path,marked_pixels,components,mask,overlay",
                    _ => "path,values",
                }
            );
        }
    }

    pub fn row(&self, path: &Path, image: &Image<u8>, answer: &HostTensor) -> Result<()> {
        match self.task.as_str() {
            "classify" => self.classes(path, &answer.to_f64s()),
            "segment" => self.mask(path, image, answer)?,
            _ => {
                let values = answer.to_f64s();
                let text: Vec<String> = values.iter().map(f64::to_string).collect();
                match self.json {
                    true => Json::line(json!({ "path": path, "values": values })),
                    false => println!("{},{}", path.display(), text.join(",")),
                }
            }
        }
        Ok(())
    }

    /// The likeliest classes, one row each.
    fn classes(&self, path: &Path, probabilities: &[f64]) {
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
        let name = |class: usize| self.names.get(class).cloned().unwrap_or_else(|| class.to_string());
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
            println!("{},{class},{},{:.6}", path.display(), name(class), probabilities[class]);
        }
    }

    /// A mask of 0 and 255, and the image with what was marked in red.
    fn mask(&self, path: &Path, image: &Image<u8>, answer: &HostTensor) -> Result<()> {
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot write to {}", self.folder.display()))?;
        let (height, width) = (image.height(), image.width());
        let marked: Vec<bool> = answer.bytes().iter().map(|&score| score >= 128).collect();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("image");
        let [mask_path, overlay_path] = ["mask", "overlay"].map(|kind| self.folder.join(format!("{stem}-{kind}.png")));
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
                println!("{},{count},{components},{},{}", path.display(), mask_path.display(), overlay_path.display())
            }
        }
        Ok(())
    }
}
