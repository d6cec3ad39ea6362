//! Writing a graph into a function, node by node.

use crate::function::{Function, Named};
use crate::ops::{self, Pairs, Rectified};
use octant_graph::{Graph, Op, Shape, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

impl Function<'_> {
    /// Writes a graph over these values.
    pub fn graph(&mut self, graph: &Graph, inputs: &[Named]) -> Vec<Named> {
        let mut values = vec![None; graph.values().len()];
        for (&id, input) in graph.inputs().iter().zip(inputs) {
            values[id.index()] = Some(input.clone());
        }
        let pairs = Pairs::find(graph, &self.module.options);
        let rectified = Rectified::find(graph, &self.module.options, &pairs);
        let outer = self.set_path(&"".into());
        let mut body = Body { graph, pairs, rectified, factors: HashMap::new(), values, outer: outer.clone() };
        for node in 0..graph.nodes().len() {
            body.reach(self, node);
        }
        self.set_path(&outer);
        graph.outputs().iter().map(|&output| body.value(self, output)).collect()
    }
}

/// A graph of which some values have names already.
struct Body<'g> {
    graph: &'g Graph,
    pairs: Pairs,
    rectified: Rectified,
    /// Factors and offsets of the rectified norms that were met.
    factors: HashMap<ValueId, [Named; 2]>,
    values: Vec<Option<Named>>,
    outer: Arc<str>,
}

impl Body<'_> {
    /// Writes the next node, unless it was written with another one or waits for that.
    fn reach(&mut self, f: &mut Function, node: usize) {
        let is_input = matches!(self.graph.nodes()[node].op, Op::Parameter { .. });
        if is_input || self.is_written(node) {
            return;
        }
        let Some(pair) = self.pairs.of(node).cloned() else { return self.write(f, node) };
        let is_last = pair.is_last(node);
        if pair.members().any(|member| member != node && self.is_written(member)) {
            self.write(f, node);
        } else if is_last || pair.members().all(|member| self.is_ready(member)) {
            let [plain, pointwise] = [pair.plain, pair.pointwise].map(|member| self.operands(f, member));
            self.enter(f, node);
            let results = pair.write(f, self.graph, &plain, &pointwise);
            for (id, result) in results {
                self.values[id.index()] = Some(result);
            }
        }
    }

    /// Writes a node by itself.
    fn write(&mut self, f: &mut Function, index: usize) {
        let operands = self.operands(f, index);
        self.enter(f, index);
        let node = &self.graph.nodes()[index];
        let shapes: Vec<&Shape> = node.outputs.iter().map(|&output| self.graph.shape(output)).collect();
        let results = match node.inputs.first().and_then(|&input| self.stretched(f, input)) {
            Some([x, factor, offset]) => {
                ops::rectified_call(f, self.graph, index, [&x, &operands[1], &factor, &offset])
            }
            None => ops::lower_node(f, node, &operands, &shapes),
        };
        for (&output, result) in node.outputs.iter().zip(results) {
            self.values[output.index()] = Some(result);
        }
    }

    /// What a rectified norm is made from, if calls make it themselves, and its factors and offsets.
    fn stretched(&mut self, f: &mut Function, value: ValueId) -> Option<[Named; 3]> {
        let norm = self.rectified.of(value)?;
        let (x, steps) = (norm.x, norm.steps.clone());
        if !self.factors.contains_key(&value) {
            let operands: Vec<Named> = steps.iter().map(|&(_, operand)| self.value(f, operand)).collect();
            let shape = self.graph.shape(value);
            let channels = Shape::new(shape.dtype(), [*shape.dims().last()?]);
            let factors = self.rectified.of(value)?.factors(f, &operands, &channels);
            self.factors.insert(value, factors);
        }
        let x = self.value(f, x);
        let [factor, offset] = self.factors[&value].clone();
        Some([x, factor, offset])
    }

    fn enter(&self, f: &mut Function, node: usize) {
        let path = &self.graph.nodes()[node].path;
        f.set_path(if path.is_empty() { &self.outer } else { path });
    }

    fn operands(&mut self, f: &mut Function, node: usize) -> Vec<Named> {
        self.graph.nodes()[node].inputs.iter().map(|&input| self.value(f, input)).collect()
    }

    /// A value, whose node is written by itself if it is still waiting for another one.
    fn value(&mut self, f: &mut Function, id: ValueId) -> Named {
        if self.values[id.index()].is_none()
            && let Some(node) = self.pairs.maker(id)
        {
            self.write(f, node);
        }
        self.values[id.index()].clone().expect("nodes are in topological order")
    }

    fn is_written(&self, node: usize) -> bool {
        let outputs = &self.graph.nodes()[node].outputs;
        !outputs.is_empty() && outputs.iter().all(|output| self.values[output.index()].is_some())
    }

    fn is_ready(&self, node: usize) -> bool {
        self.graph.nodes()[node].inputs.iter().all(|input| self.values[input.index()].is_some())
    }
}
