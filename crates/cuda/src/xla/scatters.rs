//! Scatters that add into small tables as reductions. XLA's kernel for a scatter adds atomically, so that the last bits differ
//! from run to run, and its repeatable form keeps the compiler from choosing the fastest kernels of the whole program.

use octant_graph::{DType, Graph, Op, Scatter, ScatterKind, Shape, Tensor, Trace, passes};

/// Pairs of a table's row and an element of an update, at most: each is read by one thread.
const MOST_PAIRS: usize = 1 << 24;

/// Writes floats that are added to the rows of a table (the gradient of reading rows, such as the position biases of windows)
/// as sums over all updates, each of which is zero but in its own row.
pub fn small_tables_as_sums(graph: &Graph) -> Graph {
    passes::rewrite(graph, |node| {
        let Op::Scatter(scatter) = &node.op else { return None };
        let [table, indices, updates] = [0, 1, 2].map(|input| graph.shape(node.inputs[input]));
        let adds_floats = scatter.kind == ScatterKind::Add && table.dtype().is_float();
        if !adds_floats || !writes_rows(scatter, table, indices, updates) {
            return None;
        }
        let pairs = table.dims()[0].checked_mul(updates.elements())?;
        if pairs == 0 || pairs > MOST_PAIRS {
            return None;
        }
        let trace = Trace::new();
        let [table, indices, updates] = [table, indices, updates].map(|shape| trace.input("x", shape.clone()));
        trace.finish(&[table_of_sums(&table, &indices, &updates)]).ok()
    })
}

/// Whether every index names a row and the updates are whole rows, in the order of the indices.
fn writes_rows(scatter: &Scatter, table: &Shape, indices: &Shape, updates: &Shape) -> bool {
    let rows = indices.rank()..updates.rank();
    scatter.index_vector_axis == indices.rank()
        && scatter.scatter_axes == [0]
        && scatter.inserted_window_axes == [0]
        && scatter.update_window_axes.iter().copied().eq(rows.clone())
        && updates.dims()[rows] == table.dims()[1..]
}

fn table_of_sums(table: &Tensor, indices: &Tensor, updates: &Tensor) -> Tensor {
    let [rows, count] = [table.dim(0), indices.shape().elements()];
    let width: usize = table.dims()[1..].iter().product();
    let all = [count, rows, width];
    // Large sums of narrow floats are rounded once.
    let wide = if table.dtype().size() < DType::F32.size() { DType::F32 } else { table.dtype() };
    let updates = updates.convert(wide).reshape(&[count, width]).broadcast_in_dim(&all, &[0, 2]);
    let row = table.trace().iota(Shape::new(indices.dtype(), all), 1);
    let is_own = indices.reshape(&[count]).broadcast_in_dim(&all, &[0]).equal(&row);
    let sums = is_own.select(&updates, &updates.zeros_like()).sum(&[0]);
    (table.convert(wide) + sums.reshape(table.dims())).convert(table.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::tests::{assert_same_on, inputs};
    use octant_graph::HostTensor;

    /// The gradient of reading `[5, 4]` rows of a table, and its inputs; one of the indices is beyond the table.
    fn gradient(dtype: DType, dims: &[usize]) -> (Graph, Vec<HostTensor>) {
        let trace = Trace::new();
        let table = trace.input("table", Shape::new(dtype, dims.to_vec()));
        let indices = trace.input("indices", Shape::new(DType::I32, [5, 4]));
        let read = table.take(&indices);
        let loss = (&read * &read).sum_all();
        let gradients = trace.gradients(&loss, std::slice::from_ref(&table));
        let graph = trace.finish(&gradients).unwrap();
        let mut inputs = inputs(&graph);
        let values: Vec<f64> = (0..20).map(|n| f64::from(n * 7 % 6)).collect();
        inputs[1] = HostTensor::from_f64s(Shape::new(DType::I32, [5, 4]), &values).unwrap();
        (graph, inputs)
    }

    fn scatters(graph: &Graph) -> usize {
        graph.nodes().iter().filter(|node| matches!(node.op, Op::Scatter(_))).count()
    }

    /// XLA's repeatable scatter adds one update after the other, which took most of Swin's step.
    #[test]
    fn gradients_of_read_rows_are_sums() {
        for dims in [&[5][..], &[5, 3], &[5, 2, 3]] {
            let (graph, inputs) = gradient(DType::F32, dims);
            let made = small_tables_as_sums(&graph);
            assert_eq!((scatters(&graph), scatters(&made)), (1, 0), "{made}");
            assert_same_on(&graph, &made, &inputs, 2e-5);
        }
    }

    #[test]
    fn sums_of_bf16_are_rounded_once() {
        let (graph, inputs) = gradient(DType::BF16, &[5, 3]);
        assert_same_on(&graph, &small_tables_as_sums(&graph), &inputs, 0.0);
    }

    #[test]
    fn large_tables_stay() {
        let (graph, _) = gradient(DType::F32, &[1 << 20, 1]);
        assert_eq!(small_tables_as_sums(&graph), graph);
    }
}
