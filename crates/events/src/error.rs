//! What can go wrong with the files of a run.

use std::path::{Path, PathBuf};

/// A failure with a file of a run, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, as the rest of a sentence.
        problem: String,
    },
    /// It cannot be done like that.
    #[error("{0}")]
    Refused(String),
    /// Another process trains in this directory.
    #[error("another process is training in {}; wait for it or choose another directory", .0.display())]
    InUse(PathBuf),
}

impl EventsError {
    pub(crate) fn write(path: &Path) -> impl Fn(std::io::Error) -> EventsError + '_ {
        move |source| EventsError::Io { action: "write", path: path.to_path_buf(), source }
    }

    pub(crate) fn read(path: &Path) -> impl Fn(std::io::Error) -> EventsError + '_ {
        move |source| EventsError::Io { action: "read", path: path.to_path_buf(), source }
    }
}

fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull => "; make room and run the same command again",
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => "; choose another folder",
        _ => "",
    }
}
