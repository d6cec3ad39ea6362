//! Steps that combine many elements, and steps with bodies.

use super::elementwise::float_pair;
use crate::random::generator::{GraphGenerator, Tracked, chosen_axis};
use crate::values;
use octant_graph::{Convolution, DType, Op, Reduction, Tensor, Window};

pub fn reduce(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |value| value.tensor.rank() > 0);
    let axes: Vec<usize> = (0..x.tensor.rank()).filter(|axis| choice >> axis & 1 == 1).collect();
    let terms: usize = axes.iter().map(|&axis| x.tensor.dims()[axis]).product();
    if x.tensor.dtype() == DType::Bool {
        let kind = [Reduction::And, Reduction::Or][choice / 16 % 2];
        return Some(Tracked::exact(x.trace_reduce(kind, axes)));
    }
    match choice / 16 % 3 {
        0 if x.tensor.dtype().is_integer() => Some(Tracked::exact(x.trace_reduce(Reduction::Sum, axes))),
        0 => {
            let x = x.tamed(1000.0 / terms.max(1) as f64);
            let all = terms.max(1) as f64;
            Some(Tracked::rounded(x.trace_reduce(Reduction::Sum, axes), all * x.magnitude, all * x.error))
        }
        // The largest of nothing is an infinity, which would spoil what follows.
        _ if terms == 0 => None,
        1 => Some(x.moved(x.trace_reduce(Reduction::Max, axes))),
        _ => Some(x.moved(x.trace_reduce(Reduction::Min, axes))),
    }
}

impl Tracked {
    fn trace_reduce(&self, kind: Reduction, axes: Vec<usize>) -> Tensor {
        self.tensor.trace().emit_one(Op::Reduce { kind, axes }, &[&self.tensor])
    }
}

pub fn dot(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(generator, picks);
    let (rows, summed, columns) = (1 + choice % 5, choice / 5 % 8, 1 + choice / 40 % 6);
    let limit = (500.0 / summed.max(1) as f64).sqrt();
    let x = generator.fitted(&x, &[2, rows, summed]).tamed(limit);
    let y = generator.fitted(&y, &[2, summed, columns]).tamed(limit);
    let made = x.tensor.matmul(&y.tensor);
    let terms = summed.max(1) as f64;
    Some(Tracked::rounded(
        made,
        terms * x.magnitude * y.magnitude,
        terms * (x.error * y.magnitude + y.error * x.magnitude),
    ))
}

pub fn pool(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.float(picks[0]);
    let x = generator.fitted(&x, &[1, 5, 4, 2]).tamed(50.0);
    let window = Window {
        strides: vec![1, 1 + choice % 2, 1 + choice / 2 % 3, 1],
        padding: vec![(0, 0), (1, (choice % 3) as i64 - 1), (0, 1), (0, 0)],
        ..Window::new([1, 2 + choice % 2, 2, 1])
    };
    match choice / 16 % 3 {
        0 => Some(Tracked::rounded(x.tensor.reduce_window(Reduction::Sum, window), 6.0 * x.magnitude, 6.0 * x.error)),
        1 => Some(x.moved(x.tensor.reduce_window(Reduction::Max, window))),
        _ => {
            // No two elements are equal: among equals XLA chooses in an order of its own.
            let distinct: Vec<f64> = (0..40).map(|i| (i * 7 % 41) as f64).collect();
            let chooser = generator.trace.constant(values::tensor(x.tensor.dtype(), &[1, 5, 4, 2], &distinct));
            let pooled = chooser.reduce_window(Reduction::Max, window.clone());
            let source = generator.fitted(&x, pooled.dims());
            let made = chooser.select_and_scatter(&source.tensor, window);
            Some(Tracked::rounded(made, 6.0 * x.magnitude, 6.0 * x.error))
        }
    }
}

pub fn convolve(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, w) = float_pair(generator, picks);
    let groups = 1 + choice % 2;
    let x = generator.fitted(&x, &[2, 5, 4, 2]).tamed(4.0);
    let w = generator.fitted(&w, &[3, 2, 2 / groups, 4]).tamed(4.0);
    let conv = Convolution {
        strides: vec![1 + choice / 2 % 2, 1 + choice / 4 % 2],
        padding: vec![(1, 1), ((choice / 8 % 3) as i64 - 1, 1)],
        input_dilation: vec![1 + choice / 24 % 2, 1],
        kernel_dilation: vec![1, 1 + choice / 48 % 2],
        reversed: choice / 96 % 2 == 1,
        feature_groups: groups,
        ..Convolution::nhwc(2, x.tensor.dtype())
    };
    let made = x.tensor.convolution(&w.tensor, conv);
    Some(Tracked::rounded(
        made,
        12.0 * x.magnitude * w.magnitude,
        12.0 * (x.error * w.magnitude + w.error * x.magnitude),
    ))
}

/// Sorting and choosing the largest, on exact values only.
pub fn order(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |value| value.is_exact() && value.tensor.rank() > 0);
    let axis = chosen_axis(x.tensor.shape(), choice)?;
    let payload = generator.fitted(&generator.pick(picks[1], |_| true), x.tensor.dims());
    match choice / 8 % 3 {
        0 => {
            let sorted = Tensor::sort(&[x.tensor, payload.tensor.clone()], axis, (choice / 32).is_multiple_of(2));
            Some(payload.moved(sorted[1].clone()))
        }
        _ if x.tensor.dims()[axis] == 0 => None,
        1 => Some(Tracked::exact(x.tensor.arg_max(axis).1)),
        _ => Some(x.moved(x.tensor.arg_min(axis).0)),
    }
}

pub fn control(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(generator, picks);
    let (x, y) = (x.tamed(10.0), y.tamed(10.0));
    let trace = generator.trace.clone();
    let both = x.magnitude + y.magnitude;
    match choice % 4 {
        0 => {
            let rounds = 1 + choice / 4 % 4;
            let last = trace.scalar(DType::I32, rounds as f64);
            let carried = [trace.scalar(DType::I32, 0.0), x.tensor];
            let made = trace.while_loop(
                &carried,
                Some(rounds),
                |c| c[0].less(&last),
                |c| vec![&c[0] + 1.0, &c[1] * 0.5 + &y.tensor],
            );
            Some(Tracked::rounded(made[1].clone(), 2.0 * both, 2.0 * (x.error + y.error)))
        }
        1 => {
            let condition = generator.pick(picks[1], |value| value.tensor.dtype() == DType::Bool);
            let condition = generator.fitted(&condition, &[]).tensor;
            let made = trace.cond(&condition, || vec![&x.tensor + &y.tensor], || vec![x.tensor.tanh()]);
            Some(Tracked::rounded(made[0].clone(), both.max(1.0), x.error + y.error))
        }
        2 => {
            let made = trace.call(&[x.tensor], choice / 4 % 2 == 1, |inner| vec![&inner[0] - &y.tensor]);
            Some(Tracked::rounded(made[0].clone(), both, x.error + y.error))
        }
        _ => {
            let held = trace.barrier(&[x.tensor.clone(), y.tensor]);
            Some(x.moved(held[0].clone()))
        }
    }
}
