//! Instructions with one operand.

use super::super::math;
use super::maps::map1;
use super::{Operands, Run};
use crate::plan::kernel::Lane;
use crate::simd::{Kernel, Simd, Vector};
use octant_graph::Unary;

/// The loop for an operation of one operand.
pub(super) fn select_unary(simd: Simd, unary: Unary, lane: Lane) -> Run {
    macro_rules! signed {
        ($type:ty) => {
            match unary {
                Unary::Neg => plain!(map1, |x: $type| x.wrapping_neg()),
                Unary::Abs => plain!(map1, |x: $type| x.wrapping_abs()),
                Unary::Sign => plain!(map1, |x: $type| x.signum()),
                _ => plain!(map1, |x: $type| !x),
            }
        };
    }
    macro_rules! unsigned {
        ($type:ty) => {
            match unary {
                Unary::Neg => plain!(map1, |x: $type| x.wrapping_neg()),
                _ => plain!(map1, |x: $type| !x),
            }
        };
    }
    match lane {
        Lane::F32 => unary_f32(simd, unary),
        Lane::F64 => unary_f64(unary),
        Lane::I8 => signed!(i8),
        Lane::I16 => signed!(i16),
        Lane::I32 => signed!(i32),
        Lane::I64 => signed!(i64),
        Lane::U8 => unsigned!(u8),
        Lane::U16 => unsigned!(u16),
        Lane::U32 => unsigned!(u32),
        Lane::U64 => unsigned!(u64),
        Lane::Bool => plain!(map1, |x: u8| x ^ 1),
    }
}

fn unary_f32(simd: Simd, unary: Unary) -> Run {
    match unary {
        Unary::Neg => entry!(simd, map1, |x: f32| -x),
        Unary::Abs => entry!(simd, map1, |x: f32| x.abs()),
        Unary::Sign => entry!(simd, map1, |x: f32| if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            x
        }),
        Unary::Exp => entry!(simd, map1, math::exp::<V>),
        Unary::Expm1 => entry!(simd, map1, math::expm1::<V>),
        Unary::Log => entry!(simd, map1, math::log::<V>),
        Unary::Log1p => entry!(simd, map1, math::log1p::<V>),
        Unary::Sqrt => entry!(simd, map1, |x: f32| x.sqrt()),
        Unary::Rsqrt => entry!(simd, map1, |x: f32| 1.0 / x.sqrt()),
        Unary::Tanh => entry!(simd, map1, math::tanh::<V>),
        Unary::Logistic => entry!(simd, map1, math::logistic::<V>),
        Unary::Erf => entry!(simd, map1, math::erf::<V>),
        Unary::Sin => entry!(simd, map1, |x: f32| x.sin()),
        Unary::Cos => entry!(simd, map1, |x: f32| x.cos()),
        Unary::Floor => entry!(simd, map1, |x: f32| x.floor()),
        Unary::Ceil => entry!(simd, map1, |x: f32| x.ceil()),
        Unary::RoundEven => entry!(simd, map1, |x: f32| x.round_ties_even()),
        Unary::IsFinite | Unary::Not => entry!(simd, map1, |x: f32| x.is_finite() as u8),
    }
}

fn unary_f64(unary: Unary) -> Run {
    match unary {
        Unary::Neg => plain!(map1, |x: f64| -x),
        Unary::Abs => plain!(map1, |x: f64| x.abs()),
        Unary::Sign => plain!(map1, |x: f64| if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            x
        }),
        Unary::Exp => plain!(map1, |x: f64| x.exp()),
        Unary::Expm1 => plain!(map1, |x: f64| x.exp_m1()),
        Unary::Log => plain!(map1, |x: f64| x.ln()),
        Unary::Log1p => plain!(map1, |x: f64| x.ln_1p()),
        Unary::Sqrt => plain!(map1, |x: f64| x.sqrt()),
        Unary::Rsqrt => plain!(map1, |x: f64| 1.0 / x.sqrt()),
        Unary::Tanh => plain!(map1, |x: f64| x.tanh()),
        Unary::Logistic => plain!(map1, |x: f64| 1.0 / (1.0 + (-x).exp())),
        Unary::Erf => plain!(map1, |x: f64| libm::erf(x)),
        Unary::Sin => plain!(map1, |x: f64| x.sin()),
        Unary::Cos => plain!(map1, |x: f64| x.cos()),
        Unary::Floor => plain!(map1, |x: f64| x.floor()),
        Unary::Ceil => plain!(map1, |x: f64| x.ceil()),
        Unary::RoundEven => plain!(map1, |x: f64| x.round_ties_even()),
        Unary::IsFinite | Unary::Not => plain!(map1, |x: f64| x.is_finite() as u8),
    }
}
