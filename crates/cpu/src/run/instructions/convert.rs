//! Conversions between types.

use super::maps::map1;
use super::{Operands, Run};
use crate::plan::kernel::Lane;
use crate::simd::{Kernel, Simd, Vector};
use octant_graph::DType;
use octant_tensor::{Element, bf16, f16};

/// The loop that rounds to a 16-bit type.
pub(super) fn select_round(simd: Simd, dtype: DType, lane: Lane) -> Run {
    match (dtype, lane) {
        (DType::F16, Lane::F64) => plain!(map1, |x: f64| <f16 as Element>::from_f64(x).to_f32()),
        (_, Lane::F64) => plain!(map1, |x: f64| <bf16 as Element>::from_f64(x).to_f32()),
        (DType::F16, _) => entry!(simd, map1, |x: f32| f16::from_f32(x).to_f32()),
        _ => entry!(simd, map1, round_bf16),
    }
}

/// The nearest bf16, ties to even, as an f32.
#[inline(always)]
fn round_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    f32::from_bits(if x.is_nan() { bits | 0x0040_0000 } else { rounded })
}

/// The loop from one lane type to another.
pub(super) fn select_convert(simd: Simd, from: Lane, to: Lane) -> Run {
    macro_rules! convert_to {
        ($from:ty) => {
            match to {
                Lane::F32 => plain!(map1, |x: $from| x as f32),
                Lane::F64 => plain!(map1, |x: $from| x as f64),
                Lane::I8 => plain!(map1, |x: $from| x as i8),
                Lane::I16 => plain!(map1, |x: $from| x as i16),
                Lane::I32 => plain!(map1, |x: $from| x as i32),
                Lane::I64 => plain!(map1, |x: $from| x as i64),
                Lane::U8 => plain!(map1, |x: $from| x as u8),
                Lane::U16 => plain!(map1, |x: $from| x as u16),
                Lane::U32 => plain!(map1, |x: $from| x as u32),
                Lane::U64 => plain!(map1, |x: $from| x as u64),
                Lane::Bool => plain!(map1, |x: $from| (x != (0 as $from)) as u8),
            }
        };
    }
    match (from, to) {
        (Lane::U8 | Lane::Bool, Lane::F32) => return entry!(simd, map1, |x: u8| x as f32),
        (Lane::I32, Lane::F32) => return entry!(simd, map1, |x: i32| x as f32),
        (Lane::U32, Lane::F32) => return entry!(simd, map1, |x: u32| x as f32),
        (Lane::F32, Lane::I32) => return entry!(simd, map1, |x: f32| x as i32),
        (Lane::F32, Lane::U8) => return entry!(simd, map1, |x: f32| x as u8),
        (Lane::F32, Lane::Bool) => return entry!(simd, map1, |x: f32| (x != 0.0) as u8),
        _ => {}
    }
    match from {
        Lane::F32 => convert_to!(f32),
        Lane::F64 => convert_to!(f64),
        Lane::I8 => convert_to!(i8),
        Lane::I16 => convert_to!(i16),
        Lane::I32 => convert_to!(i32),
        Lane::I64 => convert_to!(i64),
        Lane::U8 | Lane::Bool => convert_to!(u8),
        Lane::U16 => convert_to!(u16),
        Lane::U32 => convert_to!(u32),
        Lane::U64 => convert_to!(u64),
    }
}

/// The loop that turns 16-bit floats in memory into f32 lanes.
pub(crate) fn widen(simd: Simd, dtype: DType) -> Run {
    match dtype {
        DType::F16 => entry!(simd, map1, |x: f16| x.to_f32()),
        _ => entry!(simd, map1, |x: u16| f32::from_bits((x as u32) << 16)),
    }
}

/// The loop that turns f32 lanes into 16-bit floats in memory.
pub(crate) fn narrow(simd: Simd, dtype: DType) -> Run {
    match dtype {
        DType::F16 => entry!(simd, map1, |x: f32| f16::from_f32(x)),
        _ => entry!(simd, map1, |x: f32| (round_bf16(x).to_bits() >> 16) as u16),
    }
}
