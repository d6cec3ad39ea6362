//! Tensors in event files, as far as numbers and strings go.

use super::read::{Field, fields};
use crate::wire::{Fields, Slice, Span};

/// TensorFlow's `DataType`.
mod data_type {
    pub const FLOAT: u64 = 1;
    pub const DOUBLE: u64 = 2;
    pub const INT32: u64 = 3;
    pub const STRING: u64 = 7;
    pub const INT64: u64 = 9;
    pub const BOOL: u64 = 10;
}

/// A tensor whose elements are numbers or strings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TensorValue {
    /// Its shape; empty for a single element.
    pub shape: Vec<usize>,
    /// Its numbers, of whatever type they were, row by row.
    pub numbers: Vec<f64>,
    /// Its strings.
    pub strings: Vec<Vec<u8>>,
}

impl TensorValue {
    /// Reads a `TensorProto`; `None` when it is malformed, or of a type that is neither a number nor a string.
    pub fn decode(bytes: &[u8]) -> Option<TensorValue> {
        let (mut tensor, mut dtype, mut content): (_, _, &[u8]) = (TensorValue::default(), 0, &[]);
        for field in fields(bytes) {
            match field? {
                (1, Field::Varint(kind)) => dtype = kind,
                (2, Field::Bytes(shape)) => tensor.shape = decode_shape(shape)?,
                (4, Field::Bytes(bytes)) => content = bytes,
                (5, Field::Fixed32(bits)) => tensor.numbers.push(f32::from_bits(bits).into()),
                (5, Field::Bytes(packed)) => tensor.numbers.extend(floats(packed)),
                (6, Field::Fixed64(bits)) => tensor.numbers.push(f64::from_bits(bits)),
                (6, Field::Bytes(packed)) => tensor.numbers.extend(doubles(packed)),
                (7 | 10 | 11, Field::Varint(value)) => tensor.numbers.push(value as i64 as f64),
                (7 | 10 | 11, Field::Bytes(packed)) => tensor.numbers.extend(varints(packed)?),
                (8, Field::Bytes(text)) => tensor.strings.push(text.to_vec()),
                _ => {}
            }
        }
        match dtype {
            data_type::FLOAT => tensor.numbers.extend(floats(content)),
            data_type::DOUBLE => tensor.numbers.extend(doubles(content)),
            data_type::INT32 => tensor.numbers.extend(numbers(content, i32::from_le_bytes).map(f64::from)),
            data_type::INT64 => tensor.numbers.extend(numbers(content, i64::from_le_bytes).map(|value| value as f64)),
            data_type::BOOL => tensor.numbers.extend(content.iter().map(|&byte| f64::from(byte))),
            data_type::STRING => {}
            _ => return None,
        }
        tensor.fill();
        Some(tensor)
    }

    /// A tensor of equal elements may be stored as one of them.
    fn fill(&mut self) {
        const MOST: usize = 1 << 24;
        let elements = self.shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size)).unwrap_or(0);
        if let Some(&last) = self.numbers.last().filter(|_| self.numbers.len() < elements && elements <= MOST) {
            self.numbers.resize(elements, last);
        }
    }
}

fn decode_shape(bytes: &[u8]) -> Option<Vec<usize>> {
    let mut shape = Vec::new();
    for field in fields(bytes) {
        let (2, Field::Bytes(dimension)) = field? else { continue };
        let mut size = 0;
        for field in fields(dimension) {
            if let (1, Field::Varint(value)) = field? {
                size = usize::try_from(value).ok()?;
            }
        }
        shape.push(size);
    }
    Some(shape)
}

fn numbers<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    bytes.as_chunks::<N>().0.iter().map(move |chunk| number(*chunk))
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f64> {
    numbers(bytes, f32::from_le_bytes).map(f64::from)
}

fn doubles(bytes: &[u8]) -> impl Iterator<Item = f64> {
    numbers(bytes, f64::from_le_bytes)
}

fn varints(bytes: &[u8]) -> Option<Vec<f64>> {
    let mut packed = Fields::of(Span { start: 0, end: bytes.len() as u64 });
    let mut values = Vec::new();
    while !packed.is_at_end() {
        values.push(packed.varint(&mut Slice { base: 0, bytes })? as i64 as f64);
    }
    Some(values)
}
