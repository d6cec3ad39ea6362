//! Elements of any type, for the kernels that are written once for all of them.

use super::super::memory::Memory;
use crate::kernels::{Machine, Output, borrow_scratch, narrow_all, widen_all};
use octant_graph::{DType, Shape};
use octant_tensor::{Element, bf16, f16};

/// An element that can be compared and combined; integers wrap.
pub(super) trait Number: Copy + PartialOrd + Send + Sync + 'static {
    /// What long sums are kept in: f32 for 16-bit floats.
    type Sum: Number;
    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn zero() -> Self;
    fn one() -> Self;
    /// Below (or equal to) everything.
    fn least() -> Self;
    /// Above (or equal to) everything.
    fn largest() -> Self;
    fn is_nan(self) -> bool;
    fn greater_of(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }
    fn lesser_of(self, other: Self) -> Self {
        if self < other || self.is_nan() { self } else { other }
    }
}

macro_rules! integer_number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            type Sum = Self;
            fn widen(self) -> Self { self }
            fn narrow(sum: Self) -> Self { sum }
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn zero() -> Self { 0 }
            fn one() -> Self { 1 }
            fn least() -> Self { <$type>::MIN }
            fn largest() -> Self { <$type>::MAX }
            fn is_nan(self) -> bool { false }
        }
    )*};
}
integer_number!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! float_number {
    ($($type:ty, $sum:ty, $convert:expr, $widen:expr);*) => {$(
        impl Number for $type {
            type Sum = $sum;
            fn widen(self) -> $sum { $widen(self) }
            fn narrow(sum: $sum) -> Self { $convert(sum) }
            fn plus(self, other: Self) -> Self { self + other }
            fn times(self, other: Self) -> Self { self * other }
            fn zero() -> Self { $convert(0.0) }
            fn one() -> Self { $convert(1.0) }
            fn least() -> Self { <$type>::NEG_INFINITY }
            fn largest() -> Self { <$type>::INFINITY }
            fn is_nan(self) -> bool { <$type>::is_nan(self) }
        }
    )*};
}
float_number!(
    f32, f32, std::convert::identity, std::convert::identity;
    f64, f64, std::convert::identity, std::convert::identity;
    f16, f32, f16::from_f32, f16::to_f32;
    bf16, f32, bf16::from_f32, bf16::to_f32
);

/// A bool: sums are "or", products "and".
#[derive(Clone, Copy, PartialEq, PartialOrd)]
#[repr(transparent)]
pub(super) struct Truth(pub u8);

impl Number for Truth {
    type Sum = Truth;
    fn widen(self) -> Truth {
        self
    }
    fn narrow(sum: Truth) -> Truth {
        sum
    }
    fn plus(self, other: Self) -> Self {
        Truth(self.0 | other.0)
    }
    fn times(self, other: Self) -> Self {
        Truth(self.0 & other.0)
    }
    fn zero() -> Self {
        Truth(0)
    }
    fn one() -> Self {
        Truth(1)
    }
    fn least() -> Self {
        Truth(0)
    }
    fn largest() -> Self {
        Truth(1)
    }
    fn is_nan(self) -> bool {
        false
    }
}

/// Runs `$body` with `$T` bound to the Rust type of the element type.
macro_rules! for_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::Bool => {
                type $T = $crate::run::kernels::numbers::Truth;
                $body
            }
            DType::I8 => {
                type $T = i8;
                $body
            }
            DType::I16 => {
                type $T = i16;
                $body
            }
            DType::I32 => {
                type $T = i32;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::U8 => {
                type $T = u8;
                $body
            }
            DType::U16 => {
                type $T = u16;
                $body
            }
            DType::U32 => {
                type $T = u32;
                $body
            }
            DType::U64 => {
                type $T = u64;
                $body
            }
            DType::F16 => {
                type $T = octant_tensor::f16;
                $body
            }
            DType::BF16 => {
                type $T = octant_tensor::bf16;
                $body
            }
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(super) use for_type;

/// An operand as integers, sign- or zero-extended; the values that indices have.
pub(super) fn integers(memory: &Memory, (buffer, shape): &(usize, Shape)) -> Vec<i64> {
    let count = shape.elements();
    // SAFETY: the operand is stored with this element type and number of elements, and no step writes it now.
    unsafe {
        match shape.dtype() {
            DType::I8 => memory.read::<i8>(*buffer, count).iter().map(|&x| x as i64).collect(),
            DType::I16 => memory.read::<i16>(*buffer, count).iter().map(|&x| x as i64).collect(),
            DType::I32 => memory.read::<i32>(*buffer, count).iter().map(|&x| x as i64).collect(),
            DType::I64 => memory.read::<i64>(*buffer, count).to_vec(),
            DType::U16 => memory.read::<u16>(*buffer, count).iter().map(|&x| x as i64).collect(),
            DType::U32 => memory.read::<u32>(*buffer, count).iter().map(|&x| x as i64).collect(),
            // An index beyond i64 is beyond every axis, and the largest i64 is so as well.
            DType::U64 => {
                memory.read::<u64>(*buffer, count).iter().map(|&x| i64::try_from(x).unwrap_or(i64::MAX)).collect()
            }
            _ => memory.read::<u8>(*buffer, count).iter().map(|&x| x as i64).collect(),
        }
    }
}

/// An operand as f64, for float types.
pub(super) fn doubles(memory: &Memory, (buffer, shape): &(usize, Shape)) -> Vec<f64> {
    let count = shape.elements();
    // SAFETY: the operand is stored with this element type and number of elements, and no step writes it now.
    unsafe {
        match shape.dtype() {
            DType::F64 => memory.read::<f64>(*buffer, count).to_vec(),
            DType::F16 => memory.read::<f16>(*buffer, count).iter().map(|x| x.to_f64()).collect(),
            DType::BF16 => memory.read::<bf16>(*buffer, count).iter().map(|x| x.to_f64()).collect(),
            _ => memory.read::<f32>(*buffer, count).iter().map(|&x| x as f64).collect(),
        }
    }
}

/// Writes integers, keeping the low bits that the element type has.
pub(super) fn write_integers(memory: &Memory, (buffer, shape): &(usize, Shape), values: &[i64]) {
    let size = shape.dtype().size();
    // SAFETY: the result is stored with this element type and number of elements, and this step owns it.
    let bytes = unsafe { memory.write::<u8>(*buffer, shape.bytes()) };
    for (slot, value) in bytes.chunks_exact_mut(size).zip(values) {
        slot.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// Writes floats, rounded to the element type.
pub(super) fn write_doubles(memory: &Memory, (buffer, shape): &(usize, Shape), values: &[f64]) {
    let count = shape.elements();
    // SAFETY: the result is stored with this element type and number of elements, and this step owns it.
    unsafe {
        match shape.dtype() {
            DType::F64 => memory.write::<f64>(*buffer, count).copy_from_slice(values),
            DType::F16 => {
                memory.write::<f16>(*buffer, count).iter_mut().zip(values).for_each(|(s, &v)| *s = Element::from_f64(v))
            }
            DType::BF16 => memory
                .write::<bf16>(*buffer, count)
                .iter_mut()
                .zip(values)
                .for_each(|(s, &v)| *s = Element::from_f64(v)),
            _ => memory.write::<f32>(*buffer, count).iter_mut().zip(values).for_each(|(s, &v)| *s = v as f32),
        }
    }
}

/// Runs `work` on an operand as f32, converted if it is of a 16-bit type.
pub(super) fn with_f32<R>(
    memory: &Memory,
    machine: &Machine,
    argument: &(usize, Shape),
    work: impl FnOnce(&[f32]) -> R,
) -> R {
    let (buffer, shape) = argument;
    match shape.dtype() {
        // SAFETY: the operand is stored as f32, and no step writes it now.
        DType::F32 => work(unsafe { memory.read(*buffer, shape.elements()) }),
        DType::BF16 => borrow_scratch(shape.elements(), |wide: &mut [f32]| {
            // SAFETY: the operand is stored as bf16, and no step writes it now.
            widen_all(machine, unsafe { memory.read(*buffer, shape.elements()) }, wide);
            work(wide)
        }),
        _ => work(&doubles(memory, argument).into_iter().map(|x| x as f32).collect::<Vec<_>>()),
    }
}

/// Runs `work` on a result as f32 and converts it afterwards if it is of a 16-bit type.
pub(super) fn into_f32(memory: &Memory, machine: &Machine, result: &(usize, Shape), work: impl FnOnce(&mut [f32])) {
    let (buffer, shape) = result;
    match shape.dtype() {
        // SAFETY: the result is stored as f32, and this step owns it.
        DType::F32 => work(unsafe { memory.write(*buffer, shape.elements()) }),
        DType::BF16 => borrow_scratch(shape.elements(), |wide: &mut [f32]| {
            work(wide);
            // SAFETY: the result is stored as bf16, and this step owns it.
            narrow_all(machine, wide, unsafe { memory.write(*buffer, shape.elements()) });
        }),
        _ => {
            let mut values = vec![0.0f32; shape.elements()];
            work(&mut values);
            write_doubles(memory, result, &values.into_iter().map(f64::from).collect::<Vec<_>>());
        }
    }
}

/// Two operands and a result that are all bf16, but for the result which may be f32.
pub(super) fn with_bf16(
    memory: &Memory,
    [left, right, result]: [&(usize, Shape); 3],
    work: impl FnOnce(&[bf16], &[bf16], Output<'_>),
) {
    // SAFETY: all three are stored with their element types; no step writes the operands now, this step owns the result.
    unsafe {
        let (a, b) = (memory.read(left.0, left.1.elements()), memory.read(right.0, right.1.elements()));
        match result.1.dtype() {
            DType::BF16 => work(a, b, Output::Bf16(memory.write(result.0, result.1.elements()))),
            _ => work(a, b, Output::F32(memory.write(result.0, result.1.elements()))),
        }
    }
}

/// Whether bf16 kernels compute this: operands of bf16, a result of bf16 or f32.
pub(super) fn is_bf16(operand: &Shape, result: &Shape) -> bool {
    operand.dtype() == DType::BF16 && matches!(result.dtype(), DType::BF16 | DType::F32)
}

/// Steps an index over `dims` in row-major order; false after the last.
pub(super) fn advance(index: &mut [usize], dims: &[usize]) -> bool {
    for axis in (0..dims.len()).rev() {
        index[axis] += 1;
        if index[axis] < dims[axis] {
            return true;
        }
        index[axis] = 0;
    }
    false
}
