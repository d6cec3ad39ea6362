//! Images against images: how alike what was made is to what should have been made.

use crate::Ending;
use crate::output::{Json, line};
use crate::show::{as_json, show};
use anyhow::{Context, Result, bail};
use octant_data::AnyImage;
use octant_data::decode::{DecodeOptions, Format, read_image};
use octant_metrics::{Metric, images, values};
use octant_tensor::DType;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Sums over all pairs of images.
#[derive(Default)]
struct Likeness {
    squared: f64,
    absolute: f64,
    values: f64,
    ssim: f64,
    pairs: f64,
}

impl Likeness {
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

/// An image, or all images of a folder in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| Format::has_image_extension(path)).collect();
    files.sort();
    Ok(files)
}

/// Compares what was made with what was wanted, pair by pair.
pub(super) fn run(made: &Path, wanted: &Path, range: Option<f64>, as_objects: bool) -> Result<Ending> {
    let (made, wanted) = (files(made)?, files(wanted)?);
    if made.len() != wanted.len() || made.is_empty() {
        bail!("there are {} images to judge and {} to judge them by; both must be as many", made.len(), wanted.len());
    }
    let dtype = read_image(&made[0], &DecodeOptions::default())?.dtype();
    let range = range.unwrap_or_else(|| usual_range(dtype));
    let mut likeness = Likeness::default();
    let (mut least, mut greatest) = (f64::MAX, f64::MIN);
    for (made, wanted) in made.iter().zip(&wanted) {
        let [first, second] = [read(made)?, read(wanted)?];
        if first.dims != second.dims {
            let ([h, w, c], [height, width, channels]) = (first.dims, second.dims);
            bail!("{} is {h}×{w}×{c}, {} {height}×{width}×{channels}", made.display(), wanted.display());
        }
        likeness.observe(&first, &second, range).with_context(|| made.display().to_string())?;
        for value in first.values.iter().chain(&second.values) {
            (least, greatest) = (least.min(*value), greatest.max(*value));
        }
    }
    let metrics = likeness.metrics(range);
    let mut remarks: Vec<String> = images::range_warning(least, greatest, range).into_iter().collect();
    remarks.extend(values::scale_warning(metrics[0].1, metrics[1].1));
    if as_objects {
        let metrics = as_json(&metrics);
        Json::line(
            json!({ "event": "done", "images": made.len(), "range": range, "metrics": metrics, "remarks": remarks }),
        );
        return Ok(Ending::Done);
    }
    line(format_args!("{} images, values that span {range}\n  {}", made.len(), show(&metrics)));
    remarks.iter().for_each(line);
    Ok(Ending::Done)
}
