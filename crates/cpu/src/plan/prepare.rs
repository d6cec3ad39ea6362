//! What happens to a graph before it is planned: what the planner need not know is expressed in other operations.

use octant_graph::{Graph, GraphBuilder, Node, Op, Reduction, ValueId, passes};
use std::collections::HashMap;

/// The graph simplified, without calls, and with negative padding expressed as slices.
pub(crate) fn prepare(graph: &Graph) -> Graph {
    let graph = passes::apply(passes::inline_calls, graph);
    passes::optimise(rewritten(&graph))
}

/// Negative padding becomes slices, and sums over what a pooling's gradient scatters become sums over what it is given.
fn rewritten(graph: &Graph) -> Graph {
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
            Op::Reduce { kind: Reduction::Sum, axes } => {
                let summed = scattered_source(graph, node.inputs[0], axes).map_or(inputs[0], |source| renamed[&source]);
                let made = builder.push(node.op.clone(), vec![summed], node.path.clone());
                made.expect("a scatter and its source have the same axes")
            }
            _ => builder.copy(graph, node, inputs),
        };
        renamed.extend(node.outputs.iter().copied().zip(made));
    }
    let outputs = graph.outputs().iter().map(|output| renamed[output]).collect();
    builder.finish(outputs)
}

/// The source of a select-and-scatter, if summing its result over `axes` sums every source element exactly once: all
/// axes along which windows move are summed over, and every window selects something.
fn scattered_source(graph: &Graph, value: ValueId, axes: &[usize]) -> Option<ValueId> {
    let node = graph.producer(value);
    let Op::SelectAndScatter { window } = &node.op else { return None };
    let moves = |axis: usize| window.size[axis] != 1 || window.strides[axis] != 1 || window.padding[axis] != (0, 0);
    let covered = (0..window.size.len()).all(|axis| !moves(axis) || axes.contains(&axis));
    let never_empty = window.padding.iter().zip(&window.size).all(|(&(low, high), &size)| {
        let reach = size as i64;
        (0..reach).contains(&low) && (0..reach).contains(&high)
    });
    (covered && never_empty).then(|| node.inputs[1])
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
    let mut push =
        |op, inputs| builder.push(op, inputs, node.path.clone()).expect("the parts of a valid padding are valid")[0];
    let padded = push(pad, inputs);
    let dims = builder.shape(padded).dims().to_vec();
    let limits = dims.iter().zip(removed(high)).map(|(&dim, cut)| dim - cut).collect();
    let slice = Op::Slice { starts: removed(low), limits, strides: vec![1; dims.len()] };
    builder.push(slice, vec![padded], node.path.clone()).expect("the parts of a valid padding are valid")[0]
}
