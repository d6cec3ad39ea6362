//! Equal nodes become one, constants are computed, and nodes that nothing uses disappear.

use crate::evaluate::evaluate;
use crate::gradient::body::extract;
use crate::{Graph, GraphBuilder, HostTensor, Node, Op, ValueId};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Computes equal operations on equal operands once. Everything is pure, random bits included (they are a function of
/// their key); only barriers stay, as they exist to prevent merging.
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

/// Leaves out what no output depends on. Values are numbered in the order of their nodes afterwards.
pub fn dead_code(graph: &Graph) -> Graph {
    extract(graph, graph.inputs(), graph.outputs())
}

/// Constants of more elements than this are not made: the program would grow more than the work shrinks.
const MAX_ELEMENTS: usize = 1024;

/// Computes small operations on constants now.
pub fn fold_constants(graph: &Graph) -> Graph {
    super::rebuild(graph, |builder, node, operands| match fold(graph, builder, node, &operands) {
        Some(results) => results
            .into_iter()
            .flat_map(|result| builder.push(Op::Constant(result), vec![], node.path.clone()))
            .flatten()
            .collect(),
        None => builder.copy(graph, node, operands),
    })
}

fn fold(graph: &Graph, builder: &GraphBuilder, node: &Node, operands: &[ValueId]) -> Option<Vec<HostTensor>> {
    let small = node.outputs.iter().all(|&output| graph.shape(output).elements() <= MAX_ELEMENTS);
    if !small || !foldable(&node.op) {
        return None;
    }
    let constants: Option<Vec<HostTensor>> = operands
        .iter()
        .map(|&operand| {
            let Op::Constant(tensor) = &builder.graph().producer(operand).op else { return None };
            (tensor.shape().elements() <= MAX_ELEMENTS).then(|| tensor.clone())
        })
        .collect();
    let mut single = GraphBuilder::new();
    let inputs =
        constants?.into_iter().flat_map(|tensor| single.push(Op::Constant(tensor), vec![], "".into())).flatten();
    let inputs = inputs.collect();
    let outputs = single.push(node.op.clone(), inputs, "".into()).ok()?;
    evaluate(&single.finish(outputs), &[]).ok()
}

/// Broadcasts of constants stay what they are, since backends read them without memory. What has a body may run long.
fn foldable(op: &Op) -> bool {
    let has_no_work = matches!(op, Op::Parameter { .. } | Op::Constant(_) | Op::Iota { .. } | Op::Barrier);
    !has_no_work && !matches!(op, Op::Broadcast { .. } | Op::RandomBits { .. }) && op.bodies().is_empty()
}
