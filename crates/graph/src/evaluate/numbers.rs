//! Between the bytes of host tensors and the numbers that the evaluator computes with; counter-based random bits: Threefry-2×32
//! with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

use crate::{DType, HostTensor, Shape};
use octant_tensor::{AlignedBytes, Bytes, Element, bf16, f16, threefry};

/// The elements of a tensor in the widest type of their kind. Bools are the integers 0 and 1.
pub enum Numbers {
    /// Of a float type.
    Floats(Vec<f64>),
    /// Of an integer type or bools.
    Integers(Vec<i128>),
}

/// Reads a tensor.
pub fn numbers(tensor: &HostTensor) -> Numbers {
    match tensor.dtype().is_float() {
        true => Numbers::Floats(tensor.to_f64s()),
        false => Numbers::Integers(integers(tensor)),
    }
}

/// Reads a tensor of integers or bools.
pub fn integers(tensor: &HostTensor) -> Vec<i128> {
    fn read<T: Element + Into<i128>>(tensor: &HostTensor) -> Vec<i128> {
        let elements = tensor.elements::<T>().expect("the type was just looked at");
        elements.iter().map(|&element| element.into()).collect()
    }
    match tensor.dtype() {
        DType::Bool => tensor.bytes().iter().map(|&byte| (byte != 0) as i128).collect(),
        DType::I8 => read::<i8>(tensor),
        DType::I16 => read::<i16>(tensor),
        DType::I32 => read::<i32>(tensor),
        DType::I64 => read::<i64>(tensor),
        DType::U8 => read::<u8>(tensor),
        DType::U16 => read::<u16>(tensor),
        DType::U32 => read::<u32>(tensor),
        DType::U64 => read::<u64>(tensor),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => unreachable!("shape inference requires integers here"),
    }
}

/// A tensor of a float type: each number rounded to the nearest, halves to the even one.
pub fn from_floats(shape: &Shape, values: &[f64]) -> HostTensor {
    fn make<T: Element>(shape: &Shape, values: &[f64], round: impl Fn(f64) -> T) -> HostTensor {
        let rounded: Vec<T> = values.iter().map(|&value| round(value)).collect();
        HostTensor::new(shape.dims(), &rounded).expect("there is one value per element")
    }
    match shape.dtype() {
        // Rounded once: not through f32, as some conversions of the half crate are.
        DType::F16 => make(shape, values, <f16 as Element>::from_f64),
        DType::BF16 => make(shape, values, <bf16 as Element>::from_f64),
        DType::F32 => make(shape, values, |value| value as f32),
        DType::F64 => make(shape, values, |value| value),
        _ => unreachable!("floats are written to float types only"),
    }
}

/// A tensor of an integer type, each number wrapped to its width, or of bools, each `!= 0`.
pub fn from_integers(shape: &Shape, values: &[i128]) -> HostTensor {
    let size = shape.dtype().size();
    let mut bytes = AlignedBytes::zeroed(values.len() * size);
    for (slot, &value) in bytes.chunks_exact_mut(size).zip(values) {
        match shape.dtype() {
            DType::Bool => slot[0] = (value != 0) as u8,
            // The low bytes of a number are the number wrapped to that width.
            _ => slot.copy_from_slice(&value.to_le_bytes()[..size]),
        }
    }
    if cfg!(target_endian = "big") {
        octant_tensor::swap_byte_order(&mut bytes, size);
    }
    HostTensor::from_bytes(shape.clone(), Bytes::new(bytes)).expect("there is one value per element")
}

/// The tensor of these numbers, rounded or wrapped to the shape's type.
pub fn from_numbers(shape: &Shape, numbers: &Numbers) -> HostTensor {
    match numbers {
        Numbers::Floats(values) => from_floats(shape, values),
        Numbers::Integers(values) => from_integers(shape, values),
    }
}

/// The least and the largest integer of a type.
pub fn integer_range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size() as u32;
    match (dtype, dtype.is_signed()) {
        (DType::Bool, _) => (0, 1),
        (_, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        (_, false) => (0, (1 << bits) - 1),
    }
}

pub fn random_bits(key: &HostTensor, dims: &[usize]) -> HostTensor {
    let key = key.elements::<u32>().expect("shape inference requires u32[2]");
    let words = |i: u64| threefry([key[0], key[1]], [i as u32, (i >> 32) as u32])[0];
    let bits: Vec<u32> = (0..dims.iter().product::<usize>() as u64).map(words).collect();
    HostTensor::new(dims, &bits).expect("there is one word per element")
}
