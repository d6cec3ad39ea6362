//! Passes: rewrite graphs into equivalent, cheaper graphs.
//!
//! A pass sees one graph at a time and rebuilds it; [`apply`] takes it through all bodies first. Inputs and outputs keep
//! their number and order, because donated buffers are named by them. Rewrites of floating-point arithmetic are exact,
//! up to the sign of zero.
//!
//! Start reading at [`optimize`].

mod inline;
mod int8;
mod merge;
mod order;
mod pack;
mod replace;
mod simplify;

pub use inline::{inline_calls, inline_unless};
pub use int8::{Contraction, Int8Ranges, LayerRange, contractions, noise_of_layers, quantized};
pub use merge::dead_code;
pub use merge::fold_constants;
pub use merge::merge_equal;
pub use order::{overwrite_by_last, unpool_by_gathering};
pub use pack::pack_narrow_images;
pub use replace::{ReplaceError, Replacement, extract, outline, replace, replace_where_possible};
pub use simplify::simplify;

use crate::verify::verify;
use crate::{Graph, GraphBuilder, Node, Op, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// A rewrite of one graph; its bodies have been rewritten before.
pub type Pass = fn(&Graph) -> Graph;

/// The passes of [`optimize`] with their names, in order.
pub const PASSES: [(&str, Pass); 4] = [
    ("simplify", simplify),
    ("fold_constants", fold_constants),
    ("merge_equal", merge_equal),
    ("dead_code", dead_code),
];

/// The maximum number of rounds, in case rewrites undo each other; two or three are usual.
const ROUNDS: usize = 10;

/// Runs all passes until nothing changes any more.
pub fn optimize(graph: Graph) -> Graph {
    let mut graph = graph;
    for _ in 0..ROUNDS {
        let mut next: Option<Graph> = None;
        for (name, pass) in PASSES {
            let made = apply(pass, next.as_ref().unwrap_or(&graph));
            if cfg!(debug_assertions)
                && let Err(error) = verify(&made)
            {
                panic!("after {name}: {error}");
            }
            next = Some(made);
        }
        let before = std::mem::replace(&mut graph, next.unwrap_or_default());
        if graph == before {
            break;
        }
    }
    graph
}

/// Applies a pass to a graph and all bodies inside, innermost first. A body that several nodes share stays shared.
pub fn apply(pass: impl Fn(&Graph) -> Graph, graph: &Graph) -> Graph {
    apply_to(&pass, graph, &mut HashMap::new())
}

/// Rewritten bodies by the address of the original, which `graph` keeps alive.
type Rewritten = HashMap<*const Graph, Arc<Graph>>;

fn apply_to(pass: &dyn Fn(&Graph) -> Graph, graph: &Graph, rewritten: &mut Rewritten) -> Graph {
    if graph.nodes().iter().all(|node| node.op.bodies().is_empty()) {
        return pass(graph);
    }
    let mut with_bodies = graph.clone();
    for node in &mut with_bodies.nodes {
        for body in node.op.bodies_mut() {
            let address = Arc::as_ptr(body);
            if !rewritten.contains_key(&address) {
                let new = apply_to(pass, body, rewritten);
                let new = if new == **body { body.clone() } else { Arc::new(new) };
                rewritten.insert(address, new);
            }
            *body = rewritten[&address].clone();
        }
    }
    pass(&with_bodies)
}

/// Builds a graph anew, node by node: `make` is given a node and its operands in the new graph and returns the values
/// that replace its results.
fn rebuild<'g>(
    graph: &'g Graph,
    mut make: impl FnMut(&mut GraphBuilder, &'g Node, Vec<ValueId>) -> Vec<ValueId>,
) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut renamed = vec![ValueId(u32::MAX); graph.values().len()];
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        renamed[input.index()] = builder.input(name, graph.shape(input).clone());
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let operands = node.inputs.iter().map(|input| renamed[input.index()]).collect();
        for (output, result) in node.outputs.iter().zip(make(&mut builder, node, operands)) {
            renamed[output.index()] = result;
        }
    }
    builder.finish(graph.outputs().iter().map(|output| renamed[output.index()]).collect())
}

/// The same graph with some nodes replaced: `make` returns a graph from a node's operands to its results.
/// Nodes without a path get that of the node.
pub fn rewrite(graph: &Graph, mut make: impl FnMut(&Node) -> Option<Graph>) -> Graph {
    rebuild(graph, |builder, node, operands| match make(node) {
        Some(made) => inline::paste(builder, &made, &operands, &node.path),
        None => builder.copy(graph, node, operands),
    })
}
