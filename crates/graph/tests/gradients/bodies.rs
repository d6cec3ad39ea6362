use crate::{Numbers, check, inputs_of, run, values};
use octant_graph::{DType, Graph, KernelHint, Shape, Tensor, Trace};
use std::sync::Arc;

/// Layers in a called function, with a captured value and an intermediate one that is a result as well.
fn called(trace: &Trace, x: &[Tensor], recompute: bool) -> Tensor {
    let results = trace.call(&x[..1], recompute, |inside| {
        let hidden = (inside[0].matmul(&x[1])).tanh();
        vec![(&hidden * &hidden).exp().sum(&[1]), hidden]
    });
    &results[0] * results[1].sum(&[1])
}

#[test]
fn calls_with_and_without_recomputation() {
    for recompute in [false, true] {
        check(&[&[3, 2], &[2, 4]], |trace, x| called(trace, x, recompute));
    }
}

#[test]
fn calls_in_calls() {
    for (outer, inner) in [(false, false), (false, true), (true, false), (true, true)] {
        check(&[&[3, 2], &[2, 4]], |trace, x| {
            let block = |inside: &[Tensor]| vec![called(inside[0].trace(), &[inside[0].sin(), x[1].clone()], inner)];
            trace.call(&x[..1], outer, block).remove(0)
        });
    }
}

fn count(graph: &Graph, name: &str) -> usize {
    let inside = |node: &octant_graph::Node| node.op.bodies().iter().map(|(_, body)| count(body, name)).sum::<usize>();
    graph.nodes().iter().map(|node| inside(node) + (node.op.name() == name) as usize).sum()
}

/// The forward pass is computed once without recomputation and twice with it.
#[test]
fn what_is_kept_and_what_is_computed_again() {
    for (recompute, expected) in [(false, 1), (true, 2)] {
        let trace = Trace::new();
        let x = [[3, 2], [2, 4]].map(|dims| trace.input("x", Shape::new(DType::F64, dims)));
        let loss = called(&trace, &x, recompute).sum_all();
        let gradients = trace.gradients(&loss, &x);
        let graph = trace.finish(&[&[loss], &gradients[..]].concat()).unwrap();
        assert_eq!(count(&graph, "tanh"), expected);
        assert_eq!(count(&graph, "barrier"), recompute as usize);
    }
}

/// The backward loop computes each round once more, from values that the forward loop has kept.
#[test]
fn a_loop_runs_once_forward_and_once_backward() {
    let trace = Trace::new();
    let x = [&[2, 3][..], &[3, 3], &[3]].map(|dims| trace.input("x", Shape::new(DType::F64, dims)));
    let loss = looped(&trace, &x, 3, 5).sum_all();
    let gradients = trace.gradients(&loss, &x);
    let graph = trace.finish(&[&[loss], &gradients[..]].concat()).unwrap();
    assert_eq!((count(&graph, "while"), count(&graph, "tanh")), (2, 2));
}

#[test]
fn frozen_parameters_of_a_call_cost_nothing() {
    let trace = Trace::new();
    let x = [[3, 2], [2, 4]].map(|dims| trace.input("x", Shape::new(DType::F64, dims)));
    let loss = called(&trace, &x, false).sum_all();
    let gradients = trace.gradients(&loss, &x[..1]);
    let graph = trace.finish(&[&[loss], &gradients[..]].concat()).unwrap();
    assert_eq!(count(&graph, "dot"), 2);
}

#[test]
fn branches() {
    for sign in [1.0, -1.0] {
        check(&[&[3], &[3], &[3]], |trace, x| {
            let condition = trace.scalar(DType::F64, sign).greater(&trace.scalar(DType::F64, 0.0));
            let branch = trace.cond(
                &condition,
                || vec![(&x[0] * &x[1]).exp(), x[1].clone()],
                || vec![(&x[2].sin() * &x[1]).tanh(), x[2].clone()],
            );
            &branch[0] * &branch[1]
        });
    }
}

#[test]
fn branches_twice() {
    for sign in [1.0, -1.0] {
        check(&[&[3], &[3]], |trace, x| {
            let condition = trace.scalar(DType::F64, sign).greater(&trace.scalar(DType::F64, 0.0));
            let y = trace.cond(&condition, || vec![(&x[0] * &x[1]).exp()], || vec![x[1].sin()]).remove(0);
            let gradients = trace.gradients(&(&y * &y).sum_all(), x);
            &gradients[0] + &gradients[1] * &gradients[1]
        });
    }
}

/// x ← tanh(x · w + b · round) for as many rounds as are given.
fn looped(trace: &Trace, x: &[Tensor], rounds: usize, bound: usize) -> Tensor {
    let results = trace.while_loop(
        &[trace.scalar(DType::I32, 0.0), x[0].clone()],
        Some(bound),
        |carried| carried[0].less(&carried[0].scalar_like(rounds as f64)),
        |carried| {
            let scaled = &x[2] * carried[0].convert(DType::F64);
            vec![&carried[0] + 1.0, (carried[1].matmul(&x[1]) + scaled).tanh()]
        },
    );
    results[1].clone()
}

#[test]
fn loops_of_no_one_some_and_all_rounds() {
    for rounds in [0, 1, 3, 5] {
        check(&[&[2, 3], &[3, 3], &[3]], |trace, x| looped(trace, x, rounds, 5));
    }
}

#[test]
fn loops_in_loops_calls_and_branches() {
    check(&[&[2, 3], &[3, 3], &[3]], |trace, x| {
        let outer = trace.while_loop(
            &[trace.scalar(DType::I32, 0.0), x[0].clone()],
            Some(3),
            |carried| carried[0].less(&carried[0].scalar_like(2.0)),
            |carried| {
                let inner = looped(trace, &[carried[1].clone(), x[1].clone(), x[2].clone()], 2, 2);
                vec![&carried[0] + 1.0, inner.sin()]
            },
        );
        outer[1].clone()
    });
    for recompute in [false, true] {
        check(&[&[2, 3], &[3, 3], &[3]], |trace, x| {
            trace
                .call(&x[..1], recompute, |inside| {
                    let positive = inside[0].sum_all().greater(&inside[0].scalar_like(-100.0));
                    inside[0].trace().cond(
                        &positive,
                        || vec![looped(inside[0].trace(), &[inside[0].exp(), x[1].clone(), x[2].clone()], 3, 4)],
                        || vec![inside[0].clone()],
                    )
                })
                .remove(0)
        });
    }
}

/// A loop over stacked parameters: each round reads its own slice.
#[test]
fn repeated_blocks_over_stacked_parameters() {
    check(&[&[2, 3], &[4, 3, 3]], |trace, x| {
        let results = trace.while_loop(
            &[trace.scalar(DType::I32, 0.0), x[0].clone()],
            Some(4),
            |carried| carried[0].less(&carried[0].scalar_like(4.0)),
            |carried| {
                let zero = carried[0].scalar_like(0.0);
                let weights =
                    x[1].dynamic_slice(&[carried[0].clone(), zero.clone(), zero], &[1, 3, 3]).reshape(&[3, 3]);
                vec![&carried[0] + 1.0, carried[1].matmul(&weights).tanh()]
            },
        );
        results[1].clone()
    });
}

/// Carried values that change positions, one of which the loss does not see directly.
#[test]
fn gradients_that_take_rounds_to_arrive() {
    check(&[&[2], &[2], &[2]], |trace, x| {
        let carried = [&[trace.scalar(DType::I32, 0.0)], x].concat();
        let results = trace.while_loop(
            &carried,
            Some(4),
            |c| c[0].less(&c[0].scalar_like(4.0)),
            |c| vec![&c[0] + 1.0, c[2].clone(), c[3].sin(), (&c[1] * 0.5).exp()],
        );
        results[1].clone()
    });
}

#[test]
fn a_loop_without_a_bound_is_a_clear_mistake() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F64, [2]));
    let scope = trace.scope("solver");
    let y = trace.while_loop(
        std::slice::from_ref(&x),
        None,
        |c| c[0].sum_all().less(&c[0].scalar_like(1.0)),
        |c| vec![&c[0] * 2.0],
    );
    drop(scope);
    let gradients = trace.gradients(&y[0].sum_all(), &[x]);
    let error = trace.finish(&gradients).unwrap_err().to_string();
    assert!(error.starts_with("in solver: while:") && error.contains("bound"), "{error}");
}

/// Two losses through the same call and loop, as for a generator and a discriminator; and a gradient of a gradient.
#[test]
fn bodies_are_differentiated_any_number_of_times() {
    let points: Vec<_> = [&[2usize, 3][..], &[3, 3], &[3]].iter().map(|dims| Numbers::new(3).tensor(dims)).collect();
    let gradients_of = |which: &[usize]| {
        let trace = Trace::new();
        let x = inputs_of(&trace, &points);
        let y = trace.call(&x[..1], false, |inside| {
            vec![looped(inside[0].trace(), &[inside[0].clone(), x[1].clone(), x[2].clone()], 3, 3)]
        });
        let losses = [y[0].sum_all(), (&y[0] * &y[0]).sum_all()];
        let gradients = which.iter().flat_map(|&loss| trace.gradients(&losses[loss], &x)).collect::<Vec<_>>();
        let graph = trace.finish(&gradients).unwrap();
        run(&graph, &points).unwrap()
    };
    let both = gradients_of(&[0, 1]);
    assert_eq!(both, [gradients_of(&[0]), gradients_of(&[1])].concat());

    for recompute in [false, true] {
        check(&[&[2, 3], &[3, 3], &[3]], |trace, x| {
            let y = trace.call(&x[..1], recompute, |inside| {
                vec![looped(inside[0].trace(), &[inside[0].clone(), x[1].clone(), x[2].clone()], 2, 3)]
            });
            let gradients = trace.gradients(&(&y[0] * &y[0]).sum_all(), x);
            gradients[0].sum_all() + (&gradients[1] * &gradients[1]).sum_all()
        });
    }
}

#[test]
fn stop_gradient_holds_inside_of_bodies() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F64, [2]));
    let y =
        trace.call(std::slice::from_ref(&x), false, |inside| vec![&inside[0] * inside[0].stop_gradient()]).remove(0);
    let gradients = trace.gradients(&y.sum_all(), &[x]);
    let graph = trace.finish(&gradients).unwrap();
    let results = run(&graph, &[values(&[2], &[3.0, -4.0])]).unwrap();
    assert_eq!(results[0].to_f64s(), [3.0, -4.0]);
}

#[test]
fn barriers_pass_gradients_on() {
    check(&[&[2], &[2]], |trace, x| {
        let held = trace.barrier(&[x[0].sin(), x[1].exp()]);
        &held[0] * &held[1]
    });
}

/// `tanh(x · w)` as a call that names a kernel, whose gradient is `factor` times the true one, written by hand.
fn with_own_gradient(trace: &Trace, x: &[Tensor], factor: f64) -> Tensor {
    let shapes = [x[0].shape(), x[1].shape(), &Shape::new(DType::F64, [x[0].dim(0), x[1].dim(1)])].map(Shape::clone);
    let [result, cotangent] = [shapes[2].clone(), shapes[2].clone()];
    let taken = [&shapes[..2], &[result, cotangent]].concat();
    let (gradient, captured) = trace.body(&taken, |_, taken| {
        let [x, w, y, cotangent] = [0, 1, 2, 3].map(|i| &taken[i]);
        let before = cotangent * (1.0 - y * y) * factor;
        vec![before.matmul(&w.transpose(&[1, 0])), x.transpose(&[1, 0]).matmul(&before)]
    });
    assert!(captured.is_empty());
    let hint = KernelHint { gradient: Some(gradient), ..KernelHint::new("test", vec![]) };
    trace.call_kernel(x, false, Some(Arc::new(hint)), |x| vec![x[0].matmul(&x[1]).tanh()]).remove(0)
}

#[test]
fn the_gradient_of_a_kernel_hint_equals_that_of_the_body() {
    check(&[&[3, 2], &[2, 4]], |trace, x| with_own_gradient(trace, x, 1.0).exp());
    let gradients = |hinted: bool| {
        let mut numbers = Numbers::new(5);
        let points = [numbers.tensor(&[3, 2]), numbers.tensor(&[2, 4])];
        let trace = Trace::new();
        let x = inputs_of(&trace, &points);
        let y = if hinted { with_own_gradient(&trace, &x, 1.0) } else { x[0].matmul(&x[1]).tanh() };
        let gradients = trace.gradients(&(&y * &y).sum_all(), &x);
        run(&trace.finish(&gradients).unwrap(), &points).unwrap()
    };
    for (hinted, plain) in gradients(true).iter().zip(gradients(false)) {
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(hinted.to_f64s().iter().zip(&plain.to_f64s()).all(close), "{hinted:?} and {plain:?}");
    }
}

/// A gradient that is wrong on purpose shows which of the two the backward pass takes, also inside of another call and
/// for one input alone.
#[test]
fn the_backward_pass_takes_the_gradient_of_the_hint_and_not_of_the_body() {
    for nested in [false, true] {
        let mut numbers = Numbers::new(6);
        let points = [numbers.tensor(&[3, 2]), numbers.tensor(&[2, 4])];
        let gradient = |factor: f64| {
            let trace = Trace::new();
            let x = inputs_of(&trace, &points);
            let inside = |x: &[Tensor]| vec![with_own_gradient(x[0].trace(), x, factor)];
            let y = if nested { trace.call(&x, false, inside).remove(0) } else { inside(&x).remove(0) };
            let gradients = trace.gradients(&y.sum_all(), &x[1..]);
            run(&trace.finish(&gradients).unwrap(), &points).unwrap().remove(0).to_f64s()
        };
        let doubled: Vec<f64> = gradient(1.0).iter().map(|value| 2.0 * value).collect();
        assert_eq!(gradient(2.0), doubled);
    }
}
