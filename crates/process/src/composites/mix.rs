//! Values of images: normalization; two images into one, where mixup blends and cutmix pastes.

use super::geometry::inside;
use super::resize::table;
use super::{Rounding, are_levels, round, to_float};
use octant_graph::{DType, Tensor};
use octant_imaging::Normalization;

/// `shares` (f32, `[n]`) of every image and the rest of its partner.
pub fn mixup(images: &Tensor, partners: &Tensor, shares: &Tensor) -> Tensor {
    let shares = shares.convert(DType::F32).reshape(&[images.dim(0), 1, 1, 1]);
    let [first, second] = [images, partners].map(|values| to_float(values).convert(DType::F32));
    let mixed = first * &shares + second * (1.0 - shares);
    match are_levels(images) {
        true => round(&mixed, Rounding::HalfEven, images.dtype()).convert(images.dtype()),
        false => mixed.convert(images.dtype()),
    }
}

/// Every image with a window of its partner pasted in, `windows` holding (top, left, height, width), `[n, 4]`. The
/// share of the image itself is what [`cutmix_window`](octant_imaging::mix::cutmix_window) says.
pub fn cutmix(images: &Tensor, partners: &Tensor, windows: &Tensor) -> Tensor {
    inside(images, windows).select(partners, images)
}

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
