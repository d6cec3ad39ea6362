//! Arrays: memory of ours that Python reads without a copy, and memory of Python's libraries that we read.

mod methods;

use crate::error::refused;
use octant_imaging::{Channel, Image};
use octant_tensor::{AlignedBytes, Bytes, DType, Element, HostTensor, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyList, PyTuple};
use std::any::Any;
use std::sync::Arc;

/// Elements of one type in memory, row by row. NumPy, PyTorch and JAX read it without a copy: `numpy.asarray(array)`,
/// `torch.from_dlpack(array)` or `torch.as_tensor(array)`, `jax.dlpack.from_dlpack(array)`; `jax.numpy.asarray(array)` converts
/// float64 as it does NumPy's arrays.
///
/// ```python
/// >>> import numpy
/// >>> array = octant.imaging.resize(numpy.zeros((8, 8), "uint8"), (2, 3))
/// >>> array.shape, array.dtype == "uint8", array.tolist()
/// ((2, 3), True, [[0, 0, 0], [0, 0, 0]])
///
/// ```
#[pyclass(frozen, module = "octant")]
pub(crate) struct Array {
    memory: Arc<dyn Any + Send + Sync>,
    /// Where the elements begin; the memory keeps them there.
    start: *const u8,
    shape: Shape,
    readonly: bool,
}

// SAFETY: `start` points into `memory`, which is `Send` and `Sync` and neither moves nor frees its elements while it is held.
unsafe impl Send for Array {}
// SAFETY: as above; this type itself only reads them.
unsafe impl Sync for Array {}

impl Array {
    /// Elements that nobody else holds.
    pub fn of_vec<T: Element + Sync + Send + 'static>(dims: &[usize], mut elements: Vec<T>) -> Array {
        debug_assert_eq!(dims.iter().product::<usize>(), elements.len());
        let start = elements.as_mut_ptr() as *const u8;
        Array { start, shape: Shape::new(T::DTYPE, dims), memory: Arc::new(elements), readonly: false }
    }

    /// A tensor that nobody else holds.
    pub fn of_tensor(tensor: HostTensor) -> Array {
        let (start, shape) = (tensor.bytes().as_ptr(), tensor.shape().clone());
        Array { start, shape, memory: Arc::new(tensor), readonly: false }
    }

    /// Its first rows, in the same memory.
    pub fn first(self, rows: usize) -> Array {
        let mut dims = self.shape().to_vec();
        dims.iter_mut().take(1).for_each(|count| *count = rows.min(*count));
        Array { shape: self.shape.with_dims(dims), ..self }
    }

    /// Elements of something that others hold too: Python may read them.
    pub fn shared<O: Send + Sync + 'static, T: Element>(
        owner: Arc<O>,
        dims: &[usize],
        elements: impl FnOnce(&O) -> &[T],
    ) -> Array {
        let start = elements(&owner).as_ptr() as *const u8;
        Array { start, shape: Shape::new(T::DTYPE, dims), memory: owner, readonly: true }
    }

    /// An array of the same shape over other memory, which an object of Python keeps.
    pub fn moved(&self, start: usize, owner: Py<PyAny>) -> Array {
        let start = std::ptr::with_exposed_provenance(start);
        Array { memory: Arc::new(owner), start, shape: self.shape.clone(), readonly: false }
    }

    /// A copy, which nobody else holds.
    pub fn copied(&self) -> Array {
        let copy = HostTensor::from_bytes(self.shape.clone(), Bytes::new(AlignedBytes::copy_of(self.bytes())));
        // A copy has as many bytes as its original.
        copy.map_or_else(|_| Array::of_vec::<u8>(&[0], Vec::new()), Array::of_tensor)
    }

    pub fn memory(&self) -> Arc<dyn Any + Send + Sync> {
        self.memory.clone()
    }

    pub fn start(&self) -> *const u8 {
        self.start
    }

    pub fn shape(&self) -> &[usize] {
        self.shape.dims()
    }

    pub fn dtype(&self) -> DType {
        self.shape.dtype()
    }

    pub fn is_readonly(&self) -> bool {
        self.readonly
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory holds that many bytes from `start` on, for as long as it is held here.
        unsafe { std::slice::from_raw_parts(self.start, self.shape.bytes()) }
    }

    /// Nested lists of the elements from `offset` on, over these axes.
    fn list<'py>(&self, py: Python<'py>, axes: &[usize], offset: usize) -> PyResult<Bound<'py, PyAny>> {
        let Some((&length, inner)) = axes.split_first() else { return self.element(py, offset) };
        let step: usize = inner.iter().product();
        let items: Vec<_> =
            (0..length).map(|index| self.list(py, inner, offset + index * step)).collect::<PyResult<_>>()?;
        Ok(PyList::new(py, items)?.into_any())
    }

    fn element<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let size = self.dtype().size();
        let bytes = &self.bytes()[index * size..][..size];
        let one = HostTensor::from_bytes(Shape::scalar(self.dtype()), Bytes::new(AlignedBytes::copy_of(bytes)));
        let one = one.map_err(refused)?;
        let value = one.to_f64s()[0];
        Ok(match self.dtype() {
            DType::Bool => (value != 0.0).into_pyobject(py)?.to_owned().into_any(),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => value.into_pyobject(py)?.into_any(),
            DType::I64 => one.elements::<i64>().map_err(refused)?[0].into_pyobject(py)?.into_any(),
            DType::U64 => one.elements::<u64>().map_err(refused)?[0].into_pyobject(py)?.into_any(),
            DType::I8 | DType::I16 | DType::I32 | DType::U8 | DType::U16 | DType::U32 => {
                (value as i64).into_pyobject(py)?.into_any()
            }
        })
    }
}

/// NumPy's name of an element type. It has none for bf16.
fn type_name(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::BF16 => return None,
    })
}

/// Memory of another library: elements at strides from a first one, kept alive by an object.
pub(crate) struct View {
    start: *const u8,
    dtype: DType,
    shape: Vec<usize>,
    /// In bytes.
    strides: Vec<isize>,
    _owner: Py<PyAny>,
}

impl View {
    /// The view of a shape; without strides, elements lie row by row.
    pub fn new(
        start: *const u8,
        dtype: DType,
        shape: &[i64],
        strides: Option<Vec<isize>>,
        owner: Py<PyAny>,
    ) -> PyResult<View> {
        let sides = shape.iter().map(|&side| usize::try_from(side));
        let shape: Vec<usize> =
            sides.collect::<Result<_, _>>().map_err(|_| refused("a side of the array is negative"))?;
        let count = shape.iter().try_fold(dtype.size(), |bytes, &side| bytes.checked_mul(side.max(1)));
        if count.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(refused(format!("an array of shape {shape:?} is larger than memory")));
        }
        let strides = match strides {
            Some(strides) if strides.len() != shape.len() => {
                return Err(refused(format!("the array has {} strides for shape {shape:?}", strides.len())));
            }
            Some(strides) => strides,
            None => {
                let mut strides = vec![dtype.size() as isize; shape.len()];
                for axis in (1..shape.len()).rev() {
                    strides[axis - 1] = strides[axis] * shape[axis] as isize;
                }
                strides
            }
        };
        if start.is_null() && !shape.contains(&0) {
            return Err(refused("the array has no memory"));
        }
        Ok(View { start, dtype, shape, strides, _owner: owner })
    }

    fn of_interface(object: &Bound<PyAny>, interface: &Bound<PyAny>) -> PyResult<View> {
        let get = |key: &str| interface.get_item(key).ok().filter(|value| !value.is_none());
        let name: String = get("typestr").ok_or_else(|| refused("the array names no type"))?.extract()?;
        let is_named = |dtype: &DType| {
            type_name(*dtype).is_some_and(|own| own == name || (own[1..] == name[1..] && dtype.size() == 1))
        };
        let Some(dtype) = DType::ALL.into_iter().find(is_named) else {
            return Err(refused(format!("elements of NumPy's type {name} are not known here")));
        };
        let shape: Vec<i64> = get("shape").ok_or_else(|| refused("the array has no shape"))?.extract()?;
        let strides: Option<Vec<isize>> = get("strides").map(|strides| strides.extract()).transpose()?;
        let Some(data) = get("data") else { return Err(refused("the array does not say where its memory is")) };
        if let Ok(bytes) = data.cast::<PyBytes>() {
            let wanted = shape.iter().try_fold(dtype.size() as i64, |bytes, side| bytes.checked_mul(*side));
            if wanted != Some(bytes.as_bytes().len() as i64) || strides.is_some() {
                return Err(refused("the array has another number of bytes than its shape"));
            }
            return View::new(bytes.as_bytes().as_ptr(), dtype, &shape, None, bytes.clone().into_any().unbind());
        }
        let (start, _): (usize, bool) = data.extract()?;
        // Some objects make their memory for the interface alone, so both are kept.
        let owner = PyTuple::new(object.py(), [object, interface])?.into_any().unbind();
        View::new(start as *const u8, dtype, &shape, strides, owner)
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The parts along the first axis.
    pub fn parts(&self, py: Python) -> Vec<View> {
        let (Some(&count), Some(&stride)) = (self.shape.first(), self.strides.first()) else { return Vec::new() };
        let part = |index: usize| View {
            start: self.start.wrapping_offset(index as isize * stride),
            dtype: self.dtype,
            shape: self.shape[1..].to_vec(),
            strides: self.strides[1..].to_vec(),
            _owner: self._owner.clone_ref(py),
        };
        (0..count).map(part).collect()
    }

    /// A copy of the elements, row by row, in their own type.
    fn copied_bytes(&self) -> Vec<u8> {
        let size = self.dtype.size();
        let mut bytes = Vec::with_capacity(self.shape.iter().product::<usize>() * size);
        if !self.shape.contains(&0) {
            self.append(&mut bytes, self.start, 0);
        }
        bytes
    }

    fn append(&self, bytes: &mut Vec<u8>, start: *const u8, axis: usize) {
        let size = self.dtype.size();
        let is_dense = {
            let mut expected = size as isize;
            (axis..self.shape.len()).rev().all(|inner| {
                let dense = self.shape[inner] == 1 || self.strides[inner] == expected;
                expected *= self.shape[inner] as isize;
                dense
            })
        };
        if is_dense {
            let length = self.shape[axis..].iter().product::<usize>() * size;
            // SAFETY: the owner's shape and strides say that these bytes lie there, one behind the other, and it is alive.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, length) });
            return;
        }
        for index in 0..self.shape[axis] {
            self.append(bytes, start.wrapping_offset(index as isize * self.strides[axis]), axis + 1);
        }
    }

    /// A copy as a tensor of ours.
    pub fn to_tensor(&self) -> PyResult<HostTensor> {
        let shape = Shape::new(self.dtype, self.shape.clone());
        HostTensor::from_bytes(shape, Bytes::new(self.copied_bytes())).map_err(refused)
    }

    /// A copy of all elements in another type: numbers, whatever their own type is.
    pub fn numbers(&self) -> PyResult<Vec<f64>> {
        Ok(self.to_tensor()?.to_f64s())
    }

    /// A copy as an image of its own element type.
    pub fn to_image<T: Channel + Element>(&self) -> PyResult<Image<T>> {
        let [height, width, channels] = match self.shape[..] {
            [height, width] => [height, width, 1],
            [height, width, channels] => [height, width, channels],
            _ => {
                return Err(refused(format!("an image is height × width × channels; this has shape {:?}", self.shape)));
            }
        };
        let tensor = self.to_tensor()?;
        let values = tensor.elements::<T>().map_err(refused)?.to_vec();
        Image::new(height, width, channels, values).map_err(refused)
    }
}
