//! Why images cannot be processed.

use octant_data::DataError;
use octant_graph::GraphError;
use octant_imaging::{ImageError, Unsupported};
use octant_runtime::RuntimeError;
use octant_tensor::TensorError;

/// The result of everything here.
pub type Result<T, E = ProcessError> = std::result::Result<T, E>;

/// A failure in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It cannot be done as it was described.
    #[error("{0}")]
    Refused(String),
    /// The library whose results are wanted has no such operation.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A file cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The result is no image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The result is no array.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The program for a device cannot be traced.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The device refused.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// A refusal as a result.
macro_rules! refuse {
    ($($text:tt)*) => { return Err($crate::ProcessError::Refused(format!($($text)*))) };
}

/// The refusal itself.
macro_rules! refusal {
    ($($text:tt)*) => { $crate::ProcessError::Refused(format!($($text)*)) };
}

pub(crate) use {refusal, refuse};
