//! Whole levels: bytes are computed on as floats and rounded where the host rounds.

use octant_graph::{DType, Tensor};

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
