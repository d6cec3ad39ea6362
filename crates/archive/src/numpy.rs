//! NumPy arrays inside pickles: CIFAR's batches, scalars in checkpoints.

use crate::error::Fault;
use crate::pickle::{Object, PickleValue};
use crate::{ArchiveError, Bytes};
use octant_tensor::{AlignedBytes, DType, HostTensor, Shape, swap_byte_order};
use std::path::Path;

/// The tensor that a pickled NumPy array or scalar stands for. It shares the pickle's bytes when they are in row-major
/// order and aligned. `path` is for error messages only.
pub fn numpy_array(value: PickleValue, path: &Path) -> Result<HostTensor, ArchiveError> {
    read(value).map_err(|fault| fault.at("read", path))
}

fn read(value: PickleValue) -> Result<HostTensor, Fault> {
    let object = value.as_object().ok_or_else(|| Fault::Damaged(format!("{value} is not a NumPy array")))?;
    let array = match object.name {
        "_reconstruct" => reconstructed(object)?,
        "_frombuffer" => from_buffer(object)?,
        "scalar" => scalar(object)?,
        _ => return Err(Fault::Damaged(format!("{value} is not a NumPy array"))),
    };
    array.tensor()
}

/// What NumPy stores of an array.
struct Array<'a> {
    dims: Vec<usize>,
    dtype: PickleValue<'a>,
    fortran_order: bool,
    elements: &'a Bytes,
}

/// State of `ndarray.__setstate__`: (version, shape, dtype, is_fortran, elements).
fn reconstructed(object: Object) -> Result<Array, Fault> {
    let part = |index| object.state.and_then(|state| state.item(index)).ok_or_else(incomplete);
    let elements =
        part(4)?.as_bytes().ok_or_else(|| Fault::damaged("a NumPy array holds Python objects, not numbers"))?;
    let fortran_order = bool_or_integer(part(3)?).ok_or_else(incomplete)?;
    Ok(Array { dims: dims(part(1)?)?, dtype: part(2)?, fortran_order, elements })
}

/// Arguments of `_frombuffer`, used by protocol 5: (elements, dtype, shape, order).
fn from_buffer(object: Object) -> Result<Array, Fault> {
    let part = |index| object.args.item(index).ok_or_else(incomplete);
    let elements = part(0)?.as_bytes().ok_or_else(incomplete)?;
    let fortran_order = part(3)?.as_str() == Some("F");
    Ok(Array { dims: dims(part(2)?)?, dtype: part(1)?, fortran_order, elements })
}

/// Arguments of `scalar`: (dtype, element).
fn scalar(object: Object) -> Result<Array, Fault> {
    let part = |index| object.args.item(index).ok_or_else(incomplete);
    let elements = part(1)?.as_bytes().ok_or_else(incomplete)?;
    Ok(Array { dims: vec![], dtype: part(0)?, fortran_order: false, elements })
}

fn incomplete() -> Fault {
    Fault::damaged("a NumPy array is incomplete")
}

/// A bool, which Python 2 stored as an integer.
fn bool_or_integer(value: PickleValue) -> Option<bool> {
    value.as_bool().or_else(|| value.as_int().map(|number| number != 0))
}

pub(crate) fn dims(value: PickleValue) -> Result<Vec<usize>, Fault> {
    const MOST_AXES: usize = 64;
    let items = value.items().ok_or_else(|| Fault::damaged("a shape is not a tuple"))?;
    if items.len() > MOST_AXES {
        return Err(Fault::Damaged(format!("a shape has {} axes; at most {MOST_AXES} make sense", items.len())));
    }
    let dims: Option<Vec<usize>> = items.map(PickleValue::as_usize).collect();
    dims.ok_or_else(|| Fault::damaged("a shape has an axis that is not a length"))
}

impl Array<'_> {
    fn tensor(self) -> Result<HostTensor, Fault> {
        let (dtype, swapped) = element_type(self.dtype)?;
        let shape = Shape::new(dtype, self.dims);
        let mut elements = self.elements.clone();
        if shape.checked_bytes() != Some(elements.len()) {
            return Err(Fault::Damaged(format!("a NumPy array is {shape} but has {} bytes", elements.len())));
        }
        if swapped {
            let mut copy = AlignedBytes::copy_of(&elements);
            swap_byte_order(&mut copy, dtype.size());
            elements = Bytes::new(copy);
        }
        if !self.fortran_order {
            return Ok(HostTensor::from_bytes(shape, elements)?.with_normalized_bools());
        }
        let mut strides = vec![1; shape.rank()];
        for axis in 1..shape.rank() {
            strides[axis] = strides[axis - 1] * shape.dims()[axis - 1];
        }
        Ok(HostTensor::from_strides(shape, &elements, 0, &strides)?.with_normalized_bools())
    }
}

/// A dtype is `numpy.dtype('u1', …)` with the state (version, byte order, …).
fn element_type(value: PickleValue) -> Result<(DType, bool), Fault> {
    let object = value.as_object().filter(|object| object.name == "dtype").ok_or_else(incomplete)?;
    let code = object.args.item(0).and_then(PickleValue::as_str).ok_or_else(incomplete)?;
    let dtype = match code {
        "b1" => DType::Bool,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        _ => {
            return Err(Fault::Damaged(format!("a NumPy array has elements of type {code:?}, which is not supported")));
        }
    };
    let order = object.state.and_then(|state| state.item(1)).and_then(PickleValue::as_str);
    let foreign = if cfg!(target_endian = "big") { "<" } else { ">" };
    Ok((dtype, order == Some(foreign)))
}
