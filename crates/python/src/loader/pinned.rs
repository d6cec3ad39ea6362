//! Page-locked memory, from which a GPU copies by itself while the program continues. It is PyTorch's, whose allocator keeps it for
//! later batches.

use crate::array::Array;
use crate::error::refused;
use crate::library::{Level, log};
use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;

/// Whether there is such memory. Without CUDA a program that wants it runs as well, so the reason is a warning, as PyTorch's own
/// loader gives.
pub(super) fn is_available(py: Python) -> PyResult<bool> {
    let torch = match py.import("torch") {
        Ok(torch) => torch,
        Err(error) if error.is_instance_of::<PyModuleNotFoundError>(py) => {
            log(Level::Warning, "`pin_memory` has no effect: PyTorch has that memory, and is not installed");
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let has_cuda = torch.getattr("cuda")?.call_method0("is_available")?.is_truthy()?;
    if !has_cuda {
        log(Level::Warning, "`pin_memory` has no effect: PyTorch finds no CUDA device");
    }
    Ok(has_cuda)
}

/// A copy of an array in such memory.
pub(super) fn pinned(py: Python, array: Array) -> PyResult<Array> {
    let array = Bound::new(py, array)?;
    let tensor = py.import("torch")?.call_method1("from_dlpack", (&array,))?.call_method0("pin_memory")?;
    let bytes: usize = tensor.getattr("nbytes")?.extract()?;
    let expected = array.get().bytes().len();
    if bytes != expected || !tensor.call_method0("is_contiguous")?.is_truthy()? {
        return Err(refused(format!("PyTorch pinned {bytes} bytes instead of {expected} in a row")));
    }
    Ok(array.get().moved(tensor.call_method0("data_ptr")?.extract()?, tensor.unbind()))
}
