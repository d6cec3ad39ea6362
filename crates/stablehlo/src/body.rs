//! Writing a graph into a function, node by node.

use crate::function::{Function, Named};
use crate::ops::{self, Extras, Group, Plan, Stretch};
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
        let plan = Plan::of(graph, &self.module.options);
        let outer = self.set_path(&"".into());
        let (factors, taken) = (HashMap::new(), HashMap::new());
        let mut body = Body { graph, plan, factors, taken, values, outer: outer.clone() };
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
    plan: Plan,
    /// Factors and offsets of channels, by what they make.
    factors: HashMap<ValueId, [Named; 2]>,
    /// The moments and sums that calls took, by what they made.
    taken: HashMap<ValueId, Named>,
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
        if let Some(group) = self.plan.updates.of(node).cloned() {
            return if group.is_last(node) {
                self.write_group(f, &group)
            };
        }
        let Some(pair) = self.plan.pairs.of(node).cloned() else { return self.write(f, node) };
        let is_last = pair.is_last(node);
        if pair.members().any(|member| member != node && self.is_written(member)) {
            self.write(f, node);
        } else if is_last || pair.members().all(|member| self.is_ready(member)) {
            let [mut plain, pointwise] = [pair.plain, pair.pointwise].map(|member| self.operands(f, member));
            let apart = self.plan.apart.of(self.graph.nodes()[pair.plain].inputs[0]).filter(|_| !pair.is_joined());
            let second = apart.map(|parts| {
                plain[0] = self.value(f, parts[0]);
                self.value(f, parts[1])
            });
            self.enter(f, node);
            let made = [pair.plain, pair.pointwise].map(|member| self.graph.nodes()[member].outputs[0]);
            let parts = made.iter().find_map(|&made| self.plan.moments.parts(made));
            let [results, moments] = pair.write(f, self.graph, [&plain, &pointwise], parts, second.as_ref());
            self.name(results);
            self.taken.extend(moments);
        }
    }

    /// Writes what is left of a group in one call.
    fn write_group(&mut self, f: &mut Function, group: &Group) {
        let left: Vec<usize> = group.members.iter().copied().filter(|&member| !self.is_written(member)).collect();
        let members: Vec<(usize, Vec<Named>)> = left.iter().map(|&member| (member, self.operands(f, member))).collect();
        let Some(&first) = left.first() else { return };
        self.enter(f, first);
        self.name(group.write(f, self.graph, &members));
    }

    fn name(&mut self, results: impl IntoIterator<Item = (ValueId, Named)>) {
        for (id, result) in results {
            self.values[id.index()] = Some(result);
        }
    }

    /// Writes a node by itself.
    fn write(&mut self, f: &mut Function, index: usize) {
        let node = &self.graph.nodes()[index];
        let operands = self.operands(f, index);
        self.enter(f, index);
        let mut results = match self.extended(f, index, &operands) {
            Some(results) => results,
            None => {
                let shapes: Vec<&Shape> = node.outputs.iter().map(|&output| self.graph.shape(output)).collect();
                ops::lower_node(f, self.graph, node, &operands, &shapes)
            }
        };
        if results.len() > node.outputs.len() {
            self.taken.extend(results.pop().map(|told| (node.outputs[0], told)));
        }
        self.name(node.outputs.iter().copied().zip(results));
    }

    /// A node as a call that does more than the node says, or as what follows from such a call.
    fn extended(&mut self, f: &mut Function, index: usize, operands: &[Named]) -> Option<Vec<Named>> {
        let node = &self.graph.nodes()[index];
        let (&input, &output) = (node.inputs.first()?, node.outputs.first()?);
        if let Some(sum) = self.plan.moments.of(index).cloned()
            && let Some(moments) = self.taken.get(&sum.moved.x).cloned()
        {
            let [_, offset] = self.stretched(f, input, &sum.moved);
            return Some(vec![sum.write(f, &moments, &offset, self.graph.shape(output))]);
        }
        // The call that made the cotangent has chosen already.
        if let Some(cotangent) = self.plan.cotangents.chosen(index) {
            return Some(vec![self.value(f, cotangent)]);
        }
        if let Some((cotangent, of_products)) = self.plan.cotangents.sum(index)
            && let Some(sums) = self.taken.get(&cotangent)
        {
            return Some(vec![ops::sum_of_cotangent(f, sums, of_products, self.graph.shape(output))]);
        }
        if let Some(norm) = self.plan.cotangents.norm(output).cloned() {
            let x = self.value(f, norm.stretch.x);
            let [factor, offset] = self.stretched(f, norm.value, &norm.stretch);
            let [_, center] = self.stretched(f, norm.center, &norm.moved);
            let operands = [&operands[0], &operands[1], &x, &factor, &offset, &center];
            let extras = Extras { cotangent: Some(norm.parts), ..Extras::default() };
            let mut results = ops::extended_call(f, self.graph, node, &operands, extras)?;
            let parts = results.pop()?;
            results.push(ops::sums_of_cotangent(f, &parts));
            return Some(results);
        }
        let moments = self.plan.moments.parts(output);
        if let Some(parts) = self.plan.apart.of(input) {
            let [first, second] = parts.map(|part| self.value(f, part));
            let extras = Extras { moments, apart: first.shape.dims().last().copied(), ..Extras::default() };
            return ops::extended_call(f, self.graph, node, &[&first, operands.get(1)?, &second], extras);
        }
        match self.plan.rectified.of(input).cloned() {
            Some(norm) => {
                let x = self.value(f, norm.x);
                let [factor, offset] = self.stretched(f, input, &norm);
                let operands = [&x, &operands[1], &factor, &offset];
                let extras = Extras { rectified: true, moments, ..Extras::default() };
                ops::extended_call(f, self.graph, node, &operands, extras)
            }
            None => {
                let operands = [operands.first()?, operands.get(1)?];
                let extras = Extras { moments, ..Extras::default() };
                moments.and_then(|_| ops::extended_call(f, self.graph, node, &operands, extras))
            }
        }
    }

    /// The factors and offsets by which the channels of a value are stretched and moved.
    fn stretched(&mut self, f: &mut Function, value: ValueId, stretch: &Stretch) -> [Named; 2] {
        if let Some(known) = self.factors.get(&value) {
            return known.clone();
        }
        let operands: Vec<Named> = stretch.steps.iter().map(|&(_, operand)| self.value(f, operand)).collect();
        let shape = self.graph.shape(value);
        let channels = Shape::new(shape.dtype(), [shape.dims().last().copied().unwrap_or(1)]);
        let factors = stretch.factors(f, &operands, &channels);
        self.factors.insert(value, factors.clone());
        factors
    }

    fn enter(&self, f: &mut Function, node: usize) {
        let path = &self.graph.nodes()[node].path;
        f.set_path(if path.is_empty() { &self.outer } else { path });
    }

    fn operands(&mut self, f: &mut Function, node: usize) -> Vec<Named> {
        self.graph.nodes()[node].inputs.iter().map(|&input| self.value(f, input)).collect()
    }

    /// A value, whose node is written by itself if it is still waiting for others.
    fn value(&mut self, f: &mut Function, id: ValueId) -> Named {
        if self.values[id.index()].is_none() {
            self.write(f, self.graph.values()[id.index()].producer);
        }
        self.values[id.index()].clone().expect("a node makes its values")
    }

    fn is_written(&self, node: usize) -> bool {
        let outputs = &self.graph.nodes()[node].outputs;
        !outputs.is_empty() && outputs.iter().all(|output| self.values[output.index()].is_some())
    }

    fn is_ready(&self, node: usize) -> bool {
        self.graph.nodes()[node].inputs.iter().all(|input| self.values[input.index()].is_some())
    }
}
