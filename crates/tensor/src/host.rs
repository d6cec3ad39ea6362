//! Tensors in this process's memory.

use crate::{AlignedBytes, Bytes, DType, Element, Shape, TensorError, bf16, f16};
use std::fmt;

/// A tensor whose elements lie in host memory, row-major and immutable; clones share the bytes.
#[derive(Clone)]
pub struct HostTensor {
    shape: Shape,
    bytes: Bytes,
}

impl HostTensor {
    /// A tensor over existing bytes. They are copied only when they are not aligned for their element type.
    pub fn from_bytes(shape: Shape, bytes: Bytes) -> Result<HostTensor, TensorError> {
        if shape.checked_bytes() != Some(bytes.len()) {
            let expected = shape.checked_bytes().unwrap_or(usize::MAX);
            return Err(TensorError::Size { shape, expected, given: bytes.len() });
        }
        let aligned = bytes.as_ptr().align_offset(shape.dtype().size()) == 0;
        let bytes = if aligned { bytes } else { Bytes::new(AlignedBytes::copy_of(&bytes)) };
        Ok(HostTensor { shape, bytes })
    }

    /// A tensor with a copy of `elements`.
    pub fn new<T: Element>(dims: impl Into<Vec<usize>>, elements: &[T]) -> Result<HostTensor, TensorError> {
        let bytes = AlignedBytes::copy_of(bytemuck::cast_slice(elements));
        HostTensor::from_bytes(Shape::new(T::DTYPE, dims), Bytes::new(bytes))
    }

    /// A tensor whose elements `fill` writes where they stay; they are zero before.
    pub fn filled<T: Element>(dims: impl Into<Vec<usize>>, fill: impl FnOnce(&mut [T])) -> HostTensor {
        let shape = Shape::new(T::DTYPE, dims);
        let mut bytes = AlignedBytes::zeroed(shape.bytes());
        fill(bytemuck::cast_slice_mut(&mut bytes));
        HostTensor { shape, bytes: Bytes::new(bytes) }
    }

    /// A single element.
    pub fn scalar<T: Element>(element: T) -> HostTensor {
        let bytes = Bytes::new(AlignedBytes::copy_of(bytemuck::bytes_of(&element)));
        HostTensor { shape: Shape::scalar(T::DTYPE), bytes }
    }

    /// All elements zero (or false).
    pub fn zeros(shape: Shape) -> HostTensor {
        let bytes = Bytes::new(AlignedBytes::zeroed(shape.bytes()));
        HostTensor { shape, bytes }
    }

    /// Elements of any type from double-precision values; integers truncate and saturate, `Bool` is `value != 0`.
    pub fn from_f64s(shape: Shape, values: &[f64]) -> Result<HostTensor, TensorError> {
        let mut bytes = AlignedBytes::zeroed(values.len() * shape.dtype().size());
        fn fill<T: Element>(bytes: &mut [u8], values: &[f64]) {
            let slots: &mut [T] = bytemuck::cast_slice_mut(bytes);
            for (slot, &value) in slots.iter_mut().zip(values) {
                *slot = T::from_f64(value);
            }
        }
        match shape.dtype() {
            DType::Bool => bytes.iter_mut().zip(values).for_each(|(slot, &value)| *slot = (value != 0.0) as u8),
            DType::I8 => fill::<i8>(&mut bytes, values),
            DType::I16 => fill::<i16>(&mut bytes, values),
            DType::I32 => fill::<i32>(&mut bytes, values),
            DType::I64 => fill::<i64>(&mut bytes, values),
            DType::U8 => fill::<u8>(&mut bytes, values),
            DType::U16 => fill::<u16>(&mut bytes, values),
            DType::U32 => fill::<u32>(&mut bytes, values),
            DType::U64 => fill::<u64>(&mut bytes, values),
            DType::F16 => fill::<f16>(&mut bytes, values),
            DType::BF16 => fill::<bf16>(&mut bytes, values),
            DType::F32 => fill::<f32>(&mut bytes, values),
            DType::F64 => fill::<f64>(&mut bytes, values),
        }
        HostTensor::from_bytes(shape, Bytes::new(bytes))
    }

    /// Every element in double precision, whatever its type (64-bit integers beyond 2^53 are rounded).
    pub fn to_f64s(&self) -> Vec<f64> {
        fn read<T: Element>(bytes: &[u8]) -> Vec<f64> {
            bytemuck::cast_slice::<u8, T>(bytes).iter().map(|element| element.to_f64()).collect()
        }
        match self.dtype() {
            DType::Bool | DType::U8 => read::<u8>(&self.bytes),
            DType::I8 => read::<i8>(&self.bytes),
            DType::I16 => read::<i16>(&self.bytes),
            DType::I32 => read::<i32>(&self.bytes),
            DType::I64 => read::<i64>(&self.bytes),
            DType::U16 => read::<u16>(&self.bytes),
            DType::U32 => read::<u32>(&self.bytes),
            DType::U64 => read::<u64>(&self.bytes),
            DType::F16 => read::<f16>(&self.bytes),
            DType::BF16 => read::<bf16>(&self.bytes),
            DType::F32 => read::<f32>(&self.bytes),
            DType::F64 => read::<f64>(&self.bytes),
        }
    }

    /// The elements, when they are of type `T`.
    pub fn elements<T: Element>(&self) -> Result<&[T], TensorError> {
        if self.dtype() != T::DTYPE {
            return Err(TensorError::DType { actual: self.dtype(), requested: T::DTYPE });
        }
        Ok(bytemuck::cast_slice(&self.bytes))
    }

    /// The same bytes under other dimensions of the same number of elements.
    pub fn reshape(&self, dims: impl Into<Vec<usize>>) -> Result<HostTensor, TensorError> {
        HostTensor::from_bytes(self.shape.with_dims(dims), self.bytes.clone())
    }

    /// The same tensor with every bool 0 or 1, for elements that come from files; other types stay as they are.
    pub fn with_normalized_bools(self) -> HostTensor {
        if self.dtype() != DType::Bool || self.bytes.iter().all(|&byte| byte <= 1) {
            return self;
        }
        let mut clean = AlignedBytes::copy_of(&self.bytes);
        clean.iter_mut().for_each(|byte| *byte = (*byte != 0) as u8);
        HostTensor { shape: self.shape, bytes: Bytes::new(clean) }
    }

    /// Element type and dimensions.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.shape.dtype()
    }

    /// The length of every axis.
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }

    /// The raw elements in the machine's byte order.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl PartialEq for HostTensor {
    /// Bitwise equality: a NaN equals itself, and 0 differs from -0.
    fn eq(&self, other: &HostTensor) -> bool {
        self.shape == other.shape && self.bytes[..] == other.bytes[..]
    }
}

impl fmt::Debug for HostTensor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const SHOWN: usize = 16;
        write!(f, "{} ", self.shape)?;
        let values = self.to_f64s();
        let mut list = f.debug_list();
        list.entries(values.iter().take(SHOWN));
        if values.len() > SHOWN {
            list.entry(&format_args!("… {} more", values.len() - SHOWN));
        }
        list.finish()
    }
}
