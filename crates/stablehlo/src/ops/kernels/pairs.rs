//! Pairs of convolutions that one call computes: a 3×3 one and a pointwise one of as many channels, which residual blocks
//! have side by side. Together they read their input once, forward and for the gradients of their kernels, and write
//! the gradient of their input once.

use super::{Extras, Task, makers, tensor_core};
use crate::Options;
use crate::function::{Function, Named};
use octant_graph::{Binary, Convolution, Graph, Op, Shape, ValueId};
use std::collections::HashMap;

/// The pairs of a graph.
#[derive(Default)]
pub struct Pairs {
    /// By each of their nodes.
    pairs: HashMap<usize, Pair>,
}

/// Two nodes of a graph.
#[derive(Debug, Clone)]
pub struct Pair {
    pub plain: usize,
    pub pointwise: usize,
    /// The node that adds them up, if nothing else looks at them.
    sum: Option<usize>,
}

impl Pair {
    /// The nodes that are written together.
    pub fn members(&self) -> impl Iterator<Item = usize> + use<> {
        [self.plain, self.pointwise].into_iter().chain(self.sum)
    }

    /// Whether all operands of both have been made when a node is reached.
    pub fn is_last(&self, node: usize) -> bool {
        node == self.sum.unwrap_or(self.plain.max(self.pointwise))
    }

    /// Whether they are only added up.
    pub fn is_joined(&self) -> bool {
        self.sum.is_some()
    }

    /// Writes the call. Returns what it makes, and the moments of that if they are wanted, in so many parts. The second of two
    /// arrays that the input lies in comes as an operand of its own.
    pub fn write(
        &self,
        f: &mut Function,
        graph: &Graph,
        [plain, pointwise]: [&[Named]; 2],
        moments: Option<usize>,
        second: Option<&Named>,
    ) -> [Vec<(ValueId, Named)>; 2] {
        let nodes = [self.plain, self.pointwise].map(|node| &graph.nodes()[node]);
        let task = Task::of_node(graph, nodes[0]).expect("a pair has a convolution");
        let chosen = tensor_core::choose(&task, f.module.options.precision).expect("a pair has a call");
        let shapes = nodes.map(|node| graph.shape(node.outputs[0]));
        if let Some(sum) = self.sum {
            let extras = Extras { joined: true, ..Extras::default() };
            let operands = [&plain[0], &plain[1], &pointwise[0], &pointwise[1]];
            let results = task.write(f, &operands, &chosen, extras, &[shapes[0]]);
            return [graph.nodes()[sum].outputs.iter().copied().zip(results).collect(), vec![]];
        }
        let apart = second.and_then(|_| plain[0].shape.dims().last().copied());
        let extras = Extras { split: true, moments, apart, ..Extras::default() };
        let operands: Vec<&Named> = [&plain[0], &plain[1]].into_iter().chain(second).chain([&pointwise[1]]).collect();
        let mut results = task.write(f, &operands, &chosen, extras, &shapes);
        let moments = results.split_off(nodes.len());
        [results, moments].map(|results| nodes.map(|node| node.outputs[0]).into_iter().zip(results).collect())
    }
}

impl Pairs {
    /// All pairs of a graph.
    pub fn find(graph: &Graph, options: &Options) -> Pairs {
        let mut found = Pairs::default();
        let mut uses = vec![0; graph.values().len()];
        let all = graph.nodes().iter().flat_map(|node| &node.inputs).chain(graph.outputs());
        all.for_each(|value| uses[value.index()] += 1);
        let makers = makers(graph);
        // The pointwise convolutions by what they read.
        let mut pointwise: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (index, node) in graph.nodes().iter().enumerate() {
            if Task::of_node(graph, node).is_some_and(|task| task.side == 1) {
                pointwise.entry(node.inputs[0]).or_default().push(index);
            }
        }
        for (index, node) in graph.nodes().iter().enumerate() {
            if let Op::Binary(Binary::Add) = node.op
                && let [left, right] = node.inputs[..]
                && [left, right].iter().all(|value| uses[value.index()] == 1)
                && let (Some(&left), Some(&right)) = (makers.get(&left), makers.get(&right))
            {
                let orders = [(left, right), (right, left)].map(|(plain, pointwise)| Pair {
                    plain,
                    pointwise,
                    sum: Some(index),
                });
                orders.into_iter().for_each(|pair| found.insert(graph, options, pair));
            }
            let beside = node.inputs.first().and_then(|input| pointwise.get(input)).into_iter().flatten();
            beside.for_each(|&other| found.insert(graph, options, Pair { plain: index, pointwise: other, sum: None }));
        }
        found
    }

    /// The pair that a node belongs to.
    pub fn of(&self, node: usize) -> Option<&Pair> {
        self.pairs.get(&node)
    }

    /// Takes a pair that a call computes, if its nodes are in no other.
    fn insert(&mut self, graph: &Graph, options: &Options, pair: Pair) {
        let [plain, pointwise] = [pair.plain, pair.pointwise].map(|node| Task::of_node(graph, &graph.nodes()[node]));
        let (Some(plain), Some(pointwise)) = (plain, pointwise) else { return };
        let free = pair.members().all(|member| !self.pairs.contains_key(&member));
        if free && fit(&plain, &pointwise) && tensor_core::serves_pairs(&plain, options.precision) {
            self.pairs.extend(pair.members().map(|member| (member, pair.clone())));
        }
    }
}

/// Whether the pointwise convolution is like one more tap in the middle of the other's.
fn fit(plain: &Task, pointwise: &Task) -> bool {
    let pads = |conv: &Convolution, by: i64| conv.padding.iter().all(|&padding| padding == (by, by));
    let kinds = |task: &Task| (task.is_gradient, task.is_turned, task.groups, task.conv.dtype);
    let images = |task: &Task| [task.input, task.output].map(Shape::clone);
    pointwise.side == 1
        && pointwise.is_plain()
        && pads(plain.conv, plain.side as i64 / 2)
        && pads(pointwise.conv, 0)
        && kinds(plain) == kinds(pointwise)
        && images(plain) == images(pointwise)
}
