//! Gradients of max-pooling without a scatter.

use crate::ops::window::gradient::gathered_from_windows;
use crate::{Graph, Op, Shape, Trace, Window};

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
