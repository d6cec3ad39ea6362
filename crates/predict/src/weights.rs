//! Files of weights from one form to another: formats, and low-rank adapters merged or separate.

use crate::error::{PredictError, Result, refusal, refuse};
use octant_archive::{Archive, ArchiveFormat, Fit, Matching, save_safetensors, save_torch};
use octant_events::units;
use octant_nn::Adapters;
use octant_tensor::HostTensor;
use octant_zoo::identity::{Card, Identity, identify, published_names};
use octant_zoo::{ModelEntry, adapted, describe};
use serde_json::{Map, Value, json};
use std::fmt;
use std::path::Path;

/// How a file fits the model, in the form and with the head that the file has.
pub fn fit(archive: &Archive, entry: &'static ModelEntry) -> Result<(Matching, Identity)> {
    let identity = identify(archive, entry)?;
    let Identity { entry, classes, keypoints } = identity;
    let mut model = (entry.build)(classes.unwrap_or(entry.classes));
    if let Some([count, columns]) = keypoints {
        model.set_keypoints(count, columns);
    }
    let (specs, _) = describe(&*model, entry.preprocessing.input)?;
    Ok((octant_zoo::weights::load(archive, &*model, &specs, 0).matching, identity))
}

/// Writes weights in the format of the ending of `to`. Names and layouts stay as they are: both formats hold the reference's state dict.
pub fn convert(from: &Path, to: &Path, entry: Option<&'static ModelEntry>) -> Result<()> {
    let archive = Archive::open(from)?;
    let tensors = || archive.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let mut metadata = match archive.format {
        ArchiveFormat::Safetensors => archive.metadata.clone(),
        ArchiveFormat::TorchZip | ArchiveFormat::TorchLegacy => Vec::new(),
    };
    if let Some(entry) = entry {
        let (matching, Identity { entry, classes, .. }) = fit(&archive, entry)?;
        matching.require(Fit::Exact)?;
        let (classes, card) = (classes.unwrap_or(entry.classes), Card::of(&archive));
        let names = if card.names.is_empty() { published_names(entry, classes) } else { card.names };
        // What the file says about its preprocessing stays true; only what it lacks is added.
        let known = octant_zoo::identity::metadata(entry, &entry.preprocessing, classes, &names);
        let added = known.into_iter().chain([Card::phase_metadata(card.warm_up)]);
        let has = |wanted: &str| metadata.iter().any(|(key, _)| key == wanted);
        let added: Vec<(String, String)> = added.filter(|(key, _)| !has(key)).collect();
        metadata.extend(added);
    }
    if !metadata.iter().any(|(key, _)| key == "format") {
        metadata.insert(0, ("format".into(), "pt".into()));
    }
    match to.extension().and_then(|ending| ending.to_str()) {
        Some("safetensors") => save_safetensors(to, tensors(), &metadata)?,
        Some("pt" | "pth" | "bin") => save_torch(to, tensors())?,
        _ => refuse!("{} must end in .safetensors, or in .pth for torch.load", to.display()),
    }
    Ok(())
}

/// What a file of weights holds, and what it says of itself.
pub struct WeightsSummary {
    /// The tensors and the metadata.
    pub archive: Archive,
    /// What the metadata says of a network.
    pub card: Card,
    /// Elements of all tensors.
    pub elements: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl WeightsSummary {
    /// Looks into a file.
    pub fn open(file: &Path) -> Result<WeightsSummary> {
        let archive = Archive::open(file)?;
        let elements = archive.tensors.iter().map(|(_, tensor)| tensor.shape().elements()).sum();
        let bytes = archive.tensors.iter().map(|(_, tensor)| tensor.bytes().len()).sum();
        Ok(WeightsSummary { card: Card::of(&archive), archive, elements, bytes })
    }

    /// The name of the format.
    pub fn format(&self) -> &'static str {
        match self.archive.format {
            ArchiveFormat::Safetensors => "safetensors",
            ArchiveFormat::TorchZip => "torch",
            ArchiveFormat::TorchLegacy => "torch (legacy)",
        }
    }

    /// An object per tensor.
    pub fn tensors_json(&self) -> Vec<Value> {
        let tensor = |(name, tensor): &(String, HostTensor)| json!({ "event": "tensor", "name": name, "dtype": tensor.dtype().name(), "shape": tensor.dims() });
        self.archive.tensors.iter().map(tensor).collect()
    }

    /// The rest as an object.
    pub fn json(&self) -> Value {
        let WeightsSummary { archive, card, elements, bytes } = self;
        let metadata: Map<_, _> = archive.metadata.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        json!({
            "event": "done", "format": self.format(), "tensors": archive.tensors.len(), "elements": elements, "bytes": bytes,
            "model": card.model, "class_names": card.names, "image_size": card.image,
            "metadata": metadata, "found_under": archive.found_under, "stripped_prefix": archive.stripped_prefix,
        })
    }
}

/// A line per tensor, then what else the file says.
impl fmt::Display for WeightsSummary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let WeightsSummary { archive, card, elements, bytes } = self;
        let widest = archive.tensors.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, tensor) in &archive.tensors {
            writeln!(f, "{name:<widest$}  {}", tensor.shape())?;
        }
        let size = units::bytes(*bytes as u64);
        write!(f, "{}, {} tensors, {elements} elements, {size}", self.format(), archive.tensors.len())?;
        for (what, text) in [("under", &archive.found_under), ("without the prefix", &archive.stripped_prefix)] {
            if !text.is_empty() {
                write!(f, "\n{what}: {text}")?;
            }
        }
        if let Some(model) = &card.model {
            write!(f, "\nnetwork: {model}")?;
            card.image.map_or(Ok(()), |[height, width]| write!(f, ", images of {height}×{width}"))?;
        }
        if !card.names.is_empty() {
            write!(f, "\n{} classes: {}", card.names.len(), card.names.join(", "))?;
        }
        let is_name = |key: &str| key.strip_prefix("names.").is_some_and(|number| number.parse::<usize>().is_ok());
        let mut others = archive.metadata.iter().filter(|(key, _)| !is_name(key));
        others.try_for_each(|(key, value)| write!(f, "\n{key}: {value}"))
    }
}

/// The names that peft gives the two files of an adapter.
const FILES: [&str; 2] = ["adapter_model.safetensors", "adapter_config.json"];

/// Writes weights without adapters that compute the same; returns how many tensors. `adapter` is a folder of peft, or its file of tensors.
pub fn merge_adapters(from: &Path, adapter: Option<&Path>, to: &Path) -> Result<usize> {
    if to.extension().is_none_or(|ending| ending != "safetensors") {
        refuse!("{} must end in .safetensors", to.display());
    }
    let archive = Archive::open(from)?;
    let (tensors, adapters) = match adapter {
        None => (archive.tensors.clone(), adapted::of(&archive)),
        Some(path) => {
            let file = if path.is_dir() { path.join(FILES[0]) } else { path.to_path_buf() };
            let config = file.with_file_name(FILES[1]);
            let text = std::fs::read_to_string(&config).map_err(|source| file_error("read", &config, source))?;
            (adapted::beside(archive.tensors.clone(), &Archive::open(&file)?.tensors), adapted::of_config(&text))
        }
    };
    let merged = adapted::merged(&tensors, adapters.as_ref()).map_err(|error| refusal!("{error}"))?;
    let mut metadata = archive.metadata.clone();
    metadata.retain(|(key, _)| *key != adapted::METADATA);
    save_safetensors(to, merged.iter().map(|(name, tensor)| (name.as_str(), tensor)), &metadata)?;
    Ok(merged.len())
}

/// Writes the adapters and the head of weights that have both into a folder that peft reads; returns how
/// many tensors.
pub fn split_adapters(from: &Path, to: &Path) -> Result<usize> {
    let archive = Archive::open(from)?;
    let Some(adapters) = adapted::of(&archive) else {
        refuse!("{} has no adapters; train with `adapters` to have some", from.display());
    };
    let split = adapted::split(&archive.tensors, &adapters).map_err(|error| refusal!("{error}"))?;
    // The very layers, whatever words chose them: peft understands whole paths in every version.
    let [down, _] = Adapters::FACTORS;
    let layers = archive.tensors.iter().filter_map(|(name, _)| Some(name.strip_suffix(down)?.to_string()));
    let adapters = Adapters { targets: layers.collect(), ..adapters };
    std::fs::create_dir_all(to).map_err(|source| file_error("make the folder", to, source))?;
    let metadata = [("format".to_string(), "pt".to_string())];
    save_safetensors(&to.join(FILES[0]), split.iter().map(|(name, tensor)| (name.as_str(), tensor)), &metadata)?;
    let model = Card::of(&archive).model.unwrap_or_default();
    let config = to.join(FILES[1]);
    std::fs::write(&config, adapted::config(&adapters, &model))
        .map_err(|source| file_error("write", &config, source))?;
    Ok(split.len())
}

fn file_error(action: &str, path: &Path, source: std::io::Error) -> PredictError {
    PredictError::Io { what: format!("cannot {action} {}", path.display()), source }
}
