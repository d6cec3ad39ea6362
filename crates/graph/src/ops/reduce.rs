//! Reductions, arg-max and sorting.

pub(super) mod gradient;

use crate::{DType, Op, Reduction, Shape, Tensor};

pub(super) fn infer_reduce(operand: &Shape, kind: Reduction, axes: &[usize]) -> Result<Shape, String> {
    super::check_axes(axes, operand.rank())?;
    check_reduction(operand, kind)?;
    let kept: Vec<usize> =
        (0..operand.rank()).filter(|axis| !axes.contains(axis)).map(|axis| operand.dims()[axis]).collect();
    Ok(operand.with_dims(kept))
}

/// Checks that elements of this type can be reduced with it.
pub(super) fn check_reduction(operand: &Shape, kind: Reduction) -> Result<(), String> {
    let logical = matches!(kind, Reduction::And | Reduction::Or);
    match logical == (operand.dtype() == DType::Bool) {
        true => Ok(()),
        false => Err(format!("{kind:?} is not defined for {operand}")),
    }
}

pub(super) fn infer_arg_reduce(operand: &Shape, axis: usize) -> Result<Vec<Shape>, String> {
    super::check_axis(axis, operand.rank())?;
    if operand.dims()[axis] == 0 {
        return Err(format!("{operand} has nothing to choose from along axis {axis}"));
    }
    let mut dims = operand.dims().to_vec();
    dims.remove(axis);
    let values = operand.with_dims(dims);
    let indices = values.with_dtype(DType::I32);
    Ok(vec![values, indices])
}

pub(super) fn infer_sort(inputs: &[&Shape], axis: usize) -> Result<Vec<Shape>, String> {
    let first = inputs.first().ok_or("takes at least one operand")?;
    super::check_axis(axis, first.rank())?;
    match inputs.iter().find(|shape| shape.dims() != first.dims()) {
        None => Ok(inputs.iter().map(|&shape| shape.clone()).collect()),
        Some(other) => Err(format!("{first} and {other} have different dimensions")),
    }
}

impl Tensor {
    fn reduce(&self, kind: Reduction, axes: &[usize]) -> Tensor {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        self.trace().emit_one(Op::Reduce { kind, axes }, &[self])
    }

    /// The sum along some axes.
    pub fn sum(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Sum, axes)
    }

    /// The product along some axes.
    pub fn product(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Product, axes)
    }

    /// The largest element along some axes.
    pub fn reduce_max(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Max, axes)
    }

    /// The least element along some axes.
    pub fn reduce_min(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Min, axes)
    }

    /// Whether all bools along some axes hold.
    pub fn all(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::And, axes)
    }

    /// Whether any bool along some axes holds.
    pub fn any(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Or, axes)
    }

    /// The sum of all elements, a scalar.
    pub fn sum_all(&self) -> Tensor {
        self.sum(&(0..self.rank()).collect::<Vec<_>>())
    }

    /// The mean along some axes.
    pub fn mean(&self, axes: &[usize]) -> Tensor {
        let count: usize = axes.iter().map(|&axis| self.dim(axis as isize)).product();
        self.sum(axes) / count as f64
    }

    /// The mean of all elements, a scalar.
    pub fn mean_all(&self) -> Tensor {
        self.mean(&(0..self.rank()).collect::<Vec<_>>())
    }

    /// The largest element along an axis and its index (i32); the first of equals.
    pub fn arg_max(&self, axis: usize) -> (Tensor, Tensor) {
        self.arg_reduce(true, axis)
    }

    /// The least element along an axis and its index (i32); the first of equals.
    pub fn arg_min(&self, axis: usize) -> (Tensor, Tensor) {
        self.arg_reduce(false, axis)
    }

    fn arg_reduce(&self, largest: bool, axis: usize) -> (Tensor, Tensor) {
        let mut results = self.trace().emit(Op::ArgReduce { largest, axis }, &[self]);
        let index = results.remove(1);
        (results.remove(0), index)
    }

    /// All operands in the order that sorts the first one. There must be at least one.
    pub fn sort(operands: &[Tensor], axis: usize, descending: bool) -> Vec<Tensor> {
        let inputs: Vec<&Tensor> = operands.iter().collect();
        operands[0].trace().emit(Op::Sort { axis, descending }, &inputs)
    }
}
