//! Folders and list files, and the parts of data sets that they are named after.

use crate::DataError;
use crate::decode::ImageFileFormat;
use std::path::{Path, PathBuf};

/// Which part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// To learn from.
    Train,
    /// To validate on; the test part where there is no other.
    Val,
    /// To test on. No other part takes its place: its figures are of this part alone.
    Test,
}

impl Split {
    /// The names of its folders and files, the usual ones first. Case does not matter.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Split::Train => &["train", "training"],
            Split::Val => &["val", "valid", "validation", "dev", "test", "testing"],
            Split::Test => &["test", "testing"],
        }
    }
}

/// What a folder holds, in the order of names, hidden files left out.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let problem = |error| DataError::io(folder, error);
    let found: Result<Vec<PathBuf>, std::io::Error> =
        std::fs::read_dir(folder).map_err(problem)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut found = found.map_err(problem)?;
    found.retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
    found.sort();
    Ok(found)
}

/// The images in a folder and in the folders below it, in the order of names.
pub fn images_below(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    Ok(walk(folder)?.0)
}

/// All files in a folder and in the folders below it, in the order of names.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = open.pop() {
        for path in entries(&next)? {
            // Links to folders are not followed: they may lead back up.
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The images in a folder and in the folders below it, in the order of names; and a line for each image of a format that
/// is not read and for each run directory, whose plots are no data. Whatever else lies there is passed over in silence.
pub(crate) fn walk(folder: &Path) -> Result<(Vec<PathBuf>, Vec<String>), DataError> {
    const UNREAD: [&str; 7] = ["heic", "heif", "avif", "jp2", "jxl", "ppm", "pgm"];
    let (mut images, mut unread) = (Vec::new(), Vec::new());
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for path in entries(&next)? {
            let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
            // Links to folders are not followed: they may lead back up.
            if is_run(&path) {
                unread.push(format!("{}: the directory of a run, whose images are no data", path.display()));
            } else if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if ImageFileFormat::has_image_extension(&path) {
                images.push(path);
            } else if extension.is_some_and(|extension| UNREAD.contains(&extension.as_str())) {
                unread.push(format!("{}: this format is not read; convert it to PNG or JPEG", path.display()));
            }
        }
    }
    images.sort();
    Ok((images, unread))
}

/// The names in a list file: one per line, blank lines left out.
pub(crate) fn names_in(list: &Path) -> Result<Vec<String>, DataError> {
    let text = std::fs::read_to_string(list).map_err(|error| DataError::io(list, error))?;
    let names: Vec<String> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_string).collect();
    if names.is_empty() {
        return Err(DataError::malformed(list, "this list names no images"));
    }
    Ok(names)
}

/// True for the directory of a run: its plots and galleries are images, but no data.
pub(crate) fn is_run(folder: &Path) -> bool {
    folder.join("config.toml").is_file() && folder.join("checkpoints").is_dir()
}

/// The sub-folder of that name, whatever its case.
pub(crate) fn folder_called(root: &Path, name: &str) -> Option<PathBuf> {
    let is_wanted =
        |path: &PathBuf| path.is_dir() && path.file_name().is_some_and(|own| own.eq_ignore_ascii_case(name));
    entries(root).ok()?.into_iter().find(is_wanted)
}

/// The sub-folder of a split that holds what a split holds.
pub(crate) fn split_folder(root: &Path, split: Split, holds: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    split.names().iter().filter_map(|name| folder_called(root, name)).find(|path| holds(path))
}

/// The folders beside that of the training split, in which nothing is looked for when no folder of another split is there.
pub fn folders_beside_train(root: &Path) -> Vec<String> {
    let Some(train) = split_folder(root, Split::Train, |_| true) else { return Vec::new() };
    let folders = entries(root).unwrap_or_default().into_iter().filter(|path| path.is_dir() && *path != train);
    folders.filter_map(|path| Some(format!("{}/", path.file_name()?.to_string_lossy()))).collect()
}

/// The first of several sub-folders that exists.
pub(crate) fn folder_named(root: &Path, names: &[&str]) -> Result<PathBuf, DataError> {
    let found = names.iter().map(|name| root.join(name)).find(|path| path.is_dir());
    found.ok_or_else(|| DataError::malformed(root, format!("it has no folder {}/", names.join("/ or "))))
}

/// An error that names what a folder or a list promises but does not have, all of it up to a screenful.
pub(crate) fn all_there(path: &Path, missing: &[String]) -> Result<(), DataError> {
    const NAMED: usize = 20;
    if missing.is_empty() {
        return Ok(());
    }
    let mut problem = format!("there is no {}", missing[..missing.len().min(NAMED)].join(", no "));
    if missing.len() > NAMED {
        problem.push_str(&format!(", and {} more are missing", missing.len() - NAMED));
    }
    Err(DataError::Mismatch { path: path.to_path_buf(), problem })
}
