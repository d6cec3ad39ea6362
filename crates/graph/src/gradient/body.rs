//! The backward pass through a body: a body and its gradients are traced as one joint graph, which is then split
//! into a forward function that returns what the backward function needs, and that backward function.

use super::Gradients;
use crate::{Graph, GraphBuilder, Op, Shape, Tensor, Trace, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// A body followed by its backward pass, in one graph: inputs and cotangents → outputs and gradients.
pub(crate) struct Joint {
    graph: Arc<Graph>,
    inputs: usize,
    outputs: usize,
    /// Nodes before this one belong to the body itself.
    forward_nodes: usize,
    /// Which inputs of the body have a gradient, in the order of the gradients.
    pub with_gradient: Vec<usize>,
}

/// A joint graph, split into its forward and backward parts.
pub(crate) struct Split {
    /// Inputs → outputs, then the values that are kept for the backward pass.
    pub forward: Graph,
    /// Kept values, then cotangents → gradients.
    pub backward: Graph,
    /// Where each kept value is to be found.
    pub kept: Vec<Kept>,
}

/// A value that the backward pass reads.
pub(crate) enum Kept {
    /// The body's input of that index.
    Input(usize),
    /// The result of that index of the forward function, which may be one of the body's own outputs.
    Result(usize),
}

impl Joint {
    /// Traces a body and the gradients of the inputs in `wanted`, given cotangents for the outputs in `connected`.
    pub fn trace(trace: &Trace, body: &Graph, wanted: &[bool], connected: &[bool]) -> Joint {
        let chosen = |flags: &[bool]| (0..flags.len()).filter(|&index| flags[index]).collect::<Vec<usize>>();
        let (wanted, connected) = (chosen(wanted), chosen(connected));
        let (inputs, outputs) = (body.inputs().len(), body.outputs().len());
        let mut shapes = body.input_shapes();
        shapes.extend(connected.iter().map(|&output| body.shape(body.outputs()[output]).clone()));
        let (mut forward_nodes, mut with_gradient) = (0, vec![]);
        let (graph, _) = trace.body(&shapes, |child, arguments| {
            let (own, cotangents) = arguments.split_at(inputs);
            let results = child.replay(body, own);
            forward_nodes = child.with_graph(|graph| graph.nodes().len());
            let pick = |values: &[Tensor], positions: &[usize]| {
                positions.iter().map(|&i| values[i].clone()).collect::<Vec<_>>()
            };
            let gradients: Gradients =
                child.connected_vjp(&pick(&results, &connected), cotangents, &pick(own, &wanted));
            with_gradient =
                wanted.iter().zip(&gradients).filter(|(_, found)| found.is_some()).map(|(&i, _)| i).collect();
            results.into_iter().chain(gradients.into_iter().flatten()).collect()
        });
        Joint { graph, inputs, outputs, forward_nodes, with_gradient }
    }

    /// Whether the body could be traced; its mistake is in the trace otherwise.
    pub fn is_valid(&self) -> bool {
        self.graph.outputs().len() == self.outputs + self.with_gradient.len()
    }

    fn gradients(&self) -> &[ValueId] {
        &self.graph.outputs()[self.outputs..]
    }

    fn cotangents(&self) -> &[ValueId] {
        &self.graph.inputs()[self.inputs..]
    }

    /// The backward pass as a function of the body's inputs alone, computing the body once more: which inputs it reads,
    /// and the function from these and the cotangents to the gradients.
    pub fn recomputing(&self) -> (Vec<usize>, Graph) {
        let live = live_values(&self.graph, &vec![false; self.graph.values().len()], self.gradients());
        let used: Vec<usize> = (0..self.inputs).filter(|&input| live[self.graph.inputs()[input].index()]).collect();
        let inputs: Vec<ValueId> = used.iter().map(|&input| self.graph.inputs()[input]).collect();
        (used, extract(&self.graph, &[&inputs, self.cotangents()].concat(), self.gradients()))
    }

    /// Splits the graph at the values that the backward pass needs of the body.
    pub fn split(&self) -> Split {
        let boundary = self.boundary();
        let own = &self.graph.inputs()[..self.inputs];
        let mut results = self.graph.outputs()[..self.outputs].to_vec();
        let kept = boundary
            .iter()
            .map(|value| match own.iter().position(|input| input == value) {
                Some(input) => Kept::Input(input),
                None => Kept::Result(results.iter().position(|result| result == value).unwrap_or_else(|| {
                    results.push(*value);
                    results.len() - 1
                })),
            })
            .collect();
        let backward = extract(&self.graph, &[&boundary, self.cotangents()].concat(), self.gradients());
        Split { forward: extract(&self.graph, own, &results), backward, kept }
    }

    /// The values of the body that its backward pass reads, without those that it had better make once more.
    fn boundary(&self) -> Vec<ValueId> {
        let graph = &self.graph;
        let made_again = values_made_again(graph);
        let of_body = |value: ValueId| graph.values()[value.index()].producer < self.forward_nodes;
        let is_cotangent = |value: ValueId| self.cotangents().contains(&value);
        let values = || (0..graph.values().len() as u32).map(ValueId);
        let stops: Vec<bool> =
            values().map(|value| of_body(value) && !is_cotangent(value) && !made_again[value.index()]).collect();
        let live = live_values(graph, &stops, self.gradients());
        values().filter(|value| stops[value.index()] && live[value.index()]).collect()
    }
}

/// By value: whether making it once more costs less than keeping it. That is so for constants and what is computed from
/// them, for repetitions and for conversions to a wider type: what they are made from is smaller.
fn values_made_again(graph: &Graph) -> Vec<bool> {
    let mut constant = vec![false; graph.values().len()];
    let mut made_again = constant.clone();
    for node in graph.nodes() {
        let of_constants = node.inputs.iter().all(|input| constant[input.index()]);
        let (is_constant, smaller_before) = if let Op::Constant(_) | Op::Iota { .. } = node.op {
            (true, false)
        } else if let Op::Broadcast { .. } | Op::Reshape { .. } = node.op {
            (of_constants, true)
        } else if let Op::Convert(dtype) = node.op {
            (of_constants, graph.shape(node.inputs[0]).dtype().size() <= dtype.size())
        } else {
            (of_constants && matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_)), false)
        };
        for output in &node.outputs {
            constant[output.index()] = is_constant;
            made_again[output.index()] = is_constant || smaller_before;
        }
    }
    made_again
}

/// By value: whether `outputs` are made from it, going back as far as `stops` (which belong to them).
fn live_values(graph: &Graph, stops: &[bool], outputs: &[ValueId]) -> Vec<bool> {
    let mut live = vec![false; graph.values().len()];
    let mut open = outputs.to_vec();
    while let Some(value) = open.pop() {
        if !std::mem::replace(&mut live[value.index()], true) && !stops[value.index()] {
            open.extend(&graph.producer(value).inputs);
        }
    }
    live
}

/// The part of a graph that makes `outputs` out of `inputs`. Nodes that are not needed for that stay behind.
pub(crate) fn extract(graph: &Graph, inputs: &[ValueId], outputs: &[ValueId]) -> Graph {
    let names: HashMap<ValueId, &Arc<str>> = graph.inputs().iter().copied().zip(graph.input_names()).collect();
    let mut builder = GraphBuilder::new();
    let mut renamed: Vec<Option<ValueId>> = vec![None; graph.values().len()];
    for (index, &input) in inputs.iter().enumerate() {
        let name = names.get(&input).map_or_else(|| format!("kept{index}"), |name| name.to_string());
        renamed[input.index()] = Some(builder.input(&name, graph.shape(input).clone()));
    }
    let given: Vec<bool> = renamed.iter().map(Option::is_some).collect();
    let live = live_values(graph, &given, outputs);
    let new = |renamed: &[Option<ValueId>], old: &ValueId| {
        renamed[old.index()].expect("nodes are in order, and all that a live node reads is live")
    };
    for node in graph.nodes() {
        let needed = node.outputs.iter().any(|output| live[output.index()] && !given[output.index()]);
        if !needed {
            continue;
        }
        let made = builder.copy(graph, node, node.inputs.iter().map(|input| new(&renamed, input)).collect());
        for (old, made) in node.outputs.iter().zip(made) {
            renamed[old.index()].get_or_insert(made);
        }
    }
    let outputs = outputs.iter().map(|output| new(&renamed, output)).collect();
    builder.finish(outputs)
}

/// The shapes of some values.
pub(crate) fn shapes_of(values: &[Tensor]) -> Vec<Shape> {
    values.iter().map(|value| value.shape().clone()).collect()
}
