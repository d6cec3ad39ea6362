//! Rectified norms that are never written. Where only our calls look at one, they read what it was made from, and stretch,
//! move and rectify that themselves: forward, and for the gradients of their kernels.

use super::stretch::Stretch;
use super::{Pairs, Task, tensor_core, users};
use crate::Options;
use octant_graph::{Binary, Comparison, Graph, Node, Op, ValueId};
use std::collections::HashMap;

/// The rectified norms of a graph that calls make of what they read.
#[derive(Default)]
pub struct Rectified {
    norms: HashMap<ValueId, Stretch>,
}

impl Rectified {
    /// All such norms of a graph.
    pub fn find(graph: &Graph, options: &Options, pairs: &Pairs) -> Rectified {
        let (mut norms, users) = (HashMap::new(), users(graph));
        let is_called = |value: ValueId, user: usize| {
            let node = &graph.nodes()[user];
            let task = Task::of_node(graph, node);
            let chosen = task.and_then(|task| tensor_core::choose_rectified(&task, options.precision));
            chosen.is_some() && node.inputs[0] == value && node.inputs[1] != value && pairs.of(user).is_none()
        };
        for node in graph.nodes() {
            let Some(norm) = norm(graph, node) else { continue };
            let value = node.outputs[0];
            let looks = users.get(&value).map_or(&[][..], Vec::as_slice);
            if !looks.is_empty() && looks.iter().all(|&user| is_called(value, user)) {
                norms.insert(value, norm);
            }
        }
        Rectified { norms }
    }

    /// How a value is made, if calls make it.
    pub fn of(&self, value: ValueId) -> Option<&Stretch> {
        self.norms.get(&value)
    }
}

/// The norm of a node that rectifies one: `v <= 0 ? 0 : v`.
fn norm(graph: &Graph, node: &Node) -> Option<Stretch> {
    let (Op::Select, &[condition, zero, value]) = (&node.op, &node.inputs[..]) else { return None };
    let condition = graph.producer(condition);
    let below = matches!(condition.op, Op::Compare(Comparison::LessEqual)) && condition.inputs[0] == value;
    if !below || !is_zero(graph, zero) || !is_zero(graph, condition.inputs[1]) {
        return None;
    }
    let norm = Stretch::of(graph, value, &[Binary::Add, Binary::Sub, Binary::Mul]);
    (!norm.steps.is_empty()).then_some(norm)
}

/// Whether a value is zero everywhere.
pub fn is_zero(graph: &Graph, value: ValueId) -> bool {
    let node = graph.producer(value);
    match &node.op {
        Op::Constant(tensor) => tensor.to_f64s().iter().all(|&value| value == 0.0),
        Op::Broadcast { .. } => is_zero(graph, node.inputs[0]),
        _ => false,
    }
}
