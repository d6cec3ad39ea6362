//! Image operations as graph composites: the operations of `octant-imaging` for whole NHWC
//! batches, on any device that the graph is compiled for.
//!
//! The numbers that define an operation (filter weights, kernels, windows) come from `octant-imaging`, so host and
//! device cannot differ. Every function works in the element type of its input: f32 agrees with the host within
//! 1e-5 of the full range, bf16 within [`BF16_BOUND`] of it. Bytes are computed in f32 and rounded where the host
//! rounds; only the host's fixed-point formats (Pillow's 22 and OpenCV's 11 bits) are not imitated, so bytes may differ
//! by one level (two after Lanczos).
//!
//! Parameters that differ between the images of a batch (windows, shares, which are mirrored) are tensors; parameters that are
//! the same for all are constants of the program. Start reading at [`resize()`].

mod blur;
mod geometry;
mod mix;
mod resize;

use octant_graph::{DType, Tensor};

pub use blur::blur;
pub use geometry::{crop, crop_each, erase, flip_horizontally, flip_vertically, mirror_where};
pub use mix::{cutmix, mixup, normalize};
pub use resize::{resize, resize_with_pad};

/// How far results in bf16 may be from those in f32, as a share of the full range. A value is rounded to eight bits at
/// most five times (input, two sets of weights, two results), each time by at most half a unit: 5/512; filters with
/// negative weights amplify it by up to a half.
pub const BF16_BOUND: f64 = 1.0 / 64.0;

/// How a float becomes a level.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest, halves to the even one: floats on the host.
    HalfEven,
    /// To the nearest, halves up: fixed point on the host.
    HalfUp,
}

/// True when the values are levels, not floats.
pub(crate) fn are_levels(images: &Tensor) -> bool {
    matches!(images.dtype(), DType::U8 | DType::U16)
}

/// What is computed on: floats as they are, levels as f32, which holds them exactly.
pub(crate) fn to_float(images: &Tensor) -> Tensor {
    if are_levels(images) { images.convert(DType::F32) } else { images.clone() }
}

/// The nearest level of the element type, still as a float; what lies outside its range is cut off.
pub(crate) fn round(values: &Tensor, rounding: Rounding, dtype: DType) -> Tensor {
    let largest = if dtype == DType::U8 { 255.0 } else { 65535.0 };
    let whole = match rounding {
        Rounding::HalfEven => values.round_even(),
        Rounding::HalfUp => (values + 0.5).floor(),
    };
    whole.clamp(&values.scalar_like(0.0), &values.scalar_like(largest))
}
