//! Values of Python as values of recipes, and JSON as objects of Python.

use crate::error::refused;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::Value as Json;
use std::path::PathBuf;
use toml::{Table, Value};

/// A value of a setting. `None` has no meaning of its own, so it is refused instead of guessed.
pub(crate) fn to_toml(object: &Bound<PyAny>, key: &str) -> PyResult<Value> {
    if object.is_none() {
        return Err(refused(format!("`{key}` is None; leave it out to keep the value that the recipe has")));
    }
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(Value::Boolean(value.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return Ok(Value::Integer(object.extract().map_err(|_| refused(format!("`{key}` = {object} is too large")))?));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(object.extract()?));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::String(text.to_string()));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        let item = |(name, value): (Bound<PyAny>, Bound<PyAny>)| -> PyResult<(String, Value)> {
            let name: String = name.extract()?;
            let inner = to_toml(&value, &format!("{key}.{name}"))?;
            Ok((name, inner))
        };
        return Ok(Value::Table(dict.iter().map(item).collect::<PyResult<Table>>()?));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.enumerate();
        let items = items.map(|(number, item)| to_toml(&item?, &format!("{key}.{number}")));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    // Paths, then the scalars of NumPy.
    if let Ok(path) = object.extract::<PathBuf>() {
        return Ok(Value::String(path.display().to_string()));
    }
    if let Ok(number) = object.call_method0("__index__") {
        return to_toml(&number, key);
    }
    if let Ok(number) = object.call_method0("__float__") {
        return to_toml(&number, key);
    }
    let kind = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("`{key}` must be a number, a text, a path, a list or a dictionary, not {kind}")))
}

/// JSON as Python's `json` module would read it.
pub(crate) fn from_json<'py>(py: Python<'py>, value: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => number.into_pyobject(py)?.into_any(),
            (_, Some(number), _) => number.into_pyobject(py)?.into_any(),
            (_, _, number) => number.into_pyobject(py)?.into_any(),
        },
        Json::String(text) => text.into_pyobject(py)?.into_any(),
        Json::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| from_json(py, item)).collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_any()
        }
        Json::Object(items) => {
            let dict = PyDict::new(py);
            items.iter().try_for_each(|(key, item)| dict.set_item(key, from_json(py, item)?))?;
            dict.into_any()
        }
    })
}
