//! Simplification of operations that move elements.

use super::Site;
use crate::{Op, Shape, ValueId};

impl Site<'_> {
    pub(super) fn broadcast(&mut self, x: ValueId, axes: &[usize], shape: &Shape) -> Option<ValueId> {
        if self.shape(x) == shape {
            return Some(x);
        }
        let dims = shape.dims().to_vec();
        if self.shape(x).elements() == shape.elements() && shape.elements() > 0 && self.shape(x).rank() > 0 {
            return self.emit(Op::Reshape { dims }, &[x]);
        }
        if let (Op::Broadcast { axes: inner, .. }, &[source]) = self.producer(x) {
            let axes = inner.iter().map(|&axis| axes[axis]).collect();
            return self.emit(Op::Broadcast { dims, axes }, &[source]);
        }
        // An axis of length 1 is repeated like one that is not there; without it equal repetitions look equal.
        let lengths = self.shape(x).dims().to_vec();
        let kept = || (0..axes.len()).filter(|&axis| lengths[axis] != 1);
        if kept().count() == axes.len() {
            return None;
        }
        let squeezed = self.emit(Op::Reshape { dims: kept().map(|axis| lengths[axis]).collect() }, &[x])?;
        self.emit(Op::Broadcast { dims, axes: kept().map(|axis| axes[axis]).collect() }, &[squeezed])
    }

    pub(super) fn reshape(&mut self, x: ValueId, shape: &Shape) -> Option<ValueId> {
        if self.shape(x) == shape {
            return Some(x);
        }
        if let Some(scalar) = self.repeated_scalar(x) {
            return self.spread(scalar, shape);
        }
        let (Op::Reshape { .. }, &[source]) = self.producer(x) else { return None };
        match self.shape(source) == shape {
            true => Some(source),
            false => self.emit(Op::Reshape { dims: shape.dims().to_vec() }, &[source]),
        }
    }

    pub(super) fn transpose(&mut self, x: ValueId, permutation: &[usize], shape: &Shape) -> Option<ValueId> {
        if permutation.is_sorted() {
            return Some(x);
        }
        if let Some(scalar) = self.repeated_scalar(x) {
            return self.spread(scalar, shape);
        }
        // Transposing axes of length 1 moves no element.
        let lengths = self.shape(x).dims();
        if permutation.iter().filter(|&&axis| lengths[axis] != 1).is_sorted() {
            return self.emit(Op::Reshape { dims: shape.dims().to_vec() }, &[x]);
        }
        let (Op::Transpose { permutation: inner }, &[source]) = self.producer(x) else { return None };
        let permutation = permutation.iter().map(|&axis| inner[axis]).collect();
        self.emit(Op::Transpose { permutation }, &[source])
    }

    pub(super) fn reverse(&mut self, x: ValueId, axes: &[usize]) -> Option<ValueId> {
        let lengths = self.shape(x).dims();
        let reversed: Vec<usize> = axes.iter().copied().filter(|&axis| lengths[axis] > 1).collect();
        if reversed.is_empty() || self.repeated_scalar(x).is_some() {
            return Some(x);
        }
        if reversed.len() < axes.len() {
            return self.emit(Op::Reverse { axes: reversed }, &[x]);
        }
        let (Op::Reverse { axes: inner }, &[source]) = self.producer(x) else { return None };
        let rank = self.shape(x).rank();
        let once = (0..rank).filter(|axis| axes.contains(axis) != inner.contains(axis)).collect();
        self.emit(Op::Reverse { axes: once }, &[source])
    }

    pub(super) fn slice(&mut self, x: ValueId, starts: &[usize], strides: &[usize], shape: &Shape) -> Option<ValueId> {
        if self.shape(x) == shape {
            return Some(x);
        }
        if let Some(scalar) = self.repeated_scalar(x) {
            return self.spread(scalar, shape);
        }
        let (Op::Slice { starts: first, strides: steps, .. }, &[source]) = self.producer(x) else { return None };
        let axes = 0..starts.len();
        let starts: Vec<usize> = axes.clone().map(|axis| first[axis] + starts[axis] * steps[axis]).collect();
        let strides: Vec<usize> = axes.clone().map(|axis| steps[axis] * strides[axis]).collect();
        let last = |axis: usize| shape.dims()[axis].checked_sub(1).map_or(0, |last| last * strides[axis] + 1);
        let limits: Vec<usize> = axes.map(|axis| starts[axis] + last(axis)).collect();
        self.emit(Op::Slice { starts, limits, strides }, &[source])
    }

    /// A dynamic slice with constant starts is a slice.
    pub(super) fn dynamic_slice(&mut self, operands: &[ValueId], sizes: &[usize], shape: &Shape) -> Option<ValueId> {
        let x = operands[0];
        if self.shape(x) == shape {
            return Some(x);
        }
        let dims = self.shape(x).dims().to_vec();
        let starts: Option<Vec<usize>> = operands[1..]
            .iter()
            .zip(dims.iter().zip(sizes))
            .map(|(&start, (dim, size))| self.splat(start).map(|start| start.clamp(0.0, (dim - size) as f64) as usize))
            .collect();
        let starts = starts?;
        let limits = starts.iter().zip(sizes).map(|(start, size)| start + size).collect();
        self.emit(Op::Slice { starts, limits, strides: vec![1; sizes.len()] }, &[x])
    }

    /// Padding that only takes elements away is a slice.
    pub(super) fn pad(
        &mut self,
        x: ValueId,
        low: &[i64],
        high: &[i64],
        interior: &[usize],
        shape: &Shape,
    ) -> Option<ValueId> {
        let adds = low.iter().chain(high).any(|&edge| edge > 0) || interior.iter().any(|&holes| holes > 0);
        if adds {
            return None;
        }
        if self.shape(x) == shape {
            return Some(x);
        }
        let starts: Vec<usize> = low.iter().map(|edge| edge.unsigned_abs() as usize).collect();
        let limits = starts.iter().zip(shape.dims()).map(|(start, dim)| start + dim).collect();
        self.emit(Op::Slice { starts, limits, strides: vec![1; low.len()] }, &[x])
    }

    pub(super) fn concatenate(&mut self, operands: &[ValueId], axis: usize) -> Option<ValueId> {
        let filled: Vec<ValueId> =
            operands.iter().copied().filter(|&operand| self.shape(operand).dims()[axis] > 0).collect();
        match filled.len() {
            0 => operands.first().copied(),
            1 => filled.first().copied(),
            count if count < operands.len() => self.emit(Op::Concatenate { axis }, &filled),
            _ => None,
        }
    }

    /// A reduction that has one element to choose from each time.
    pub(super) fn reduce_of_one(&mut self, x: ValueId, shape: &Shape) -> Option<ValueId> {
        match self.shape(x) == shape {
            true => Some(x),
            false if shape.elements() > 0 => self.emit(Op::Reshape { dims: shape.dims().to_vec() }, &[x]),
            false => None,
        }
    }
}
