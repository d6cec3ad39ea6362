//! A finished model: what it takes and returns, and its files.

use super::proto::{DimensionValue, ModelProto, StringEntry, ValueInfo};
use super::writer::element_name;
use crate::ExportError;
use crate::file::{Port, WrittenFiles, replace};
use prost::Message;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The largest message that Protocol Buffers can read is 2 GiB; nodes and names need some of it.
const LARGEST: usize = (1 << 31) - (64 << 20);

/// Tensors below this size stay in the model: a runtime reads shapes and axes before it opens another file.
const SMALL: usize = 1024;

/// Tensors in a file of their own begin at multiples of a page, so that they can be mapped.
const PAGE: u64 = 4096;

/// An ONNX model.
pub struct OnnxModel {
    proto: ModelProto,
}

impl OnnxModel {
    pub(super) fn new(proto: ModelProto) -> OnnxModel {
        OnnxModel { proto }
    }

    /// Reads a file, also one that another program wrote. Weights in a second file are not read.
    pub fn read(path: &Path) -> Result<OnnxModel, ExportError> {
        let refused = |error: String| ExportError::Refused(format!("cannot read {}: {error}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
        let proto = ModelProto::decode(&bytes[..]).map_err(|error| refused(format!("it is no ONNX file ({error})")))?;
        Ok(OnnxModel { proto })
    }

    /// Its metadata, by key.
    pub fn metadata(&self) -> Vec<(String, String)> {
        self.proto.metadata_props.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    }

    /// What it takes.
    pub fn inputs(&self) -> Vec<Port> {
        self.proto.graph.iter().flat_map(|graph| &graph.input).map(port).collect()
    }

    /// What it returns.
    pub fn outputs(&self) -> Vec<Port> {
        self.proto.graph.iter().flat_map(|graph| &graph.output).map(port).collect()
    }

    /// How often each of ONNX's operators is used.
    pub fn operators(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for node in self.proto.graph.iter().flat_map(|graph| &graph.node) {
            *counts.entry(node.op_type.as_str()).or_default() += 1;
        }
        counts
    }

    /// The model as one file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.proto.encode_to_vec()
    }

    /// Writes the model; weights that do not fit into one file go to a second one, whose name is that of the model with
    /// `.data` added. An interrupted call leaves files that were there as they were.
    pub fn write(self, path: &Path) -> Result<WrittenFiles, ExportError> {
        self.write_within(path, LARGEST)
    }

    /// The same, where one file has at most so many bytes.
    pub fn write_within(mut self, path: &Path, largest: usize) -> Result<WrittenFiles, ExportError> {
        let weights = match self.proto.encoded_len() > largest {
            true => Some(self.write_weights(path)?),
            false => None,
        };
        let mut bytes = weights.as_ref().map_or(0, |(_, bytes)| *bytes);
        let encoded = self.proto.encode_to_vec();
        bytes += encoded.len() as u64;
        replace(path, |file| file.write_all(&encoded))?;
        Ok(WrittenFiles { model: path.into(), weights: weights.map(|(path, _)| path), bytes })
    }

    fn write_weights(&mut self, model: &Path) -> Result<(PathBuf, u64), ExportError> {
        let name = model.file_name().map(|name| format!("{}.data", name.to_string_lossy())).unwrap_or_default();
        let path = model.with_file_name(&name);
        let mut end = 0u64;
        let tensors = self.proto.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
        replace(&path, |file| {
            for tensor in tensors.filter(|tensor| tensor.raw_data.len() >= SMALL) {
                let data = std::mem::take(&mut tensor.raw_data);
                let start = end.next_multiple_of(PAGE);
                file.write_all(&vec![0; (start - end) as usize])?;
                file.write_all(&data)?;
                end = start + data.len() as u64;
                let entry = |key: &str, value: String| StringEntry { key: key.into(), value };
                let (offset, length) = (start.to_string(), data.len().to_string());
                tensor.external_data =
                    vec![entry("location", name.clone()), entry("offset", offset), entry("length", length)];
                tensor.data_location = 1;
            }
            Ok(())
        })?;
        Ok((path, end))
    }
}

fn port(info: &ValueInfo) -> Port {
    let tensor = info.kind.iter().flat_map(|kind| &kind.tensor).next();
    let dims = tensor.iter().flat_map(|tensor| &tensor.shape).flat_map(|shape| &shape.dim);
    let dims = dims.map(|dim| match &dim.value {
        Some(DimensionValue::Fixed(length)) => length.to_string(),
        Some(DimensionValue::Named(name)) => name.clone(),
        None => "?".into(),
    });
    Port {
        name: info.name.clone(),
        element: tensor.map_or("?", |tensor| element_name(tensor.element)),
        dims: dims.collect(),
    }
}
