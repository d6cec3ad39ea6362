//! Host tensors: element types, shapes and bytes.
//!
//! Four things are four types throughout Octant and are never mixed: [`Shape`] is metadata, [`HostTensor`] is bytes in
//! this process's memory, `runtime::Buffer` is bytes on a device, `graph::Tensor` is a value in a program that has not
//! run yet. This crate holds the first two and knows nothing of the others.
//!
//! Start reading at [`HostTensor`].

mod atomic;
mod bytes;
mod dtype;
mod host;
mod memory;
mod npy;
mod shape;
mod strided;
mod threefry;

pub use atomic::write_atomically;
pub use bytes::{AlignedBytes, Bytes};
pub use dtype::{DType, Element};
pub use half::{bf16, f16};
pub use host::HostTensor;
pub use memory::{available_memory, require_memory};
pub use npy::{NpyError, read_npy, read_npy_from, read_npz, write_npy, write_npz};
pub use shape::Shape;
pub use strided::{StrideError, swap_byte_order};
pub use threefry::threefry;

/// A host tensor was used for something its type or size does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The elements given do not fill the shape.
    #[error("{shape} holds {expected} bytes, but {given} were given")]
    Size {
        /// The requested shape.
        shape: Shape,
        /// Bytes that the shape needs.
        expected: usize,
        /// Bytes that came.
        given: usize,
    },
    /// The elements were read as another type.
    #[error("the tensor is {actual}, it was read as {requested}")]
    DType {
        /// The type of the tensor.
        actual: DType,
        /// The type it was read as.
        requested: DType,
    },
}
