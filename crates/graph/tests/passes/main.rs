//! Passes: each rewrite by itself, all of them on random graphs, the verifier after every one.

#![allow(clippy::unwrap_used, reason = "tests may panic, in their own functions too")]

mod pack;
mod random;
mod rewrites;
mod text;

use octant_graph::{DType, Graph, Op, Shape, Tensor, Trace, passes};

/// The names of the operations that are left of a model over one input after all passes, inputs left out.
fn left_of(shape: Shape, model: impl Fn(&Trace, &Tensor) -> Vec<Tensor>) -> Vec<&'static str> {
    let trace = Trace::new();
    let x = trace.input("x", shape);
    let outputs = model(&trace, &x);
    names(&passes::optimize(trace.finish(&outputs).unwrap()))
}

fn names(graph: &Graph) -> Vec<&'static str> {
    let inner = graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. }));
    inner.map(|node| node.op.name()).collect()
}

fn floats(dims: &[usize]) -> Shape {
    Shape::new(DType::F32, dims)
}
