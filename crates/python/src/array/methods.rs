//! Arrays as Python sees them, and the memory of Python's objects.

use super::{Array, View, type_name};
use crate::dlpack;
use octant_tensor::DType;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyIndexError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString, PyTuple};

fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
    }
}

#[pymethods]
impl Array {
    /// The length of every axis.
    #[getter(shape)]
    fn dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape())
    }

    /// The element type: NumPy's where NumPy is installed, else its name. Both equal the name: `array.dtype == "float32"`.
    #[getter(dtype)]
    fn numpy_dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let name = PyString::new(py, dtype_name(self.dtype())).into_any();
        // NumPy, and JAX by its functions, take an array whose `dtype` is no type of NumPy's for none at all.
        let Ok(numpy) = py.import("numpy") else { return Ok(name) };
        // It knows bf16 only where another package has added it.
        Ok(numpy.call_method1("dtype", (&name,)).unwrap_or(name))
    }

    /// How many axes it has.
    #[getter]
    fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// How many elements it has.
    #[getter]
    fn size(&self) -> usize {
        self.shape.elements()
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(name) = type_name(self.dtype()) else {
            return Err(PyAttributeError::new_err(
                "NumPy has no bf16; read it by DLPack, such as with torch.from_dlpack",
            ));
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", name)?;
        interface.set_item("shape", self.dims(py)?)?;
        interface.set_item("data", (self.start as usize, self.readonly))?;
        Ok(interface)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let refused = |sentence| Err(PyBufferError::new_err(sentence));
        if stream.is_some_and(|stream| !stream.is_none()) {
            return refused(
                "streams are of accelerators, and the array lies in the processor's memory; leave `stream` out",
            );
        }
        if dl_device.is_some_and(|device| device != dlpack::DEVICE) {
            return refused("the array lies in the processor's memory");
        }
        // Capsules before version 1 cannot forbid writing, so the consumer gets a copy to write to.
        let needs_copy = self.readonly && !dlpack::is_versioned(max_version);
        match copy {
            Some(false) if needs_copy => refused(
                "the array is read-only, which only capsules of DLPack 1 can say: allow a copy, or give `max_version`",
            ),
            _ if copy == Some(true) || needs_copy => dlpack::export(py, &self.copied(), max_version),
            _ => dlpack::export(py, self, max_version),
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::DEVICE
    }

    /// The same memory as a NumPy array.
    fn numpy<'py>(slf: &Bound<'py, Array>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("numpy")?.call_method1("asarray", (slf,))
    }

    /// The elements as nested lists.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.list(py, self.shape(), 0)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.shape()
            .first()
            .copied()
            .ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("a single element has no length"))
    }

    /// What NumPy would return. Without NumPy, a number counts along the first axis.
    fn __getitem__<'py>(slf: &Bound<'py, Array>, key: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let array = slf.get();
        // What NumPy has no interface for it would read item by item, and come back here.
        if type_name(array.dtype()).is_some()
            && let Ok(array) = Array::numpy(slf)
        {
            return array.get_item(key);
        }
        let index: isize = key.extract()?;
        let length = array.__len__()? as isize;
        let at = if index < 0 { index + length } else { index };
        if at < 0 || at >= length {
            return Err(PyIndexError::new_err(format!("{index} is outside of an array with {length}")));
        }
        let inner = &array.shape()[1..];
        array.list(py, inner, at as usize * inner.iter().product::<usize>())
    }

    fn __repr__(&self, py: Python) -> PyResult<String> {
        const SHOWN: usize = 32;
        let dims = self.shape();
        if self.shape.elements() > SHOWN {
            return Ok(format!("<octant.Array {} {dims:?}>", dtype_name(self.dtype())));
        }
        Ok(format!("octant.Array({}, {})", self.tolist(py)?.repr()?, dtype_name(self.dtype())))
    }
}

impl View {
    /// The memory of an object: by `__array_interface__` or `__dlpack__`. None for other objects.
    pub fn of(object: &Bound<PyAny>) -> PyResult<Option<View>> {
        if let Ok(interface) = object.getattr("__array_interface__") {
            return View::of_interface(object, &interface).map(Some);
        }
        match object.hasattr("__dlpack__")? {
            true => dlpack::import(object).map(Some),
            false => Ok(None),
        }
    }

    /// The same, where nothing else would do; `what` is named in the error.
    pub fn required(object: &Bound<PyAny>, what: &str) -> PyResult<View> {
        View::of(object)?.ok_or_else(|| {
            let kind = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
            pyo3::exceptions::PyTypeError::new_err(format!(
                "{what} must be an array (of NumPy, PyTorch, JAX or octant), not {kind}"
            ))
        })
    }
}
