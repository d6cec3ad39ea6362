//! Bytes to floats with zero mean and unit deviation.

use crate::resize::table;
use octant_graph::{DType, Tensor};
use octant_imaging::Normalization;

/// `(value / 255 − mean) / std` per channel, in f32. Channels beyond the figures use the last of them.
pub fn normalize(images: &Tensor, figures: &Normalization) -> Tensor {
    let channels = images.channels();
    let per_channel = |list: &[f32], default: f32| -> Vec<f64> {
        (0..channels).map(|position| list.get(position).or(list.last()).copied().unwrap_or(default) as f64).collect()
    };
    let row = |values: &[f64]| table(images, &[channels], values, DType::F32);
    let (mean, std) = (row(&per_channel(&figures.mean, 0.0)), row(&per_channel(&figures.std, 1.0)));
    (images.convert(DType::F32) / 255.0 - mean) / std
}
