//! Products of f32 lanes, and what is added to them.

use super::maps::{map2, map3};
use super::{Operands, Run};
use crate::math::fused;
use crate::simd::{Kernel, Simd, Vector};

/// `a · b`.
pub(crate) fn multiply(simd: Simd) -> Run {
    entry!(simd, map2, |a: f32, b: f32| a * b)
}

/// `a · b + c`.
pub(crate) fn multiply_add(simd: Simd) -> Run {
    entry!(simd, map3, fused::<V>)
}

/// `a · b - c`.
pub(super) fn multiply_subtract(simd: Simd) -> Run {
    entry!(simd, map3, |a: f32, b: f32, c: f32| fused::<V>(a, b, -c))
}

/// `c - a · b`.
pub(super) fn subtract_product(simd: Simd) -> Run {
    entry!(simd, map3, |a: f32, b: f32, c: f32| fused::<V>(-a, b, c))
}
