//! Comparisons, choices, and f32 products with what is added to them.

use super::binary::{max_f32, min_f32};
use super::maps::{map2, map3};
use super::{Operands, Run};
use crate::math::fused;
use crate::plan::kernel::Lane;
use crate::simd::{Kernel, Simd, Vector};
use octant_graph::Comparison;

/// The loop for a comparison.
pub(super) fn select_compare(simd: Simd, comparison: Comparison, lane: Lane) -> Run {
    macro_rules! compare {
        ($type:ty) => {
            match comparison {
                Comparison::Equal => plain!(map2, |a: $type, b: $type| (a == b) as u8),
                Comparison::NotEqual => plain!(map2, |a: $type, b: $type| (a != b) as u8),
                Comparison::Less => plain!(map2, |a: $type, b: $type| (a < b) as u8),
                Comparison::LessEqual => plain!(map2, |a: $type, b: $type| (a <= b) as u8),
                Comparison::Greater => plain!(map2, |a: $type, b: $type| (a > b) as u8),
                Comparison::GreaterEqual => plain!(map2, |a: $type, b: $type| (a >= b) as u8),
            }
        };
    }
    match lane {
        Lane::F32 => match comparison {
            Comparison::Equal => entry!(simd, map2, |a: f32, b: f32| (a == b) as u8),
            Comparison::NotEqual => entry!(simd, map2, |a: f32, b: f32| (a != b) as u8),
            Comparison::Less => entry!(simd, map2, |a: f32, b: f32| (a < b) as u8),
            Comparison::LessEqual => entry!(simd, map2, |a: f32, b: f32| (a <= b) as u8),
            Comparison::Greater => entry!(simd, map2, |a: f32, b: f32| (a > b) as u8),
            Comparison::GreaterEqual => entry!(simd, map2, |a: f32, b: f32| (a >= b) as u8),
        },
        Lane::F64 => compare!(f64),
        Lane::I8 => compare!(i8),
        Lane::I16 => compare!(i16),
        Lane::I32 => compare!(i32),
        Lane::I64 => compare!(i64),
        Lane::U8 | Lane::Bool => compare!(u8),
        Lane::U16 => compare!(u16),
        Lane::U32 => compare!(u32),
        Lane::U64 => compare!(u64),
    }
}

/// A choice only moves bits, so the width of the lane is enough.
pub(super) fn select_choice(simd: Simd, lane: Lane) -> Run {
    match lane.size() {
        1 => entry!(simd, map3, |c: u8, a: u8, b: u8| if c != 0 { a } else { b }),
        2 => entry!(simd, map3, |c: u8, a: u16, b: u16| if c != 0 { a } else { b }),
        4 => entry!(simd, map3, |c: u8, a: u32, b: u32| if c != 0 { a } else { b }),
        _ => entry!(simd, map3, |c: u8, a: u64, b: u64| if c != 0 { a } else { b }),
    }
}

/// The loop for `(low, value, high)`.
pub(super) fn select_clamp(simd: Simd, lane: Lane) -> Run {
    macro_rules! clamp {
        ($type:ty) => {
            plain!(map3, |low: $type, x: $type, high: $type| x.max(low).min(high))
        };
    }
    match lane {
        Lane::F32 => entry!(simd, map3, |low: f32, x: f32, high: f32| min_f32(max_f32(x, low), high)),
        Lane::F64 => plain!(map3, |low: f64, x: f64, high: f64| {
            let raised = if x < low { low } else { x };
            if raised > high { high } else { raised }
        }),
        Lane::I8 => clamp!(i8),
        Lane::I16 => clamp!(i16),
        Lane::I32 => clamp!(i32),
        Lane::I64 => clamp!(i64),
        Lane::U8 | Lane::Bool => clamp!(u8),
        Lane::U16 => clamp!(u16),
        Lane::U32 => clamp!(u32),
        Lane::U64 => clamp!(u64),
    }
}

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
