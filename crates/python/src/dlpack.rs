//! DLPack: tensors of other libraries in and ours out, without copies. Both forms of its capsules are understood, the one of
//! version 1 and the unversioned one before.

use crate::array::{Array, View};
use crate::error::refused;
use octant_tensor::DType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{ffi, intern};
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
/// The version that is written; later minor versions may only add.
const VERSION: Version = Version { major: 1, minor: 0 };
const READ_ONLY: u64 = 1;
/// Memory that the processor reads: its own, and pages that CUDA or ROCm pinned.
const CPU: i32 = 1;
const READABLE: [i32; 3] = [CPU, 3, 11];

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    number: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ElementType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    rank: i32,
    dtype: ElementType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What lives as long as an exported tensor.
struct Context {
    _memory: Arc<dyn Any + Send + Sync>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

fn element_type(dtype: DType) -> ElementType {
    let code = match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::BF16 => 4,
        DType::Bool => 6,
    };
    ElementType { code, bits: 8 * dtype.size() as u8, lanes: 1 }
}

/// The device of an array, as `__dlpack_device__` names it.
pub(crate) const DEVICE: (i32, i32) = (CPU, 0);

/// Whether the consumer understands capsules of version 1, which may say that memory must not be written to.
pub(crate) fn is_versioned(max_version: Option<(u32, u32)>) -> bool {
    max_version.is_some_and(|(major, _)| major >= VERSION.major)
}

/// A capsule over the array's memory, in the newest form that the consumer understands.
pub(crate) fn export<'py>(
    py: Python<'py>,
    array: &Array,
    max_version: Option<(u32, u32)>,
) -> PyResult<Bound<'py, PyAny>> {
    let versioned = is_versioned(max_version);
    let shape: Vec<i64> = array.shape().iter().map(|&side| side as i64).collect();
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let mut context = Box::new(Context { _memory: array.memory(), shape, strides });
    let is_empty = array.shape().contains(&0);
    let tensor = Tensor {
        data: if is_empty { std::ptr::null_mut() } else { array.start().cast_mut().cast() },
        device: Device { kind: DEVICE.0, number: DEVICE.1 },
        rank: context.shape.len() as i32,
        dtype: element_type(array.dtype()),
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(context).cast();
    let (managed, name, destructor): (*mut c_void, &CStr, ffi::PyCapsule_Destructor) = if versioned {
        let flags = if array.is_readonly() { READ_ONLY } else { 0 };
        let managed = ManagedVersioned { version: VERSION, context, deleter: Some(delete_versioned), flags, tensor };
        (Box::into_raw(Box::new(managed)).cast(), VERSIONED, drop_versioned)
    } else {
        let managed = Managed { tensor, context, deleter: Some(delete) };
        (Box::into_raw(Box::new(managed)).cast(), UNVERSIONED, drop_unversioned)
    };
    // SAFETY: the pointer is not null, the name is static, and the destructor frees what was just leaked.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(managed, name.as_ptr(), Some(destructor))) }
}

/// Called by the consumer of the capsule.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: `export` leaked both boxes, and the consumer calls this once.
    unsafe {
        drop(Box::from_raw((*managed).context.cast::<Context>()));
        drop(Box::from_raw(managed));
    }
}

/// The same for the versioned form.
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete`.
    unsafe {
        drop(Box::from_raw((*managed).context.cast::<Context>()));
        drop(Box::from_raw(managed));
    }
}

/// A capsule that nobody consumed frees its tensor; one that was consumed has another name by then.
unsafe extern "C" fn drop_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule while its pointer is still valid; a capsule of that name was not consumed.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast());
        }
    }
}

/// The same for the versioned form.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `drop_unversioned`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// The memory behind an object with `__dlpack__`. The capsule is kept and not consumed, so that it frees the tensor itself once
/// the view is dropped.
pub(crate) fn import(object: &Bound<PyAny>) -> PyResult<View> {
    let py = object.py();
    let (kind, _): (i32, i32) = object.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    if !READABLE.contains(&kind) {
        return Err(refused(
            "the tensor lies on an accelerator; copy it to the processor first, such as with `.cpu()`",
        ));
    }
    let options = PyDict::new(py);
    options.set_item("max_version", (VERSION.major, VERSION.minor))?;
    let export = object.getattr(intern!(py, "__dlpack__"))?;
    let capsule = match export.call((), Some(&options)) {
        // Older libraries do not know the argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => export.call0()?,
        capsule => capsule?,
    };
    let is = |name: &CStr| {
        // SAFETY: this only compares the type and the name of an object that is alive.
        unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 1 }
    };
    // SAFETY: a capsule of that name holds such a structure, by DLPack's definition, as long as it is not consumed.
    let tensor = unsafe {
        if is(VERSIONED) {
            let managed: *mut ManagedVersioned = ffi::PyCapsule_GetPointer(capsule.as_ptr(), VERSIONED.as_ptr()).cast();
            if (*managed).version.major != VERSION.major {
                return Err(refused("the tensor comes in a version of DLPack that is not known here; only 1 is"));
            }
            &(*managed).tensor
        } else if is(UNVERSIONED) {
            let managed: *mut Managed = ffi::PyCapsule_GetPointer(capsule.as_ptr(), UNVERSIONED.as_ptr()).cast();
            &(*managed).tensor
        } else {
            return Err(refused("`__dlpack__` returned no capsule of a tensor, or one that was consumed already"));
        }
    };
    if !READABLE.contains(&tensor.device.kind) {
        return Err(refused(
            "the tensor lies on an accelerator; copy it to the processor first, such as with `.cpu()`",
        ));
    }
    let ElementType { code, bits, lanes } = tensor.dtype;
    let known = |dtype: &DType| {
        let own = element_type(*dtype);
        (own.code, own.bits, own.lanes) == (code, bits, lanes)
    };
    let Some(dtype) = DType::ALL.into_iter().find(known) else {
        return Err(refused(format!("elements of DLPack's type {code} with {bits} bits × {lanes} are not known here")));
    };
    let rank = usize::try_from(tensor.rank).map_err(|_| refused("the tensor has a negative number of dimensions"))?;
    let numbers = |start: *mut i64| -> Option<&[i64]> {
        match rank {
            0 => Some(&[]),
            _ if start.is_null() => None,
            // SAFETY: DLPack's arrays of numbers have one per dimension, and live as long as the capsule.
            _ => Some(unsafe { std::slice::from_raw_parts(start, rank) }),
        }
    };
    let shape = numbers(tensor.shape).ok_or_else(|| refused("the tensor has no shape"))?;
    let strides = numbers(tensor.strides)
        .map(|strides| strides.iter().map(|&stride| stride as isize * dtype.size() as isize).collect());
    let start = (tensor.data as *const u8).wrapping_add(tensor.byte_offset as usize);
    View::new(start, dtype, shape, strides, capsule.clone().unbind())
}
