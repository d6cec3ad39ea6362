//! Dead code.

use crate::Graph;
use crate::gradient::body::extract;

/// Leaves out what no output depends on. Values are numbered in the order of their nodes afterwards.
pub fn dead_code(graph: &Graph) -> Graph {
    extract(graph, graph.inputs(), graph.outputs())
}
