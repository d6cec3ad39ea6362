//! Scatters by operations whose result does not depend on the order of updates, for compilers that leave this order open.

use crate::ops::index::gradient::numbered;
use crate::ops::window::gradient::gathered_from_windows;
use crate::{DType, Graph, Op, Scatter, ScatterKind, Shape, Trace, Window};

/// Writes scatters that overwrite so that of several updates of one element the last wins, whatever the order in which the
/// backend applies them: the largest number of an update that reaches an element is found by a scatter with max, and that
/// update is gathered. StableHLO leaves the order open, and XLA's GPU kernels let any update win.
pub fn overwrite_by_last(graph: &Graph) -> Graph {
    super::rewrite(graph, |node| {
        let Op::Scatter(scatter) = &node.op else { return None };
        let [operand, indices, updates] = [0, 1, 2].map(|input| graph.shape(node.inputs[input]));
        let can_be_numbered = (1..=i32::MAX as usize).contains(&updates.elements());
        (scatter.kind == ScatterKind::Set && can_be_numbered)
            .then(|| last_updates([operand, indices, updates], scatter))
            .flatten()
    })
}

fn last_updates(shapes: [&Shape; 3], scatter: &Scatter) -> Option<Graph> {
    let trace = Trace::new();
    let [operand, indices, updates] = shapes.map(|shape| trace.input("x", shape.clone()));
    let unwritten = trace.full(&operand.shape().with_dtype(DType::I32), -1.0);
    let by_max = Scatter { kind: ScatterKind::Max, ..scatter.clone() };
    let last = unwritten.scatter(&indices, &numbered(&updates), by_max);
    let is_unwritten = last.less(&last.zeros_like());
    let update = updates.reshape(&[updates.shape().elements()]).take(&last);
    trace.finish(&[is_unwritten.select(&operand, &update)]).ok()
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
