//! Common subexpressions.

use crate::{Graph, Node, Op, ValueId};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;

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

fn hash(op: &Op, operands: &[ValueId]) -> u64 {
    let mut hasher = DefaultHasher::new();
    operands.hash(&mut hasher);
    discriminant(op).hash(&mut hasher);
    let hasher = &mut hasher;
    match op {
        Op::Parameter { index: number } | Op::Concatenate { axis: number } => number.hash(hasher),
        Op::Constant(tensor) => (tensor.shape(), &tensor.bytes()[..]).hash(hasher),
        Op::Iota { shape, axis } => (shape, axis).hash(hasher),
        Op::Unary(unary) => unary.hash(hasher),
        Op::Binary(binary) => binary.hash(hasher),
        Op::Compare(comparison) => comparison.hash(hasher),
        Op::Convert(dtype) | Op::Bitcast(dtype) => dtype.hash(hasher),
        Op::Broadcast { dims, axes } => (dims, axes).hash(hasher),
        Op::Reshape { dims } | Op::RandomBits { dims } | Op::DynamicSlice { sizes: dims } => dims.hash(hasher),
        Op::Transpose { permutation: axes } | Op::Reverse { axes } => axes.hash(hasher),
        Op::Slice { starts, limits, strides } => (starts, limits, strides).hash(hasher),
        Op::Pad { low, high, interior } => (low, high, interior).hash(hasher),
        Op::Reduce { kind, axes } => (kind, axes).hash(hasher),
        Op::ArgReduce { greatest: flag, axis } | Op::Sort { descending: flag, axis } => (flag, axis).hash(hasher),
        Op::ReduceWindow { kind, window } => (kind, window).hash(hasher),
        Op::SelectAndScatter { window } => window.hash(hasher),
        Op::Dot(dot) => dot.hash(hasher),
        Op::Convolution(conv) => conv.hash(hasher),
        Op::Gather(gather) => gather.hash(hasher),
        Op::Scatter(scatter) => scatter.hash(hasher),
        Op::Select | Op::Clamp | Op::DynamicUpdateSlice | Op::Barrier => {}
        // Bodies are compared, not hashed: few nodes have one.
        Op::While { .. } | Op::If { .. } | Op::Call { .. } => {}
    }
    hasher.finish()
}
