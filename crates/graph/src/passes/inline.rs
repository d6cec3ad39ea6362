//! Inlining of calls.

use crate::{Graph, GraphBuilder, KernelHint, Op, ValueId};
use std::collections::HashMap;

/// Puts the nodes of called functions in the place of the calls, for backends that gain nothing from functions. Apply it
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
            return paste(builder, body, &operands);
        }
        builder.copy(graph, node, operands)
    })
}

/// Copies a graph's nodes, reading `operands` as its inputs; returns its outputs.
pub(super) fn paste(builder: &mut GraphBuilder, graph: &Graph, operands: &[ValueId]) -> Vec<ValueId> {
    let mut renamed: HashMap<ValueId, ValueId> = graph.inputs().iter().copied().zip(operands.iter().copied()).collect();
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let made = builder.copy(graph, node, node.inputs.iter().map(|input| renamed[input]).collect());
        renamed.extend(node.outputs.iter().copied().zip(made));
    }
    graph.outputs().iter().map(|output| renamed[output]).collect()
}
