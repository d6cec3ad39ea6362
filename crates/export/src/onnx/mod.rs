//! Networks as ONNX models.
//!
//! Images are NHWC in the graph and NCHW in ONNX. No axis is moved for that: a value is stored with the order of its axes
//! ([`writer::Stored`]), operations translate their attributes, and transposes of the graph cost nothing. A transpose is
//! written only where an operation needs another order than its operand has, such as a reshape of feature maps.
//!
//! The batch is a named dimension. Everything that follows from weights alone is computed when the file is written, and
//! affine functions of channels behind a convolution go into its weights.

mod boxes;
mod contract;
mod decode;
mod details;
mod elementwise;
mod model;
mod movement;
mod patterns;
mod preprocess;
mod proto;
mod quantize;
mod reduce;
mod rotated;
mod sampling;
mod writer;

pub use boxes::{BoxDetail, BoxRules};
pub use decode::Decoder;
pub use model::OnnxModel;
pub use preprocess::{ImageInput, Kernel, Position, ResizedTo, Sampling};

use crate::network::Dim;
use crate::{ExportError, Network};
use octant_graph::DType;
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
    /// Facts for readers of the file: classes, preprocessing, licenses.
    pub metadata: Vec<(String, String)>,
    /// What the outputs are called, in order.
    pub outputs: Vec<String>,
    /// Preprocessing in the file: it takes one u8 image of any size, `[height, width, channels]`, and the network is one of
    /// u8 images. The batch of the network must be 1.
    pub input: Option<ImageInput>,
    /// What the file returns.
    pub decoder: Decoder,
}

impl Default for OnnxOptions {
    fn default() -> OnnxOptions {
        OnnxOptions {
            opset: 18,
            channels_first: true,
            metadata: Vec::new(),
            outputs: Vec::new(),
            input: None,
            decoder: Decoder::Outputs,
        }
    }
}

/// The versions of ONNX's operators that can be written: LayerNormalization is an operator from 17 on, and 18 changed the
/// axes of reductions from attributes to inputs.
pub const OPSETS: std::ops::RangeInclusive<i64> = 18..=23;

/// The first version with an operator for attention; networks for it are traced with
/// [`NetworkOptions::attention`](crate::NetworkOptions::attention).
pub const ATTENTION: i64 = 23;

/// A network as an ONNX model.
pub fn export(network: &Network, options: &OnnxOptions) -> Result<OnnxModel, ExportError> {
    if !OPSETS.contains(&options.opset) {
        let (first, last) = (OPSETS.start(), OPSETS.end());
        return Err(ExportError::Refused(format!("opset {} is not one of {first} to {last}", options.opset)));
    }
    let mut writer = Writer::new(network, options);
    let graph = network.graph();
    let mut input = Vec::new();
    let mut axes = None;
    if let Some(image) = &options.input {
        let &[value] = graph.inputs() else {
            return Err(ExportError::Refused("preprocessing is for networks with one input".into()));
        };
        let (declared, images, found) = writer.preprocessed(image)?;
        writer.keep(value, images, vec![0, 3, 1, 2]);
        input.push(declared);
        axes = Some(found);
    } else {
        for (&value, name) in graph.inputs().iter().zip(graph.input_names()) {
            let order = writer.outer_layout(value);
            writer.input(value, name, order.clone());
            input.push(of_value(&writer, value, name, &order)?);
        }
    }
    writer.nodes()?;
    let output = writer.decoded(axes.as_ref())?;
    let (node, initializer) = writer.finish(&output);
    let metadata = options.metadata.iter().map(|(key, value)| StringEntry { key: key.clone(), value: value.clone() });
    Ok(OnnxModel::new(ModelProto {
        // The first version that has these operators.
        ir_version: if options.opset >= 21 { 10 } else { 8 },
        producer_name: "octant".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        graph: Some(GraphProto { node, name: "network".into(), initializer, input, output }),
        opset_import: vec![OperatorSetId { domain: String::new(), version: options.opset }],
        metadata_props: metadata.collect(),
    }))
}

/// Name, element type and dimensions of a value of the graph.
fn of_value(
    writer: &Writer,
    value: octant_graph::ValueId,
    name: &str,
    order: &[usize],
) -> Result<ValueInfo, ExportError> {
    let dims = writer.network.dims(value)?;
    let dims: Vec<Dim> = order.iter().map(|&axis| dims[axis]).collect();
    Ok(info(name, writer.network.graph().shape(value).dtype(), &dims))
}

/// Name, element type and dimensions of an input or output.
fn info(name: &str, dtype: DType, dims: &[Dim]) -> ValueInfo {
    let dimension = |dim: &Dim| {
        let value = match *dim {
            Dim::Fixed(length) => DimensionValue::Fixed(length as i64),
            Dim::Batch(1) => DimensionValue::Named("batch".into()),
            Dim::Batch(factor) => DimensionValue::Named(format!("{factor}*batch")),
        };
        Dimension { value: Some(value) }
    };
    let shape = TensorShape { dim: dims.iter().map(dimension).collect() };
    let tensor = TensorType { element: element_type(dtype), shape: Some(shape) };
    ValueInfo { name: name.into(), kind: Some(TypeProto { tensor: Some(tensor) }) }
}

/// Names a dimension that may vary.
fn name_dimension(declared: &mut ValueInfo, index: usize, name: &str) {
    let tensor = declared.kind.iter_mut().flat_map(|kind| &mut kind.tensor);
    let dims = tensor.flat_map(|tensor| &mut tensor.shape).flat_map(|shape| &mut shape.dim);
    dims.skip(index).take(1).for_each(|dim| dim.value = Some(DimensionValue::Named(name.into())));
}

/// The same without its first dimension.
fn without_batch(mut declared: ValueInfo) -> ValueInfo {
    let tensor = declared.kind.iter_mut().flat_map(|kind| &mut kind.tensor);
    tensor.flat_map(|tensor| &mut tensor.shape).for_each(|shape| drop(shape.dim.drain(..1)));
    declared
}
