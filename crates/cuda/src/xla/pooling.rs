//! Gradients of max-pooling by comparing positions.
//!
//! XLA's GPU compiler writes all windows' indices to memory, axis by axis, and scatters. Where windows do not overlap, every
//! element can instead test whether it is the first max of its window. The pooling itself then returns that position, which is
//! one byte per window.

use octant_graph::{DType, Graph, HostTensor, KernelHint, Op, Reduction, Shape, Tensor, Trace, Window, passes};
use std::sync::Arc;

/// Writes the gradients of poolings whose windows do not overlap as comparisons, and makes their poolings return positions.
pub fn unpool_by_comparing(graph: &Graph) -> Graph {
    let is_undone = |pooling: &octant_graph::Node, window: &Window| {
        let gradient = Op::SelectAndScatter { window: window.clone() };
        graph.nodes().iter().any(|node| node.op == gradient && node.inputs.first() == pooling.inputs.first())
    };
    let made = passes::rewrite(graph, |node| {
        let x = graph.shape(*node.inputs.first()?);
        let trace = Trace::new();
        let input = trace.input("x", x.clone());
        if let Op::ReduceWindow { kind: Reduction::Max, window } = &node.op
            && is_tiling(window, x)
            && is_undone(node, window)
        {
            return trace.finish(&Tiles::new(x, window).arg_max(&input)[..1]).ok();
        }
        let Op::SelectAndScatter { window } = &node.op else { return None };
        if !is_tiling(window, x) {
            return None;
        }
        let source = trace.input("source", graph.shape(node.inputs[1]).clone());
        let result = Tiles::new(x, window).scatter(&input, &source);
        trace.finish(&[result]).ok()
    });
    // The pooling and its gradient look for the same max.
    if made == *graph { made } else { passes::merge_equal(&made) }
}

/// Whether every element belongs to exactly one window.
fn is_tiling(window: &Window, shape: &Shape) -> bool {
    let plain = |steps: &[usize]| steps.iter().all(|&step| step == 1);
    window.size == window.strides
        && window.padding.iter().all(|&(low, high)| low == 0 && high == 0)
        && plain(&window.base_dilation)
        && plain(&window.window_dilation)
        && shape.dims().iter().zip(&window.size).all(|(&dim, &size)| dim % size == 0)
}

/// Every axis becomes two: which window, and where in it.
struct Tiles {
    dims: Vec<usize>,
    outer: Vec<usize>,
    inner: Vec<usize>,
    /// The numbers of the positions in a window, in the type that holds them.
    positions: HostTensor,
}

impl Tiles {
    fn new(x: &Shape, window: &Window) -> Tiles {
        let (outer, inner) = (0..x.rank()).map(|axis| (2 * axis, 2 * axis + 1)).unzip();
        let dims = x.dims().iter().zip(&window.size).flat_map(|(&dim, &size)| [dim / size, size]).collect();
        let count = window.size.iter().product::<usize>();
        let dtype = if count <= 1 << u8::BITS { DType::U8 } else { DType::I32 };
        let numbers: Vec<f64> = (0..count).map(|position| position as f64).collect();
        let positions = HostTensor::from_f64s(Shape::new(dtype, window.size.clone()), &numbers);
        Tiles { dims, outer, inner, positions: positions.expect("one position for every element of a window") }
    }

    /// The max of every window and its position there, the first of equals.
    fn arg_max(&self, x: &Tensor) -> Vec<Tensor> {
        let axes = self.inner.iter().map(|&axis| axis as i64).collect();
        let hint = Arc::new(KernelHint::new(KernelHint::ARG_MAX, axes));
        let split = x.reshape(&self.dims);
        x.trace().call_kernel(&[split], false, Some(hint), |x| {
            let windows = x[0].transpose(&[&self.outer[..], &self.inner].concat()).flatten_from(self.outer.len());
            let (max, position) = windows.arg_max(self.outer.len());
            vec![max, position.convert(self.positions.dtype())]
        })
    }

    /// The source at the max of its window, and zero elsewhere.
    fn scatter(&self, x: &Tensor, source: &Tensor) -> Tensor {
        let chosen = self.arg_max(x).swap_remove(1).broadcast_in_dim(&self.dims, &self.outer);
        let positions = x.trace().constant(self.positions.clone()).broadcast_in_dim(&self.dims, &self.inner);
        let spread = source.broadcast_in_dim(&self.dims, &self.outer);
        positions.equal(&chosen).select(&spread, &spread.zeros_like()).reshape(x.dims())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::tests::assert_same;
    use octant_graph::composites::Pool;

    fn pooling(side: usize, size: usize, stride: usize, trained: bool) -> Graph {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [2, side, side, 3]));
        let loss = x.max_pool(Pool::square(size, stride)).square().sum(&[0, 1, 2, 3]);
        let gradients = if trained { trace.gradients(&loss, &[x]) } else { vec![] };
        trace.finish(&[vec![loss], gradients].concat()).unwrap()
    }

    fn count(graph: &Graph, is: impl Fn(&Op) -> bool) -> usize {
        graph.nodes().iter().filter(|node| is(&node.op)).count()
    }

    #[test]
    fn unpooling_scatters_only_where_windows_overlap() {
        let scatters = |size, stride, side| {
            let graph = pooling(side, size, stride, true);
            let made = unpool_by_comparing(&graph);
            assert_same(&graph, &made);
            count(&made, |op| matches!(op, Op::SelectAndScatter { .. })) > 0
        };
        assert_eq!([scatters(2, 2, 8), scatters(3, 2, 9), scatters(2, 2, 9)], [false, true, true]);
    }

    #[test]
    fn a_pooling_returns_the_positions_that_its_gradient_needs() {
        // Poolings, calls that return positions in bytes, and in wider integers.
        let forms = |size: usize, trained: bool| {
            let made = unpool_by_comparing(&pooling(4 * size, size, size, trained));
            let calls = made.nodes().iter().filter(|node| matches!(node.op, Op::Call { .. }));
            let positions: Vec<DType> = calls.map(|node| made.shape(node.outputs[1]).dtype()).collect();
            let of = |dtype: DType| positions.iter().filter(|&&position| position == dtype).count();
            [count(&made, |op| matches!(op, Op::ReduceWindow { .. })), of(DType::U8), of(DType::I32)]
        };
        assert_eq!(forms(2, true), [0, 1, 0]);
        assert_eq!(forms(17, true), [0, 0, 1], "289 positions do not fit a byte");
        assert_eq!(forms(2, false), [1, 0, 0], "nothing needs them");
    }
}
