//! Replaces parts of a graph by other computations, or outlines them into calls.

use super::inline::paste;
use crate::{Graph, GraphBuilder, KernelHint, NodeId, Op, Shape, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// Another computation of some values of a graph.
#[derive(Debug, Clone)]
pub struct Replacement {
    /// The values that it reads.
    pub inputs: Vec<ValueId>,
    /// The values that it makes.
    pub outputs: Vec<ValueId>,
    /// From the inputs to the outputs. Nodes without a path get that of the first replaced value.
    pub graph: Graph,
}

/// A replacement that does not fit into its graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    /// The shapes of inputs or outputs differ.
    #[error("replacement {0} has other shapes than what it replaces")]
    Shapes(usize),
    /// Its inputs depend on its outputs, perhaps through other replacements.
    #[error("replacement {0} would depend on itself")]
    Cycle(usize),
}

/// The same graph with some values computed by replacements. What nothing needs any more is left out. Nodes stay in their
/// order, except that what a replacement reads comes before it.
pub fn replace(graph: &Graph, replacements: &[Replacement]) -> Result<Graph, ReplaceError> {
    for (index, replacement) in replacements.iter().enumerate() {
        let shapes =
            |values: &[ValueId]| values.iter().map(|&value| graph.shape(value).clone()).collect::<Vec<Shape>>();
        let fits = shapes(&replacement.inputs) == replacement.graph.input_shapes()
            && shapes(&replacement.outputs) == replacement.graph.output_shapes();
        if !fits {
            return Err(ReplaceError::Shapes(index));
        }
    }
    let of_value = replacements.iter().enumerate();
    let of_value: HashMap<ValueId, usize> = of_value
        .flat_map(|(index, replacement)| replacement.outputs.iter().map(move |&value| (value, index)))
        .collect();
    let needed = needed(graph, replacements, &of_value);
    let mut replacer = Replacer {
        graph,
        replacements,
        of_value,
        builder: GraphBuilder::new(),
        renamed: vec![None; graph.values().len()],
        progress: vec![Progress::Open; replacements.len()],
    };
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        replacer.renamed[input.index()] = Some(replacer.builder.input(name, graph.shape(input).clone()));
    }
    for value in graph.nodes().iter().flat_map(|node| &node.outputs).filter(|value| needed[value.index()]) {
        if !replacer.of_value.contains_key(value) {
            replacer.value(*value)?;
        }
    }
    let outputs = graph.outputs().iter().map(|&output| replacer.value(output)).collect::<Result<Vec<_>, _>>()?;
    Ok(replacer.builder.finish(outputs))
}

/// The same, without the replacements that do not fit.
pub fn replace_where_possible(graph: &Graph, mut replacements: Vec<Replacement>) -> Graph {
    loop {
        match replace(graph, &replacements) {
            Ok(replaced) => return replaced,
            Err(ReplaceError::Shapes(index) | ReplaceError::Cycle(index)) => drop(replacements.remove(index)),
        }
    }
}

/// By value: whether the outputs depend on it.
fn needed(graph: &Graph, replacements: &[Replacement], of_value: &HashMap<ValueId, usize>) -> Vec<bool> {
    let mut needed = vec![false; graph.values().len()];
    let mut open = graph.outputs().to_vec();
    while let Some(value) = open.pop() {
        if !std::mem::replace(&mut needed[value.index()], true) {
            match of_value.get(&value) {
                Some(&replacement) => open.extend(&replacements[replacement].inputs),
                None => open.extend(&graph.producer(value).inputs),
            }
        }
    }
    needed
}

#[derive(Clone, Copy, PartialEq)]
enum Progress {
    Open,
    Begun,
    Done,
}

struct Replacer<'g> {
    graph: &'g Graph,
    replacements: &'g [Replacement],
    of_value: HashMap<ValueId, usize>,
    builder: GraphBuilder,
    renamed: Vec<Option<ValueId>>,
    progress: Vec<Progress>,
}

impl Replacer<'_> {
    /// A value in the new graph, with all that it needs.
    fn value(&mut self, value: ValueId) -> Result<ValueId, ReplaceError> {
        if let Some(renamed) = self.renamed[value.index()] {
            return Ok(renamed);
        }
        match self.of_value.get(&value) {
            Some(&replacement) => self.replacement(replacement)?,
            None => {
                let node = self.graph.producer(value);
                let inputs = node.inputs.iter().map(|&input| self.value(input)).collect::<Result<Vec<_>, _>>()?;
                let results = self.builder.copy(self.graph, node, inputs);
                for (output, result) in node.outputs.iter().zip(results) {
                    if !self.of_value.contains_key(output) {
                        self.renamed[output.index()] = Some(result);
                    }
                }
            }
        }
        Ok(self.renamed[value.index()].expect("a value has just been made"))
    }

    fn replacement(&mut self, index: usize) -> Result<(), ReplaceError> {
        if self.progress[index] == Progress::Begun {
            return Err(ReplaceError::Cycle(index));
        }
        self.progress[index] = Progress::Begun;
        let replacement = &self.replacements[index];
        let inputs = replacement.inputs.iter().map(|&input| self.value(input)).collect::<Result<Vec<_>, _>>()?;
        let path =
            replacement.outputs.first().map_or_else(|| "".into(), |&first| self.graph.producer(first).path.clone());
        let results = paste(&mut self.builder, &replacement.graph, &inputs, &path);
        for (output, result) in replacement.outputs.iter().zip(results) {
            self.renamed[output.index()] = Some(result);
        }
        self.progress[index] = Progress::Done;
        Ok(())
    }
}

/// The part of a graph that computes `outputs` by nodes that are `inside`, and the values that it reads from the others.
pub fn extract(graph: &Graph, outputs: &[ValueId], inside: impl Fn(NodeId) -> bool) -> (Graph, Vec<ValueId>) {
    let (mut is_part, mut open) = (vec![false; graph.nodes().len()], outputs.to_vec());
    while let Some(value) = open.pop() {
        let producer = graph.values()[value.index()].producer;
        let is_input = matches!(graph.nodes()[producer].op, Op::Parameter { .. });
        if !is_input && inside(producer) && !std::mem::replace(&mut is_part[producer], true) {
            open.extend(&graph.nodes()[producer].inputs);
        }
    }
    let mut builder = GraphBuilder::new();
    let (mut renamed, mut inputs): (HashMap<ValueId, ValueId>, Vec<ValueId>) = (HashMap::new(), Vec::new());
    let mut read = |builder: &mut GraphBuilder, renamed: &mut HashMap<ValueId, ValueId>, value: ValueId| {
        *renamed.entry(value).or_insert_with(|| {
            inputs.push(value);
            builder.input(&format!("arg{}", inputs.len() - 1), graph.shape(value).clone())
        })
    };
    for (_, node) in graph.nodes().iter().enumerate().filter(|(index, _)| is_part[*index]) {
        let operands = node.inputs.iter().map(|&input| read(&mut builder, &mut renamed, input)).collect();
        let results = builder.copy(graph, node, operands);
        renamed.extend(node.outputs.iter().copied().zip(results));
    }
    let outputs = outputs.iter().map(|&output| read(&mut builder, &mut renamed, output)).collect();
    (builder.finish(outputs), inputs)
}

/// Outlines the nodes that are `inside` and that `outputs` need: a call whose body they are. Nodes that others need too stay
/// beside the call. `kernel` is given the body and the values that it reads; none if there is no kernel for them.
pub fn outline(
    graph: &Graph,
    outputs: &[ValueId],
    inside: impl Fn(NodeId) -> bool,
    kernel: impl FnOnce(&Graph, &[ValueId]) -> Option<KernelHint>,
) -> Option<Replacement> {
    let (body, inputs) = extract(graph, outputs, inside);
    let kernel = kernel(&body, &inputs)?;
    Some(Replacement { inputs, outputs: outputs.to_vec(), graph: call(body, kernel) })
}

/// A graph that only calls a body by a kernel.
fn call(body: Graph, kernel: KernelHint) -> Graph {
    let mut builder = GraphBuilder::new();
    let names = body.input_names().iter().zip(body.input_shapes());
    let inputs: Vec<ValueId> = names.map(|(name, shape)| builder.input(name, shape)).collect();
    let op = Op::Call { body: Arc::new(body), recompute: false, kernel: Some(Arc::new(kernel)) };
    let outputs = builder.push(op, inputs, "".into()).expect("a call takes what its body takes");
    builder.finish(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::evaluate;
    use crate::verify::verify;
    use crate::{DType, HostTensor, Trace};

    fn hint(_: &Graph, _: &[ValueId]) -> Option<KernelHint> {
        Some(KernelHint::new("test", vec![]))
    }

    /// `a = exp(x)`, `b = sin(a)`, `c = a + b`, which only `a` and `c` are parts of.
    fn around() -> (Graph, [ValueId; 3]) {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [3]));
        let a = x.exp();
        let b = a.sin();
        let c = &a + &b;
        let ids = [&a, &b, &c].map(|tensor| tensor.id().unwrap());
        (trace.finish(&[c]).unwrap(), ids)
    }

    #[test]
    fn an_outlined_region_means_the_same() {
        let (graph, [a, b, c]) = around();
        let producer = |value: ValueId| graph.values()[value.index()].producer;
        let inside = [producer(b), producer(c)];
        let outlined = outline(&graph, &[c], |node| inside.contains(&node), hint).unwrap();
        assert_eq!(outlined.inputs, [a]);
        let replaced = replace(&graph, &[outlined]).unwrap();
        verify(&replaced).unwrap();
        assert_eq!(replaced.nodes().len(), 3, "{replaced}");
        let inputs = [HostTensor::new([3], &[0.1f32, -2.0, 3.0]).unwrap()];
        assert_eq!(evaluate(&replaced, &inputs), evaluate(&graph, &inputs));
    }

    #[test]
    fn a_region_that_another_node_leaves_and_enters_is_refused() {
        let (graph, [a, b, c]) = around();
        let producer = |value: ValueId| graph.values()[value.index()].producer;
        let inside = [producer(a), producer(c)];
        let outlined = outline(&graph, &[a, c], |node| inside.contains(&node), hint).unwrap();
        assert!(outlined.inputs.contains(&b));
        assert_eq!(replace(&graph, std::slice::from_ref(&outlined)), Err(ReplaceError::Cycle(0)));
        assert_eq!(replace_where_possible(&graph, vec![outlined]), graph);
    }

    #[test]
    fn nodes_that_others_need_stay_beside_the_call() {
        let (graph, [a, b, _]) = around();
        let outlined = outline(&graph, &[b], |_| true, hint).unwrap();
        let replaced = replace(&graph, &[outlined]).unwrap();
        verify(&replaced).unwrap();
        let names: Vec<&str> = replaced.nodes().iter().map(|node| node.op.name()).collect();
        assert_eq!(names, ["parameter", "exp", "call", "add"]);
        assert_eq!(graph.shape(a), graph.shape(b));
    }
}
