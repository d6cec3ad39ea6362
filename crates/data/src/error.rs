//! What can go wrong between a file and a batch.

use std::path::{Path, PathBuf};

/// An error with data: it names the file and says what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system refused.
    #[error("{} could not be read: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The operating system refused to write.
    #[error("{} could not be written: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is there but is not what it should be.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, as the rest of a sentence.
        problem: String,
    },
    /// Two files that belong together do not fit, such as a mask and its image.
    #[error("{}: {problem}", path.display())]
    Mismatch {
        /// The file that does not fit.
        path: PathBuf,
        /// What is wrong, as the rest of a sentence.
        problem: String,
    },
    /// A sample could not be prepared.
    #[error("sample {index} ({location}): {}", problem.strip_prefix(&format!("{location}: ")).unwrap_or(problem))]
    Sample {
        /// Its number in the data set.
        index: u64,
        /// Where it comes from, usually a path.
        location: String,
        /// What is wrong.
        problem: String,
    },
    /// A request that the data cannot satisfy.
    #[error("{0}")]
    Request(String),
}

impl DataError {
    /// `path` cannot be read.
    pub fn io(path: impl AsRef<Path>, source: std::io::Error) -> DataError {
        DataError::Io { path: path.as_ref().to_path_buf(), source }
    }

    /// `path` cannot be written.
    pub fn write(path: impl AsRef<Path>, source: std::io::Error) -> DataError {
        DataError::Write { path: path.as_ref().to_path_buf(), source }
    }

    /// `path` holds something other than it should.
    pub fn malformed(path: impl AsRef<Path>, problem: impl Into<String>) -> DataError {
        DataError::Malformed { path: path.as_ref().to_path_buf(), problem: problem.into() }
    }

    /// A request that the data cannot satisfy.
    pub fn request(problem: impl Into<String>) -> DataError {
        DataError::Request(problem.into())
    }
}
