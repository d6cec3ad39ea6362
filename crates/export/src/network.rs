//! A network with its weights, traced so that the size of its batch may vary.

use crate::affine::fold_channel_affines;
use crate::{ExportError, half};
use octant_graph::evaluate::evaluate;
use octant_graph::passes::{self, Int8Ranges};
use octant_graph::{
    AttentionKernel, DType, Graph, GraphBuilder, HostTensor, KernelHint, LayerNormKernel, Node, Op, QuantizeKernel,
    Shape, ValueId,
};
use std::collections::{HashMap, HashSet};

/// Two batch sizes without a common factor: a number that follows the batch is distinguished from one that does not.
const BATCHES: [usize; 2] = [TRACED_BATCH, 3];

/// The batch of [`Network::graph`].
pub const TRACED_BATCH: usize = 2;

/// A network with its weights, traced for two batch sizes. Numbers in which the traces differ follow the batch; all others
/// are facts of the network.
pub struct Network {
    graph: Graph,
    other: Graph,
    /// The batch size of the file; none where it is a dimension of the inputs.
    batch: Option<usize>,
}

/// How a network is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkOptions {
    /// Layers that were traced in bf16 compute in f16. What a trace keeps in f32, such as norms, softmax and the corners of
    /// boxes, stays in f32, and so do inputs and outputs.
    pub half: bool,
    /// The format has an operator for attention.
    pub attention: bool,
}

impl NetworkOptions {
    /// Calls that are one operator of the format; everything else is exported by its body.
    fn keeps(self, hint: &KernelHint) -> bool {
        // A bias that depends on the element of the batch is none that an operator knows.
        let is_plain = |kernel: AttentionKernel| kernel.bias.is_none_or(|[groups, ..]| groups == 1) && !kernel.causal;
        let is_attention = hint.name == AttentionKernel::FORWARD && AttentionKernel::decode(hint).is_some_and(is_plain);
        hint.name == LayerNormKernel::FORWARD || self.attention && is_attention
    }
}

/// A dimension of an exported value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dim {
    /// The same for every batch.
    Fixed(usize),
    /// A multiple of the batch size.
    Batch(usize),
}

impl Network {
    /// Traces a network twice by `trace`, which takes a batch size, and binds `weights` to the inputs of their names. The
    /// other inputs stay inputs, in order.
    pub fn new<E>(
        trace: impl Fn(usize) -> Result<Graph, E>,
        weights: &HashMap<String, HostTensor>,
        options: NetworkOptions,
    ) -> Result<Network, E>
    where
        E: From<ExportError>,
    {
        let [graph, other] = BATCHES.map(|batch| {
            let keeps = |hint: &KernelHint| options.keeps(hint);
            Ok::<Graph, E>(bound(&trace(batch)?, weights, options.half, keeps)?)
        });
        let [graph, other] = fold_both(&graph?, &other?)?.map(|graph| simplified(&graph));
        require_same(&graph, &other)?;
        Ok(Network { graph, other, batch: None })
    }

    /// The network with some layers in 8 bits. `ranges` are those that their activations were measured to have.
    pub fn quantized(self, ranges: &Int8Ranges) -> Result<Network, ExportError> {
        let quantized = |graph: &Graph| {
            let activations: Vec<usize> = (0..graph.inputs().len()).collect();
            let made = passes::quantized(graph, &activations, ranges);
            made.map_err(|error| ExportError::Refused(error.to_string()))
        };
        let folded = fold_both(&quantized(&self.graph)?, &quantized(&self.other)?)?;
        let [graph, other] = folded.map(|graph| passes::dead_code(&graph));
        Ok(Network { graph, other, batch: self.batch })
    }

    /// The network for batches of one size instead of any.
    pub fn with_batch(self, batch: usize) -> Network {
        Network { batch: Some(batch), ..self }
    }

    /// The network for a batch of [`TRACED_BATCH`], with its weights as constants.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The dimensions of a value.
    pub(crate) fn dims(&self, value: ValueId) -> Result<Vec<Dim>, ExportError> {
        let (a, b) = (self.graph.shape(value).dims(), self.other.shape(value).dims());
        a.iter().zip(b).map(|(&a, &b)| self.dim(a, b)).collect()
    }

    /// The dimension in an attribute of a node, read by `get` from the node of either trace.
    pub(crate) fn attribute(&self, node: usize, get: impl Fn(&Op) -> usize) -> Result<Dim, ExportError> {
        self.dim(get(&self.graph.nodes()[node].op), get(&self.other.nodes()[node].op))
    }

    /// The dimension that is `a` and `b` in the two traces.
    fn dim(&self, a: usize, b: usize) -> Result<Dim, ExportError> {
        if a == b {
            return Ok(Dim::Fixed(a));
        }
        if !a.is_multiple_of(BATCHES[0]) || a / BATCHES[0] * BATCHES[1] != b {
            let [first, second] = BATCHES;
            return Err(ExportError::Refused(format!(
                "a dimension is {a} for a batch of {first} and {b} for one of {second}: it does not follow the batch"
            )));
        }
        let factor = a / BATCHES[0];
        Ok(self.batch.map_or(Dim::Batch(factor), |batch| Dim::Fixed(factor * batch)))
    }
}

/// The graph without calls but for those that are kept, with its weights as constants and whatever follows from them computed.
pub(crate) fn prepared(
    graph: &Graph,
    weights: &HashMap<String, HostTensor>,
    half: bool,
    keeps: impl Fn(&KernelHint) -> bool,
) -> Result<Graph, ExportError> {
    Ok(simplified(&fold(&bound(graph, weights, half, keeps)?, &HashSet::new())?))
}

/// The graph without calls but for those that are kept, with its weights as constants.
fn bound(
    graph: &Graph,
    weights: &HashMap<String, HostTensor>,
    half: bool,
    keeps: impl Fn(&KernelHint) -> bool,
) -> Result<Graph, ExportError> {
    let graph = passes::inline_unless(graph, keeps);
    let graph = if half { half::retyped(&graph)? } else { graph };
    bind(&graph, weights)
}

fn simplified(graph: &Graph) -> Graph {
    passes::dead_code(&fold_channel_affines(&passes::simplify(graph)))
}

/// Refuses two traces that differ in more than the lengths of dimensions.
fn require_same(graph: &Graph, other: &Graph) -> Result<(), ExportError> {
    let is_same = graph.nodes().len() == other.nodes().len()
        && graph.nodes().iter().zip(other.nodes()).all(|(a, b)| a.op.kind() == b.op.kind() && a.inputs == b.inputs);
    match is_same {
        true => Ok(()),
        false => Err(ExportError::Refused("the network has other operations for other batch sizes".into())),
    }
}

/// [`fold`] for both traces. What has another length for another batch is left to the runtime.
fn fold_both(graph: &Graph, other: &Graph) -> Result<[Graph; 2], ExportError> {
    require_same(graph, other)?;
    let mut varies = HashSet::new();
    for (index, (a, b)) in graph.nodes().iter().zip(other.nodes()).enumerate() {
        let mut outputs = a.outputs.iter().zip(&b.outputs);
        if outputs.any(|(&a, &b)| graph.shape(a) != other.shape(b)) {
            varies.insert(index);
        }
        if let (Op::Constant(first), Op::Constant(second)) = (&a.op, &b.op)
            && (first.shape() != second.shape() || first.bytes()[..] != second.bytes()[..])
        {
            let layer = if a.path.is_empty() { "the network" } else { &*a.path };
            return Err(ExportError::Refused(format!("{layer} has another constant for other batch sizes")));
        }
    }
    Ok([fold(graph, &varies)?, fold(other, &varies)?])
}

/// The graph with some inputs as constants.
fn bind(graph: &Graph, weights: &HashMap<String, HostTensor>) -> Result<Graph, ExportError> {
    let mut builder = GraphBuilder::new();
    let mut values: HashMap<ValueId, ValueId> = HashMap::new();
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        let shape = graph.shape(input);
        let bound = match weights.get(&**name) {
            Some(tensor) => constant(&mut builder, name, shape, tensor)?,
            None => builder.input(name, shape.clone()),
        };
        values.insert(input, bound);
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let inputs = node.inputs.iter().map(|input| values[input]).collect();
        let outputs = builder.copy(graph, node, inputs);
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    let outputs = graph.outputs().iter().map(|output| values[output]).collect();
    Ok(builder.finish(outputs))
}

fn constant(
    builder: &mut GraphBuilder,
    name: &str,
    shape: &Shape,
    tensor: &HostTensor,
) -> Result<ValueId, ExportError> {
    if tensor.shape() != shape {
        let found = tensor.shape();
        return Err(ExportError::Refused(format!("{name} should be {shape}, the weights have {found}")));
    }
    let pushed = builder.push(Op::Constant(tensor.clone()), vec![], name.into());
    Ok(pushed.expect("a constant has the shape of its tensor")[0])
}

/// Computes whatever follows from constants alone: what a norm makes of its statistics, position embeddings, masks. Only
/// repetitions stay, which would fill the file, and nodes that vary.
fn fold(graph: &Graph, varies: &HashSet<usize>) -> Result<Graph, ExportError> {
    let mut builder = GraphBuilder::new();
    let mut values: HashMap<ValueId, ValueId> = HashMap::new();
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        values.insert(input, builder.input(name, graph.shape(input).clone()));
    }
    let nodes = graph.nodes().iter().enumerate();
    for (index, node) in nodes.filter(|(_, node)| !matches!(node.op, Op::Parameter { .. })) {
        let inputs: Vec<ValueId> = node.inputs.iter().map(|input| values[input]).collect();
        let results = if varies.contains(&index) { None } else { folded(&builder, node, &inputs) };
        if let (Op::Convert(DType::F16), Some([result])) = (&node.op, results.as_deref()) {
            half::require_range(&builder, inputs[0], result)?;
        }
        let outputs = match results {
            Some(results) => results
                .into_iter()
                .map(|tensor| {
                    let pushed = builder.push(Op::Constant(tensor), vec![], node.path.clone());
                    pushed.expect("a constant has the shape of its tensor")[0]
                })
                .collect(),
            None => builder.copy(graph, node, inputs),
        };
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    let outputs = graph.outputs().iter().map(|output| values[output]).collect();
    Ok(builder.finish(outputs))
}

fn folded(builder: &GraphBuilder, node: &Node, inputs: &[ValueId]) -> Option<Vec<HostTensor>> {
    let is_repetition = matches!(node.op, Op::Broadcast { .. });
    let is_whole = match &node.op {
        // Weights are stored in 8 bits; reading them back is left to the runtime.
        Op::Call { kernel: Some(hint), .. } => hint.name == QuantizeKernel::QUANTIZE,
        op => op.bodies().is_empty(),
    };
    if matches!(node.op, Op::Constant(_) | Op::Barrier) || is_repetition || !is_whole {
        return None;
    }
    // A repeated constant is read through its repetition.
    let mut single = GraphBuilder::new();
    let mut operands = Vec::new();
    for &input in inputs {
        operands.push(copied_constant(builder.graph(), input, &mut single)?);
    }
    let outputs = single.push(node.op.clone(), operands, "".into()).ok()?;
    evaluate(&single.finish(outputs), &[]).ok()
}

fn copied_constant(graph: &Graph, value: ValueId, single: &mut GraphBuilder) -> Option<ValueId> {
    let node = graph.producer(value);
    let inputs = match &node.op {
        Op::Constant(_) => vec![],
        Op::Broadcast { .. } => vec![copied_constant(graph, node.inputs[0], single)?],
        _ => return None,
    };
    single.push(node.op.clone(), inputs, "".into()).ok().map(|outputs| outputs[0])
}
