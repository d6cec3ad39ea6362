//! Pairs of convolutions that one call computes: a 3×3 one and a 1×1 one of as many channels, which residual blocks have side by
//! side. Together they read their input once, forward and for the gradients of their kernels, and write the gradient of
//! their input once.

use super::choose::serves_pairs;
use crate::kernels::conv::task::{ConvTask, GpuProfile};
use octant_graph::{Binary, Convolution, Graph, NodeId, Op, Shape, Uses, ValueId};
use std::collections::HashMap;

/// The pairs of a graph.
#[derive(Default)]
pub struct Pairs {
    /// By each of their nodes.
    pairs: HashMap<NodeId, Pair>,
}

/// Two nodes of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    pub plain: NodeId,
    pub pointwise: NodeId,
    /// The node that adds them up, if nothing else reads them.
    pub sum: Option<NodeId>,
}

impl Pair {
    fn members(&self) -> impl Iterator<Item = NodeId> + use<> {
        [self.plain, self.pointwise].into_iter().chain(self.sum)
    }
}

impl Pairs {
    /// All pairs of a graph.
    pub fn find(graph: &Graph, uses: &Uses, device: &GpuProfile) -> Pairs {
        let mut found = Pairs::default();
        // The 1×1 convolutions by what they read.
        let mut pointwise: HashMap<ValueId, Vec<NodeId>> = HashMap::new();
        for (index, node) in graph.nodes().iter().enumerate() {
            if ConvTask::of(graph, node).is_some_and(|task| task.side == 1) {
                pointwise.entry(node.inputs[0]).or_default().push(index);
            }
        }
        for (index, node) in graph.nodes().iter().enumerate() {
            if let Op::Binary(Binary::Add) = node.op
                && let [left, right] = node.inputs[..]
                && [left, right].iter().all(|&value| uses.count(value) == 1)
            {
                let [left, right] = [left, right].map(|value| graph.values()[value.index()].producer);
                for (plain, pointwise) in [(left, right), (right, left)] {
                    found.insert(graph, device, Pair { plain, pointwise, sum: Some(index) });
                }
            }
            let beside = node.inputs.first().and_then(|input| pointwise.get(input)).into_iter().flatten();
            beside.for_each(|&other| found.insert(graph, device, Pair { plain: index, pointwise: other, sum: None }));
        }
        found
    }

    /// The pair that a node belongs to.
    pub fn of(&self, node: NodeId) -> Option<&Pair> {
        self.pairs.get(&node)
    }

    /// Takes a pair that a call computes, if its nodes are in no other.
    fn insert(&mut self, graph: &Graph, device: &GpuProfile, pair: Pair) {
        let [plain, pointwise] = [pair.plain, pair.pointwise].map(|node| ConvTask::of(graph, &graph.nodes()[node]));
        let (Some(plain), Some(pointwise)) = (plain, pointwise) else { return };
        let free = pair.members().all(|member| !self.pairs.contains_key(&member));
        if free && fit(&plain, &pointwise) && serves_pairs(&plain, device) {
            self.pairs.extend(pair.members().map(|member| (member, pair)));
        }
    }
}

/// Whether the 1×1 convolution is like one more tap in the middle of the other's kernel.
fn fit(plain: &ConvTask, pointwise: &ConvTask) -> bool {
    let pads = |conv: &Convolution, by: i64| conv.padding.iter().all(|&padding| padding == (by, by));
    let kinds = |task: &ConvTask| (task.is_gradient, task.transposed, task.groups, task.conv.dtype);
    let images = |task: &ConvTask| [task.input, task.output].map(Shape::clone);
    pointwise.side == 1
        && pointwise.is_plain()
        && pads(plain.conv, plain.side as i64 / 2)
        && pads(pointwise.conv, 0)
        && kinds(plain) == kinds(pointwise)
        && images(plain) == images(pointwise)
}
