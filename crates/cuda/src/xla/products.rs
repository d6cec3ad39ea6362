//! Small products as sums. XLA's GPU compiler fuses those with what is around them; a product is a kernel of its own, and so is
//! whatever makes its operands.

use octant_graph::{DType, DotGeneral, Graph, Op, Shape, Tensor, Trace, passes};

/// Multiplications of a product whose kernel would mostly wait to be started.
const MOST_PRODUCTS: usize = 1 << 17;

/// Writes small products of f32 as sums of products.
pub fn small_products_as_sums(graph: &Graph) -> Graph {
    passes::rewrite(graph, |node| {
        let Op::Dot(dot) = &node.op else { return None };
        let [left, right, made] = [node.inputs[0], node.inputs[1], node.outputs[0]].map(|value| graph.shape(value));
        let sums: usize = dot.left_contract.iter().map(|&axis| left.dims()[axis]).product();
        let floats = [left.dtype(), right.dtype(), dot.dtype] == [DType::F32; 3];
        if !floats || made.elements() * sums > MOST_PRODUCTS {
            return None;
        }
        let trace = Trace::new();
        let [x, y] = [left, right].map(|shape| trace.input("x", shape.clone()));
        trace.finish(&[sum_of_products(&x, &y, dot, made)]).ok()
    })
}

/// All pairs of elements, whose products are added along the last axes.
fn sum_of_products(left: &Tensor, right: &Tensor, dot: &DotGeneral, made: &Shape) -> Tensor {
    let sums = dot.left_contract.iter().map(|&axis| left.dims()[axis]);
    let pairs: Vec<usize> = made.dims().iter().copied().chain(sums).collect();
    let batch = dot.left_batch.len();
    let left_free = left.rank() - batch - dot.left_contract.len();
    let left = spread(left, [&dot.left_batch, &dot.left_contract], [batch, made.rank()], &pairs);
    let right = spread(right, [&dot.right_batch, &dot.right_contract], [batch + left_free, made.rank()], &pairs);
    (left * right).sum(&(made.rank()..pairs.len()).collect::<Vec<_>>())
}

/// An operand over all pairs. Axes of the batch come first, then those that only one operand has, in order, then those that are
/// added up.
fn spread(x: &Tensor, [batch, contract]: [&[usize]; 2], [first_free, first_sum]: [usize; 2], dims: &[usize]) -> Tensor {
    let position = |axes: &[usize], axis: usize| axes.iter().position(|&listed| listed == axis);
    let mut free = first_free..;
    let mut target = |axis: usize| match (position(batch, axis), position(contract, axis)) {
        (Some(position), _) => position,
        (None, Some(position)) => first_sum + position,
        (None, None) => free.next().unwrap_or_default(),
    };
    let targets: Vec<usize> = (0..x.rank()).map(&mut target).collect();
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.sort_by_key(|&axis| targets[axis]);
    let ascending: Vec<usize> = order.iter().map(|&axis| targets[axis]).collect();
    let x = if order.is_sorted() { x.clone() } else { x.transpose(&order) };
    x.broadcast_in_dim(dims, &ascending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::tests::assert_same;

    #[test]
    fn small_products_become_sums_and_large_ones_stay() {
        let product = |rows: usize| {
            let trace = Trace::new();
            let [x, y] = ["x", "y"].map(|name| trace.input(name, Shape::new(DType::F32, [rows, 64])));
            trace.finish(&[x.transpose(&[1, 0]).matmul(&y)]).unwrap()
        };
        let (small, large) = (product(32), product(33));
        let made = small_products_as_sums(&small);
        assert!(!made.nodes().iter().any(|node| matches!(node.op, Op::Dot(_))), "131,072 products: {made}");
        assert_same(&small, &made);
        assert_eq!(small_products_as_sums(&large), large);
    }

    #[test]
    fn batches_and_several_axes_are_summed_alike() {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [3, 4, 2, 5]));
        let y = trace.input("y", Shape::new(DType::F32, [5, 2, 6, 4]));
        let dot = DotGeneral {
            left_batch: vec![1],
            right_batch: vec![3],
            left_contract: vec![2, 3],
            right_contract: vec![1, 0],
            dtype: DType::F32,
        };
        let graph = trace.finish(&[x.dot_general(&y, dot)]).unwrap();
        let made = small_products_as_sums(&graph);
        assert_ne!(made, graph);
        assert_same(&graph, &made);
    }
}
