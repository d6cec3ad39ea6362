//! Two images into one: mixup blends, cutmix pastes.

use crate::geometry::inside;
use crate::levels::{Rounding, are_levels, round, to_float};
use octant_graph::{DType, Tensor};

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
