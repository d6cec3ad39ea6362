#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::group_updates;
use crate::passes::tests::assert_same;
use octant_graph::{DType, Graph, KernelHint, Op, Shape, Tensor, Trace};
use std::sync::Arc;

/// Variables of these sizes, each of which is changed by a call of its own.
fn updates(sizes: &[usize], chained: bool) -> Graph {
    let trace = Trace::new();
    let rate = trace.input("rate", Shape::scalar(DType::F32));
    let mut results: Vec<Tensor> = Vec::new();
    for &size in sizes {
        let [value, change] = ["value", "change"].map(|name| trace.input(name, Shape::new(DType::F32, [size])));
        let change = match results.last().filter(|_| chained) {
            Some(last) => change + last,
            None => change,
        };
        let body = |x: &[Tensor]| vec![&x[0] - &x[2] * x[1].abs().sqrt()];
        results.extend(trace.call(&[value, change, rate.clone()], false, body));
    }
    trace.finish(&results).unwrap()
}

/// The hints of calls with one, and how many calls have none.
fn calls(graph: &Graph) -> (Vec<Arc<KernelHint>>, usize) {
    let hints = graph.nodes().iter().filter_map(|node| match &node.op {
        Op::Call { kernel, .. } => Some(kernel.clone()),
        _ => None,
    });
    let (with, without): (Vec<_>, Vec<_>) = hints.partition(Option::is_some);
    (with.into_iter().flatten().collect(), without.len())
}

#[test]
fn what_is_done_to_many_small_variables_is_one_call() {
    let graph = updates(&[3, 500, 1 << 17, 0, 4], false);
    let made = group_updates(&graph);
    assert_same(&graph, &made);
    let (hints, alone) = calls(&made);
    assert_eq!((hints.len(), alone), (1, 2), "the largest stays alone, and so does the empty one");
    assert_eq!(hints[0].integers, [2, 1, 1]);
    assert_eq!(hints[0].in_place, [(0, 0), (1, 2), (2, 4)]);
    let source = hints[0].source.as_deref().unwrap();
    assert!(source.starts_with("const float v0 = arrays[0][i]; const float v1 = arrays[1][i];"), "{source}");
    assert!(source.contains("*(const float *)scalars[0]") && source.ends_with("arrays[0][i] = v7;"), "{source}");
}

#[test]
fn a_call_holds_as_many_variables_as_its_table() {
    let (hints, alone) = calls(&group_updates(&updates(&[8; 400], false)));
    assert_eq!((hints.len(), alone), (3, 0), "166 each");
}

#[test]
fn variables_that_need_each_other_are_not_grouped() {
    let graph = updates(&[8; 4], true);
    let made = group_updates(&graph);
    assert_same(&graph, &made);
    let (hints, alone) = calls(&made);
    assert_eq!((hints.len(), alone), (1, 3));
}
