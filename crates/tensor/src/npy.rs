//! NumPy's `.npy` (one array) and `.npz` (a zip of named arrays) files.
//!
//! Sizes in a header are claims: they are compared with the bytes that are really there before anything is allocated.

mod header;
mod npz;

pub use npz::{read_npz, write_npz};

use crate::{AlignedBytes, Bytes, DType, HostTensor, Shape, swap_byte_order, write_atomically};
use header::Header;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// A NumPy file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The file system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content is not an array that Octant can hold.
    #[error("{} cannot be read as a NumPy file: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// NumPy has no name for the element type.
    #[error("NumPy files cannot hold {0} elements; convert the tensor to f32 before writing it")]
    Unsupported(DType),
}

/// What went wrong, before the path is known.
enum Fault {
    Io(io::Error),
    Format(String),
    Unsupported(DType),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Fault::Format("it is truncated; copy or download it again".into()),
            io::ErrorKind::InvalidData => Fault::Format(format!("its content is damaged ({error})")),
            _ => Fault::Io(error),
        }
    }
}

impl From<String> for Fault {
    fn from(problem: String) -> Fault {
        Fault::Format(problem)
    }
}

impl Fault {
    fn at(self, action: &'static str, path: &Path) -> NpyError {
        let path = path.to_path_buf();
        match self {
            Fault::Io(source) => NpyError::Io { action, path, source },
            Fault::Format(problem) => NpyError::Format { path, problem },
            Fault::Unsupported(dtype) => NpyError::Unsupported(dtype),
        }
    }
}

/// Reads a `.npy` file: format versions 1 to 3, either byte order, C or Fortran order.
pub fn read_npy(path: &Path) -> Result<HostTensor, NpyError> {
    let open = || -> Result<HostTensor, Fault> {
        let file = File::open(path)?;
        let available = file.metadata()?.len();
        read_array(BufReader::new(file), available)
    };
    open().map_err(|fault| fault.at("read", path))
}

/// Reads a `.npy` array from any stream that holds at most `available` bytes; `path` is for error messages only.
pub fn read_npy_from(reader: impl Read, available: u64, path: &Path) -> Result<HostTensor, NpyError> {
    read_array(reader, available).map_err(|fault| fault.at("read", path))
}

/// Writes a `.npy` file that appears under its name only when it is complete.
pub fn write_npy(path: &Path, tensor: &HostTensor) -> Result<(), NpyError> {
    write_atomically::<Fault>(path, |file| write_array(file, tensor)).map_err(|fault| fault.at("write", path))
}

fn read_array(mut reader: impl Read, available: u64) -> Result<HostTensor, Fault> {
    let (header, header_len) = Header::read(&mut reader)?;
    let shape = Shape::new(header.dtype, header.dims);
    let len = shape.checked_bytes().ok_or_else(|| format!("its shape {shape} is larger than any memory"))?;
    let present = available.saturating_sub(header_len);
    if len as u64 > present {
        return Err(format!("{shape} needs {len} bytes of elements, but only {present} follow the header").into());
    }
    let mut bytes = AlignedBytes::zeroed(len);
    reader.read_exact(&mut bytes)?;
    if header.foreign_byte_order {
        swap_byte_order(&mut bytes, shape.dtype().size());
    }
    let bytes = Bytes::new(bytes);
    let tensor = if header.fortran_order { from_fortran_order(shape, bytes) } else { from_row_major(shape, bytes) };
    tensor.map(HostTensor::with_normalized_bools)
}

fn from_row_major(shape: Shape, bytes: Bytes) -> Result<HostTensor, Fault> {
    HostTensor::from_bytes(shape, bytes).map_err(|error| Fault::Format(error.to_string()))
}

/// In Fortran order the first axis is the one whose neighbors touch.
fn from_fortran_order(shape: Shape, bytes: Bytes) -> Result<HostTensor, Fault> {
    let mut strides = vec![1; shape.rank()];
    for axis in 1..shape.rank() {
        strides[axis] = strides[axis - 1] * shape.dims()[axis - 1];
    }
    HostTensor::from_strides(shape, &bytes, 0, &strides).map_err(|error| Fault::Format(error.to_string()))
}

fn write_array(writer: &mut impl Write, tensor: &HostTensor) -> Result<(), Fault> {
    let header = header::text(tensor.shape()).ok_or(Fault::Unsupported(tensor.dtype()))?;
    writer.write_all(&header)?;
    writer.write_all(tensor.bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests;
