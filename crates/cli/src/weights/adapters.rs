//! Low-rank adapters between runs and files: merged into the weights, or written separately as peft does.

use crate::output::Json;
use crate::prepare;
use anyhow::{Context, Result, bail};
use octant_archive::{Archive, save_safetensors};
use octant_nn::Adapters;
use octant_zoo::adapted;
use octant_zoo::identity::Card;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The names that peft gives the two files of an adapter.
const FILES: [&str; 2] = ["adapter_model.safetensors", "adapter_config.json"];

/// The weights of a run, or a file of weights.
fn weights(given: &Path) -> Result<PathBuf> {
    match given.join("config.toml").is_file() {
        true => prepare::checkpoint_weights(given, None),
        false => Ok(given.to_path_buf()),
    }
}

/// Writes weights without adapters that compute the same. `adapter` is a folder of peft, or its file of tensors.
pub(super) fn merge(from: &Path, adapter: Option<&Path>, to: &Path, as_json: bool) -> Result<()> {
    if to.extension().is_none_or(|ending| ending != "safetensors") {
        bail!("{} must end in .safetensors", to.display());
    }
    let archive = Archive::open(&weights(from)?)?;
    let (tensors, adapters) = match adapter {
        None => (archive.tensors.clone(), adapted::of(&archive)),
        Some(path) => {
            let file = if path.is_dir() { path.join(FILES[0]) } else { path.to_path_buf() };
            let config = file.with_file_name(FILES[1]);
            let text = std::fs::read_to_string(&config).with_context(|| format!("cannot read {}", config.display()))?;
            (adapted::beside(archive.tensors.clone(), &Archive::open(&file)?.tensors), adapted::of_config(&text))
        }
    };
    let merged = adapted::merged(&tensors, adapters.as_ref())?;
    let mut metadata = archive.metadata.clone();
    metadata.retain(|(key, _)| *key != adapted::METADATA);
    save_safetensors(to, merged.iter().map(|(name, tensor)| (name.as_str(), tensor)), &metadata)?;
    done(to, merged.len(), as_json);
    Ok(())
}

/// Writes the adapters and the head of weights that have both into a folder that peft reads.
pub(super) fn split(from: &Path, to: &Path, as_json: bool) -> Result<()> {
    let archive = Archive::open(&weights(from)?)?;
    let Some(adapters) = adapted::of(&archive) else {
        bail!("{} says nothing of adapters; train with `adapters` to have some", from.display());
    };
    let split = adapted::split(&archive.tensors, &adapters)?;
    // The very layers, whatever words chose them: peft understands whole paths in every version.
    let [down, _] = Adapters::FACTORS;
    let layers = archive.tensors.iter().filter_map(|(name, _)| Some(name.strip_suffix(down)?.to_string()));
    let adapters = Adapters { targets: layers.collect(), ..adapters };
    std::fs::create_dir_all(to).with_context(|| format!("cannot make the folder {}", to.display()))?;
    let metadata = [("format".to_string(), "pt".to_string())];
    save_safetensors(&to.join(FILES[0]), split.iter().map(|(name, tensor)| (name.as_str(), tensor)), &metadata)?;
    let model = Card::of(&archive).model.unwrap_or_default();
    let config = to.join(FILES[1]);
    std::fs::write(&config, adapted::config(&adapters, &model))
        .with_context(|| format!("cannot write {}", config.display()))?;
    done(to, split.len(), as_json);
    Ok(())
}

fn done(path: &Path, tensors: usize, as_json: bool) {
    match as_json {
        true => Json::line(json!({ "event": "done", "path": path, "tensors": tensors })),
        false => println!("{}: {tensors} tensors", path.display()),
    }
}
