//! Values of COCO's files, which come as JSON from a file and as objects from Python.

use crate::array::View;
use octant_imaging::rle::Rle;
use octant_tensor::DType;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use serde_json::Value;

/// The largest image whose pixels the runs of a mask can count.
pub(super) const MOST_PIXELS: u64 = u32::MAX as u64;

/// A value of JSON or of Python. What it is not is none.
pub(super) trait Node: Sized {
    /// The value of a key; none where it is missing or null.
    fn get(&self, key: &str) -> Option<Self>;
    fn is_dictionary(&self) -> bool;
    fn integer(&self) -> Option<i64>;
    fn float(&self) -> Option<f64>;
    /// A number or a boolean that is not zero.
    fn is_true(&self) -> bool;
    /// A text, or bytes that are one.
    fn text(&self) -> Option<String>;
    fn list(&self) -> Option<Vec<Self>>;
    /// A list of numbers.
    fn floats(&self) -> Option<Vec<f64>>;
    /// The pixels of a mask, where it is an array of two axes.
    fn pixels(&self) -> Option<Result<Rle, String>>;
}

impl Node for &Value {
    fn get(&self, key: &str) -> Option<Self> {
        Value::get(self, key).filter(|value| !value.is_null())
    }

    fn is_dictionary(&self) -> bool {
        self.is_object()
    }

    fn integer(&self) -> Option<i64> {
        self.as_i64()
    }

    fn float(&self) -> Option<f64> {
        self.as_f64()
    }

    fn is_true(&self) -> bool {
        self.as_bool() == Some(true) || self.as_f64().is_some_and(|number| number != 0.0)
    }

    fn text(&self) -> Option<String> {
        self.as_str().map(str::to_string)
    }

    fn list(&self) -> Option<Vec<Self>> {
        Some(self.as_array()?.iter().collect())
    }

    fn floats(&self) -> Option<Vec<f64>> {
        self.as_array()?.iter().map(Value::as_f64).collect()
    }

    fn pixels(&self) -> Option<Result<Rle, String>> {
        None
    }
}

fn is_sequence(object: &Bound<PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}

impl Node for Bound<'_, PyAny> {
    fn get(&self, key: &str) -> Option<Self> {
        let value = self.cast::<PyDict>().ok()?.get_item(key).ok()??;
        Some(value).filter(|value| !value.is_none())
    }

    fn is_dictionary(&self) -> bool {
        self.is_instance_of::<PyDict>()
    }

    fn integer(&self) -> Option<i64> {
        self.extract().ok()
    }

    fn float(&self) -> Option<f64> {
        self.extract().ok()
    }

    fn is_true(&self) -> bool {
        self.is_truthy().unwrap_or(false)
    }

    fn text(&self) -> Option<String> {
        if let Ok(bytes) = self.cast::<PyBytes>() {
            return String::from_utf8(bytes.as_bytes().to_vec()).ok();
        }
        self.cast::<PyString>().ok()?.extract().ok()
    }

    fn list(&self) -> Option<Vec<Self>> {
        let is_list = is_sequence(self) || View::of(self).ok()?.is_some_and(|view| !view.shape().is_empty());
        if is_list { self.try_iter().ok()?.collect::<PyResult<_>>().ok() } else { None }
    }

    fn floats(&self) -> Option<Vec<f64>> {
        match is_sequence(self) {
            true => self.extract().ok(),
            false => View::of(self).ok()??.numbers().ok(),
        }
    }

    fn pixels(&self) -> Option<Result<Rle, String>> {
        if is_sequence(self) || self.is_dictionary() {
            return None;
        }
        let view = View::of(self).ok()??;
        Some(mask_of_pixels(&view).map_err(|error| match error {
            MaskError::Sentence(sentence) => sentence,
            MaskError::Python(error) => error.value(self.py()).to_string(),
        }))
    }
}

enum MaskError {
    Sentence(String),
    Python(PyErr),
}

fn mask_of_pixels(view: &View) -> Result<Rle, MaskError> {
    let [height, width] = view.shape()[..] else {
        let sentence = format!("its mask has shape {:?}; it is height × width", view.shape());
        return Err(MaskError::Sentence(sentence));
    };
    let is_small = (height as u64).checked_mul(width as u64).is_some_and(|pixels| pixels <= MOST_PIXELS);
    if !matches!(view.dtype(), DType::Bool | DType::U8) || !is_small || height * width == 0 {
        let sentence = format!("its mask of {height}×{width} pixels in {} is none of bool or uint8", view.dtype());
        return Err(MaskError::Sentence(sentence));
    }
    let tensor = view.to_tensor().map_err(MaskError::Python)?;
    let pixels = tensor.bytes();
    Ok(Rle::of(height, width, |row, column| pixels[row * width + column] != 0))
}
