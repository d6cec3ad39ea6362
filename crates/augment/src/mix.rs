//! Two pictures into one: mixup blends, cutmix pastes.

use crate::geometry::inside;
use crate::levels::{Rounding, are_levels, round, to_float};
use octant_graph::{DType, Tensor};

/// `shares` (f32, `[n]`) of every picture and the rest of its partner.
pub fn mixup(pictures: &Tensor, partners: &Tensor, shares: &Tensor) -> Tensor {
    let shares = shares.convert(DType::F32).reshape(&[pictures.dim(0), 1, 1, 1]);
    let [first, second] = [pictures, partners].map(|values| to_float(values).convert(DType::F32));
    let mixed = first * &shares + second * (1.0 - shares);
    match are_levels(pictures) {
        true => round(&mixed, Rounding::HalfEven, pictures.dtype()).convert(pictures.dtype()),
        false => mixed.convert(pictures.dtype()),
    }
}

/// Every picture with a window of its partner pasted in, `windows` holding (top, left, height, width), `[n, 4]`. The
/// share of the picture itself is what [`cutmix_window`](octant_imaging::mix::cutmix_window) says.
pub fn cutmix(pictures: &Tensor, partners: &Tensor, windows: &Tensor) -> Tensor {
    inside(pictures, windows).select(partners, pictures)
}
