//! The runs below a folder: every folder that holds event files is one, as TensorBoard counts them.

use crate::EventsError;
use std::path::{Path, PathBuf};

/// A folder that holds event files, or a `config.toml` of a run that has not written any yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    /// Its path below the folder that was searched, with `/`; `.` for that folder itself.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its event files, oldest first.
    pub files: Vec<PathBuf>,
}

/// Folders deeper than this are not searched.
const DEEPEST: usize = 32;

/// Where a run keeps its checkpoints.
const CHECKPOINTS: &str = "checkpoints";

/// The runs below a folder, by name. Symbolic links are not followed: they may lead out of the folder, or in circles.
pub fn find_runs(root: &Path) -> Result<Vec<RunFolder>, EventsError> {
    let mut runs = Vec::new();
    search(root, ".", 0, &mut runs).map_err(EventsError::read(root))?;
    runs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(runs)
}

fn search(folder: &Path, name: &str, depth: usize, runs: &mut Vec<RunFolder>) -> std::io::Result<()> {
    let (mut files, mut folders, mut is_run) = (Vec::new(), Vec::new(), false);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (Ok(kind), Some(entry_name)) = (entry.file_type(), entry.file_name().to_str().map(str::to_string)) else {
            continue;
        };
        if kind.is_dir() && depth < DEEPEST {
            folders.push((entry.path(), entry_name));
        } else if kind.is_file() {
            is_run |= entry_name == "config.toml";
            if is_event_file(&entry_name) {
                files.push(entry.path());
            }
        }
    }
    // The settings that lie beside the weights of a checkpoint are those of its run.
    for (path, below) in folders.into_iter().filter(|(_, below)| !(is_run && below == CHECKPOINTS)) {
        let below = if name == "." { below } else { format!("{name}/{below}") };
        // A folder that vanished, or that may not be read, hides its own runs alone.
        let _ = search(&path, &below, depth + 1, runs);
    }
    files.sort();
    if !files.is_empty() || is_run {
        runs.push(RunFolder { name: name.to_string(), path: folder.to_path_buf(), files });
    }
    Ok(())
}

/// TensorBoard's test of a name.
pub(crate) fn is_event_file(name: &str) -> bool {
    name.contains("tfevents") && !name.ends_with(".profile-empty") && !name.ends_with(".tmp")
}
