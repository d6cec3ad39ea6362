//! Backward rules: elements move back to where they came from.

use crate::Tensor;
use crate::gradient::step::{Gradients, Step};

pub(crate) fn broadcast(axes: &[usize], step: &Step) -> Gradients {
    let (operand, ct) = (&step.inputs[0], step.cotangent());
    let copied = |axis: &usize| match axes.iter().position(|position| position == axis) {
        Some(own) => operand.dims()[own] == 1 && ct.dims()[*axis] != 1,
        None => true,
    };
    let copied: Vec<usize> = (0..ct.rank()).filter(copied).collect();
    let sum = if copied.is_empty() { ct.clone() } else { ct.sum(&copied) };
    vec![Some(sum.reshape(operand.dims()))]
}

pub(crate) fn reshape(step: &Step) -> Gradients {
    vec![Some(step.cotangent().reshape(step.inputs[0].dims()))]
}

pub(crate) fn transpose(permutation: &[usize], step: &Step) -> Gradients {
    vec![Some(step.cotangent().transpose(&inverse(permutation)))]
}

/// The permutation that undoes another one.
pub(crate) fn inverse(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (position, &axis) in permutation.iter().enumerate() {
        inverse[axis] = position;
    }
    inverse
}

pub(crate) fn reverse(axes: &[usize], step: &Step) -> Gradients {
    vec![Some(step.cotangent().reverse(axes))]
}

/// Zeros are put back before, between and after the elements that were taken.
pub(crate) fn slice(starts: &[usize], strides: &[usize], step: &Step) -> Gradients {
    let (dims, ct) = (step.inputs[0].dims(), step.cotangent());
    let low: Vec<i64> = starts.iter().map(|&start| start as i64).collect();
    let interior: Vec<usize> = strides.iter().map(|stride| stride - 1).collect();
    let high: Vec<i64> = (0..dims.len())
        .map(|axis| dims[axis] as i64 - crate::ops::padded_length(ct.dims()[axis], strides[axis], (low[axis], 0)))
        .collect();
    vec![Some(ct.pad(&ct.scalar_like(0.0), &low, &high, &interior))]
}

pub(crate) fn dynamic_slice(step: &Step) -> Gradients {
    let mut gradients = step.nothing();
    gradients[0] = Some(step.inputs[0].zeros_like().dynamic_update_slice(step.cotangent(), &step.inputs[1..]));
    gradients
}

pub(crate) fn dynamic_update_slice(step: &Step) -> Gradients {
    let (update, starts, ct) = (&step.inputs[1], &step.inputs[2..], step.cotangent());
    let mut gradients = step.nothing();
    gradients[0] = step.want(0, || ct.dynamic_update_slice(&update.zeros_like(), starts));
    gradients[1] = step.want(1, || ct.dynamic_slice(starts, update.dims()));
    gradients
}

pub(crate) fn pad(low: &[i64], high: &[i64], interior: &[usize], step: &Step) -> Gradients {
    let (operand, ct) = (&step.inputs[0], step.cotangent());
    let operand_gradient = || {
        let negated = |edges: &[i64]| edges.iter().map(|edge| -edge).collect::<Vec<i64>>();
        let none = vec![0; interior.len()];
        let dilated = ct.pad(&ct.scalar_like(0.0), &negated(low), &negated(high), &none);
        let strides: Vec<usize> = interior.iter().map(|holes| holes + 1).collect();
        let limits = dilated.dims().to_vec();
        dilated.slice(&none, &limits, &strides)
    };
    let value_gradient = || {
        let inside = operand.zeros_like().pad(&operand.scalar_like(1.0), low, high, interior);
        let padded = inside.greater(&inside.scalar_like(0.0));
        padded.select(ct, &ct.scalar_like(0.0)).sum_all()
    };
    vec![step.want(0, operand_gradient), step.want(1, value_gradient)]
}

pub(crate) fn concatenate(axis: usize, step: &Step) -> Gradients {
    let mut start = 0;
    let part = |(operand, input): (usize, &Tensor)| {
        let limit = start + input.dims()[axis];
        let gradient = step.want(operand, || step.cotangent().slice_axis(axis, start, limit));
        start = limit;
        gradient
    };
    step.inputs.iter().enumerate().map(part).collect()
}
