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
