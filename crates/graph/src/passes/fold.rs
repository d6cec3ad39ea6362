//! Constant folding.

use crate::evaluate::evaluate;
use crate::{Graph, GraphBuilder, HostTensor, Node, Op, ValueId};

/// Constants of more elements than this are not made: the program would grow more than the work shrinks.
const GREATEST: usize = 1024;

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
    let small = node.outputs.iter().all(|&output| graph.shape(output).elements() <= GREATEST);
    if !small || !foldable(&node.op) {
        return None;
    }
    let constants: Option<Vec<HostTensor>> = operands
        .iter()
        .map(|&operand| {
            let Op::Constant(tensor) = &builder.graph().producer(operand).op else { return None };
            (tensor.shape().elements() <= GREATEST).then(|| tensor.clone())
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
