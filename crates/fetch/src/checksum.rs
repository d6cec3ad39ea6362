//! Checksums as publishers give them.

use crate::FetchError;
use sha2::Digest;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What the content of a file must add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checksum {
    /// SHA-256 in hexadecimal, or the first digits of it: PyTorch's hub puts eight into the names of files.
    Sha256(String),
    /// MD5 in hexadecimal, which many older data sets publish. It guards against accidents, not against attackers.
    Md5(String),
}

impl Checksum {
    fn expected(&self) -> &str {
        let (Checksum::Sha256(digits) | Checksum::Md5(digits)) = self;
        digits
    }

    fn kind(&self) -> &'static str {
        match self {
            Checksum::Sha256(_) => "SHA-256",
            Checksum::Md5(_) => "MD5",
        }
    }

    /// Reads the whole file. `origin` is where it came from, for the error.
    pub(crate) fn verify(&self, path: &Path, origin: &str) -> Result<(), FetchError> {
        let digest = match self {
            Checksum::Sha256(_) => digest::<sha2::Sha256>(path),
            Checksum::Md5(_) => digest::<md5::Md5>(path),
        };
        let found = digest.map_err(FetchError::disk(path))?;
        let expected = self.expected().to_lowercase();
        if !expected.is_empty() && found.starts_with(&expected) {
            return Ok(());
        }
        Err(FetchError::WrongChecksum { origin: origin.into(), kind: self.kind(), expected, found })
    }
}

fn digest<D: Digest>(path: &Path) -> io::Result<String> {
    digest_of::<D>(File::open(path)?)
}

/// The digest of everything that can be read, in hexadecimal digits.
pub(crate) fn digest_of<D: Digest>(mut source: impl Read) -> io::Result<String> {
    let mut hasher = D::new();
    let mut block = vec![0; 1 << 18];
    loop {
        match source.read(&mut block)? {
            0 => return Ok(hexadecimal(&hasher.finalize())),
            count => hasher.update(&block[..count]),
        }
    }
}

/// The SHA-256 of some bytes in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    hexadecimal(&sha2::Sha256::digest(bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
