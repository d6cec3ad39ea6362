//! Appending nodes to a graph: only here shapes are inferred and values are numbered.

use crate::{Graph, Node, NodeId, Op, Shape, ValueId, ValueInfo, ops};
use std::sync::Arc;

/// A graph under construction. Tracing, gradients and passes all build through it.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    graph: Graph,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, shape: Shape) -> ValueId {
        let index = self.graph.inputs.len();
        let value = self.append(Op::Parameter { index }, vec![], vec![shape], "".into())[0];
        self.graph.inputs.push(value);
        self.graph.input_names.push(name.into());
        value
    }

    /// Adds an operation; the error is a sentence with the shapes that do not fit.
    pub fn push(&mut self, op: Op, inputs: Vec<ValueId>, path: Arc<str>) -> Result<Vec<ValueId>, String> {
        let shapes: Vec<&Shape> = inputs.iter().map(|&input| self.graph.shape(input)).collect();
        let results = ops::infer(&op, &shapes)?;
        Ok(self.append(op, inputs, results, path))
    }

    /// Copies a node of another graph, reading `inputs` instead of its own. Its results keep their shapes, so the new
    /// inputs must have the shapes of the old ones.
    pub fn copy(&mut self, from: &Graph, node: &Node, inputs: Vec<ValueId>) -> Vec<ValueId> {
        let shapes = node.outputs.iter().map(|&output| from.shape(output).clone()).collect();
        self.append(node.op.clone(), inputs, shapes, node.path.clone())
    }

    /// Replaces a node's operation. The new one reads the same values and has the same results, followed by
    /// additional ones, which are returned. (Their ids are greater than those of later nodes' results.)
    pub(crate) fn replace(&mut self, node: NodeId, op: Op) -> Result<Vec<ValueId>, String> {
        let shapes: Vec<&Shape> = self.graph.nodes[node].inputs.iter().map(|&input| self.graph.shape(input)).collect();
        let results = ops::infer(&op, &shapes)?;
        let kept = self.graph.nodes[node].outputs.clone();
        if kept.len() > results.len() || kept.iter().zip(&results).any(|(&old, new)| self.graph.shape(old) != new) {
            return Err(format!("{} cannot stand in for {}", op.name(), self.graph.nodes[node].op.name()));
        }
        let first = self.graph.values.len() as u32;
        let added: Vec<ValueId> = (first..first + (results.len() - kept.len()) as u32).map(ValueId).collect();
        self.graph.values.extend(results.into_iter().skip(kept.len()).map(|shape| ValueInfo { shape, producer: node }));
        self.graph.nodes[node].op = op;
        self.graph.nodes[node].outputs.extend(&added);
        Ok(added)
    }

    /// What is known of a value made so far.
    pub fn shape(&self, value: ValueId) -> &Shape {
        self.graph.shape(value)
    }

    /// The graph so far; it has no outputs yet.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph with these outputs.
    pub fn finish(mut self, outputs: Vec<ValueId>) -> Graph {
        self.graph.outputs = outputs;
        self.graph
    }

    fn append(&mut self, op: Op, inputs: Vec<ValueId>, shapes: Vec<Shape>, path: Arc<str>) -> Vec<ValueId> {
        let producer = self.graph.nodes.len();
        let first = self.graph.values.len() as u32;
        let outputs: Vec<ValueId> = (first..first + shapes.len() as u32).map(ValueId).collect();
        self.graph.values.extend(shapes.into_iter().map(|shape| ValueInfo { shape, producer }));
        self.graph.nodes.push(Node { op, inputs, outputs: outputs.clone(), path });
        outputs
    }
}
