//! Instructions with two operands of one type.

use super::maps::map2;
use super::unary::undefined;
use super::{Operands, Run};
use crate::plan::kernel::Lane;
use crate::simd::{Kernel, Simd, Vector};
use octant_graph::Binary;

/// NaN if either is NaN.
#[inline(always)]
pub(super) fn max_f32(a: f32, b: f32) -> f32 {
    let greater = if a > b { a } else { b };
    if a.is_nan() { a } else { greater }
}

/// NaN if either is NaN.
#[inline(always)]
pub(super) fn min_f32(a: f32, b: f32) -> f32 {
    let lesser = if a < b { a } else { b };
    if a.is_nan() { a } else { lesser }
}

/// The loop for an operation of two operands.
pub(super) fn select_binary(simd: Simd, binary: Binary, lane: Lane) -> Run {
    macro_rules! integer {
        ($type:ty) => {
            match binary {
                Binary::Add => plain!(map2, |a: $type, b: $type| a.wrapping_add(b)),
                Binary::Sub => plain!(map2, |a: $type, b: $type| a.wrapping_sub(b)),
                Binary::Mul => plain!(map2, |a: $type, b: $type| a.wrapping_mul(b)),
                Binary::Div => plain!(map2, |a: $type, b: $type| if b == 0 { !0 } else { a.wrapping_div(b) }),
                Binary::Rem => plain!(map2, |a: $type, b: $type| if b == 0 { a } else { a.wrapping_rem(b) }),
                Binary::Max => plain!(map2, |a: $type, b: $type| a.max(b)),
                Binary::Min => plain!(map2, |a: $type, b: $type| a.min(b)),
                Binary::Pow => plain!(map2, |a: $type, b: $type| integer_power(a as i128, b as i128) as $type),
                Binary::And => plain!(map2, |a: $type, b: $type| a & b),
                Binary::Or => plain!(map2, |a: $type, b: $type| a | b),
                Binary::Xor => plain!(map2, |a: $type, b: $type| a ^ b),
                Binary::Atan2 => undefined(binary.name(), lane),
                Binary::ShiftLeft => {
                    plain!(map2, |a: $type, b: $type| match shift_in_range(b as i128, <$type>::BITS) {
                        true => a << b,
                        false => 0,
                    })
                }
                Binary::ShiftRight => plain!(map2, |a: $type, b: $type| {
                    const MASK: u64 = u64::MAX >> (64 - <$type>::BITS);
                    match shift_in_range(b as i128, <$type>::BITS) {
                        true => ((a as u64 & MASK) >> b) as $type,
                        false => 0,
                    }
                }),
            }
        };
    }
    match lane {
        Lane::F32 => match binary {
            Binary::Add => entry!(simd, map2, |a: f32, b: f32| a + b),
            Binary::Sub => entry!(simd, map2, |a: f32, b: f32| a - b),
            Binary::Mul => entry!(simd, map2, |a: f32, b: f32| a * b),
            Binary::Div => entry!(simd, map2, |a: f32, b: f32| a / b),
            Binary::Rem => entry!(simd, map2, |a: f32, b: f32| a % b),
            Binary::Max => entry!(simd, map2, max_f32),
            Binary::Min => entry!(simd, map2, min_f32),
            Binary::Atan2 => entry!(simd, map2, |a: f32, b: f32| a.atan2(b)),
            Binary::Pow => entry!(simd, map2, |a: f32, b: f32| a.powf(b)),
            Binary::And | Binary::Or | Binary::Xor => undefined(binary.name(), lane),
            Binary::ShiftLeft | Binary::ShiftRight => undefined(binary.name(), lane),
        },
        Lane::F64 => match binary {
            Binary::Add => plain!(map2, |a: f64, b: f64| a + b),
            Binary::Sub => plain!(map2, |a: f64, b: f64| a - b),
            Binary::Mul => plain!(map2, |a: f64, b: f64| a * b),
            Binary::Div => plain!(map2, |a: f64, b: f64| a / b),
            Binary::Rem => plain!(map2, |a: f64, b: f64| a % b),
            Binary::Max => plain!(map2, |a: f64, b: f64| if a > b || a.is_nan() { a } else { b }),
            Binary::Min => plain!(map2, |a: f64, b: f64| if a < b || a.is_nan() { a } else { b }),
            Binary::Atan2 => plain!(map2, |a: f64, b: f64| a.atan2(b)),
            Binary::Pow => plain!(map2, |a: f64, b: f64| a.powf(b)),
            Binary::And | Binary::Or | Binary::Xor => undefined(binary.name(), lane),
            Binary::ShiftLeft | Binary::ShiftRight => undefined(binary.name(), lane),
        },
        Lane::I8 => integer!(i8),
        Lane::I16 => integer!(i16),
        Lane::I32 => integer!(i32),
        Lane::I64 => integer!(i64),
        Lane::U8 => integer!(u8),
        Lane::U16 => integer!(u16),
        Lane::U32 => integer!(u32),
        Lane::U64 => integer!(u64),
        Lane::Bool => match binary {
            Binary::And | Binary::Min | Binary::Mul => entry!(simd, map2, |a: u8, b: u8| a & b),
            Binary::Or | Binary::Max | Binary::Add => entry!(simd, map2, |a: u8, b: u8| a | b),
            Binary::Xor => entry!(simd, map2, |a: u8, b: u8| a ^ b),
            Binary::Sub | Binary::Div | Binary::Rem | Binary::Pow | Binary::Atan2 => undefined(binary.name(), lane),
            Binary::ShiftLeft | Binary::ShiftRight => undefined(binary.name(), lane),
        },
    }
}

#[inline(always)]
fn shift_in_range(by: i128, width: u32) -> bool {
    by >= 0 && by < width as i128
}

/// Negative powers of an integer are 0, except those of ±1.
#[inline(always)]
fn integer_power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}
