//! Joined maps that are never written. Where only our calls look at two arrays that are concatenated along their channels,
//! they read both where they lie.

use super::{Cotangents, Pairs, Rectified, Task, tensor_core, users};
use crate::Options;
use octant_graph::{Graph, Op, ValueId};
use std::collections::HashMap;

/// The joined maps of a graph that calls read apart.
#[derive(Default)]
pub struct Apart {
    joined: HashMap<ValueId, [ValueId; 2]>,
}

impl Apart {
    /// All such maps of a graph.
    pub fn find(
        graph: &Graph,
        options: &Options,
        pairs: &Pairs,
        rectified: &Rectified,
        cotangents: &Cotangents,
    ) -> Apart {
        let users = users(graph);
        let is_called = |value: ValueId, user: usize| {
            let node = &graph.nodes()[user];
            let reads = node.inputs[0] == value && node.inputs[1..].iter().all(|&other| other != value);
            let is_plain = rectified.of(value).is_none() && cotangents.norm(node.outputs[0]).is_none();
            let serves = |task: &Task| tensor_core::choose(task, options.precision).is_some();
            let task = Task::of_node(graph, node).filter(|_| reads && is_plain);
            task.is_some_and(|task| pairs.of(user).map_or_else(|| serves(&task), |pair| !pair.is_joined()))
        };
        let mut joined = HashMap::new();
        for node in graph.nodes() {
            let (Op::Concatenate { axis: 3 }, &[left, right]) = (&node.op, &node.inputs[..]) else { continue };
            let value = node.outputs[0];
            let in_blocks = [left, right].iter().all(|&part| tensor_core::is_in_blocks(graph.shape(part).dims()[3]));
            let looks = users.get(&value).map_or(&[][..], Vec::as_slice);
            if in_blocks && !looks.is_empty() && looks.iter().all(|&user| is_called(value, user)) {
                joined.insert(value, [left, right]);
            }
        }
        Apart { joined }
    }

    /// The two arrays that a value is joined from, if calls read them.
    pub fn of(&self, value: ValueId) -> Option<[ValueId; 2]> {
        self.joined.get(&value).copied()
    }
}
