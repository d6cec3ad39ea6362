//! The images of a folder, and the files that features are written to.

use anyhow::{Context, Result, bail};
use octant_archive::save_safetensors;
use octant_data::Dataset;
use octant_data::decode::{Channels, DecodeOptions};
use octant_data::readers::{TableDataset, images_below};
use octant_tensor::{HostTensor, write_npy};
use octant_zoo::ModelEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All images in a folder and below it, in the order of their names, and their paths below it.
pub(super) fn images(folder: &Path, entry: &ModelEntry) -> Result<(Arc<dyn Dataset>, Vec<PathBuf>)> {
    let channels = if entry.preprocessing.input[2] == 1 { Channels::Gray } else { Channels::Rgb };
    let options = DecodeOptions { channels, eight_bits: true, ..DecodeOptions::default() };
    let dataset = TableDataset::unlabeled(folder, options)?;
    let below = |path: PathBuf| path.strip_prefix(folder).map(Path::to_path_buf).unwrap_or(path);
    let paths = images_below(folder)?.into_iter().map(below).collect();
    Ok((Arc::new(dataset), paths))
}

/// Writes features, and which image each row belongs to.
pub(super) fn write(output: &Path, features: &HostTensor, paths: &[PathBuf]) -> Result<()> {
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    match output.extension().and_then(|ending| ending.to_str()) {
        Some("npy") => {
            write_npy(output, features)?;
            let quoted = |name: &String| format!("\"{}\"\n", name.replace('"', "\"\""));
            let table = output.with_extension("csv");
            let text = std::iter::once("path\n".to_string()).chain(names.iter().map(quoted)).collect::<String>();
            std::fs::write(&table, text).with_context(|| format!("cannot write {}", table.display()))?;
        }
        Some("safetensors") => {
            let metadata = [("paths".to_string(), serde_json::to_string(&names)?)];
            save_safetensors(output, [("features", features)], &metadata)?;
        }
        _ => bail!("{} must end in .npy or .safetensors", output.display()),
    }
    Ok(())
}
