//! Inlining of calls.

use crate::{Graph, GraphBuilder, KernelHint, Node, Op, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// Replaces calls by the nodes of the called functions, for backends that gain nothing from functions. Apply it
/// with [`super::apply`] so that calls inside of bodies disappear as well.
pub fn inline_calls(graph: &Graph) -> Graph {
    inline_unless(graph, |_| false)
}

/// The same, except for calls whose kernel the backend has.
pub fn inline_unless(graph: &Graph, has: impl Fn(&KernelHint) -> bool) -> Graph {
    super::rebuild(graph, |builder, node, operands| {
        if let Op::Call { body, kernel, .. } = &node.op
            && !kernel.as_ref().is_some_and(|kernel| has(kernel))
        {
            return paste(builder, body, &operands, &"".into());
        }
        builder.copy(graph, node, operands)
    })
}

/// Copies a graph's nodes, reading `operands` as its inputs; returns its outputs. Nodes without a path get that one.
pub(super) fn paste(builder: &mut GraphBuilder, graph: &Graph, operands: &[ValueId], path: &Arc<str>) -> Vec<ValueId> {
    let mut renamed: HashMap<ValueId, ValueId> = graph.inputs().iter().copied().zip(operands.iter().copied()).collect();
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let inputs = node.inputs.iter().map(|input| renamed[input]).collect();
        let made = match node.path.is_empty() {
            true => builder.copy(graph, &Node { path: path.clone(), ..node.clone() }, inputs),
            false => builder.copy(graph, node, inputs),
        };
        renamed.extend(node.outputs.iter().copied().zip(made));
    }
    graph.outputs().iter().map(|output| renamed[output]).collect()
}
