//! Loops, branches, calls and barriers.

use super::FLOATS;
use crate::{Case, Tolerance, values};
use octant_graph::{DType, HostTensor, Tensor};

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        factorial(),
        loop_over_several_types(),
        loop_with_captures(),
        loops_that_never_run(),
        nested(),
        swapped(),
        calls(),
        calls_with_recompute(),
        barriers(),
        passed_through(),
    ];
    cases.extend([0.0, 1.0].map(branches));
    cases.extend(FLOATS.map(stacked_layers));
    cases
}

fn factorial() -> Case {
    Case::new("control/while/factorial", vec![HostTensor::scalar(12i32)], Tolerance::EXACT, |trace, x| {
        let one = trace.scalar(DType::I32, 1.0);
        trace.while_loop(
            &[x[0].clone(), one.clone()],
            Some(12),
            |x| x[0].greater(&one),
            |x| vec![&x[0] - &one, &x[1] * &x[0]],
        )
    })
}

fn counted(
    trace: &octant_graph::Trace,
    rounds: f64,
    carried: &[Tensor],
    body: impl FnOnce(&Tensor, &[Tensor]) -> Vec<Tensor>,
) -> Vec<Tensor> {
    let zero = trace.scalar(DType::I32, 0.0);
    let all: Vec<Tensor> = std::iter::once(zero).chain(carried.iter().cloned()).collect();
    let mut results = trace.while_loop(
        &all,
        Some(rounds as usize),
        |x| x[0].less(&x[0].scalar_like(rounds)),
        |x| std::iter::once(&x[0] + 1.0).chain(body(&x[0], &x[1..])).collect(),
    );
    results.remove(0);
    results
}

fn loop_over_several_types() -> Case {
    let inputs = vec![
        values::ordinary(DType::F32, &[3, 4]),
        values::ordinary(DType::U8, &[5]),
        values::ordinary(DType::Bool, &[2]),
        values::ordinary(DType::F32, &[0]),
    ];
    Case::new("control/while/types", inputs, Tolerance::chain(40.0, 1.0), |trace, x| {
        counted(trace, 9.0, x, |_, x| vec![(&x[0] * 0.5).sin(), &x[1] + &x[1], x[2].not(), x[3].clone()])
    })
}

/// The condition and the body use values from outside, some of them the same.
fn loop_with_captures() -> Case {
    let inputs = vec![values::ordinary(DType::F32, &[4]), HostTensor::scalar(6i32), values::ordinary(DType::F32, &[4])];
    Case::new("control/while/captures", inputs, Tolerance::chain(40.0, 4.0), |trace, x| {
        let zero = trace.scalar(DType::I32, 0.0);
        trace.while_loop(
            &[zero, x[0].clone()],
            None,
            |carried| carried[0].less(&x[1]),
            |carried| {
                let step = x[1].convert(DType::F32);
                vec![&carried[0] + 1.0, (&carried[1] + &x[2]) / step]
            },
        )
    })
}

fn loops_that_never_run() -> Case {
    Case::new("control/while/never", vec![values::ordinary(DType::F32, &[3])], Tolerance::EXACT, |trace, x| {
        let never = trace.scalar(DType::Bool, 0.0);
        trace.while_loop(&[x[0].clone()], None, |_| never.clone(), |x| vec![&x[0] + 1.0])
    })
}

/// Carried values that change positions: a backend that works in place must not lose one.
fn swapped() -> Case {
    let inputs = vec![values::ordinary(DType::F32, &[3]), values::between(5.0, 9.0, DType::F32, &[3])];
    Case::new("control/while/swapped", inputs, Tolerance::chain(8.0, 1.0), |trace, x| {
        let carried = [x[0].clone(), x[1].clone(), x[0].clone()];
        let mut results = counted(trace, 3.0, &carried, |_, x| vec![x[1].clone(), x[0].clone(), &x[2] * 0.5]);
        results.push(x[0].clone());
        results
    })
}

fn branches(taken: f64) -> Case {
    let inputs = vec![
        values::tensor(DType::Bool, &[], &[taken]),
        values::ordinary(DType::F32, &[3]),
        values::ordinary(DType::F32, &[3, 2]),
    ];
    Case::new(format!("control/if/{taken}"), inputs, Tolerance::chain(8.0, 1.0), |trace, x| {
        trace.cond(
            &x[0],
            || vec![&x[1] + 1.0, x[1].sum_all(), trace.scalar(DType::I32, 3.0)],
            || vec![x[2].sum(&[1]), trace.scalar(DType::F32, 7.0), trace.scalar(DType::I32, 4.0)],
        )
    })
}

/// A branch in a loop in a call, using values from every level.
fn nested() -> Case {
    let inputs = vec![values::ordinary(DType::F32, &[4]), values::ordinary(DType::F32, &[4])];
    Case::new("control/nested", inputs, Tolerance::chain(60.0, 2.0), |trace, x| {
        trace.call(&x[..1], false, |outer| {
            let inner = outer[0].trace().clone();
            counted(&inner, 5.0, outer, |round, carried| {
                let body = carried[0].trace().clone();
                let even = (round % 2.0).equal(&round.scalar_like(0.0));
                body.cond(&even, || vec![&carried[0] * &x[1]], || vec![(&carried[0] + &outer[0]).tanh()])
            })
        })
    })
}

fn layer(x: &Tensor, weight: &Tensor) -> Tensor {
    x.matmul(weight).tanh()
}

fn calls() -> Case {
    let inputs = vec![
        values::ordinary(DType::F32, &[2, 5]),
        values::ordinary(DType::F32, &[5, 5]),
        values::ordinary(DType::F32, &[5, 5]),
    ];
    Case::new("control/call/twice", inputs, Tolerance::chain(40.0, 4.0), |trace, x| {
        let once = trace.call(&[x[0].clone(), x[1].clone()], false, |x| vec![layer(&x[0], &x[1])]);
        let twice = trace.call(&[once[0].clone(), x[2].clone()], false, |x| vec![layer(&x[0], &x[1])]);
        vec![twice[0].clone(), once[0].clone()]
    })
}

fn calls_with_recompute() -> Case {
    let inputs = vec![values::ordinary(DType::F32, &[2, 5]), values::ordinary(DType::F32, &[5, 5])];
    Case::new("control/call/recompute", inputs, Tolerance::chain(40.0, 4.0), |trace, x| {
        trace.call(&x[..1], true, |inner| vec![layer(&inner[0], &x[1]), inner[0].sum_all()])
    })
}

fn barriers() -> Case {
    let inputs = vec![
        values::ordinary(DType::F32, &[3]),
        values::ordinary(DType::I32, &[2, 2]),
        values::ordinary(DType::F32, &[0]),
    ];
    Case::new("control/barrier", inputs, Tolerance::chain(8.0, 1.0), |trace, x| {
        let held = trace.barrier(&[x[0].exp(), x[1].clone(), x[2].clone()]);
        vec![&held[0] + &x[0].exp(), held[1].clone(), held[2].clone()]
    })
}

/// Bodies whose outputs are their inputs, or the same value twice.
fn passed_through() -> Case {
    Case::new("control/passed-through", vec![values::ordinary(DType::F32, &[3])], Tolerance::EXACT, |trace, x| {
        let mut results = trace.call(x, false, |x| vec![x[0].clone(), x[0].clone()]);
        results.extend(trace.cond(&trace.scalar(DType::Bool, 1.0), || vec![x[0].clone()], || vec![-&x[0]]));
        results.extend(trace.barrier(&[x[0].clone(), x[0].clone()]));
        results
    })
}

/// One body over stacked parameters, as repeated blocks are traced.
fn stacked_layers(dtype: DType) -> Case {
    let inputs = vec![values::ordinary(dtype, &[3, 6]), values::between(-0.5, 0.5, dtype, &[4, 6, 6])];
    Case::new(format!("control/stacked/{dtype}"), inputs, Tolerance::chain(60.0, 1.0), |trace, x| {
        counted(trace, 4.0, &x[..1], |round, carried| {
            let zero = round.scalar_like(0.0);
            let weight = x[1].dynamic_slice(&[round.clone(), zero.clone(), zero], &[1, 6, 6]).reshape(&[6, 6]);
            vec![layer(&carried[0], &weight)]
        })
    })
}
