//! Images against images: how alike what was made is to what should have been made.

use crate::error::{Result, refusal, refuse};
use octant_data::AnyImage;
use octant_data::decode::{DecodeOptions, read_image};
use octant_data::readers::images_below;
use octant_events::metrics_json;
use octant_metrics::{Metric, images, values};
use octant_tensor::DType;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Sums over all pairs of images.
#[derive(Default)]
struct Similarity {
    squared: f64,
    absolute: f64,
    values: f64,
    psnr: f64,
    ssim: f64,
    pairs: f64,
    /// Pairs without any difference.
    equal: usize,
}

impl Similarity {
    fn observe(&mut self, made: &Values, wanted: &Values, range: f64) -> Result<()> {
        let errors = made.values.iter().zip(&wanted.values).map(|(made, wanted)| made - wanted);
        let (squared, absolute) =
            errors.fold((0.0, 0.0), |(squared, absolute), error| (squared + error * error, absolute + error.abs()));
        let count = made.values.len() as f64;
        self.squared += squared;
        self.absolute += absolute;
        self.values += count;
        self.psnr += images::capped_psnr(squared / count, range);
        self.equal += usize::from(squared == 0.0);
        let [_, width, channels] = made.dims;
        let channel = |values: &[f64], channel: usize| -> Vec<f64> {
            values.iter().skip(channel).step_by(channels).copied().collect()
        };
        for number in 0..channels {
            let (made, wanted) = (channel(&made.values, number), channel(&wanted.values, number));
            let alike = images::ssim(&made, &wanted, width, range);
            let alike = alike.ok_or_else(|| refusal!("images must have 11 pixels at least in both directions"))?;
            self.ssim += alike / channels as f64;
        }
        self.pairs += 1.0;
        Ok(())
    }

    /// MSE and MAE over all values; PSNR and SSIM are means over images, as in [`images::similarity`].
    fn metrics(&self) -> Vec<Metric> {
        let (mse, mae) = (self.squared / self.values, self.absolute / self.values);
        let of_images = [("psnr", self.psnr / self.pairs), ("ssim", self.ssim / self.pairs)];
        let all = [("mse", mse), ("mae", mae), ("rmse", mse.sqrt())].into_iter().chain(of_images);
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
        _ => refuse!("{} and {} must both be files or both be folders", made.display(), wanted.display()),
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
        refuse!(
            "{} images have no image of the same name in the other folder: {}",
            alone.len(),
            octant_data::listed(&alone)
        );
    }
    Ok(pairs)
}

/// How alike two folders of images, or two images, are.
pub struct Comparison {
    /// MSE, MAE, RMSE, PSNR and SSIM.
    pub metrics: Vec<Metric>,
    /// The span of values.
    pub range: f64,
    /// How many pairs were compared.
    pub images: usize,
    /// What should be known of the numbers.
    pub remarks: Vec<String>,
}

impl Comparison {
    /// As an object.
    pub fn json(&self) -> Value {
        let Comparison { metrics, range, images, remarks } = self;
        let metrics = metrics_json(metrics);
        json!({ "event": "done", "images": images, "range": range, "metrics": metrics, "remarks": remarks })
    }
}

/// Compares what was made with what was wanted, pair by pair. `range` is the span of values; what the element type of the files
/// can hold if not given.
pub fn compare(made: &Path, wanted: &Path, range: Option<f64>) -> Result<Comparison> {
    let pairs = pairs(made, wanted)?;
    let dtype = read_image(&pairs[0].0, &DecodeOptions::default())?.dtype();
    let range = range.unwrap_or_else(|| usual_range(dtype));
    let mut similarity = Similarity::default();
    let (mut least, mut largest) = (f64::MAX, f64::MIN);
    for (made, wanted) in &pairs {
        let [first, second] = [read(made)?, read(wanted)?];
        if first.dims != second.dims {
            let ([h, w, c], [height, width, channels]) = (first.dims, second.dims);
            refuse!("{} is {h}×{w}×{c}, {} {height}×{width}×{channels}", made.display(), wanted.display());
        }
        similarity.observe(&first, &second, range).map_err(|error| refusal!("{}: {error}", made.display()))?;
        for value in first.values.iter().chain(&second.values) {
            (least, largest) = (least.min(*value), largest.max(*value));
        }
    }
    let metrics = similarity.metrics();
    let mut remarks: Vec<String> = images::range_warning(least, largest, range).into_iter().collect();
    remarks.extend(values::scale_warning(metrics[0].1, metrics[1].1));
    if similarity.equal > 0 {
        remarks.push(format!("{} of {} pairs are equal; their PSNR counts as 100 dB", similarity.equal, pairs.len()));
    }
    Ok(Comparison { metrics, range, images: pairs.len(), remarks })
}
