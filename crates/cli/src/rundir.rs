//! Run directories, as the commands look at them.

pub(crate) use octant_recipe::{Opened, choose, class_names, config, open};

use anyhow::Result;
use std::path::{Path, PathBuf};

/// The weights of a checkpoint of a run; a damaged one is said.
pub(crate) fn weights(run: &Path, wanted: Option<&str>) -> Result<PathBuf> {
    let (path, warning) = octant_recipe::checkpoint_weights(run, wanted)?;
    warning.iter().for_each(|warning| eprintln!("warning: {warning}"));
    Ok(path)
}

/// The batch size of the run that is there, if there is one.
pub(crate) fn batch_size(run: &Path) -> Option<usize> {
    let size = config(run).ok()?.get("batch_size")?.as_integer()?;
    usize::try_from(size).ok()
}

/// A run with nearly that name beside where it was looked for, as the rest of a sentence.
pub(crate) fn nearest(run: &Path) -> String {
    let beside = run.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(beside).into_iter().flatten().flatten();
    let runs = entries.filter(|entry| entry.path().join("config.toml").is_file());
    let names: Vec<String> = runs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let wanted = run.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match octant_recipe::nearest(&wanted, names.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean {}?", run.with_file_name(near).display()),
        None => "; give the directory of a run, such as runs/NAME".into(),
    }
}
