//! Images against images: how alike what was made is to what should have been made.

use crate::Ending;
use crate::output::{Json, line};
use crate::show::{as_json, show};
use anyhow::{Context, Result, bail};
use octant_data::AnyImage;
use octant_data::decode::{DecodeOptions, read_image};
use octant_data::readers::images_below;
use octant_metrics::{Metric, images, values};
use octant_tensor::DType;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Sums over all pairs of images.
#[derive(Default)]
struct Similarity {
    squared: f64,
    absolute: f64,
    values: f64,
    ssim: f64,
    pairs: f64,
}

impl Similarity {
    fn observe(&mut self, made: &Values, wanted: &Values, range: f64) -> Result<()> {
        let errors = made.values.iter().zip(&wanted.values).map(|(made, wanted)| made - wanted);
        for error in errors {
            self.squared += error * error;
            self.absolute += error.abs();
        }
        self.values += made.values.len() as f64;
        let [_, width, channels] = made.dims;
        let channel = |values: &[f64], channel: usize| -> Vec<f64> {
            values.iter().skip(channel).step_by(channels).copied().collect()
        };
        for number in 0..channels {
            let (made, wanted) = (channel(&made.values, number), channel(&wanted.values, number));
            let alike = images::ssim(&made, &wanted, width, range);
            self.ssim += alike.context("images must have 11 pixels at least in both directions")? / channels as f64;
        }
        self.pairs += 1.0;
        Ok(())
    }

    fn metrics(&self, range: f64) -> Vec<Metric> {
        let (mse, mae) = (self.squared / self.values, self.absolute / self.values);
        let numbers = [("mse", mse), ("mae", mae), ("rmse", mse.sqrt()), ("psnr", images::psnr(mse, range))];
        let all = numbers.into_iter().chain([("ssim", self.ssim / self.pairs)]);
        all.map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// The numbers of an image as they are in its file.
struct Values {
    dims: [usize; 3],
    values: Vec<f64>,
}

fn read(path: &Path) -> Result<Values> {
    let image = read_image(path, &DecodeOptions::default())?;
    let values = match &image {
        AnyImage::U8(image) => image.values().iter().map(|&value| value.into()).collect(),
        AnyImage::U16(image) => image.values().iter().map(|&value| value.into()).collect(),
        AnyImage::F32(image) => image.values().iter().map(|&value| value.into()).collect(),
    };
    Ok(Values { dims: image.dims(), values })
}

/// The range that the element type of files suggests.
fn usual_range(dtype: DType) -> f64 {
    match dtype {
        DType::U8 => 255.0,
        DType::U16 => 65535.0,
        _ => 1.0,
    }
}

/// The images of a folder and below it, by their paths in it without the ending.
fn files(folder: &Path) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let name = |path: &Path| path.strip_prefix(folder).unwrap_or(path).with_extension("");
    Ok(images_below(folder)?.into_iter().map(|path| (name(&path), path)).collect())
}

/// What is compared with what: two files, or the files of two folders that have the same names. A name that only one
/// folder has is an error: leaving it out would flatter, and going by order would compare what does not belong together.
fn pairs(made: &Path, wanted: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    match (made.is_dir(), wanted.is_dir()) {
        (false, false) => return Ok(vec![(made.to_path_buf(), wanted.to_path_buf())]),
        (true, true) => {}
        _ => bail!("{} and {} must both be files or both be folders", made.display(), wanted.display()),
    }
    let (first, mut second) = (files(made)?, files(wanted)?);
    let mut pairs = Vec::new();
    let mut alone = Vec::new();
    for (name, path) in first {
        match second.remove(&name) {
            Some(other) => pairs.push((path, other)),
            None => alone.push(path.display().to_string()),
        }
    }
    alone.extend(second.values().map(|path| path.display().to_string()));
    if !alone.is_empty() || pairs.is_empty() {
        bail!(
            "{} images have no image of the same name in the other folder: {}",
            alone.len(),
            octant_data::listed(&alone)
        );
    }
    Ok(pairs)
}

/// Compares what was made with what was wanted, pair by pair.
pub(super) fn run(made: &Path, wanted: &Path, range: Option<f64>, as_objects: bool) -> Result<Ending> {
    let pairs = pairs(made, wanted)?;
    let dtype = read_image(&pairs[0].0, &DecodeOptions::default())?.dtype();
    let range = range.unwrap_or_else(|| usual_range(dtype));
    let mut similarity = Similarity::default();
    let (mut least, mut largest) = (f64::MAX, f64::MIN);
    for (made, wanted) in &pairs {
        let [first, second] = [read(made)?, read(wanted)?];
        if first.dims != second.dims {
            let ([h, w, c], [height, width, channels]) = (first.dims, second.dims);
            bail!("{} is {h}×{w}×{c}, {} {height}×{width}×{channels}", made.display(), wanted.display());
        }
        similarity.observe(&first, &second, range).with_context(|| made.display().to_string())?;
        for value in first.values.iter().chain(&second.values) {
            (least, largest) = (least.min(*value), largest.max(*value));
        }
    }
    let metrics = similarity.metrics(range);
    let mut remarks: Vec<String> = images::range_warning(least, largest, range).into_iter().collect();
    remarks.extend(values::scale_warning(metrics[0].1, metrics[1].1));
    if similarity.squared == 0.0 {
        remarks.push("the images are the same: their PSNR is infinite, which JSON writes as null".to_string());
    }
    if as_objects {
        let metrics = as_json(&metrics);
        Json::line(
            json!({ "event": "done", "images": pairs.len(), "range": range, "metrics": metrics, "remarks": remarks }),
        );
        return Ok(Ending::Done);
    }
    line(format_args!("{} images, values that span {range}\n  {}", pairs.len(), show(&metrics)));
    remarks.iter().for_each(line);
    Ok(Ending::Done)
}
