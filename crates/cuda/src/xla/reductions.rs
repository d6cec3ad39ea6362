//! Reductions in two steps, where XLA's GPU compiler would start too few threads, or divide them into parts that our kernel for
//! one thread block cannot read.

use octant_graph::{DType, Graph, Op, Reduction, Shape, Trace, passes};

/// XLA's GPU compiler divides longer columns by itself.
const LONGEST: usize = 4096;

/// Divides reductions into two steps where that pays. Only with `blocks` does our kernel for one thread block make the
/// second step together with what follows from it.
pub fn divide_reductions(graph: &Graph, blocks: bool) -> Graph {
    passes::rewrite(graph, |node| {
        let Op::Reduce { kind, axes } = &node.op else { return None };
        let x = graph.shape(node.inputs[0]);
        let wide = x.with_dtype(wide(*kind, x.dtype()));
        match (blocks.then(|| parts(&wide, axes)).flatten(), &axes[..]) {
            (Some(parts), _) => reduce_in_parts(x, &wide, *kind, axes, parts),
            (None, [before @ .., last]) if is_left_whole(x, axes) => {
                two_steps(x, &wide, wide.dims(), *kind, [&[*last], before])
            }
            (None, _) => None,
        }
    })
}

/// The type that a reduction is computed in: sums and products of narrow floats are kept in f32.
fn wide(kind: Reduction, dtype: DType) -> DType {
    match (kind, dtype) {
        (Reduction::Sum | Reduction::Product, DType::F16 | DType::BF16) => DType::F32,
        _ => dtype,
    }
}

/// A reduction in two steps, of an array that is first brought into other dimensions. Without the barrier XLA would make one
/// reduction of both again.
fn two_steps(x: &Shape, wide: &Shape, dims: &[usize], kind: Reduction, steps: [&[usize]; 2]) -> Option<Graph> {
    let trace = Trace::new();
    let input = trace.input("x", x.clone());
    let reduce = |x, axes: &[usize]| trace.emit_one(Op::Reduce { kind, axes: axes.to_vec() }, &[x]);
    let input = if x == wide { input } else { input.convert(wide.dtype()) };
    let input = if wide.dims() == dims { input } else { input.reshape(dims) };
    let first = trace.barrier(&[reduce(&input, steps[0])]).swap_remove(0);
    let second = reduce(&first, steps[1]);
    trace.finish(&[if x == wide { second } else { second.convert(x.dtype()) }]).ok()
}

/// In how many parts a reduction over neighboring axes is made, if XLA's GPU compiler would divide it into about as many by
/// itself. From these parts, our kernel for small arrays makes the result together with what follows from it. Where XLA makes
/// more parts, fewer of them cost more than is won: sums of 32 channels over every image of 128² took 80 µs, not 53.
fn parts(x: &Shape, axes: &[usize]) -> Option<usize> {
    /// Results of the first step: as many as fill a large GPU about twice, as XLA's own division does, and as our kernel reads.
    const FEWEST_RESULTS: usize = 14 << 10;
    const MOST_RESULTS: usize = 16 << 10;
    const FEWEST_PARTS: usize = 1 << 8;
    const MOST_PARTS: usize = 1 << 10;
    let pixels = reduced_elements(x, axes);
    if x.dtype() != DType::F32 || x.elements() == 0 || !are_neighbors(axes) || pixels <= LONGEST {
        return None;
    }
    let results = x.elements() / pixels;
    // XLA's own parts are about as many as there are elements in each.
    let fits = |&parts: &usize| {
        pixels.is_multiple_of(parts) && pixels <= 2 * parts * parts && parts * results >= FEWEST_RESULTS
    };
    (FEWEST_PARTS..=MOST_PARTS.min(MOST_RESULTS / results)).rev().find(fits)
}

fn reduce_in_parts(x: &Shape, wide: &Shape, kind: Reduction, axes: &[usize], parts: usize) -> Option<Graph> {
    let (first, behind) = (axes[0], axes[0] + axes.len());
    let each = reduced_elements(x, axes) / parts;
    let dims = [&x.dims()[..first], &[parts, each], &x.dims()[behind..]].concat();
    two_steps(x, wide, &dims, kind, [&[first + 1], &[first]])
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
            let made = divide_reductions(&sum(DType::BF16, &dims, axes), false);
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
    fn large_sums_leave_parts_for_a_block() {
        let of = |dims: &[usize], axes: &[usize]| parts(&Shape::new(DType::F32, dims), axes);
        assert_eq!(of(&[32, 64, 64, 64], &[0, 1, 2]), Some(256));
        assert_eq!(of(&[32, 64, 64, 64], &[1, 2]), None, "XLA makes more parts");
        assert_eq!(of(&[63, 65, 67, 64], &[0, 1, 2]), None, "uneven");
        assert_eq!(of(&[0, 64, 64, 8], &[1, 2]), None, "empty");
    }

    #[test]
    fn divided_reductions_mean_the_same() {
        for (dtype, dims, axes) in
            [(DType::F32, vec![2, 64, 64, 3], vec![1, 2]), (DType::F32, vec![8, 32, 64, 64], vec![0, 1, 2])]
        {
            let graph = sum(dtype, &dims, &axes);
            let made = divide_reductions(&graph, true);
            assert_ne!(graph, made, "{dims:?}");
            assert_same(&graph, &made);
        }
    }
}
