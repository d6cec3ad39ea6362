//! Networks as StableHLO: portable artifacts, which XLA's compilers and IREE's read for years, and the same for `jax.export`.
//!
//! The graph is lowered by the same code as for GPUs and TPUs (`octant_stablehlo`), so a file computes what a backend computes.
//! Shapes are fixed: a file is for one batch size and one image size.

mod flatbuffer;
mod jax;

use crate::file::{Port, WrittenFiles, replace};
use crate::network::prepared;
use crate::{ExportError, half};
use octant_graph::{Graph, GraphBuilder, HostTensor, Op, Shape, ValueId, passes};
use octant_runtime::Program;
use octant_stablehlo::MatmulPrecision;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

/// What a program is wrapped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StablehloContainer {
    /// The portable artifact alone.
    #[default]
    Artifact,
    /// The message that `jax.export.deserialize` reads.
    JaxExport,
}

/// Offsets of the message of `jax.export` have 31 bits; types and names need some of it.
const LARGEST_MESSAGE: usize = (1 << 31) - (64 << 20);

/// The keys under which a file lists the names of its inputs and outputs.
const INPUTS: &str = "octant.inputs";
const OUTPUTS: &str = "octant.outputs";

/// How a network is written.
#[derive(Debug, Clone, Default)]
pub struct StablehloOptions {
    /// What the program is wrapped in.
    pub container: StablehloContainer,
    /// Layers that were traced in bf16 compute in f16; inputs and outputs stay f32.
    pub half: bool,
    /// Images outside are `[N, C, H, W]`; otherwise `[N, H, W, C]`. Inputs and outputs of four axes are images.
    pub channels_first: bool,
    /// The weights are inputs, in a file of their own, instead of constants.
    pub weights_beside: bool,
    /// The name of the program.
    pub name: String,
    /// Facts for readers of the file. Keys get the prefix `octant.` where they have none.
    pub metadata: Vec<(String, String)>,
    /// What the outputs are called, in order.
    pub outputs: Vec<String>,
}

/// A network as a StableHLO file.
#[derive(Debug)]
pub struct StablehloModel {
    bytes: Vec<u8>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// The weights, where they are inputs.
    weights: Vec<(String, HostTensor)>,
}

/// What a file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StablehloMetadata {
    /// By key.
    pub entries: Vec<(String, String)>,
    /// The names of its outputs, in order.
    pub outputs: Vec<String>,
}

/// A traced network of one batch size as a StableHLO program. `weights` are bound to the inputs of their names; the others come
/// first, in order.
pub fn export(
    graph: &Graph,
    weights: &HashMap<String, HostTensor>,
    options: &StablehloOptions,
) -> Result<StablehloModel, ExportError> {
    let graph = match options.weights_beside {
        false => prepared(graph, weights, options.half, |_| false)?,
        true => {
            let graph = passes::inline_unless(graph, |_| false);
            passes::simplify(&if options.half { half::retyped(&graph)? } else { graph })
        }
    };
    let (graph, beside) = ordered(&graph, weights, options.channels_first)?;
    let names: Vec<String> = graph.input_names().iter().map(|name| name.to_string()).collect();
    let (inputs, outputs) = (graph.input_shapes(), graph.output_shapes());
    let program = Program::new(options.name.as_str(), graph);
    // As exact as the network's own type, on every device: predictions are to be the same.
    let precision = if options.half { MatmulPrecision::Fast } else { MatmulPrecision::Highest };
    let metadata = metadata(options, &names);
    let module = octant_stablehlo::portable(&program, precision, &metadata)?;
    let bytes = match options.container {
        StablehloContainer::Artifact => module,
        StablehloContainer::JaxExport if module.len() > LARGEST_MESSAGE => {
            return Err(ExportError::Refused(
                "jax.export reads files of at most 2 GB; put the weights beside it".into(),
            ));
        }
        StablehloContainer::JaxExport => {
            let mut arguments: Vec<jax::Tree> = names[..names.len() - beside].iter().map(|_| jax::Tree::Leaf).collect();
            if beside > 0 {
                arguments.push(jax::Tree::Dictionary(names[names.len() - beside..].to_vec()));
            }
            jax::exported(jax::Exported { name: &options.name, module, inputs: &inputs, arguments, outputs: &outputs })
        }
    };
    let weights = names[names.len() - beside..].iter().map(|name| (name.clone(), weights[name].clone())).collect();
    let port = |(name, shape): (&String, &Shape)| Port {
        name: name.clone(),
        element: shape.dtype().name(),
        dims: shape.dims().iter().map(ToString::to_string).collect(),
    };
    Ok(StablehloModel {
        bytes,
        inputs: names.iter().zip(&inputs).take(names.len() - beside).map(port).collect(),
        outputs: options.outputs.iter().zip(&outputs).map(port).collect(),
        weights,
    })
}

fn metadata(options: &StablehloOptions, inputs: &[String]) -> Vec<(String, String)> {
    let list = |names: &[String]| serde_json::Value::from(names.to_vec()).to_string();
    let listed = [(INPUTS.to_string(), list(inputs)), (OUTPUTS.to_string(), list(&options.outputs))];
    let prefixed = |(key, value): &(String, String)| match key.contains('.') {
        true => (key.clone(), value.clone()),
        false => (format!("octant.{key}"), value.clone()),
    };
    options.metadata.iter().map(prefixed).chain(listed).collect()
}

/// The graph with its weights as the last inputs, by name, and images in the order of axes that callers have. Returns the number
/// of weights among the inputs, too.
fn ordered(
    graph: &Graph,
    weights: &HashMap<String, HostTensor>,
    channels_first: bool,
) -> Result<(Graph, usize), ExportError> {
    let mut builder = GraphBuilder::new();
    let mut values: HashMap<ValueId, ValueId> = HashMap::new();
    let named = || graph.inputs().iter().zip(graph.input_names());
    let (mut last, first): (Vec<_>, Vec<_>) = named().partition(|(_, name)| weights.contains_key(&***name));
    last.sort_by_key(|(_, name)| name.to_string());
    let is_image = |value: ValueId| channels_first && graph.shape(value).rank() == 4;
    for &(&input, name) in &first {
        let shape = graph.shape(input);
        let value = match *shape.dims() {
            [n, height, width, channels] if is_image(input) => {
                let outside = builder.input(name, Shape::new(shape.dtype(), [n, channels, height, width]));
                transposed(&mut builder, outside, [0, 2, 3, 1])?
            }
            _ => builder.input(name, shape.clone()),
        };
        values.insert(input, value);
    }
    for &(&input, name) in &last {
        let (shape, tensor) = (graph.shape(input), &weights[&**name]);
        if tensor.shape() != shape {
            let found = tensor.shape();
            return Err(ExportError::Refused(format!("{name} should be {shape}, the weights have {found}")));
        }
        values.insert(input, builder.input(name, shape.clone()));
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let inputs = node.inputs.iter().map(|input| values[input]).collect();
        let outputs = builder.copy(graph, node, inputs);
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    let outputs = graph.outputs().iter().map(|&output| match is_image(output) {
        true => transposed(&mut builder, values[&output], [0, 3, 1, 2]),
        false => Ok(values[&output]),
    });
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    Ok((builder.finish(outputs), last.len()))
}

fn transposed(builder: &mut GraphBuilder, value: ValueId, permutation: [usize; 4]) -> Result<ValueId, ExportError> {
    let pushed = builder.push(Op::Transpose { permutation: permutation.into() }, vec![value], "".into());
    pushed.map(|outputs| outputs[0]).map_err(ExportError::Refused)
}

impl StablehloModel {
    /// What it takes beside its weights.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// What it returns.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The file.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The weights, where they are inputs.
    pub fn weights(&self) -> &[(String, HostTensor)] {
        &self.weights
    }

    /// Writes the file; weights that are inputs go to a second one, whose name is that of the file with `.safetensors` added.
    pub fn write(&self, path: &Path) -> Result<WrittenFiles, ExportError> {
        let name = path.file_name().map(|name| format!("{}.safetensors", name.to_string_lossy())).unwrap_or_default();
        let weights = (!self.weights.is_empty()).then(|| path.with_file_name(name));
        let mut bytes = self.bytes.len() as u64;
        if let Some(weights) = &weights {
            let tensors = self.weights.iter().map(|(name, tensor)| (name.as_str(), tensor));
            octant_archive::save_safetensors(weights, tensors, &[])?;
            bytes += self.weights.iter().map(|(_, tensor)| tensor.bytes().len() as u64).sum::<u64>();
        }
        replace(path, |file| file.write_all(&self.bytes))?;
        Ok(WrittenFiles { model: path.into(), weights, bytes })
    }

    /// What a file says about itself. None if it is no StableHLO file that Octant wrote.
    pub fn metadata(file: &[u8]) -> Option<StablehloMetadata> {
        let found = octant_stablehlo::portable_metadata(file);
        let entries = found.or_else(|| octant_stablehlo::portable_metadata(jax::module(file)?))?;
        let outputs = entries.iter().find(|(key, _)| key == OUTPUTS)?;
        let outputs = serde_json::from_str(&outputs.1).ok()?;
        Some(StablehloMetadata { entries, outputs })
    }
}
