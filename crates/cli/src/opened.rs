//! Networks that commands open, and what is printed of them.

use crate::output::Json;
use crate::prepare;
use anyhow::{Result, bail};
use octant_predict::{NetworkFile, Predictor, Sources};
use serde_json::{Value, json};
use std::path::Path;

/// The network of a run, or of a file of weights that names it.
pub(crate) fn network(path: &Path, checkpoint: Option<&str>) -> Result<NetworkFile> {
    let file = match (path.join("config.toml").is_file(), checkpoint) {
        (true, _) => NetworkFile::of_run(path, checkpoint)?,
        (false, None) if path.join("model.safetensors").is_file() => NetworkFile::open(path)?,
        (false, _) if path.is_dir() => bail!("{} holds no run (it has no config.toml)", path.display()),
        (false, _) if !path.exists() => bail!("there is no {}{}", path.display(), prepare::nearest_run(path)),
        (false, Some(_)) => bail!("--checkpoint chooses among those of a run, and {} is a file", path.display()),
        (false, None) => NetworkFile::open(path)?,
    };
    file.remarks.iter().for_each(|remark| eprintln!("warning: {remark}"));
    Ok(file)
}

/// What is used, as an object: weights, checkpoint, size of images and preprocessing.
pub(crate) fn facts(predictor: &Predictor) -> Value {
    let (network, device) = (predictor.network(), predictor.device());
    let source = &network.source;
    json!({
        "model": network.recipe.model, "task": network.recipe.task, "weights": source.path, "checkpoint": source.checkpoint,
        "averaged": source.averaged, "image_size": predictor.image_size(), "preprocessing": predictor.preprocessing(),
        "classes": network.outputs, "device": device.name(),
    })
}

/// Prints which weights, size of images and preprocessing are used: a first line of JSON, or text on standard error.
pub(crate) fn describe(predictor: &Predictor, json: bool) {
    if json {
        let mut line = facts(predictor);
        line["event"] = "start".into();
        return Json::line(line);
    }
    eprintln!("{}", described(predictor));
}

/// The same in words.
pub(crate) fn described(predictor: &Predictor) -> String {
    let network = predictor.network();
    let source = &network.source;
    let weights = source.path.as_ref().map_or("random weights".into(), |path| path.display().to_string());
    let average = if source.averaged { ", moving average" } else { "" };
    let checkpoint =
        source.checkpoint.as_ref().map(|name| format!(" (checkpoint {name}{average})")).unwrap_or_default();
    let size =
        predictor.image_size().map_or("images of any size".into(), |[height, width]| format!("{height}×{width}"));
    format!("{} from {weights}{checkpoint}; {size}, {}", network.recipe.model, predictor.preprocessing())
}

/// Names files in the given folders that are not predicted.
pub(crate) fn say_skipped(sources: &Sources, json: bool) {
    if sources.skipped.is_empty() {
        return;
    }
    let names: Vec<String> = sources.skipped.iter().map(|path| path.display().to_string()).collect();
    match json {
        true => Json::line(json!({ "event": "skipped", "files": names })),
        false => {
            eprintln!("skipped {} files that are neither image nor video: {}", names.len(), octant_data::listed(&names))
        }
    }
}
