//! Networks as ONNX models.
//!
//! Images are NHWC in the graph and NCHW in ONNX. No axis is moved for that: a value is stored with the order of its axes
//! ([`writer::Stored`]), operations translate their attributes, and transposes of the graph cost nothing. A transpose is
//! written only where an operation needs another order than its operand has, such as a reshape of feature maps.
//!
//! The batch is a named dimension. Everything that follows from weights alone is computed when the file is written, and
//! affine functions of channels behind a convolution go into its weights.

mod contract;
mod elementwise;
mod movement;
mod patterns;
mod proto;
mod reduce;
mod writer;

use crate::{ExportError, Network};
use prost::Message;
use proto::{
    Dimension, DimensionValue, GraphProto, ModelProto, OperatorSetId, StringEntry, TensorShape, TensorType, TypeProto,
    ValueInfo,
};
use writer::{Writer, element_type};

/// How a network is written.
#[derive(Debug, Clone)]
pub struct OnnxOptions {
    /// The version of ONNX's operators.
    pub opset: i64,
    /// Images outside are `[N, C, H, W]`; otherwise `[N, H, W, C]`. Inputs and outputs of four axes are images.
    pub channels_first: bool,
    /// Facts for whoever reads the file: classes, preprocessing, licenses.
    pub metadata: Vec<(String, String)>,
    /// What the outputs are called, in order.
    pub outputs: Vec<String>,
}

impl Default for OnnxOptions {
    fn default() -> OnnxOptions {
        OnnxOptions { opset: 18, channels_first: true, metadata: Vec::new(), outputs: Vec::new() }
    }
}

/// The versions of ONNX's operators that can be written: LayerNormalization is an operator from 17 on, and 18 changed the
/// axes of reductions from attributes to inputs.
pub const OPSETS: std::ops::RangeInclusive<i64> = 18..=23;

/// A network as the bytes of an ONNX file.
pub fn export(network: &Network, options: &OnnxOptions) -> Result<Vec<u8>, ExportError> {
    if !OPSETS.contains(&options.opset) {
        let (first, last) = (OPSETS.start(), OPSETS.end());
        return Err(ExportError::Refused(format!("opset {} is not one of {first} to {last}", options.opset)));
    }
    let mut writer = Writer::new(network, options);
    let graph = network.graph();
    let mut input = Vec::new();
    for (&value, name) in graph.inputs().iter().zip(graph.input_names()) {
        let order = writer.border(value);
        writer.input(value, name, order.clone());
        input.push(info(&writer, value, name, &order)?);
    }
    writer.nodes()?;
    let mut output = Vec::new();
    for (index, &value) in graph.outputs().iter().enumerate() {
        let name = options.outputs.get(index).cloned().unwrap_or_else(|| format!("output{index}"));
        let order = writer.border(value);
        writer.output(value, &order, &name)?;
        output.push(info(&writer, value, &name, &order)?);
    }
    let (node, initializer) = writer.finish(&output);
    let metadata = options.metadata.iter().map(|(key, value)| StringEntry { key: key.clone(), value: value.clone() });
    let model = ModelProto {
        // The first version that has these operators.
        ir_version: if options.opset >= 21 { 10 } else { 8 },
        producer_name: "octant".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        graph: Some(GraphProto { node, name: "network".into(), initializer, input, output }),
        opset_import: vec![OperatorSetId { domain: String::new(), version: options.opset }],
        metadata_props: metadata.collect(),
    };
    Ok(model.encode_to_vec())
}

/// Name, element type and dimensions of an input or output.
fn info(writer: &Writer, value: octant_graph::ValueId, name: &str, order: &[usize]) -> Result<ValueInfo, ExportError> {
    let dims = writer.network.dims(value)?;
    let dimension = |&axis: &usize| {
        let value = match dims[axis] {
            crate::network::Dim::Fixed(length) => DimensionValue::Fixed(length as i64),
            crate::network::Dim::Batch(1) => DimensionValue::Named("batch".into()),
            crate::network::Dim::Batch(factor) => DimensionValue::Named(format!("{factor}*batch")),
        };
        Dimension { value: Some(value) }
    };
    let shape = TensorShape { dim: order.iter().map(dimension).collect() };
    let element = element_type(writer.network.graph().shape(value).dtype());
    let tensor = TensorType { element, shape: Some(shape) };
    Ok(ValueInfo { name: name.into(), kind: Some(TypeProto { tensor: Some(tensor) }) })
}
