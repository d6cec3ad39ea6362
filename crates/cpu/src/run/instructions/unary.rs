//! Instructions with one operand.

use super::maps::map1;
use super::{Operands, Run};
use crate::math;
use crate::plan::kernel::Lane;
use crate::simd::{Kernel, Simd, Vector};
use octant_graph::Unary;

/// Neg, Abs, Sign and Not of an integer type.
struct OnIntegers {
    neg: Run,
    abs: Option<Run>,
    sign: Option<Run>,
    not: Run,
}

/// The loop for an operation of one operand.
pub(super) fn select_unary(simd: Simd, unary: Unary, lane: Lane) -> Run {
    macro_rules! signed {
        ($type:ty) => {
            OnIntegers {
                neg: plain!(map1, |x: $type| x.wrapping_neg()),
                abs: Some(plain!(map1, |x: $type| x.wrapping_abs())),
                sign: Some(plain!(map1, |x: $type| x.signum())),
                not: plain!(map1, |x: $type| !x),
            }
        };
    }
    macro_rules! unsigned {
        ($type:ty) => {
            OnIntegers {
                neg: plain!(map1, |x: $type| x.wrapping_neg()),
                abs: None,
                sign: None,
                not: plain!(map1, |x: $type| !x),
            }
        };
    }
    let on_integers = match lane {
        Lane::F32 | Lane::F64 => return on_floats(simd, unary, lane == Lane::F64),
        Lane::I8 => signed!(i8),
        Lane::I16 => signed!(i16),
        Lane::I32 => signed!(i32),
        Lane::I64 => signed!(i64),
        Lane::U8 => unsigned!(u8),
        Lane::U16 => unsigned!(u16),
        Lane::U32 => unsigned!(u32),
        Lane::U64 => unsigned!(u64),
        Lane::Bool => {
            let not = plain!(map1, |x: u8| x ^ 1);
            OnIntegers { neg: not, abs: None, sign: None, not }
        }
    };
    let found = match unary {
        Unary::Neg => Some(on_integers.neg),
        Unary::Abs => on_integers.abs,
        Unary::Sign => on_integers.sign,
        Unary::Not => Some(on_integers.not),
        Unary::Exp | Unary::Expm1 | Unary::Log | Unary::Log1p | Unary::Sqrt | Unary::Rsqrt | Unary::Tanh => None,
        Unary::Logistic | Unary::Erf | Unary::Sin | Unary::Cos => None,
        Unary::Floor | Unary::Ceil | Unary::RoundEven | Unary::IsFinite => None,
    };
    found.unwrap_or_else(|| undefined(unary.name(), lane))
}

/// Shape inference refuses operations on types for which they are not defined.
pub(super) fn undefined(name: &str, lane: Lane) -> ! {
    unreachable!("{name} is not defined for {lane:?}")
}

/// f32 by vectors of the instruction set, f64 by the standard library.
fn on_floats(simd: Simd, unary: Unary, double: bool) -> Run {
    macro_rules! floats {
        ($single:expr, $double:expr) => {
            if double { plain!(map1, $double) } else { entry!(simd, map1, $single) }
        };
    }
    match unary {
        Unary::Neg => floats!(|x: f32| -x, |x: f64| -x),
        Unary::Abs => floats!(|x: f32| x.abs(), |x: f64| x.abs()),
        Unary::Sign => {
            floats!(|x: f32| if x > 0.0 { 1.0 } else { if x < 0.0 { -1.0 } else { x } }, |x: f64| if x > 0.0 {
                1.0
            } else {
                if x < 0.0 { -1.0 } else { x }
            })
        }
        Unary::Exp => floats!(math::exp::<V>, |x: f64| x.exp()),
        Unary::Expm1 => floats!(math::expm1::<V>, |x: f64| x.exp_m1()),
        Unary::Log => floats!(math::log::<V>, |x: f64| x.ln()),
        Unary::Log1p => floats!(math::log1p::<V>, |x: f64| x.ln_1p()),
        Unary::Sqrt => floats!(|x: f32| x.sqrt(), |x: f64| x.sqrt()),
        Unary::Rsqrt => floats!(|x: f32| 1.0 / x.sqrt(), |x: f64| 1.0 / x.sqrt()),
        Unary::Tanh => floats!(math::tanh::<V>, |x: f64| x.tanh()),
        Unary::Logistic => floats!(math::logistic::<V>, |x: f64| 1.0 / (1.0 + (-x).exp())),
        Unary::Erf => floats!(math::erf::<V>, |x: f64| libm::erf(x)),
        Unary::Sin => floats!(|x: f32| x.sin(), |x: f64| x.sin()),
        Unary::Cos => floats!(|x: f32| x.cos(), |x: f64| x.cos()),
        Unary::Floor => floats!(|x: f32| x.floor(), |x: f64| x.floor()),
        Unary::Ceil => floats!(|x: f32| x.ceil(), |x: f64| x.ceil()),
        Unary::RoundEven => floats!(|x: f32| x.round_ties_even(), |x: f64| x.round_ties_even()),
        Unary::IsFinite => floats!(|x: f32| x.is_finite() as u8, |x: f64| x.is_finite() as u8),
        Unary::Not => undefined(unary.name(), if double { Lane::F64 } else { Lane::F32 }),
    }
}
