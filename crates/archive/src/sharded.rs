//! Archives in several files, each with parts of tensors: the safetensors form of PyTorch's distributed checkpoints.
//!
//! Every device has a file `shard-00001-model-00001-of-00001.safetensors` with its own number, from 1. Where the parts begin in their
//! tensors stands in the file's metadata, as JSON under `DCP_SHARDING_INFO`. `model.safetensors.index.json` names the files; it is
//! also what published weights in several files have, whose tensors are whole.

use crate::error::Fault;
use crate::{Archive, ArchiveError, save_safetensors};
use octant_tensor::{AlignedBytes, Bytes, HostTensor, Shape, require_memory};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Behind the name of the archive that it stands for.
const INDEX: &str = ".index.json";
const SHARDING: &str = "DCP_SHARDING_INFO";
const VERSION: &str = "DCP_VERSION";

/// A part of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The tensor's name.
    pub name: String,
    /// Where the part begins in the tensor, in each dimension.
    pub starts: Vec<usize>,
    /// Its values.
    pub tensor: HostTensor,
}

/// The index beside an archive that is not one file.
pub(crate) fn index_of(path: &Path) -> Option<PathBuf> {
    if path.as_os_str().to_string_lossy().ends_with(INDEX) {
        return Some(path.to_path_buf());
    }
    let mut name = path.file_name()?.to_os_string();
    name.push(INDEX);
    let index = path.with_file_name(name);
    (!path.exists() && index.is_file()).then_some(index)
}

/// What the file of a device is called; the first device has number 0.
pub fn shard_name(device: usize) -> String {
    format!("shard-{:05}-model-00001-of-00001.safetensors", device + 1)
}

/// Writes the parts of one device into a folder. PyTorch's reader takes them together with those of the others.
pub fn save_shard(
    folder: &Path,
    device: usize,
    parts: &[Part],
    metadata: &[(String, String)],
) -> Result<PathBuf, ArchiveError> {
    let path = folder.join(shard_name(device));
    let offsets: Map<String, Value> =
        parts.iter().map(|part| (part.name.clone(), json!({ "saved_offsets": part.starts }))).collect();
    let mut metadata = metadata.to_vec();
    metadata.retain(|(key, _)| key != "format");
    metadata.extend([
        ("format".to_string(), "pt".to_string()),
        (SHARDING.to_string(), Value::Object(offsets).to_string()),
        (VERSION.to_string(), "1.0".to_string()),
    ]);
    save_safetensors(&path, parts.iter().map(|part| (part.name.as_str(), &part.tensor)), &metadata)?;
    Ok(path)
}

/// Writes the index of an archive called `name` in a folder: which of these files have which tensors.
pub fn index_text(files: &[(String, Vec<String>)], bytes: u64) -> String {
    let map: Map<String, Value> = files
        .iter()
        .rev()
        .flat_map(|(file, names)| names.iter().map(|name| (name.clone(), Value::String(file.clone()))))
        .collect();
    let all: Vec<&String> = files.iter().map(|(file, _)| file).collect();
    format!("{:#}\n", json!({ "metadata": { "total_size": bytes, "files": all }, "weight_map": map }))
}

/// What the index of an archive is called.
pub fn index_name(archive: &str) -> String {
    format!("{archive}{INDEX}")
}

/// Reads all files that an index names, and joins the parts of tensors.
pub(crate) fn read(index: &Path) -> Result<Archive, Fault> {
    let damaged = |problem: &str| Fault::Damaged(format!("the index {problem}"));
    let text = std::fs::read_to_string(index)?;
    let value: Value = serde_json::from_str(&text).map_err(|error| damaged(&format!("is no JSON: {error}")))?;
    let map = value["weight_map"].as_object().ok_or_else(|| damaged("has no weight_map"))?;
    let listed = value["metadata"]["files"].as_array().into_iter().flatten();
    let mut files: Vec<&str> = listed.chain(map.values()).filter_map(Value::as_str).collect();
    files.sort_unstable();
    files.dedup();
    let folder = index.parent().unwrap_or(Path::new("."));
    let (mut order, mut tensors) = (Vec::new(), BTreeMap::<String, Vec<(Vec<usize>, HostTensor)>>::new());
    let mut metadata = Vec::new();
    for file in files {
        // A name with a folder in it could lead anywhere.
        if Path::new(file).components().count() != 1 || file.starts_with('.') {
            return Err(damaged(&format!("names {file:?}, which is no file beside it")));
        }
        let archive = Archive::open(&folder.join(file)).map_err(|error| Fault::Damaged(error.to_string()))?;
        let starts = starts(&archive, file)?;
        for (name, tensor) in archive.tensors {
            let start = starts.get(&name).cloned().unwrap_or_else(|| vec![0; tensor.dims().len()]);
            if !tensors.contains_key(&name) {
                order.push(name.clone());
            }
            tensors.entry(name).or_default().push((start, tensor));
        }
        let known = [SHARDING, VERSION];
        let of_archive = archive.metadata.into_iter().filter(|(key, _)| !known.contains(&key.as_str()));
        if metadata.is_empty() {
            metadata.extend(of_archive);
        }
    }
    let join = |name: String| {
        let parts = tensors.remove(&name).unwrap_or_default();
        joined(&parts).map(|tensor| (name.clone(), tensor)).map_err(|fault| fault.of_tensor(&name))
    };
    let joined = order.into_iter().map(join).collect::<Result<Vec<_>, _>>()?;
    Ok(Archive { metadata, ..Archive::from(joined) })
}

/// Where the parts in a file begin.
fn starts(archive: &Archive, file: &str) -> Result<BTreeMap<String, Vec<usize>>, Fault> {
    let Some((_, text)) = archive.metadata.iter().find(|(key, _)| key == SHARDING) else { return Ok(BTreeMap::new()) };
    let damaged = || Fault::Damaged(format!("{SHARDING} of {file} cannot be understood"));
    let info: Map<String, Value> = serde_json::from_str(text).map_err(|_| damaged())?;
    let start = |(name, value): (String, Value)| {
        let numbers = value["saved_offsets"].as_array().ok_or_else(damaged)?;
        let numbers = numbers.iter().map(|number| number.as_u64().and_then(|number| usize::try_from(number).ok()));
        Ok((name, numbers.collect::<Option<Vec<_>>>().ok_or_else(damaged)?))
    };
    info.into_iter().map(start).collect()
}

/// A tensor of parts that must cover it, each element once.
fn joined(parts: &[(Vec<usize>, HostTensor)]) -> Result<HostTensor, Fault> {
    let wrong = |problem: &str| Fault::Damaged(problem.to_string());
    let Some((start, first)) = parts.first() else { return Err(wrong("has no part")) };
    if parts.len() == 1 && start.iter().all(|&start| start == 0) {
        return Ok(first.clone());
    }
    let rank = first.dims().len();
    let mut dims = vec![0usize; rank];
    for (start, part) in parts {
        if start.len() != rank || part.dims().len() != rank || part.dtype() != first.dtype() {
            return Err(wrong("has parts of different kinds"));
        }
        for ((dim, start), length) in dims.iter_mut().zip(start).zip(part.dims()) {
            *dim = (*dim).max(start.checked_add(*length).ok_or_else(|| wrong("has a part that begins nowhere"))?);
        }
    }
    let shape = Shape::new(first.dtype(), dims.clone());
    let bytes = shape.checked_bytes().ok_or_else(|| wrong("is larger than any memory"))?;
    let given: usize = parts.iter().map(|(_, part)| part.bytes().len()).sum();
    if given != bytes {
        return Err(Fault::Damaged(format!(
            "has {given} bytes in its parts instead of {bytes}: a file is missing, or one of another checkpoint is there"
        )));
    }
    require_memory(bytes as u128, "a tensor of several files")
        .map_err(|problem| Fault::Damaged(problem.to_string()))?;
    let (mut whole, mut covered) = (AlignedBytes::zeroed(bytes), vec![false; bytes / first.dtype().size().max(1)]);
    let size = first.dtype().size();
    let strides = shape.strides();
    for (start, part) in parts {
        let Some(&row) = part.dims().last().filter(|_| part.shape().elements() > 0) else { continue };
        for (number, from) in part.bytes().chunks_exact(row * size).enumerate() {
            // The position of the row in the part, then in the whole.
            let (mut left, mut at) = (number, start.last().copied().unwrap_or(0));
            for dimension in (0..rank.saturating_sub(1)).rev() {
                let length = part.dims()[dimension];
                at += (start[dimension] + left % length) * strides[dimension];
                left /= length;
            }
            if covered[at..at + row].contains(&true) {
                return Err(wrong("has parts that overlap"));
            }
            covered[at..at + row].fill(true);
            whole[at * size..(at + row) * size].copy_from_slice(from);
        }
    }
    Ok(HostTensor::from_bytes(shape, Bytes::new(whole))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, starts: [usize; 2], rows: &[[f32; 2]]) -> Part {
        let numbers: Vec<f32> = rows.concat();
        Part { name: name.into(), starts: starts.to_vec(), tensor: HostTensor::new([rows.len(), 2], &numbers).unwrap() }
    }

    fn write(folder: &Path, files: &[Vec<Part>]) {
        let mut listed = Vec::new();
        for (process, parts) in files.iter().enumerate() {
            save_shard(folder, process, parts, &[("step".into(), "7".into())]).unwrap();
            listed.push((shard_name(process), parts.iter().map(|part| part.name.clone()).collect()));
        }
        std::fs::write(folder.join(index_name("model.safetensors")), index_text(&listed, 0)).unwrap();
    }

    #[test]
    fn parts_of_several_processes_are_one_archive() {
        let folder = tempfile::tempdir().unwrap();
        let rows = part("rows", [0, 0], &[[1.0, 2.0]]);
        let more = part("rows", [1, 0], &[[3.0, 4.0], [5.0, 6.0]]);
        let [left, right] =
            [part("columns", [0, 0], &[[1.0, 2.0], [5.0, 6.0]]), part("columns", [0, 2], &[[3.0, 4.0], [7.0, 8.0]])];
        write(folder.path(), &[vec![rows, left, part("whole", [0, 0], &[[9.0, 9.0]])], vec![more, right]]);
        // As the archive that it stands for, and by its own name.
        for name in ["model.safetensors", "model.safetensors.index.json"] {
            let archive = Archive::open(&folder.path().join(name)).unwrap();
            assert_eq!(archive.get("rows").unwrap().to_f64s(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            assert_eq!(archive.get("columns").unwrap().to_f64s(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
            assert_eq!(archive.get("columns").unwrap().dims(), [2, 4]);
            assert_eq!(archive.tensors.len(), 3);
            assert!(archive.metadata.iter().any(|(key, value)| key == "step" && value == "7"));
        }
    }

    #[test]
    fn parts_that_are_missing_or_overlap_are_refused() {
        let refused = |files: &[Vec<Part>]| {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), files);
            Archive::open(&folder.path().join("model.safetensors")).unwrap_err().to_string()
        };
        let last = || part("x", [2, 0], &[[1.0, 2.0]]);
        assert!(refused(&[vec![last()]]).contains("a file is missing"));
        let wide = part("x", [0, 0], &[[1.0, 2.0], [3.0, 4.0]]);
        assert!(
            refused(&[vec![wide.clone()], vec![part("x", [1, 0], &[[1.0, 2.0]])], vec![last()]])
                .contains("a file is missing")
        );
        let folder = tempfile::tempdir().unwrap();
        let index = folder.path().join("model.safetensors.index.json");
        for text in
            ["", "{}", r#"{"weight_map": {"x": "../secret.safetensors"}}"#, r#"{"weight_map": {"x": "/etc/passwd"}}"#]
        {
            std::fs::write(&index, text).unwrap();
            assert!(Archive::open(&index).is_err(), "{text}");
        }
    }
}
