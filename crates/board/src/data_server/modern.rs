//! Values of older writers as newer ones write them.

use super::messages::{Dimension, SummaryMetadata, TensorProto, TensorShape};
use crate::media::buckets;
use crate::values::Tag;
use octant_events::{Field, Kind, fields};
use prost::Message;

/// What TensorBoard reads a series as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataClass {
    Scalar = 1,
    Tensor = 2,
    Blobs = 3,
}

/// Plugins whose tensors hold graphs, whatever their metadata say.
const GRAPHS: [&str; 3] = ["graph_run_metadata", "graph_run_metadata_graph", "graph_keras_model"];

/// The class of a tag: what its metadata says, or what its plugin has always been.
pub fn class(tag: &Tag) -> DataClass {
    let metadata = SummaryMetadata::decode(&tag.metadata[..]).unwrap_or_default();
    match (tag.kind, metadata.data_class) {
        (Kind::Scalar, _) => DataClass::Scalar,
        (Kind::Image | Kind::Audio | Kind::Graph | Kind::Profile, _) | (Kind::Tensor, 3) => DataClass::Blobs,
        (Kind::Tensor, _) if GRAPHS.contains(&tag.plugin.as_str()) => DataClass::Blobs,
        (Kind::Histogram | Kind::Text | Kind::Tensor, _) => DataClass::Tensor,
    }
}

/// The metadata of a tag, generated where its writer had none.
pub fn metadata(tag: &Tag) -> Vec<u8> {
    let mut metadata = SummaryMetadata::decode(&tag.metadata[..]).unwrap_or_default();
    metadata.data_class = class(tag) as i32;
    let data = metadata.plugin_data.get_or_insert_default();
    if data.plugin_name.is_empty() {
        data.plugin_name = tag.plugin.clone();
        if tag.kind == Kind::Image {
            // ImagePluginData: an image that was made into a tensor.
            data.content = vec![0x10, 1];
        }
    }
    metadata.encode_to_vec()
}

/// The tensor in a `Summary.Value`, or what an older histogram would be as one.
pub fn tensor(value: &[u8], kind: Kind) -> Vec<u8> {
    const FLOAT: i32 = 1;
    const DOUBLE: i32 = 2;
    let shaped =
        |dims: &[usize]| Some(TensorShape { dim: dims.iter().map(|&size| Dimension { size: size as i64 }).collect() });
    if let Some(tensor) = field(value, 8) {
        return tensor.to_vec();
    }
    if kind == Kind::Histogram
        && let Some(rows) = buckets(value)
    {
        let content = rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        return TensorProto { dtype: DOUBLE, tensor_shape: shaped(&[rows.len(), 3]), tensor_content: content }
            .encode_to_vec();
    }
    // A value that is nothing but metadata.
    TensorProto { dtype: FLOAT, tensor_shape: shaped(&[0]), tensor_content: Vec::new() }.encode_to_vec()
}

/// The blobs of a value: a graph is one, and so is a recording, whose label is left out; an image has its width and height before
/// it.
pub fn blobs(value: &[u8], tag: &Tag) -> Vec<Vec<u8>> {
    let kind = tag.kind;
    match (kind, field(value, 4).filter(|_| kind == Kind::Image), field(value, 6).filter(|_| kind == Kind::Audio)) {
        (Kind::Graph, ..) => vec![value.to_vec()],
        (Kind::Profile, ..) => vec![field(value, 2).unwrap_or_default().to_vec()],
        (_, Some(image), _) => {
            let number = |number: u32| varint(image, number).unwrap_or(0).to_string().into_bytes();
            vec![number(2), number(1), field(image, 4).unwrap_or_default().to_vec()]
        }
        (_, _, Some(audio)) => vec![field(audio, 4).unwrap_or_default().to_vec()],
        _ => {
            let tensor = field(value, 8).and_then(octant_events::TensorValue::decode);
            let Some(tensor) = tensor else { return Vec::new() };
            let is_labeled = tag.plugin == "audio" && tensor.shape.len() == 2 && tensor.shape[1] == 2;
            tensor.strings.into_iter().step_by(if is_labeled { 2 } else { 1 }).collect()
        }
    }
}

/// The bytes of a field.
fn field(message: &[u8], wanted: u32) -> Option<&[u8]> {
    fields(message).map_while(|field| field).find_map(|(number, field)| match field {
        Field::Bytes(content) if number == wanted => Some(content),
        _ => None,
    })
}

/// The number of a field.
fn varint(message: &[u8], wanted: u32) -> Option<u64> {
    fields(message).map_while(|field| field).find_map(|(number, field)| match field {
        Field::Varint(value) if number == wanted => Some(value),
        _ => None,
    })
}
