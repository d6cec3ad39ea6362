//! Reductions of one array whose results are concatenated.
//!
//! XLA's GPU compiler reads the array once for all of them unless it fuses each into the concatenation instead. A barrier keeps
//! it from that.

use octant_graph::passes::{Replacement, replace_where_possible};
use octant_graph::{Graph, NodeId, Op, Tensor, Trace, ValueId};

/// Puts an optimization barrier after reductions of one array over the same axes whose results are concatenated.
pub fn hold_sibling_reductions(graph: &Graph) -> Graph {
    let mut groups: Vec<Vec<NodeId>> = Vec::new();
    for node in graph.nodes().iter().filter(|node| matches!(node.op, Op::Concatenate { .. })) {
        let reductions: Option<Vec<NodeId>> = node.inputs.iter().map(|&part| reduction(graph, part)).collect();
        let Some(mut reductions) = reductions else { continue };
        reductions.sort_unstable();
        reductions.dedup();
        let is_new = reductions.iter().all(|reduction| !groups.iter().flatten().any(|known| known == reduction));
        if reductions.len() > 1 && is_new && are_siblings(graph, &reductions) {
            groups.push(reductions);
        }
    }
    if groups.is_empty() {
        return graph.clone();
    }
    replace_where_possible(graph, groups.iter().map(|reductions| held(graph, reductions)).collect())
}

/// The reduction that a value is a reshaped or scaled copy of.
fn reduction(graph: &Graph, mut value: ValueId) -> Option<NodeId> {
    loop {
        let producer = graph.values()[value.index()].producer;
        let node = &graph.nodes()[producer];
        if matches!(node.op, Op::Reduce { .. }) {
            return Some(producer);
        }
        let passes_on = matches!(node.op, Op::Reshape { .. } | Op::Convert(_) | Op::Binary(_));
        let mut operands = node.inputs.iter().filter(|&&operand| !is_constant(graph, operand));
        let (Some(&only), None, true) = (operands.next(), operands.next(), passes_on) else { return None };
        value = only;
    }
}

fn is_constant(graph: &Graph, value: ValueId) -> bool {
    let node = graph.producer(value);
    matches!(node.op, Op::Constant(_)) || matches!(node.op, Op::Broadcast { .. }) && is_constant(graph, node.inputs[0])
}

fn are_siblings(graph: &Graph, reductions: &[NodeId]) -> bool {
    let reduced = |node: NodeId| {
        let Op::Reduce { axes, .. } = &graph.nodes()[node].op else { return None };
        Some((graph.nodes()[node].inputs[0], axes.as_slice()))
    };
    reductions.iter().all(|&reduction| reduced(reduction) == reduced(reductions[0]))
}

fn held(graph: &Graph, reductions: &[NodeId]) -> Replacement {
    let nodes: Vec<_> = reductions.iter().map(|&reduction| &graph.nodes()[reduction]).collect();
    let x = nodes[0].inputs[0];
    let trace = Trace::new();
    let input = trace.input("x", graph.shape(x).clone());
    let reduced: Vec<Tensor> = nodes.iter().map(|node| trace.emit_one(node.op.clone(), &[&input])).collect();
    let held = trace.barrier(&reduced);
    let made = trace.finish(&held).expect("a barrier takes any values");
    Replacement { inputs: vec![x], outputs: nodes.iter().map(|node| node.outputs[0]).collect(), graph: made }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::tests::assert_same;
    use octant_graph::{DType, Shape};

    #[test]
    fn a_mean_and_a_max_that_are_concatenated_are_held() {
        let held = |same: bool| {
            let trace = Trace::new();
            let [x, y] = ["x", "y"].map(|name| trace.input(name, Shape::new(DType::F32, [2, 3, 4, 5])));
            let other = if same { &x } else { &y };
            let maps = [x.mean_keep(&[3]), other.max_keep(&[3])];
            let graph = trace.finish(&[Tensor::concatenate(&maps, 3)]).unwrap();
            let made = hold_sibling_reductions(&graph);
            assert_same(&graph, &made);
            made.nodes().iter().filter(|node| node.op == Op::Barrier).count()
        };
        assert_eq!([held(true), held(false)], [1, 0]);
    }
}
