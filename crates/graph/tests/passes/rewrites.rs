use crate::{floats, left_of, names};
use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Node, Op, Scatter, ScatterKind, Shape, Tensor, Trace, passes};

/// What should vanish without a trace, by name.
type Identity = (&'static str, fn(&Trace, &Tensor) -> Tensor);

#[test]
fn identities_vanish() {
    let identities: [Identity; 22] = [
        ("plus zero", |_, x| 0.0 + (x + 0.0)),
        ("minus zero", |_, x| x - 0.0),
        ("times one", |_, x| 1.0 * (x * 1.0)),
        ("over one", |_, x| x / 1.0),
        ("to the first", |_, x| x.pow(&x.scalar_like(1.0))),
        ("minus minus", |_, x| -(-x)),
        ("transposed twice", |_, x| x.transpose(&[1, 0]).transpose(&[1, 0])),
        ("not transposed", |_, x| x.transpose(&[0, 1])),
        ("reshaped there and back", |_, x| x.reshape(&[6]).reshape(&[3, 2]).reshape(&[2, 3])),
        ("reversed twice", |_, x| x.reverse(&[0, 1]).reverse(&[1]).reverse(&[0])),
        ("wider and back", |_, x| x.convert(DType::F64).convert(DType::F32)),
        ("stopped", |_, x| x.stop_gradient()),
        ("all of it", |_, x| x.slice(&[0, 0], &[2, 3], &[1, 1])),
        ("padded by nothing", |_, x| x.pad(&x.scalar_like(7.0), &[0, 0], &[0, 0], &[0, 0])),
        ("sum over no axes", |_, x| x.sum(&[])),
        ("one part", |_, x| Tensor::concatenate(&[x.clone(), x.slice(&[0, 0], &[2, 0], &[1, 1])], 1)),
        ("the greater of the same", |_, x| x.max(x)),
        ("either of the same", |_, x| x.less(&x.scalar_like(0.0)).select(x, x)),
        ("a known choice", |t, x| t.scalar(DType::Bool, 0.0).select(&x.exp(), x)),
        ("a known branch", |t, x| t.cond(&t.scalar(DType::Bool, 1.0), || vec![x.clone()], || vec![x.exp()]).remove(0)),
        ("a window of everything", |t, x| {
            x.dynamic_slice(&[t.scalar(DType::I32, 1.0), t.scalar(DType::I32, 5.0)], &[2, 3])
        }),
        ("repeated nowhere", |_, x| x.broadcast_in_dim(&[2, 3], &[0, 1])),
    ];
    for (name, model) in identities {
        let left = left_of(floats(&[2, 3]), |trace, x| vec![model(trace, x)]);
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

#[test]
fn simpler_operations_take_over() {
    let power = |exponent: f64| left_of(floats(&[3]), |_, x| vec![x.pow(&x.scalar_like(exponent))]);
    assert_eq!(power(2.0), ["mul"]);
    assert_eq!(power(0.5), ["sqrt"]);
    assert_eq!(power(-0.5), ["rsqrt"]);
    assert_eq!(left_of(floats(&[3]), |_, x| vec![x / 8.0]), ["constant", "broadcast", "mul"]);
    assert_eq!(left_of(floats(&[3]), |_, x| vec![x / 3.0]), ["constant", "broadcast", "div"]);
    assert_eq!(left_of(floats(&[3]), |_, x| vec![x * -1.0]), ["neg"]);
    assert_eq!(left_of(floats(&[4, 1]), |_, x| vec![x.transpose(&[1, 0])]), ["reshape"]);
    assert_eq!(left_of(floats(&[4, 1]), |_, x| vec![x.sum(&[1])]), ["reshape"]);
    assert_eq!(left_of(floats(&[6]), |_, x| vec![x.pad(&x.scalar_like(0.0), &[-1], &[-2], &[0])]), ["slice"]);
    assert_eq!(left_of(floats(&[9]), |_, x| vec![x.slice(&[1], &[9], &[2]).slice(&[1], &[3], &[1])]), ["slice"]);
}

/// `x - x` and `x · 0` are not 0 where x is infinite or NaN.
#[test]
fn what_holds_for_integers_alone() {
    let integers = Shape::new(DType::I32, [3]);
    assert_eq!(left_of(integers.clone(), |_, x| vec![x - x]), ["constant", "broadcast"]);
    assert_eq!(left_of(integers, |_, x| vec![x * 0.0]), ["constant", "broadcast"]);
    assert_eq!(left_of(floats(&[3]), |_, x| vec![x - x]), ["sub"]);
    assert_eq!(left_of(floats(&[3]), |_, x| vec![x * 0.0]), ["constant", "broadcast", "mul"]);
}

/// Narrowing loses digits that a later widening does not bring back.
#[test]
fn lossy_conversions_stay() {
    assert_eq!(left_of(floats(&[3]), |_, x| vec![x.convert(DType::BF16).convert(DType::F32)]), ["convert", "convert"]);
}

#[test]
fn arithmetic_moves_in_front_of_repetition() {
    let left = left_of(floats(&[3]), |_, x| {
        let (a, b) = (x.broadcast_to(&[8, 3]), x.exp().broadcast_to(&[8, 3]));
        vec![(a + b) * 2.0]
    });
    assert_eq!(left, ["exp", "add", "constant", "broadcast", "mul", "broadcast"]);
}

#[test]
fn equal_computations_are_done_once_but_not_across_barriers() {
    let left = left_of(floats(&[3]), |_, x| vec![x.exp() + x.exp()]);
    assert_eq!(left, ["exp", "add"]);
    let left = left_of(floats(&[3]), |trace, x| {
        let held = trace.barrier(std::slice::from_ref(x)).remove(0);
        vec![x.exp() + held.exp()]
    });
    assert_eq!(left.iter().filter(|name| **name == "exp").count(), 2);
}

#[test]
fn constants_are_computed_now_unless_large() {
    let left = left_of(floats(&[2]), |trace, x| {
        let table = trace.constant(HostTensor::new([2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap());
        vec![x + table.matmul(&table).sum(&[0])]
    });
    assert_eq!(left, ["constant", "add"]);
    let left = left_of(floats(&[5000]), |trace, x| {
        let table = trace.constant(HostTensor::zeros(floats(&[5000])));
        vec![x + table.exp()]
    });
    assert_eq!(left, ["constant", "exp", "add"]);
}

/// The gradient of stacked parameters grows in place instead of by whole stacks.
#[test]
fn adding_a_window_touches_only_the_window() {
    let trace = Trace::new();
    let stack = trace.input("stack", floats(&[5, 2]));
    let part = trace.input("part", floats(&[1, 2]));
    let round = trace.input("round", Shape::scalar(DType::I32));
    let written = stack.zeros_like().dynamic_update_slice(&part, &[round.clone(), round.scalar_like(0.0)]);
    let graph = trace.finish(&[&stack + written]).unwrap();
    let optimized = passes::optimize(graph.clone());
    assert_eq!(names(&optimized), ["constant", "dynamic_slice", "add", "dynamic_update_slice"]);
    let inputs = [
        HostTensor::from_f64s(floats(&[5, 2]), &(0..10).map(f64::from).collect::<Vec<_>>()).unwrap(),
        HostTensor::new([1, 2], &[10f32, 20.0]).unwrap(),
        HostTensor::scalar(3i32),
    ];
    assert_eq!(evaluate(&graph, &inputs), evaluate(&optimized, &inputs));
}

/// Donated buffers are named by the numbers of inputs and outputs.
#[test]
fn inputs_and_outputs_keep_number_and_order() {
    let trace = Trace::new();
    let x: Vec<Tensor> = (0..4).map(|i| trace.input(&format!("x{i}"), floats(&[i + 1]))).collect();
    let outputs = [x[2].clone(), &x[3] + 0.0, x[2].clone(), trace.scalar(DType::F32, 1.0)];
    let graph = passes::optimize(trace.finish(&outputs).unwrap());
    assert_eq!(graph.input_names().iter().map(|name| &**name).collect::<Vec<_>>(), ["x0", "x1", "x2", "x3"]);
    assert_eq!(graph.input_shapes(), (0..4).map(|i| floats(&[i + 1])).collect::<Vec<_>>());
    assert_eq!(graph.outputs()[..3], [graph.inputs()[2], graph.inputs()[3], graph.inputs()[2]]);
}

#[test]
fn bodies_are_simplified_and_shared_bodies_stay_shared() {
    let trace = Trace::new();
    let x = trace.input("x", floats(&[3]));
    let (body, _) = trace.body(&[floats(&[3])], |_, x| vec![(&x[0] + 0.0).exp() * 1.0]);
    let call = octant_graph::Op::Call { body, recompute: false, kernel: None };
    let once = trace.emit_one(call.clone(), &[&x]);
    let twice = trace.emit_one(call, &[&once]);
    let graph = passes::optimize(trace.finish(&[twice]).unwrap());
    let bodies: Vec<_> =
        graph.nodes().iter().flat_map(|node| node.op.bodies().into_iter().map(|(_, body)| body.clone())).collect();
    assert_eq!(names(&bodies[0]), ["exp"]);
    assert!(std::sync::Arc::ptr_eq(&bodies[0], &bodies[1]));
    let inlined = passes::optimize(passes::apply(passes::inline_calls, &graph));
    assert_eq!(names(&inlined), ["exp", "exp"]);
}

/// GPUs scatter the gradient of overlapping windows with atomic additions, in another order in every run.
#[test]
fn gradients_of_overlapping_poolings_are_gathered() {
    use octant_graph::composites::Pool;
    for (pool, side) in [(Pool::square(3, 2).padded(1), 9), (Pool::square(3, 1), 6), (Pool::square(5, 2), 12)] {
        let trace = Trace::new();
        let x = trace.input("x", floats(&[2, side, side, 3]));
        let weights = trace.input("w", floats(x.max_pool(pool).dims()));
        let loss = (x.max_pool(pool) * &weights).sum_all();
        let gradient = trace.gradients(&loss, std::slice::from_ref(&x));
        let graph = trace.finish(&gradient).unwrap();
        let gathered = passes::apply(passes::unpool_by_gathering, &graph);
        octant_graph::verify::verify(&gathered).unwrap();
        assert!(names(&graph).contains(&"select_and_scatter") && !names(&gathered).contains(&"select_and_scatter"));
        // Few different values, so that windows have several equal maxima.
        let value = |i: usize| ((i * 7919 + 13) % 11) as f64 - 5.0;
        let inputs: Vec<HostTensor> = graph
            .input_shapes()
            .into_iter()
            .map(|shape| {
                let values: Vec<f64> = (0..shape.elements()).map(value).collect();
                HostTensor::from_f64s(shape, &values).unwrap()
            })
            .collect();
        assert_eq!(evaluate(&graph, &inputs).unwrap(), evaluate(&gathered, &inputs).unwrap());
    }
}

/// XLA's GPU kernels let any of several updates win, also with its repeatable ones.
#[test]
fn the_last_update_of_an_element_wins_in_any_order() {
    let trace = Trace::new();
    let [operand, updates] = [[4, 6], [5, 3]].map(|dims| trace.input("x", floats(&dims)));
    let indices = trace.input("indices", Shape::new(DType::I32, [5, 2]));
    let scatter = Scatter {
        update_window_axes: vec![1],
        inserted_window_axes: vec![0],
        scatter_axes: vec![0, 1],
        index_vector_axis: 1,
        kind: ScatterKind::Set,
    };
    let graph = trace.finish(&[operand.scatter(&indices, &updates, scatter)]).unwrap();
    let rewritten = passes::apply(passes::overwrite_by_last, &graph);
    octant_graph::verify::verify(&rewritten).unwrap();
    let numbers: Vec<f64> = (0..39).map(f64::from).collect();
    // Windows that are equal, overlap, and do not fit.
    let starts = [1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 3.0, 3.0];
    let values = [&numbers[..24], &numbers[24..], &starts];
    let tensors = graph.input_shapes().into_iter().zip(values);
    let inputs: Vec<HostTensor> =
        tensors.map(|(shape, values)| HostTensor::from_f64s(shape, values).unwrap()).collect();
    assert_eq!(evaluate(&graph, &inputs).unwrap(), evaluate(&rewritten, &inputs).unwrap());
    let overwrites = |node: &Node| matches!(&node.op, Op::Scatter(scatter) if scatter.kind == ScatterKind::Set);
    assert!(graph.nodes().iter().any(overwrites) && !rewritten.nodes().iter().any(overwrites));
}
