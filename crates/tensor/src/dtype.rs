//! Element types.

use half::{bf16, f16};
use std::fmt;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Bools, one byte each, 0 or 1.
    Bool,
    /// 8-bit signed integers.
    I8,
    /// 16-bit signed integers.
    I16,
    /// 32-bit signed integers.
    I32,
    /// 64-bit signed integers.
    I64,
    /// 8-bit unsigned integers: the type images travel in.
    U8,
    /// 16-bit unsigned integers.
    U16,
    /// 32-bit unsigned integers.
    U32,
    /// 64-bit unsigned integers.
    U64,
    /// IEEE half precision.
    F16,
    /// The upper half of an f32: its range with 8 bits of precision.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl DType {
    /// Every element type, for tables and tests.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }

    /// True for the floating-point types, the only ones that carry gradients.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// True for the signed and unsigned integers; `Bool` is neither integer nor float.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// True for the signed integers and the floats.
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// The name used in dumps, error messages and recipes.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The element type of that [name](DType::name).
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is a tensor element. `bool` is not plain bytes in Rust, so bools are read as `u8`
/// through [`crate::HostTensor::bytes`] or converted with [`crate::HostTensor::to_f64s`].
pub trait Element: bytemuck::Pod + PartialOrd + fmt::Debug + Send + Sync {
    /// The matching element type.
    const DTYPE: DType;
    /// The nearest value of this type (integers truncate towards zero and saturate).
    fn from_f64(value: f64) -> Self;
    /// This value in double precision.
    fn to_f64(self) -> f64;
}

macro_rules! element {
    ($($type:ty => $dtype:ident),*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn from_f64(value: f64) -> Self { value as $type }
            fn to_f64(self) -> f64 { self as f64 }
        }
    )*};
}
element!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

macro_rules! half_element {
    ($($type:ty => $dtype:ident),*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn from_f64(value: f64) -> Self { <$type>::from_f32(rounded_to_odd(value)) }
            fn to_f64(self) -> f64 { <$type>::to_f64(self) }
        }
    )*};
}
half_element!(f16 => F16, bf16 => BF16);

/// An f32 from which rounding again to a shorter type gives what rounding the f64 directly would: if bits are lost, the
/// last one that is kept becomes 1, so that no value falls onto a tie it was not on.
fn rounded_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if nearest.is_nan() || nearest as f64 == value {
        return nearest;
    }
    let towards_zero = match (nearest as f64).abs() > value.abs() {
        true => f32::from_bits(nearest.to_bits() - 1),
        false => nearest,
    };
    f32::from_bits(towards_zero.to_bits() | 1)
}
