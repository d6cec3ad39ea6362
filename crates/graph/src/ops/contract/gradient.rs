//! The backward rule: a matrix product's gradients are matrix products.

use super::{DotGeneral, Tensor, free_axes};
use crate::gradient::step::{Gradients, Step};

pub(crate) fn dot(dot: &DotGeneral, step: &Step) -> Gradients {
    let (left, right) = (&step.inputs[0], &step.inputs[1]);
    // A wider result came from narrow operands; their gradients are as narrow again.
    let ct = &step.cotangent().convert(left.dtype());
    let batch: Vec<usize> = (0..dot.left_batch.len()).collect();
    let left_free = free_axes(left.shape(), &dot.left_batch, &dot.left_contract);
    let right_free = free_axes(right.shape(), &dot.right_batch, &dot.right_contract);
    let first_right = batch.len() + left_free.len();
    let left_gradient = || {
        let product = DotGeneral {
            left_batch: batch.clone(),
            right_batch: dot.right_batch.clone(),
            left_contract: (first_right..ct.rank()).collect(),
            right_contract: right_free.clone(),
            dtype: left.dtype(),
        };
        // Its axes: batch, left free, then what is free of the right operand now, in the right operand's order.
        let contracted = in_order_of(&dot.right_contract, &dot.left_contract);
        let axes = [&dot.left_batch[..], &left_free, &contracted].concat();
        ordered(ct.dot_general(right, product), &axes)
    };
    let right_gradient = || {
        let product = DotGeneral {
            left_batch: dot.left_batch.clone(),
            right_batch: batch.clone(),
            left_contract: left_free.clone(),
            right_contract: (batch.len()..first_right).collect(),
            dtype: right.dtype(),
        };
        let contracted = in_order_of(&dot.left_contract, &dot.right_contract);
        let axes = [&dot.right_batch[..], &contracted, &right_free].concat();
        ordered(left.dot_general(ct, product), &axes)
    };
    vec![step.want(0, left_gradient), step.want(1, right_gradient)]
}

/// The partners of some axes after these have been sorted.
fn in_order_of(axes: &[usize], partners: &[usize]) -> Vec<usize> {
    let mut pairs: Vec<(usize, usize)> = axes.iter().copied().zip(partners.iter().copied()).collect();
    pairs.sort_unstable();
    pairs.into_iter().map(|(_, partner)| partner).collect()
}

/// A value whose axis `i` should be axis `axes[i]`, transposed so that it is.
fn ordered(value: Tensor, axes: &[usize]) -> Tensor {
    match axes.is_sorted() {
        true => value,
        false => value.transpose(&crate::ops::movement::gradient::inverse(axes)),
    }
}
