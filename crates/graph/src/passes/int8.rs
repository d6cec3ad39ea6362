//! Networks in 8 bits: convolutions and linear layers of activations that are stored in 8 bits, with weights in 8 bits.
//!
//! The pass works on traced networks and on those whose weights are constants alike: whatever does not depend on the
//! activations counts as weights. It inserts [`Tensor::quantize`] and [`Tensor::dequantize`], so the result is a graph that
//! every backend computes, with the rounding that 8 bits have. Activations have one scale each, from ranges that were measured
//! before; weights one per output channel, from their largest magnitude, which a norm that follows does not change.

use super::inline_unless;
use crate::{
    Binary, Comparison, DType, Graph, GraphError, HostTensor, NodeId, Op, Shape, Tensor, Trace, Uses, ValueId,
};
use std::collections::HashMap;

/// A convolution of activations with weights, or a linear layer, and the values around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contraction {
    /// Its layer, numbered where a layer has several: `layer1.0.conv1`, `features.3#2`. The same in every trace of a network.
    pub name: String,
    /// The node.
    pub node: NodeId,
    /// The activations that it reads.
    pub input: ValueId,
    /// The axis of the weights that runs over output channels.
    pub channel_axis: usize,
    /// Of convolutions: what biases, norms and a rectifier behind it make of its result, where nothing else reads the steps
    /// between. Linear layers return f32.
    pub result: Option<ValueId>,
}

/// The values that an 8-bit number stands for, from the smallest to the largest. Zero is always among them.
pub type LayerRange = [f32; 2];

/// What is computed in 8 bits: for each layer by name, the range of its input, and of its result where it is stored in 8 bits.
pub type Int8Ranges = HashMap<String, (LayerRange, Option<LayerRange>)>;

/// The convolutions and linear layers of a network in f32, in order. `activations` are the graph's inputs that are no weights.
pub fn contractions(graph: &Graph, activations: &[ValueId]) -> Vec<Contraction> {
    let varies = varying(graph, activations);
    let uses = Uses::of(graph);
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        let Some(channel_axis) = channel_axis(graph, index, &varies) else { continue };
        let number = names.entry(&node.path).or_default();
        *number += 1;
        let name = if *number == 1 { node.path.to_string() } else { format!("{}#{number}", node.path) };
        let result = matches!(node.op, Op::Convolution(_)).then(|| result_of(graph, index, &varies, &uses));
        found.push(Contraction { name, node: index, input: node.inputs[0], channel_axis, result });
    }
    found
}

/// By value: whether it depends on the activations.
fn varying(graph: &Graph, activations: &[ValueId]) -> Vec<bool> {
    let mut varies = vec![false; graph.values().len()];
    activations.iter().for_each(|input| varies[input.index()] = true);
    for node in graph.nodes() {
        if node.inputs.iter().any(|input| varies[input.index()]) {
            node.outputs.iter().for_each(|output| varies[output.index()] = true);
        }
    }
    varies
}

/// The output channels of the weights, if the node is a convolution or a linear layer that can be computed in 8 bits.
fn channel_axis(graph: &Graph, index: NodeId, varies: &[bool]) -> Option<usize> {
    let node = &graph.nodes()[index];
    let is_plain = |&value: &ValueId| graph.shape(value).dtype() == DType::F32;
    let &[input, weights] = &node.inputs[..] else { return None };
    if !varies[input.index()] || varies[weights.index()] || !node.inputs.iter().chain(&node.outputs).all(is_plain) {
        return None;
    }
    match &node.op {
        Op::Convolution(conv) => {
            let is_forward = conv.batch_groups == 1 && conv.input_dilation.iter().all(|&factor| factor == 1);
            (is_forward && !conv.reversed).then_some(conv.kernel.output)
        }
        Op::Dot(dot) => {
            let is_linear = dot.right_batch.is_empty() && graph.shape(weights).rank() == 2;
            match &dot.right_contract[..] {
                &[axis] if is_linear => Some(1 - axis),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Through what alone reads the result of a convolution: arithmetic with weights, then a rectifier.
fn result_of(graph: &Graph, index: NodeId, varies: &[bool], uses: &Uses) -> ValueId {
    let mut value = graph.nodes()[index].outputs[0];
    loop {
        let next = match *uses.only_consumers(value) {
            [only] => &graph.nodes()[only],
            [test, choice] => return rectified(graph, value, test, choice).unwrap_or(value),
            _ => return value,
        };
        let is_weight = |input: &ValueId| *input == value || !varies[input.index()];
        match next.op {
            Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div) if next.inputs.iter().all(is_weight) => {
                value = next.outputs[0];
            }
            Op::Clamp if next.inputs[1] == value && next.inputs.iter().all(is_weight) => return next.outputs[0],
            _ => return value,
        }
    }
}

/// `value <= 0 ? 0 : value`.
fn rectified(graph: &Graph, value: ValueId, test: NodeId, choice: NodeId) -> Option<ValueId> {
    let (test, choice) = (&graph.nodes()[test], &graph.nodes()[choice]);
    let is_test = test.op == Op::Compare(Comparison::LessEqual) && test.inputs[0] == value;
    let is_choice = choice.op == Op::Select && choice.inputs[0] == test.outputs[0] && choice.inputs[2] == value;
    (is_test && is_choice).then(|| choice.outputs[0])
}

/// The network with the layers of `ranges` in 8 bits; all others stay in f32. Calls without a kernel are inlined first, as they
/// are by a caller who measures ranges.
pub fn quantized(graph: &Graph, activations: &[usize], ranges: &Int8Ranges) -> Result<Graph, GraphError> {
    let graph = &inline_unless(graph, |_| true);
    let activations: Vec<ValueId> = activations.iter().map(|&input| graph.inputs()[input]).collect();
    let layers = contractions(graph, &activations);
    let mut stored: HashMap<ValueId, LayerRange> = HashMap::new();
    let mut weights: HashMap<NodeId, usize> = HashMap::new();
    for layer in &layers {
        let Some(&(input, result)) = ranges.get(&layer.name) else { continue };
        stored.insert(layer.input, input);
        stored.extend(layer.result.zip(result));
        weights.insert(layer.node, layer.channel_axis);
    }
    let trace = Trace::new();
    let mut values = Replayed::new(graph);
    // What the network returns is not rounded, also where other nodes read it.
    let mut exact: HashMap<ValueId, Tensor> = HashMap::new();
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        let tensor = trace.input(name, graph.shape(input).clone());
        exact.insert(input, tensor.clone());
        values.set(input, stored.get(&input).map_or(tensor.clone(), |&range| rounded(&tensor, range)));
    }
    for (index, node) in graph.nodes().iter().enumerate() {
        if matches!(node.op, Op::Parameter { .. }) {
            continue;
        }
        let _scope = trace.scope(node.path.clone());
        let mut operands = values.operands(node);
        if let Some(&axis) = weights.get(&index) {
            operands[1] = rounded_weights(&operands[1], axis);
        }
        for (&output, tensor) in
            node.outputs.iter().zip(trace.emit(node.op.clone(), &operands.iter().collect::<Vec<_>>()))
        {
            exact.insert(output, tensor.clone());
            values.set(output, stored.get(&output).map_or(tensor.clone(), |&range| rounded(&tensor, range)));
        }
    }
    let outputs: Vec<Tensor> = graph.outputs().iter().map(|output| exact[output].clone()).collect();
    trace.finish(&outputs)
}

/// A network that also returns, for each of its layers, f32 `[2]`: the squared error that 8 bits make of the layer's result when
/// everything before it is exact, and the sum of that result's squares. Layers without a range have none.
pub fn noise_of_layers(
    graph: &Graph,
    activations: &[usize],
    ranges: &Int8Ranges,
) -> Result<(Graph, Vec<String>), GraphError> {
    let graph = &inline_unless(graph, |_| true);
    let activations: Vec<ValueId> = activations.iter().map(|&input| graph.inputs()[input]).collect();
    let layers = contractions(graph, &activations);
    let of_node: HashMap<NodeId, &Contraction> = layers.iter().map(|layer| (layer.node, layer)).collect();
    let trace = Trace::new();
    let mut values = Replayed::new(graph);
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        values.set(input, trace.input(name, graph.shape(input).clone()));
    }
    let (mut names, mut noises) = (Vec::new(), Vec::new());
    for (index, node) in graph.nodes().iter().enumerate() {
        if matches!(node.op, Op::Parameter { .. }) {
            continue;
        }
        let _scope = trace.scope(node.path.clone());
        let operands = values.operands(node);
        let results = trace.emit(node.op.clone(), &operands.iter().collect::<Vec<_>>());
        if let Some((layer, &(input, _))) =
            of_node.get(&index).and_then(|layer| Some((layer, ranges.get(&layer.name)?)))
        {
            let coarse = [rounded(&operands[0], input), rounded_weights(&operands[1], layer.channel_axis)];
            let coarse = trace.emit_one(node.op.clone(), &[&coarse[0], &coarse[1]]);
            let error = (&coarse - &results[0]).square().sum_all();
            noises.push(Tensor::concatenate(&[error.reshape(&[1]), results[0].square().sum_all().reshape(&[1])], 0));
            names.push(layer.name.clone());
        }
        node.outputs.iter().zip(results).for_each(|(&output, tensor)| values.set(output, tensor));
    }
    Ok((trace.finish(&noises)?, names))
}

/// Values of a graph as they are recorded again.
struct Replayed {
    tensors: Vec<Option<Tensor>>,
}

impl Replayed {
    fn new(graph: &Graph) -> Replayed {
        Replayed { tensors: vec![None; graph.values().len()] }
    }

    fn set(&mut self, value: ValueId, tensor: Tensor) {
        self.tensors[value.index()] = Some(tensor);
    }

    fn operands(&self, node: &crate::Node) -> Vec<Tensor> {
        let operand = |input: &ValueId| self.tensors[input.index()].clone().expect("nodes are in order");
        node.inputs.iter().map(operand).collect()
    }
}

/// Activations as 8 bits without a sign hold them.
fn rounded(x: &Tensor, [low, high]: LayerRange) -> Tensor {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let scale = ((high - low) / 255.0).max(f32::MIN_POSITIVE);
    let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0);
    let (scale, zero) = (x.trace().scalar(DType::F32, f64::from(scale)), x.trace().scalar(DType::U8, f64::from(zero)));
    x.quantize(&scale, &zero, None).dequantize(&scale, &zero, None)
}

/// Weights as 8 bits with a sign hold them, with a scale per output channel.
fn rounded_weights(weights: &Tensor, axis: usize) -> Tensor {
    let others: Vec<usize> = (0..weights.rank()).filter(|&other| other != axis).collect();
    let largest = weights.abs().reduce_max(&others);
    let scale = (&largest / 127.0).binary(Binary::Max, &largest.full_like(f64::from(f32::MIN_POSITIVE)));
    let zero = weights.trace().constant(HostTensor::zeros(Shape::new(DType::I8, [weights.dims()[axis]])));
    weights.quantize(&scale, &zero, Some(axis)).dequantize(&scale, &zero, Some(axis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Convolution;
    use crate::evaluate::evaluate;
    use crate::passes::apply;
    use crate::verify::verify;

    fn numbers(dims: &[usize], period: usize) -> HostTensor {
        let count: usize = dims.iter().product();
        let values: Vec<f32> = (0..count).map(|i| ((i * 7919 + 13) % period) as f32 / period as f32 - 0.4).collect();
        HostTensor::new(dims.to_vec(), &values).unwrap()
    }

    /// Convolution, norm, ReLU, a second convolution with a residual, and a linear layer; the weights are inputs.
    fn network() -> (Graph, Vec<HostTensor>) {
        let trace = Trace::new();
        let input = |name: &str, dims: &[usize]| trace.input(name, Shape::new(DType::F32, dims.to_vec()));
        let x = input("images", &[1, 6, 6, 3]);
        let (first, scale, second) = (input("w1", &[3, 3, 3, 8]), input("s", &[8]), input("w2", &[1, 1, 8, 8]));
        let linear = input("w3", &[8, 5]);
        let scope = trace.scope("stem");
        let a = (x.convolution(&first, Convolution::nhwc(2, DType::F32)) * &scale + 0.1).relu();
        drop(scope);
        let scope = trace.scope("block");
        let b = a.convolution(&second, Convolution::nhwc(2, DType::F32)) + &a;
        drop(scope);
        let _scope = trace.scope("head");
        let y = b.mean(&[1, 2]).matmul(&linear);
        let tensors: Vec<HostTensor> = [&x, &first, &scale, &second, &linear]
            .iter()
            .zip([97, 89, 83, 79, 73])
            .map(|(t, p)| numbers(t.dims(), p))
            .collect();
        (trace.finish(&[y]).unwrap(), tensors)
    }

    fn ranges() -> Int8Ranges {
        let all = [("stem", Some([0.0, 4.0])), ("block", Some([-8.0, 8.0])), ("head", None)];
        all.into_iter().map(|(name, result)| (name.to_string(), ([-8.0, 8.0], result))).collect()
    }

    #[test]
    fn layers_are_found_with_what_follows_them() {
        let (graph, _) = network();
        let found = contractions(&graph, &graph.inputs()[..1]);
        let names: Vec<&str> = found.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["stem", "block", "head"]);
        let op = |value: ValueId| graph.producer(value).op.name();
        assert_eq!(op(found[0].result.unwrap()), "select");
        // The residual depends on the images, so it is no part of the layer.
        assert_eq!((op(found[1].result.unwrap()), found[2].result), ("convolution", None));
        assert_eq!(found.iter().map(|layer| layer.channel_axis).collect::<Vec<_>>(), [3, 3, 1]);
        assert!(contractions(&graph, &[]).is_empty());
    }

    #[test]
    fn rounding_to_8_bits_is_all_that_changes() {
        let (graph, inputs) = network();
        let coarse = quantized(&graph, &[0], &ranges()).unwrap();
        verify(&coarse).unwrap();
        let [exact, rounded] = [&graph, &coarse].map(|graph| evaluate(graph, &inputs).unwrap()[0].to_f64s());
        let largest = exact.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let error = exact.iter().zip(&rounded).fold(0.0f64, |error, (a, b)| error.max((a - b).abs()));
        assert!(error > 0.0 && error < 0.05 * largest, "{error} of {largest}");
        // Backends without the kernels compute the same.
        let plain = apply(crate::passes::inline_calls, &coarse);
        assert_eq!(evaluate(&plain, &inputs).unwrap()[0].to_f64s(), rounded);
        assert_eq!(quantized(&graph, &[0], &Int8Ranges::new()).unwrap(), graph);
    }

    #[test]
    fn a_layer_without_resolution_is_noisy() {
        let (graph, inputs) = network();
        let mut ranges = ranges();
        ranges.insert("block".into(), ([-4000.0, 4000.0], None));
        let (noisy, names) = noise_of_layers(&graph, &[0], &ranges).unwrap();
        assert_eq!(names, ["stem", "block", "head"]);
        let shares: Vec<f64> =
            evaluate(&noisy, &inputs).unwrap().iter().map(HostTensor::to_f64s).map(|sums| sums[0] / sums[1]).collect();
        assert!(shares[0] < 0.01 && shares[1] > 0.5 && shares[2] < 0.01, "{shares:?}");
    }
}
