//! Backward rules of the elementwise operations.

use crate::gradient::step::{Gradients, Step};
use crate::{Binary, Tensor, Unary};
use std::f64::consts::FRAC_2_SQRT_PI;

pub(crate) fn unary(unary: Unary, step: &Step) -> Gradients {
    let (x, y, ct) = (&step.inputs[0], &step.outputs[0], step.cotangent());
    let gradient = match unary {
        Unary::Neg => -ct,
        Unary::Abs => ct * x.sign(),
        Unary::Exp => ct * y,
        Unary::Expm1 => ct * (y + 1.0),
        Unary::Log => ct / x,
        Unary::Log1p => ct / (x + 1.0),
        Unary::Sqrt => ct * 0.5 / y,
        Unary::Rsqrt => ct * -0.5 * y / x,
        Unary::Tanh => ct * (1.0 - y * y),
        Unary::Logistic => ct * y * (1.0 - y),
        Unary::Erf => ct * FRAC_2_SQRT_PI * (-(x * x)).exp(),
        Unary::Sin => ct * x.cos(),
        Unary::Cos => -(ct * x.sin()),
        // Constant between their jumps.
        Unary::Sign | Unary::Floor | Unary::Ceil | Unary::RoundEven => return step.nothing(),
        // Their results are not floating-point.
        Unary::Not | Unary::IsFinite => return step.nothing(),
    };
    vec![Some(gradient)]
}

pub(crate) fn binary(binary: Binary, step: &Step) -> Gradients {
    let (a, b, y, ct) = (&step.inputs[0], &step.inputs[1], &step.outputs[0], step.cotangent());
    let (left, right) = match binary {
        Binary::Add => (step.want(0, || ct.clone()), step.want(1, || ct.clone())),
        Binary::Sub => (step.want(0, || ct.clone()), step.want(1, || -ct)),
        Binary::Mul => (step.want(0, || ct * b), step.want(1, || ct * a)),
        Binary::Div => (step.want(0, || ct / b), step.want(1, || -(ct * y / b))),
        // a - b·q, where q is the quotient without its fraction.
        Binary::Rem => (step.want(0, || ct.clone()), step.want(1, || -(ct * ((a - y) / b).round_even()))),
        Binary::Max => first_or_second(step, || y.greater(b)),
        Binary::Min => first_or_second(step, || y.less(b)),
        Binary::Pow => (step.want(0, || ct * power_gradient(a, b)), step.want(1, || ct * y * log_or_zero(a))),
        Binary::Atan2 => {
            let turn = || ct / (a * a + b * b);
            (step.want(0, || turn() * b), step.want(1, || -(turn() * a)))
        }
        // Their operands are not floating-point.
        Binary::And | Binary::Or | Binary::Xor | Binary::ShiftLeft | Binary::ShiftRight => (None, None),
    };
    vec![left, right]
}

/// The cotangent goes to the operand that was chosen; of equals to the second, so that the derivative of `x.max(0)` is 0 at
/// 0, as it is for ReLU everywhere. The choice is read from the result rather than from the first operand because the
/// result is what the next layer keeps anyway.
fn first_or_second(step: &Step, first_chosen: impl Fn() -> Tensor) -> (Option<Tensor>, Option<Tensor>) {
    let (ct, none) = (step.cotangent(), || step.cotangent().scalar_like(0.0));
    (step.want(0, || first_chosen().select(ct, &none())), step.want(1, || first_chosen().select(&none(), ct)))
}

/// `b·a^(b-1)`, which is 0 for b = 0 even where a is 0.
fn power_gradient(a: &Tensor, b: &Tensor) -> Tensor {
    let zero = b.scalar_like(0.0);
    b.equal(&zero).select(&zero, &(b * a.pow(&(b - 1.0))))
}

/// The logarithm of a base; 0 for the base 0, whose powers do not change with the exponent.
fn log_or_zero(a: &Tensor) -> Tensor {
    let zero = a.scalar_like(0.0);
    a.equal(&zero).select(&a.scalar_like(1.0), a).log()
}

pub(crate) fn select(step: &Step) -> Gradients {
    let (condition, ct) = (&step.inputs[0], step.cotangent());
    let zero = ct.scalar_like(0.0);
    vec![None, step.want(1, || condition.select(ct, &zero)), step.want(2, || condition.select(&zero, ct))]
}

/// A value at one of its bounds still receives the gradient, as in PyTorch.
pub(crate) fn clamp(step: &Step) -> Gradients {
    let (low, value, high, ct) = (&step.inputs[0], &step.inputs[1], &step.inputs[2], step.cotangent());
    let zero = ct.scalar_like(0.0);
    let above = value.max(low).greater(high);
    let below = value.less(low).and(&above.not());
    vec![
        step.want(0, || below.select(ct, &zero)),
        step.want(1, || above.or(&below).select(&zero, ct)),
        step.want(2, || above.select(ct, &zero)),
    ]
}

pub(crate) fn convert(step: &Step) -> Gradients {
    vec![Some(step.cotangent().convert(step.inputs[0].dtype()))]
}

pub(crate) fn bitcast(step: &Step) -> Gradients {
    let (from, to) = (step.inputs[0].shape(), step.outputs[0].shape());
    step.mistake(format!("bitcast: reading the bits of {from} as {to} has no gradient; use stop_gradient before it"))
}
