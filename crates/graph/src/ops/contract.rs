//! Sums of products: matrix multiplication in its general form.

use crate::gradient::step::{Gradients, Step};
use crate::{DotGeneral, Op, Shape, Tensor};

pub(super) fn infer_dot([left, right]: [&Shape; 2], dot: &DotGeneral) -> Result<Shape, String> {
    let DotGeneral { left_batch, right_batch, left_contract, right_contract, dtype } = dot;
    check_sides(left, left_batch, left_contract)?;
    check_sides(right, right_batch, right_contract)?;
    if left.dtype() != right.dtype() {
        return Err(format!("{left} and {right} have different element types"));
    }
    super::check_accumulation(left.dtype(), *dtype)?;
    let alike = |left_axes: &[usize], right_axes: &[usize]| {
        left_axes.len() == right_axes.len()
            && left_axes.iter().zip(right_axes).all(|(&l, &r)| left.dims()[l] == right.dims()[r])
    };
    if !alike(left_batch, right_batch) || !alike(left_contract, right_contract) {
        return Err(format!(
            "{left} and {right} do not fit along batch axes {left_batch:?}/{right_batch:?} and contracted axes \
             {left_contract:?}/{right_contract:?}"
        ));
    }
    let batch = left_batch.iter().map(|&axis| left.dims()[axis]);
    let left_free = free_axes(left, left_batch, left_contract).into_iter().map(|axis| left.dims()[axis]);
    let right_free = free_axes(right, right_batch, right_contract).into_iter().map(|axis| right.dims()[axis]);
    Ok(Shape::new(*dtype, batch.chain(left_free).chain(right_free).collect::<Vec<_>>()))
}

fn check_sides(operand: &Shape, batch: &[usize], contract: &[usize]) -> Result<(), String> {
    let mut axes = [batch, contract].concat();
    axes.sort_unstable();
    super::check_axes(&axes, operand.rank())
}

/// The axes of an operand that are neither batch nor contracted, in order.
pub fn free_axes(operand: &Shape, batch: &[usize], contract: &[usize]) -> Vec<usize> {
    (0..operand.rank()).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
}

impl Tensor {
    /// Products summed over the contracted axes.
    pub fn dot_general(&self, other: &Tensor, dot: DotGeneral) -> Tensor {
        self.trace().emit_one(Op::Dot(dot), &[self, other])
    }

    /// Matrix multiplication over the last two axes; leading axes are batch axes and must be equal, or absent in
    /// `other`.
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        let batch = if other.rank() > 2 { other.rank() - 2 } else { 0 };
        self.dot_general(
            other,
            DotGeneral {
                left_batch: (0..batch).collect(),
                right_batch: (0..batch).collect(),
                left_contract: vec![self.rank().max(1) - 1],
                right_contract: vec![other.rank().max(2) - 2],
                dtype: self.dtype(),
            },
        )
    }
}

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
