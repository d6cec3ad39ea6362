//! Errors of downloads.

use std::io;
use std::path::{Path, PathBuf};

/// A file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No response: the network or the server is down.
    #[error(
        "cannot reach {url} ({reason}), and it is not in the cache at {}; try again with a network, which resumes where it broke \
         off, or fetch it elsewhere and name its folder as the mirror or instead of the address",
        cache.display()
    )]
    Unreachable {
        /// The address.
        url: String,
        /// The error of the operating system.
        reason: String,
        /// Where the file would have been found.
        cache: PathBuf,
    },
    /// A service that is not there or does not respond.
    #[error("cannot reach {url}: {reason}")]
    NoService {
        /// The address.
        url: String,
        /// The system's error.
        reason: String,
    },
    /// The server responds, but not with the file.
    #[error("{url} returned {status}{}", advice(*.status))]
    Refused {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The bucket is served elsewhere.
    #[error("the bucket of {url} lies in another region; set AWS_REGION={region}")]
    OtherRegion {
        /// The address.
        url: String,
        /// Where it lies.
        region: String,
    },
    /// The file arrived, but it is another one.
    #[error(
        "{origin} is not the file that was expected ({kind} {found} instead of {expected}); it was changed or damaged: \
         fetch it again, or from another mirror"
    )]
    WrongChecksum {
        /// The address or the path.
        origin: String,
        /// The kind of checksum.
        kind: &'static str,
        /// What was expected.
        expected: String,
        /// What there is.
        found: String,
    },
    /// The folder that was named as a mirror does not have the file.
    #[error("{} has no file {name}; put it there (it is published at {url}) or leave the mirror away", folder.display())]
    NotInFolder {
        /// The folder.
        folder: PathBuf,
        /// The file.
        name: String,
        /// Where it is published.
        url: String,
    },
    /// An object store that cannot be reached or used now.
    #[error("{url} cannot be reached: {reason}")]
    NoStore {
        /// The object.
        url: String,
        /// What happened.
        reason: String,
    },
    /// An object is not what it was when it was stored.
    #[error("{0} is damaged or was replaced: it is not what was stored there")]
    Damaged(String),
    /// Nothing has that prefix.
    #[error("there is nothing at {0}; look for a typing mistake, and whether the bucket may be listed")]
    Nothing(String),
    /// A web page that does not list files.
    #[error("{0} is a web page that lists no files; name a file, or a folder that the server lists")]
    NoFolder(String),
    /// The text is neither a path nor an address.
    #[error("{text:?} cannot be read from: {problem}")]
    BadLocation {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A file that is to be stored cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file system refused.
    #[error("cannot write to {}: {source}", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl FetchError {
    pub(crate) fn disk(path: &Path) -> impl FnOnce(io::Error) -> FetchError {
        move |source| FetchError::Disk { path: path.to_path_buf(), source }
    }
}

impl FetchError {
    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> FetchError {
        move |source| FetchError::Unreadable { path: path.to_path_buf(), source }
    }
}

fn advice(status: u16) -> &'static str {
    match status {
        404 | 410 => ": there is no such file",
        401 | 403 => {
            ": it is not public; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://, or GOOGLE_OAUTH_ACCESS_TOKEN for gs://"
        }
        429 => ": too many requests; wait a while",
        500.. => ": the server has a problem; try again later",
        _ => "",
    }
}
