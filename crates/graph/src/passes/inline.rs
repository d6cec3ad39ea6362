//! Inlining of calls.

use crate::ops::window::gradient::gathered_from_windows;
use crate::{Graph, GraphBuilder, KernelHint, Node, Op, Shape, Trace, ValueId, Window};
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

/// Writes the gradients of poolings whose windows overlap as a gather: every element adds up the cotangents of the windows
/// whose max it is, in a fixed order. GPUs scatter with atomic additions instead, so that the order of sums, and with it the
/// last bits of all gradients below, differ from run to run.
pub fn unpool_by_gathering(graph: &Graph) -> Graph {
    super::rewrite(graph, |node| {
        let Op::SelectAndScatter { window } = &node.op else { return None };
        overlaps(window).then(|| gradient(graph.shape(node.inputs[0]), graph.shape(node.inputs[1]), window)).flatten()
    })
}

/// Whether an element may belong to several windows, in arrays that have elements.
fn overlaps(window: &Window) -> bool {
    let plain = |steps: &[usize]| steps.iter().all(|&step| step == 1);
    window.size.iter().zip(&window.strides).any(|(size, stride)| size > stride)
        && plain(&window.base_dilation)
        && plain(&window.window_dilation)
}

fn gradient(x: &Shape, source: &Shape, window: &Window) -> Option<Graph> {
    if x.elements() == 0 || source.elements() == 0 {
        return None;
    }
    let trace = Trace::new();
    let (x, source) = (trace.input("x", x.clone()), trace.input("source", source.clone()));
    trace.finish(&[gathered_from_windows(&x, &source, window)]).ok()
}
