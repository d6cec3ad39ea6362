//! Common subexpressions.

use crate::{Graph, Node, Op, ValueId};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Computes equal operations on equal operands once. Everything is pure, random bits included (they are a function of
/// their key); only barriers stay, as they exist to keep computations apart.
pub fn merge_equal(graph: &Graph) -> Graph {
    // Candidates by hash; equality decides.
    let mut known: HashMap<u64, Vec<Known>> = HashMap::new();
    super::rebuild(graph, |builder, node, operands| {
        if node.op == Op::Barrier {
            return builder.copy(graph, node, operands);
        }
        let candidates = known.entry(hash(&node.op, &operands)).or_default();
        let equal = candidates.iter().find(|known| known.operands == operands && known.node.op == node.op);
        if let Some(known) = equal {
            return known.results.clone();
        }
        let results = builder.copy(graph, node, operands.clone());
        candidates.push(Known { node, operands, results: results.clone() });
        results
    })
}

/// A node of the old graph that the new one has.
struct Known<'g> {
    node: &'g Node,
    operands: Vec<ValueId>,
    results: Vec<ValueId>,
}

/// Attributes are compared, not hashed: few operations of one name read the same operands. Constants read none.
fn hash(op: &Op, operands: &[ValueId]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (op.name(), operands).hash(&mut hasher);
    if let Op::Constant(tensor) = op {
        (tensor.shape(), &tensor.bytes()[..]).hash(&mut hasher);
    }
    hasher.finish()
}
