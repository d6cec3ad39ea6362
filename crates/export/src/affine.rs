//! Norms and biases behind convolutions, as one bias and other weights.

use octant_graph::{
    Binary, Convolution, DType, Graph, GraphBuilder, HostTensor, Node, NodeId, Op, Shape, Uses, ValueId,
};
use std::collections::HashMap;

/// `factor · x + offset` per channel.
struct ChannelAffine {
    factor: Vec<f64>,
    offset: Vec<f64>,
    /// What it makes of the convolution.
    result: ValueId,
    nodes: Vec<NodeId>,
}

/// The graph with every affine function of channels that alone reads a convolution with a constant kernel folded into the
/// kernel; what is left of it is the addition of a constant per channel.
pub(crate) fn fold_channel_affines(graph: &Graph) -> Graph {
    let uses = Uses::of(graph);
    let mut builder = GraphBuilder::new();
    let mut values: HashMap<ValueId, ValueId> = HashMap::new();
    let mut folded: Vec<bool> = vec![false; graph.nodes().len()];
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        values.insert(input, builder.input(name, graph.shape(input).clone()));
    }
    for (index, node) in graph.nodes().iter().enumerate() {
        if folded[index] || matches!(node.op, Op::Parameter { .. }) {
            continue;
        }
        let inputs: Vec<ValueId> = node.inputs.iter().map(|input| values[input]).collect();
        let affine = match &node.op {
            Op::Convolution(conv) => affine_behind(graph, &uses, node, conv).map(|affine| (conv, affine)),
            _ => None,
        };
        let Some((conv, affine)) = affine else {
            let outputs = builder.copy(graph, node, inputs);
            values.extend(node.outputs.iter().copied().zip(outputs));
            continue;
        };
        let result = scaled(graph, &mut builder, node, conv, &affine, inputs);
        values.insert(affine.result, result);
        affine.nodes.iter().for_each(|&done| folded[done] = true);
    }
    builder.finish(graph.outputs().iter().map(|output| values[output]).collect())
}

/// A convolution with scaled weights, its bias, and the type that the affine function returned.
fn scaled(
    graph: &Graph,
    builder: &mut GraphBuilder,
    node: &Node,
    conv: &Convolution,
    affine: &ChannelAffine,
    inputs: Vec<ValueId>,
) -> ValueId {
    let mut push = |op: Op, inputs: Vec<ValueId>, path: &std::sync::Arc<str>| {
        let made = builder.push(op, inputs, path.clone());
        made.expect("shapes are those of the nodes that are replaced")[0]
    };
    let weights = graph.producer(node.inputs[1]);
    let Op::Constant(tensor) = &weights.op else { unreachable!("the kernel is a constant") };
    let (dims, strides) = (tensor.dims(), tensor.shape().strides());
    let of_channel = |at: usize| affine.factor[at / strides[conv.kernel.output] % dims[conv.kernel.output]];
    let numbers: Vec<f64> = tensor.to_f64s().into_iter().enumerate().map(|(at, w)| w * of_channel(at)).collect();
    let constant = |shape: Shape, numbers: &[f64]| HostTensor::from_f64s(shape, numbers).expect("a number per element");
    let kernel = push(Op::Constant(constant(tensor.shape().clone(), &numbers)), vec![], &weights.path);
    let made = graph.shape(node.outputs[0]);
    let mut result = push(node.op.clone(), vec![inputs[0], kernel], &node.path);
    if affine.offset.iter().any(|&offset| offset != 0.0) {
        let bias = constant(Shape::new(made.dtype(), [affine.offset.len()]), &affine.offset);
        let bias = push(Op::Constant(bias), vec![], &node.path);
        let spread = Op::Broadcast { dims: made.dims().to_vec(), axes: vec![conv.output.feature] };
        let bias = push(spread, vec![bias], &node.path);
        result = push(Op::Binary(Binary::Add), vec![result, bias], &node.path);
    }
    let wanted = graph.shape(affine.result).dtype();
    if wanted == made.dtype() { result } else { push(Op::Convert(wanted), vec![result], &node.path) }
}

/// The affine function of channels that alone reads a convolution with a constant kernel: norms and biases.
fn affine_behind(graph: &Graph, uses: &Uses, node: &Node, conv: &Convolution) -> Option<ChannelAffine> {
    matches!(graph.producer(node.inputs[1]).op, Op::Constant(_)).then_some(())?;
    let channels = graph.shape(node.outputs[0]).dims()[conv.output.feature];
    let mut found = ChannelAffine {
        factor: vec![1.0; channels],
        offset: vec![0.0; channels],
        result: node.outputs[0],
        nodes: Vec::new(),
    };
    while let &[next] = uses.only_consumers(found.result) {
        let step = &graph.nodes()[next];
        let Some((binary, constant, is_left)) = channel_step(graph, step, found.result, conv, channels) else {
            break;
        };
        for channel in 0..channels {
            let number = constant[channel];
            let (factor, offset) = (found.factor[channel], found.offset[channel]);
            (found.factor[channel], found.offset[channel]) = match (binary, is_left) {
                (Binary::Add, _) => (factor, offset + number),
                (Binary::Sub, true) => (factor, offset - number),
                (Binary::Sub, false) => (-factor, number - offset),
                (Binary::Mul, _) => (factor * number, offset * number),
                _ => (factor / number, offset / number),
            };
        }
        found.result = step.outputs[0];
        found.nodes.push(next);
    }
    (!found.nodes.is_empty()).then_some(found)
}

/// What a node does to the channels of `value`: the operation, its constant per channel, and whether the value is its
/// left operand.
fn channel_step(
    graph: &Graph,
    node: &Node,
    value: ValueId,
    conv: &Convolution,
    channels: usize,
) -> Option<(Binary, Vec<f64>, bool)> {
    // Half precision computes norms in f32; in the weights they are exact.
    if matches!(node.op, Op::Convert(_)) {
        let is_float =
            matches!(graph.shape(node.outputs[0]).dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        return is_float.then(|| (Binary::Add, vec![0.0; channels], true));
    }
    let Op::Binary(binary) = node.op else { return None };
    let is_left = node.inputs[0] == value;
    let other = node.inputs[usize::from(is_left)];
    let fits = matches!(binary, Binary::Add | Binary::Sub | Binary::Mul) || binary == Binary::Div && is_left;
    let (base, axes) = repeated(graph, other);
    let Op::Constant(tensor) = &graph.producer(base).op else { return None };
    if !fits || other == value {
        return None;
    }
    let long: Vec<usize> = (0..axes.len()).filter(|&axis| tensor.dims()[axis] != 1).collect();
    let numbers = tensor.to_f64s();
    match &long[..] {
        [] => Some((binary, vec![numbers[0]; channels], is_left)),
        &[axis] if axes[axis] == conv.output.feature => Some((binary, numbers, is_left)),
        _ => None,
    }
}

/// Through repetitions to what is repeated, and which axis of the result each of its axes is.
pub(crate) fn repeated(graph: &Graph, value: ValueId) -> (ValueId, Vec<usize>) {
    let mut base = value;
    let mut axes: Vec<usize> = (0..graph.shape(value).rank()).collect();
    while let Op::Broadcast { axes: inner, .. } = &graph.producer(base).op {
        axes = inner.iter().map(|&axis| axes[axis]).collect();
        base = graph.producer(base).inputs[0];
    }
    (base, axes)
}
