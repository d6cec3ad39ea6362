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
        .map(|&operand| match &builder.graph().producer(operand).op {
            Op::Constant(tensor) if tensor.shape().elements() <= GREATEST => Some(tensor.clone()),
            _ => None,
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
    match op {
        Op::Parameter { .. } | Op::Constant(_) | Op::Iota { .. } | Op::Broadcast { .. } | Op::Barrier => false,
        Op::While { .. } | Op::If { .. } | Op::Call { .. } | Op::RandomBits { .. } => false,
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp | Op::Convert(_) | Op::Bitcast(_) => {
            true
        }
        Op::Reshape { .. } | Op::Transpose { .. } | Op::Reverse { .. } | Op::Slice { .. } | Op::Pad { .. } => true,
        Op::DynamicSlice { .. } | Op::DynamicUpdateSlice | Op::Concatenate { .. } => true,
        Op::Reduce { .. } | Op::ArgReduce { .. } | Op::Sort { .. } | Op::Gather(_) | Op::Scatter(_) => true,
        Op::ReduceWindow { .. } | Op::SelectAndScatter { .. } | Op::Dot(_) | Op::Convolution(_) => true,
    }
}
