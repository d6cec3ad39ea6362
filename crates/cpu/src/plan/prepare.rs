//! What happens to a graph before it is planned: what the planner need not know is expressed in other operations.

use octant_graph::{Graph, GraphBuilder, Node, Op, ValueId, passes};
use std::collections::HashMap;

/// The graph simplified, without calls, and with negative padding expressed as slices.
pub(crate) fn prepare(graph: &Graph) -> Graph {
    let graph = passes::apply(passes::inline_calls, graph);
    passes::optimise(without_negative_padding(&graph))
}

fn without_negative_padding(graph: &Graph) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut renamed: HashMap<ValueId, ValueId> = HashMap::new();
    for node in graph.nodes() {
        let inputs: Vec<ValueId> = node.inputs.iter().map(|input| renamed[input]).collect();
        let made = match &node.op {
            Op::Parameter { index } => {
                vec![builder.input(&graph.input_names()[*index], graph.shape(node.outputs[0]).clone())]
            }
            Op::Pad { low, high, interior } if low.iter().chain(high).any(|&edge| edge < 0) => {
                vec![pad_and_slice(&mut builder, node, inputs, low, high, interior)]
            }
            _ => builder.copy(graph, node, inputs),
        };
        renamed.extend(node.outputs.iter().copied().zip(made));
    }
    let outputs = graph.outputs().iter().map(|output| renamed[output]).collect();
    builder.finish(outputs)
}

fn pad_and_slice(
    builder: &mut GraphBuilder,
    node: &Node,
    inputs: Vec<ValueId>,
    low: &[i64],
    high: &[i64],
    interior: &[usize],
) -> ValueId {
    let added = |edges: &[i64]| edges.iter().map(|&edge| edge.max(0)).collect::<Vec<_>>();
    let removed = |edges: &[i64]| edges.iter().map(|&edge| edge.min(0).unsigned_abs() as usize).collect::<Vec<_>>();
    let pad = Op::Pad { low: added(low), high: added(high), interior: interior.to_vec() };
    let mut push = |op, inputs| {
        builder.push(op, inputs, node.path.clone()).expect("the parts of a valid padding are valid")[0]
    };
    let padded = push(pad, inputs);
    let dims = builder.shape(padded).dims().to_vec();
    let limits = dims.iter().zip(removed(high)).map(|(&dim, cut)| dim - cut).collect();
    let slice = Op::Slice { starts: removed(low), limits, strides: vec![1; dims.len()] };
    builder.push(slice, vec![padded], node.path.clone()).expect("the parts of a valid padding are valid")[0]
}
