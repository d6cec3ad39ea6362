//! Tensors of the Open Inference Protocol, and requests and responses over HTTP: JSON, with tensors in it or behind it.

mod json;

use crate::error::{Refusal, invalid};
use axum::body::Bytes;
use std::time::Duration;

pub(crate) use json::{read_request, write_response};

/// The element types that networks here take and return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataType {
    Uint8,
    Int64,
    Fp32,
    /// Strings of bytes of any length.
    Bytes,
}

impl DataType {
    const ALL: [DataType; 4] = [DataType::Uint8, DataType::Int64, DataType::Fp32, DataType::Bytes];

    pub fn name(self) -> &'static str {
        match self {
            DataType::Uint8 => "UINT8",
            DataType::Int64 => "INT64",
            DataType::Fp32 => "FP32",
            DataType::Bytes => "BYTES",
        }
    }

    /// Bytes per element; none where they vary.
    fn size(self) -> Option<usize> {
        match self {
            DataType::Uint8 => Some(1),
            DataType::Fp32 => Some(4),
            DataType::Int64 => Some(8),
            DataType::Bytes => None,
        }
    }

    pub fn named(name: &str) -> Result<DataType, Refusal> {
        let found = DataType::ALL.into_iter().find(|datatype| datatype.name() == name);
        found.ok_or_else(|| invalid!("no input here is of {name:?}; the model's metadata has the types"))
    }
}

/// A tensor in a model's metadata.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorSpec {
    pub name: &'static str,
    pub datatype: DataType,
    /// The length of every axis; none where it varies.
    pub dims: Vec<Option<usize>>,
}

impl TensorSpec {
    pub fn new(name: &'static str, datatype: DataType, dims: &[Option<usize>]) -> TensorSpec {
        TensorSpec { name, datatype, dims: dims.to_vec() }
    }

    /// The shape as the protocol writes it: -1 where it varies.
    pub fn shape(&self) -> Vec<i64> {
        self.dims.iter().map(|dim| dim.and_then(|dim| i64::try_from(dim).ok()).unwrap_or(-1)).collect()
    }
}

/// The elements of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    /// Little-endian elements of one size, as the machines are that this runs on.
    Raw(Bytes),
    /// Strings of bytes.
    Strings(Vec<Bytes>),
}

impl Data {
    pub fn of_f32s(values: &[f32]) -> Data {
        Data::Raw(Bytes::copy_from_slice(bytemuck::cast_slice(values)))
    }

    pub fn of_i64s(values: &[i64]) -> Data {
        Data::Raw(Bytes::copy_from_slice(bytemuck::cast_slice(values)))
    }

    /// The bytes behind a request or response: strings have their length before them.
    pub fn packed(&self) -> Bytes {
        match self {
            Data::Raw(bytes) => bytes.clone(),
            Data::Strings(strings) => {
                let mut packed = Vec::with_capacity(strings.iter().map(|string| string.len() + 4).sum());
                for string in strings {
                    packed.extend((string.len() as u32).to_le_bytes());
                    packed.extend(string);
                }
                packed.into()
            }
        }
    }
}

/// A tensor of a request or a response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    pub name: String,
    pub datatype: DataType,
    pub shape: Vec<usize>,
    pub data: Data,
}

impl Tensor {
    /// A tensor of a request, from packed bytes. They must be as many as the shape says.
    pub fn unpacked(name: &str, datatype: &str, shape: &[i64], bytes: &Bytes) -> Result<Tensor, Refusal> {
        let (datatype, shape, count) = checked(name, datatype, shape)?;
        let data = match datatype.size() {
            Some(size) => {
                let wanted = count.checked_mul(size);
                if wanted != Some(bytes.len()) {
                    return Err(invalid!(
                        "input {name:?} of shape {shape:?} and type {} has {} bytes, not {}",
                        datatype.name(),
                        wanted.map_or("too many".into(), |wanted| wanted.to_string()),
                        bytes.len()
                    ));
                }
                Data::Raw(bytes.clone())
            }
            None => Data::Strings(strings(name, bytes, count)?),
        };
        Ok(Tensor { name: name.into(), datatype, shape, data })
    }

    /// A tensor of a request, from its elements.
    pub fn of_elements(name: &str, datatype: &str, shape: &[i64], elements: Elements) -> Result<Tensor, Refusal> {
        let (datatype, shape, count) = checked(name, datatype, shape)?;
        let wrong =
            |what: &str| invalid!("the elements of input {name:?} are no {what}, which {} means", datatype.name());
        let given = elements.len();
        let data = match (datatype, elements) {
            (DataType::Fp32, Elements::Numbers(numbers)) => {
                // Beyond the range of f32 a number would become infinite.
                if let Some(number) = numbers.iter().find(|number| number.abs() > f64::from(f32::MAX)) {
                    return Err(invalid!("{number} in input {name:?} is larger than FP32 can hold"));
                }
                Data::of_f32s(&numbers.iter().map(|&number| number as f32).collect::<Vec<_>>())
            }
            (DataType::Uint8, Elements::Numbers(numbers)) => {
                let byte =
                    |&number: &f64| (number.fract() == 0.0 && (0.0..=255.0).contains(&number)).then_some(number as u8);
                let bytes: Option<Vec<u8>> = numbers.iter().map(byte).collect();
                Data::Raw(bytes.ok_or_else(|| wrong("whole numbers from 0 to 255"))?.into())
            }
            (DataType::Bytes, Elements::Strings(strings)) => Data::Strings(strings),
            (DataType::Int64, _) => return Err(invalid!("input {name:?} is not of INT64")),
            (DataType::Fp32 | DataType::Uint8, Elements::Strings(_)) => return Err(wrong("numbers")),
            (DataType::Bytes, Elements::Numbers(_)) => return Err(wrong("strings")),
        };
        if given != count {
            return Err(invalid!("input {name:?} of shape {shape:?} has {count} elements, not {given}"));
        }
        Ok(Tensor { name: name.into(), datatype, shape, data })
    }
}

/// Elements that came one by one, in JSON or in a message.
pub(crate) enum Elements {
    Numbers(Vec<f64>),
    Strings(Vec<Bytes>),
}

impl Elements {
    fn len(&self) -> usize {
        match self {
            Elements::Numbers(numbers) => numbers.len(),
            Elements::Strings(strings) => strings.len(),
        }
    }
}

/// The type and the shape of an input, and the number of its elements.
fn checked(name: &str, datatype: &str, shape: &[i64]) -> Result<(DataType, Vec<usize>, usize), Refusal> {
    let dims: Option<Vec<usize>> = shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let count = dims.as_ref().and_then(|dims| dims.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim)));
    let (Some(dims), Some(count)) = (dims, count) else {
        return Err(invalid!("{shape:?} cannot be the shape of input {name:?}"));
    };
    Ok((DataType::named(datatype)?, dims, count))
}

/// Strings with their length before them.
fn strings(name: &str, bytes: &Bytes, count: usize) -> Result<Vec<Bytes>, Refusal> {
    let wrong = || invalid!("input {name:?} is not {count} strings, each behind its length in 4 bytes");
    let mut strings = Vec::new();
    let mut rest = bytes.clone();
    while !rest.is_empty() {
        let Some(length) = rest.first_chunk::<4>() else { return Err(wrong()) };
        let length = u32::from_le_bytes(*length) as usize;
        if strings.len() == count || rest.len() - 4 < length {
            return Err(wrong());
        }
        strings.push(rest.slice(4..4 + length));
        rest = rest.slice(4 + length..);
    }
    if strings.len() == count { Ok(strings) } else { Err(wrong()) }
}

/// An inference request, whatever it came by.
#[derive(Debug, Default)]
pub(crate) struct InferRequest {
    pub id: String,
    pub inputs: Vec<Tensor>,
    /// The outputs that are wanted; all if none is named.
    pub outputs: Vec<String>,
    pub timeout: Option<Duration>,
}

/// Its response.
#[derive(Debug)]
pub(crate) struct InferResponse {
    pub model: String,
    pub version: u64,
    pub id: String,
    pub outputs: Vec<Tensor>,
}
