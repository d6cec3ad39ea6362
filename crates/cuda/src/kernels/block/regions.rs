//! Regions of small operations, each of which becomes one call.
//!
//! XLA's GPU compiler never fuses across reductions, so what lies between two large operations of a network, such as the
//! coefficients of a norm or the small dense layers of attention, becomes dozens of kernels that take a microsecond and a
//! half each, whatever they do. One thread block computes all of them in a row.
//!
//! Every node has a level, which never falls from what it reads to what it makes, and rises wherever a small operation
//! reads something that is not small. Small operations of one level that read each other are a region. What leaves a region
//! therefore never comes back into it: it would pass a node that is not small and return at a higher level, or
//! only small ones of the same level, which belong to the region themselves. For the same reason two regions never wait for
//! each other, and calls can replace them.
//!
//! Nodes that only move elements belong to no region: each region that reads one has a copy, and one stays for all others.

use super::plan::{MOST_ADDED, MOST_ELEMENTS};
use super::program::BlockProgram;
use super::step::Steps;
use crate::GpuFacts;
use octant_graph::passes::{Replacement, outline, replace_where_possible};
use octant_graph::{Graph, Node, NodeId, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What a block reads from elsewhere has so many elements at most: one multiprocessor computes more elements in time than it
/// can read.
const MOST_READ: usize = 1 << 14;
/// Fewer than so many reductions are fused by the compiler as well.
const FEWEST_REDUCTIONS: usize = 2;

/// Outlines regions of small operations as calls of one thread block. Some outputs of the graph are written over inputs:
/// `(input, output)`.
pub fn outline_regions(graph: &Graph, donated: &[(usize, usize)], gpu: &GpuFacts) -> Graph {
    let flow = Flow::new(graph);
    let regions = flow.regions();
    let replacements: Vec<Replacement> =
        regions.iter().filter_map(|region| flow.outline(region, donated, gpu)).collect();
    match replacements.is_empty() {
        true => graph.clone(),
        false => replace_where_possible(graph, replacements),
    }
}

/// The nodes of a graph and what they are to each other. One more node than the graph has stands for its outputs.
struct Flow<'g> {
    graph: &'g Graph,
    steps: Steps<'g>,
    /// By node: the producers of what it reads, looking through moves.
    sources: Vec<Vec<NodeId>>,
    /// By node: those that read it, looking through moves.
    consumers: Vec<Vec<NodeId>>,
    small: Vec<bool>,
    /// Whether only small reductions read a node, perhaps through functions of its elements.
    only_added: Vec<bool>,
}

impl<'g> Flow<'g> {
    fn new(graph: &'g Graph) -> Flow<'g> {
        let steps = Steps::of(graph);
        let count = graph.nodes().len();
        let is_move: Vec<bool> = graph
            .nodes()
            .iter()
            .map(|node| node.outputs.first().is_some_and(|&made| steps.moved(made).is_some()))
            .collect();
        let mut sources: Vec<Vec<NodeId>> = Vec::new();
        let mut consumers = vec![vec![]; count + 1];
        let inputs = graph.nodes().iter().map(|node| &node.inputs[..]).chain([graph.outputs()]);
        for (index, inputs) in inputs.enumerate() {
            let producers = inputs.iter().map(|input| graph.values()[input.index()].producer);
            let through = |read: NodeId| if is_move[read] { sources[read].clone() } else { vec![read] };
            let own: BTreeSet<NodeId> = producers.flat_map(through).collect();
            if index == count || !is_move[index] {
                own.iter().for_each(|&source| consumers[source].push(index));
            }
            sources.push(own.into_iter().collect());
        }
        let is_computed = |node: &Node| node.outputs.first().is_some_and(|&made| steps.computed(made).is_some());
        let small = graph.nodes().iter().map(is_computed).chain([false]).collect();
        let only_added = vec![false; count + 1];
        let mut flow = Flow { graph, steps, sources, consumers, small, only_added };
        // What is not small may be what makes others too large.
        while flow.leaves_out_more() {}
        flow
    }

    fn output(&self, node: NodeId) -> ValueId {
        self.graph.nodes()[node].outputs[0]
    }

    fn leaves_out_more(&mut self) -> bool {
        let mut any = false;
        for node in (0..self.graph.nodes().len()).rev() {
            self.only_added[node] = self.is_only_added(node);
            let stays = self.small[node] && self.is_small(node);
            any |= stays != self.small[node];
            self.small[node] = stays;
        }
        any
    }

    /// Whether a block may compute a node, given which of its producers and consumers are small.
    fn is_small(&self, node: NodeId) -> bool {
        let Some(step) = self.steps.computed(self.output(node)) else { return false };
        let fits = |value: ValueId, most| (1..=most).contains(&self.steps.elements(value));
        let operand_fits = |&operand: &ValueId| {
            let Some(base) = self.steps.base(operand) else { return fits(operand, MOST_ADDED) };
            let is_made = self.small[self.graph.values()[base.index()].producer];
            // What is repeated is read once.
            let read = self.steps.elements(base).min(self.steps.elements(operand));
            fits(operand, MOST_ADDED) && (is_made || read <= MOST_READ)
        };
        fits(step.result, if self.only_added[node] { MOST_ADDED } else { MOST_ELEMENTS })
            && step.operands.iter().all(operand_fits)
    }

    fn is_only_added(&self, node: NodeId) -> bool {
        let consumers = &self.consumers[node];
        let adds =
            |&consumer: &NodeId| self.small[consumer] && (self.is_reduction(consumer) || self.only_added[consumer]);
        self.graph.nodes()[node].outputs.len() == 1
            && !self.is_reduction(node)
            && !consumers.is_empty()
            && consumers.iter().all(adds)
    }

    fn is_reduction(&self, node: NodeId) -> bool {
        self.steps.step(self.output(node)).is_some_and(|step| step.is_reduction())
    }

    /// The lowest levels that nodes can have.
    fn levels(&self) -> Vec<usize> {
        let mut levels: Vec<usize> = Vec::new();
        for (node, sources) in self.sources.iter().enumerate() {
            let after = |&source: &NodeId| levels[source] + usize::from(self.small[node] && !self.small[source]);
            levels.push(sources.iter().map(after).max().unwrap_or(0));
        }
        levels
    }

    /// Small nodes that are connected on their levels.
    fn connected(&self, levels: &[usize]) -> Vec<Vec<NodeId>> {
        let mut first: Vec<NodeId> = (0..levels.len()).collect();
        let root = |first: &[NodeId], mut node: NodeId| {
            while first[node] != node {
                node = first[node];
            }
            node
        };
        let small = || (0..levels.len()).filter(|&node| self.small[node]);
        for node in small() {
            let sources = self.sources[node].iter();
            for &source in sources.filter(|&&source| self.small[source] && levels[source] == levels[node]) {
                let (one, other) = (root(&first, node), root(&first, source));
                first[one.max(other)] = one.min(other);
            }
        }
        let mut found: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        small().for_each(|node| found.entry(root(&first, node)).or_default().push(node));
        found.into_values().collect()
    }

    fn regions(&self) -> Vec<Vec<NodeId>> {
        let mut levels = self.levels();
        let found = self.connected(&levels);
        // What is worth no call by itself may become part of a later one that reads it. So does what is only added up, which
        // would have to be written to memory otherwise.
        let idle = found.into_iter().filter(|nodes| !self.is_worth_a_call(nodes)).flatten();
        let added = (0..levels.len()).filter(|&node| self.small[node] && self.only_added[node]);
        for node in idle.chain(added).collect::<BTreeSet<NodeId>>().into_iter().rev() {
            let consumers = self.consumers[node].iter().map(|&consumer| levels[consumer]);
            levels[node] = consumers.min().unwrap_or(levels[node]);
        }
        self.connected(&levels).into_iter().filter(|nodes| self.is_worth_a_call(nodes)).collect()
    }

    fn is_worth_a_call(&self, nodes: &[NodeId]) -> bool {
        nodes.iter().filter(|&&node| self.is_reduction(node)).count() >= FEWEST_REDUCTIONS
    }

    fn outline(&self, region: &[NodeId], donated: &[(usize, usize)], gpu: &GpuFacts) -> Option<Replacement> {
        let is_read_outside =
            |node: &NodeId| self.consumers[*node].iter().any(|reader| region.binary_search(reader).is_err());
        let outputs: Vec<ValueId> =
            region.iter().copied().filter(is_read_outside).map(|node| self.output(node)).collect();
        let is_move = |node: NodeId| match self.graph.nodes()[node].outputs[..] {
            [made] => self.steps.moved(made).is_some(),
            _ => false,
        };
        let inside = |node: NodeId| region.binary_search(&node).is_ok() || is_move(node);
        if outputs.is_empty() {
            return None;
        }
        outline(self.graph, &outputs, inside, |body, inputs| {
            let over = self.overwritten(inputs, &outputs, donated);
            BlockProgram::of(body, &over, gpu).map(BlockProgram::into_hint)
        })
    }

    /// The outputs of a region that are outputs of the graph, with the inputs that they are written over.
    fn overwritten(&self, inputs: &[ValueId], outputs: &[ValueId], donated: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let pair = |&(input, output): &(usize, usize)| {
            let (input, output) = (self.graph.inputs().get(input)?, self.graph.outputs().get(output)?);
            let operand = inputs.iter().position(|read| read == input)?;
            Some((outputs.iter().position(|made| made == output)?, operand))
        };
        donated.iter().filter_map(pair).collect()
    }
}
