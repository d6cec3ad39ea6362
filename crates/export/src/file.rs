//! What exported files have in common: inputs, outputs, and how they are written.

use crate::ExportError;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The element type, such as `f32`.
    pub element: &'static str,
    /// The dimensions; a name where it may vary.
    pub dims: Vec<String>,
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} {}[{}]", self.name, self.element, self.dims.join(", "))
    }
}

/// The files of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFiles {
    /// The model.
    pub model: PathBuf,
    /// The weights, where they are not in it.
    pub weights: Option<PathBuf>,
    /// The size of all.
    pub bytes: u64,
}

/// Writes a file under a temporary name, then renames it.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), ExportError> {
    let refused = |error: std::io::Error| ExportError::Refused(format!("cannot write {}: {error}", path.display()));
    let name = path.file_name().ok_or_else(|| ExportError::Refused(format!("{} names no file", path.display())))?;
    let temporary = path.with_file_name(format!(".{}.part", name.to_string_lossy()));
    let written = File::create(&temporary).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()?;
        std::fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        // It may not be there.
        let _ = std::fs::remove_file(&temporary);
        refused(error)
    })
}
