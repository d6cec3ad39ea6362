//! From archives to variables and back: the reference's names and layouts outside, Octant's inside.

use crate::converted::with_current_names;
use crate::families::swin::relative_positions;
use crate::identity::metadata;
use crate::{Model, ModelEntry};
use octant_archive::{Archive, ArchiveError, Fit, Matching, save_safetensors};
use octant_nn::VariableSpec;
use octant_tensor::{DType, HostTensor, Shape};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Variables read from an archive.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// One value per variable, in their order. A variable that the archive does not have, or has in another shape, has
    /// its initial value.
    pub values: Vec<HostTensor>,
    /// What matched and what did not; [`Matching::require`] decides whether that will do.
    pub matching: Matching,
    /// The license that the file states, for messages.
    pub license: Option<String>,
}

/// Reads a model's variables from an archive. What is not there is initialized from `seed`.
pub fn load(archive: &Archive, model: &dyn Model, specs: &[VariableSpec], seed: u64) -> Loaded {
    let mut archive = with_current_names(archive, specs);
    archive.tensors.retain(|(name, _)| !model.ignores(name));
    let wanted: Vec<(String, Shape)> = specs.iter().map(reference_shape).collect();
    let head_paths = model.head_paths();
    let head: Vec<&str> = head_paths.iter().map(String::as_str).collect();
    let adapters: HashSet<&str> =
        specs.iter().filter(|spec| spec.is_adapter()).map(|spec| spec.path.as_str()).collect();
    let matching = Matching::between(&archive, &wanted, &head).with_adapters(|name| adapters.contains(name));
    let tensors: HashMap<&str, &HostTensor> =
        archive.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let value = |spec: &VariableSpec| {
        let found = *tensors.get(spec.path.as_str())?;
        let value = spec.layout.import(&with_dtype(found, spec.shape.dtype()), spec.shape.dims())?;
        let value = absorbed_bias(spec, value, &tensors);
        if value.bytes().as_ptr() != found.bytes().as_ptr() {
            archive.release(found);
        }
        Some(value)
    };
    let value = |spec: &VariableSpec| value(spec).unwrap_or_else(|| spec.initial(seed));
    let license = archive.metadata.iter().find(|(key, _)| key == "license").map(|(_, text)| text.clone());
    Loaded { values: specs.iter().map(value).collect(), matching, license }
}

/// The variables of a model of one's own, in their layout: an archive that has all of them and nothing else.
pub fn load_exactly(archive: &Archive, specs: &[VariableSpec]) -> Result<Vec<HostTensor>, ArchiveError> {
    let wanted: Vec<(String, Shape)> = specs.iter().map(reference_shape).collect();
    Matching::between(archive, &wanted, &[]).require(Fit::Exact)?;
    let tensors: HashMap<&str, &HostTensor> =
        archive.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let value = |spec: &VariableSpec| {
        let found = tensors.get(spec.path.as_str())?;
        spec.layout.import(&with_dtype(found, spec.shape.dtype()), spec.shape.dims())
    };
    let missing = |spec: &VariableSpec| ArchiveError::Mismatch(format!("{} is missing", spec.path));
    specs.iter().map(|spec| value(spec).ok_or_else(|| missing(spec))).collect()
}

/// Some files hold a bias in front of a batch norm where the network has none (`pe.conv.bias` of the published YOLO12):
/// it moves the mean that the norm takes off, so taking it off the running mean is the same.
fn absorbed_bias(spec: &VariableSpec, value: HostTensor, tensors: &HashMap<&str, &HostTensor>) -> HostTensor {
    let bias = spec.path.strip_suffix(".bn.running_mean").and_then(|layer| {
        let name = format!("{layer}.conv.bias");
        tensors.get(name.as_str()).filter(|bias| bias.dims() == value.dims())
    });
    let Some(bias) = bias else { return value };
    let moved: Vec<f64> = value.to_f64s().iter().zip(bias.to_f64s()).map(|(mean, bias)| mean - bias).collect();
    HostTensor::from_f64s(value.shape().clone(), &moved).unwrap_or(value)
}

/// Variables in the reference's names and layouts, complete: loading strictly requires what PyTorch keeps beside them too.
pub fn export(specs: &[VariableSpec], values: &[HostTensor], steps: u64) -> Vec<(String, HostTensor)> {
    let mut tensors = Vec::with_capacity(specs.len());
    for (spec, value) in specs.iter().zip(values) {
        let tensor = spec.layout.export(value).unwrap_or_else(|| value.clone());
        tensors.push((spec.path.clone(), tensor));
        tensors.extend(kept_beside(spec, steps));
    }
    tensors
}

/// What PyTorch keeps beside a variable: batch norms count their batches, and torchvision's windows (timm's do not) list the
/// row of the bias table for each pair of pixels.
pub fn kept_beside(spec: &VariableSpec, steps: u64) -> Option<(String, HostTensor)> {
    if let Some(norm) = spec.path.strip_suffix("running_var") {
        return Some((format!("{norm}num_batches_tracked"), HostTensor::scalar(steps as i64)));
    }
    let attention = spec.path.strip_suffix("relative_position_bias_table")?;
    let side = spec.shape.dims().first()?.isqrt();
    let index: Vec<i64> = relative_positions(side.div_ceil(2)).into_iter().map(i64::from).collect();
    let of_torchvision = spec.path.starts_with("features.");
    of_torchvision
        .then_some((format!("{attention}relative_position_index"), HostTensor::new([index.len()], &index).ok()?))
}

/// Writes variables as a safetensors file that the reference reads, with what is needed to use it again: model, classes
/// and preprocessing.
pub fn save(
    path: &Path,
    entry: &ModelEntry,
    classes: usize,
    specs: &[VariableSpec],
    values: &[HostTensor],
    steps: u64,
) -> Result<(), ArchiveError> {
    let tensors = export(specs, values, steps);
    let metadata: Vec<(String, String)> = std::iter::once(("format".to_string(), "pt".to_string()))
        .chain(metadata(entry, &entry.preprocessing, classes, &[]))
        .collect();
    save_safetensors(path, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)), &metadata)
}

fn reference_shape(spec: &VariableSpec) -> (String, Shape) {
    (spec.path.clone(), spec.shape.with_dims(spec.reference_dims()))
}

/// The nearest values of another element type; shares the bytes where the type is right already.
fn with_dtype(tensor: &HostTensor, dtype: DType) -> HostTensor {
    if tensor.dtype() == dtype {
        return tensor.clone();
    }
    let shape = tensor.shape().with_dtype(dtype);
    HostTensor::from_f64s(shape, &tensor.to_f64s()).unwrap_or_else(|_| tensor.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Card, identify};
    use crate::{build, describe};

    #[test]
    fn what_is_exported_is_imported_exactly() {
        for name in
            ["resnet-tiny", "vit-test", "convnext-test", "mshnet-tiny", "unet-tiny", "fashion-cnn-tiny", "swin-test"]
        {
            let model = build(name, None).unwrap();
            let entry = crate::find(name).unwrap();
            let (specs, _) = describe(&*model, entry.preprocessing.input).unwrap();
            let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(1)).collect();
            let loaded = load(&Archive::from(export(&specs, &values, 3)), &*model, &specs, 2);
            assert!(loaded.matching.is_exact(), "{name}: {}", loaded.matching);
            assert_eq!(loaded.values, values, "{name}");
        }
    }

    #[test]
    fn a_head_of_another_size_starts_afresh_and_is_reported() {
        let large = build("resnet-tiny", Some(20)).unwrap();
        let (specs, _) = describe(&*large, [32, 32, 3]).unwrap();
        let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(1)).collect();
        let file = Archive::from(export(&specs, &values, 0));
        let small = build("resnet-tiny", Some(5)).unwrap();
        let (specs, _) = describe(&*small, [32, 32, 3]).unwrap();
        let loaded = load(&file, &*small, &specs, 1);
        let names: Vec<&str> = loaded.matching.other_head.iter().map(|other| other.name.as_str()).collect();
        assert_eq!(names, ["fc.weight", "fc.bias"]);
        assert!(loaded.matching.other_shape.is_empty());
        let head = specs.iter().position(|spec| spec.path == "fc.weight").unwrap();
        assert_eq!(loaded.values[head], specs[head].initial(1));
    }

    #[test]
    fn a_saved_file_says_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let entry = crate::find("mobilenet_v3-tiny").unwrap();
        let model = build(entry.name, Some(7)).unwrap();
        let (specs, _) = describe(&*model, entry.preprocessing.input).unwrap();
        let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(1)).collect();
        save(&path, entry, 7, &specs, &values, 12).unwrap();
        let archive = Archive::open(&path).unwrap();
        assert_eq!(Card::of(&archive).model.as_deref(), Some(entry.name));
        assert_eq!(identify(&archive, entry).unwrap().classes, Some(7));
        let loaded = load(&archive, &*model, &specs, 2);
        assert!(loaded.matching.is_exact(), "{}", loaded.matching);
        assert_eq!(loaded.values, values);
        let count = archive.get("features.0.1.num_batches_tracked").unwrap();
        assert_eq!(count.to_f64s(), [12.0]);
    }
}
