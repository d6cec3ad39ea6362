use crate::{check, run, values};
use octant_graph::{DType, Gather, HostTensor, Scatter, ScatterKind, Shape, Tensor, Trace};

fn indices(trace: &Trace, dims: &[usize], positions: &[i32]) -> Tensor {
    trace.constant(HostTensor::new(dims, positions).unwrap())
}

/// With repeated rows and rows that are clamped.
#[test]
fn rows() {
    check(&[&[4, 3]], |trace, x| x[0].take(&indices(trace, &[2, 3], &[1, 3, 1, 9, -2, 0])));
    check(&[&[5]], |trace, x| x[0].take(&indices(trace, &[], &[3])));
}

fn windows() -> Gather {
    Gather {
        offset_axes: vec![1, 2],
        collapsed_axes: vec![1],
        start_index_map: vec![2, 0],
        index_vector_axis: 0,
        slice_sizes: vec![2, 1, 3],
    }
}

#[test]
fn windows_at_index_vectors() {
    // Vectors along axis 0: (index on axis 2, index on axis 0); the last one is clamped.
    check(&[&[4, 2, 5]], |trace, x| x[0].gather(&indices(trace, &[2, 3], &[0, 1, 9, 2, 0, -1]), windows()));
}

fn scatter(kind: ScatterKind) -> Scatter {
    Scatter {
        update_window_axes: vec![1, 2],
        inserted_window_axes: vec![1],
        scatter_axes: vec![2, 0],
        index_vector_axis: 0,
        kind,
    }
}

/// Two overlapping windows, one that is dropped and one at the edge.
#[test]
fn scatter_adds_and_sets() {
    for kind in [ScatterKind::Add, ScatterKind::Set] {
        check(&[&[4, 2, 5], &[4, 2, 3]], |trace, x| {
            let positions = indices(trace, &[2, 4], &[0, 1, 9, 2, 0, 1, 0, 2]);
            x[0].scatter(&positions, &x[1], scatter(kind))
        });
    }
}

#[test]
fn of_two_updates_of_one_place_the_last_gets_the_gradient() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F64, [3]));
    let updates = trace.input("updates", Shape::new(DType::F64, [3]));
    let set = Scatter {
        update_window_axes: vec![],
        inserted_window_axes: vec![0],
        scatter_axes: vec![0],
        index_vector_axis: 1,
        kind: ScatterKind::Set,
    };
    let y = x.scatter(&indices(&trace, &[3], &[1, 1, 7]), &updates, set);
    let gradients = trace.gradients(&y.sum_all(), &[x, updates]);
    let graph = trace.finish(&gradients).unwrap();
    let point = values(&[3], &[1.0, 2.0, 3.0]);
    let results = run(&graph, &[point.clone(), point]).unwrap();
    assert_eq!(results[0].to_f64s(), [1.0, 0.0, 1.0]);
    assert_eq!(results[1].to_f64s(), [0.0, 1.0, 0.0]);
}

#[test]
fn scatter_with_multiply_is_a_clear_mistake() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F64, [4, 2, 5]));
    let updates = trace.input("updates", Shape::new(DType::F64, [1, 2, 3]));
    let y = x.scatter(&indices(&trace, &[2, 1], &[0, 0]), &updates, scatter(ScatterKind::Multiply));
    let gradients = trace.gradients(&y.sum_all(), &[x]);
    let error = trace.finish(&gradients).unwrap_err().to_string();
    assert!(error.contains("Multiply has no gradient"), "{error}");
}
