//! Reductions in two steps, where XLA's GPU compiler would start too few threads.

use octant_graph::{DType, Graph, Op, Reduction, Shape, Trace, passes};

/// XLA's GPU compiler divides longer columns by itself.
const LONGEST: usize = 4096;

/// Divides reductions into two steps where that pays.
pub fn divide_reductions(graph: &Graph) -> Graph {
    passes::rewrite(graph, |node| {
        let Op::Reduce { kind, axes } = &node.op else { return None };
        let x = graph.shape(node.inputs[0]);
        let wide = x.with_dtype(wide(*kind, x.dtype()));
        let (last, before) = axes.split_last().filter(|_| is_left_whole(x, axes))?;
        two_steps(x, &wide, *kind, [&[*last], before])
    })
}

/// The type that a reduction is computed in: sums and products of narrow floats are kept in f32.
fn wide(kind: Reduction, dtype: DType) -> DType {
    match (kind, dtype) {
        (Reduction::Sum | Reduction::Product, DType::F16 | DType::BF16) => DType::F32,
        _ => dtype,
    }
}

/// A reduction in two steps. Without the barrier XLA would make one reduction of both again.
fn two_steps(x: &Shape, wide: &Shape, kind: Reduction, steps: [&[usize]; 2]) -> Option<Graph> {
    let trace = Trace::new();
    let input = trace.input("x", x.clone());
    let reduce = |x, axes: &[usize]| trace.emit_one(Op::Reduce { kind, axes: axes.to_vec() }, &[x]);
    let input = if x == wide { input } else { input.convert(wide.dtype()) };
    let first = trace.barrier(&[reduce(&input, steps[0])]).swap_remove(0);
    let second = reduce(&first, steps[1]);
    trace.finish(&[if x == wide { second } else { second.convert(x.dtype()) }]).ok()
}

/// Whether a reduction is one over all pixels of images whose batch and channels stay, that XLA's GPU compiler leaves whole,
/// and that keeps few threads busy. The compiler knows the latter: it does not fuse what makes the images into the
/// reduction, but writes them to memory first.
fn is_left_whole(x: &Shape, axes: &[usize]) -> bool {
    /// With more results there are threads enough, and a second step only costs time. By what compiled training steps move:
    /// MSHNet at batch 32, with up to 8,192 results, gains 3.8 %; EfficientNetV2-S at batch 64, with more, would lose 0.7 %.
    const MOST_RESULTS: usize = 8192;
    let between = axes.first().is_some_and(|&first| first > 0) && axes.last().is_some_and(|&last| last + 1 < x.rank());
    let pixels = reduced_elements(x, axes);
    axes.len() > 1 && are_neighbors(axes) && between && pixels <= LONGEST && x.elements() <= pixels * MOST_RESULTS
}

fn are_neighbors(axes: &[usize]) -> bool {
    axes.windows(2).all(|pair| pair[0] + 1 == pair[1])
}

fn reduced_elements(x: &Shape, axes: &[usize]) -> usize {
    axes.iter().map(|&axis| x.dims()[axis]).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::tests::assert_same;

    fn sum(dtype: DType, dims: &[usize], axes: &[usize]) -> Graph {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(dtype, dims));
        trace.finish(&[x.sum(axes)]).unwrap()
    }

    #[test]
    fn pixels_are_reduced_in_two_steps_where_xla_would_take_one() {
        let reductions = |dims: [usize; 4], axes: &[usize]| {
            let made = divide_reductions(&sum(DType::BF16, &dims, axes));
            // In between, sums stay as exact as they are inside of one reduction.
            let rows = Shape::new(DType::F32, [dims[0], dims[1], dims[3]]);
            let held = made.nodes().iter().any(|node| node.op == Op::Barrier && *made.shape(node.outputs[0]) == rows);
            (made.nodes().iter().filter(|node| matches!(node.op, Op::Reduce { .. })).count(), held)
        };
        assert_eq!(reductions([2, 64, 64, 3], &[1, 2]), (2, true));
        assert_eq!(reductions([2, 64, 65, 3], &[1, 2]), (1, false), "XLA divides it");
        assert_eq!(reductions([64, 14, 14, 256], &[1, 2]), (1, false), "there are many results");
        assert_eq!(reductions([2, 64, 64, 3], &[2]), (1, false), "there is one axis");
        assert_eq!(reductions([2, 64, 64, 3], &[0, 1, 2]), (1, false), "the batch is not kept");
        assert_eq!(reductions([2, 64, 64, 3], &[1, 2, 3]), (1, false), "channels are not kept");
    }

    #[test]
    fn divided_reductions_mean_the_same() {
        for dtype in [DType::F32, DType::BF16] {
            let graph = sum(dtype, &[2, 64, 64, 3], &[1, 2]);
            let made = divide_reductions(&graph);
            assert_ne!(graph, made, "{dtype}");
            assert_same(&graph, &made);
        }
    }
}
