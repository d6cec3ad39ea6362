//! What can go wrong with a file of tensors.

use crate::pickle::PickleError;
use octant_tensor::{StrideError, TensorError};
use std::io;
use std::path::{Path, PathBuf};

/// A file of tensors could not be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
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
    /// The content is not a file of tensors, or is damaged.
    #[error("{} cannot be used: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file's pickle is damaged or wants code to be run.
    #[error("{} cannot be used: {source}", path.display())]
    Pickle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: PickleError,
    },
    /// The tensors do not match the model.
    #[error("the weights do not fit the model: {0}")]
    Mismatch(String),
}

/// What went wrong, before the path is known.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    Damaged(String),
    Pickle(PickleError),
}

impl Fault {
    pub fn damaged(problem: &str) -> Fault {
        Fault::Damaged(problem.into())
    }

    pub fn at(self, action: &'static str, path: &Path) -> ArchiveError {
        let path = path.to_path_buf();
        match self {
            Fault::Io(source) => ArchiveError::Io { action, path, source },
            Fault::Damaged(problem) => ArchiveError::Format { path, problem },
            Fault::Pickle(source) => ArchiveError::Pickle { path, source },
        }
    }

    /// Says which tensor the fault belongs to.
    pub fn of_tensor(self, name: &str) -> Fault {
        match self {
            Fault::Damaged(problem) => Fault::Damaged(format!("tensor {name:?}: {problem}")),
            other => other,
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

impl From<PickleError> for Fault {
    fn from(error: PickleError) -> Fault {
        Fault::Pickle(error)
    }
}

impl From<TensorError> for Fault {
    fn from(error: TensorError) -> Fault {
        Fault::Damaged(error.to_string())
    }
}

impl From<StrideError> for Fault {
    fn from(error: StrideError) -> Fault {
        Fault::Damaged(error.to_string())
    }
}
