//! `.npz`: a zip archive with one `.npy` file per array, stored or deflated.

use super::{Fault, NpyError, read_array, write_array};
use crate::{HostTensor, write_atomically};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// Deflate never turns one byte into more than this many; a larger claim is a lie.
const LARGEST_EXPANSION: u64 = 1032;

impl From<ZipError> for Fault {
    fn from(error: ZipError) -> Fault {
        match error {
            ZipError::Io(error) => error.into(),
            other => Fault::Format(other.to_string()),
        }
    }
}

/// Reads every array of a `.npz` file, in the order of its directory. Names lose their `.npy` ending, as in NumPy.
pub fn read_npz(path: &Path) -> Result<Vec<(String, HostTensor)>, NpyError> {
    read_all(path).map_err(|fault| fault.at("read", path))
}

/// Writes named arrays as an uncompressed `.npz` file that appears under its name only when it is complete.
pub fn write_npz<'a>(path: &Path, arrays: impl IntoIterator<Item = (&'a str, &'a HostTensor)>) -> Result<(), NpyError> {
    let written = write_atomically::<Fault>(path, |file| {
        let mut archive = ZipWriter::new(file);
        for (name, tensor) in arrays {
            let large = tensor.bytes().len() as u64 >= u32::MAX as u64 - (1 << 16);
            let options =
                SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored).large_file(large);
            archive.start_file(format!("{name}.npy"), options)?;
            write_array(&mut archive, tensor)?;
        }
        archive.finish()?;
        Ok(())
    });
    written.map_err(|fault| fault.at("write", path))
}

fn read_all(path: &Path) -> Result<Vec<(String, HostTensor)>, Fault> {
    let file = File::open(path)?;
    let file_len = file.metadata()?.len();
    let mut archive = ZipArchive::new(BufReader::new(file))?;
    let mut arrays = Vec::new();
    // What deflate can make of the whole file bounds all arrays together, so overlapping entries gain nothing.
    let mut allowance = file_len.saturating_mul(LARGEST_EXPANSION);
    for index in 0..archive.len() {
        let entry = archive.by_index(index)?;
        let name = entry.name()?;
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_string();
        let possible = entry.compressed_size().min(file_len).saturating_mul(LARGEST_EXPANSION);
        let available = entry.size().min(possible).min(allowance);
        allowance -= available;
        let tensor = read_array(entry, available).map_err(|fault| fault.inside(&name))?;
        arrays.push((name, tensor));
    }
    Ok(arrays)
}

impl Fault {
    fn inside(self, name: &str) -> Fault {
        match self {
            Fault::Format(problem) => Fault::Format(format!("array {name:?}: {problem}")),
            other => other,
        }
    }
}
