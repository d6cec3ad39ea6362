//! Operations that move elements without looking at them. They copy bytes, so every bit survives.

use super::elementwise::scalar_index;
use super::positions::{TensorBuilder, element, for_each_index, position};
use crate::{DType, HostTensor, Shape};

/// A tensor of that shape whose element at each index is the operand's element at the position `position` says.
pub fn rearrange(operand: &HostTensor, shape: &Shape, mut position: impl FnMut(&[usize]) -> usize) -> HostTensor {
    let mut canvas = TensorBuilder::blank(shape);
    let mut next = 0;
    for_each_index(shape.dims(), |index| {
        canvas.put(next, element(operand, position(index)));
        next += 1;
    });
    canvas.finish()
}

pub fn select(condition: &HostTensor, on_true: &HostTensor, on_false: &HostTensor) -> HostTensor {
    let mut canvas = TensorBuilder::copy_of(on_false);
    for (position, &holds) in condition.bytes().iter().enumerate() {
        if holds != 0 {
            canvas.put(position, element(on_true, position));
        }
    }
    canvas.finish()
}

pub fn bitcast(operand: &HostTensor, dtype: DType) -> HostTensor {
    let shape = operand.shape().with_dtype(dtype);
    if dtype == DType::Bool {
        // Bools are 0 or 1 everywhere; other bytes become true.
        let bytes: Vec<f64> = operand.bytes().iter().map(|&byte| byte as f64).collect();
        return HostTensor::from_f64s(shape, &bytes).expect("one byte per bool");
    }
    HostTensor::from_bytes(shape, operand.bytes().clone()).expect("both types have the same width")
}

pub fn broadcast(operand: &HostTensor, dims: &[usize], axes: &[usize]) -> HostTensor {
    let strides = operand.shape().strides();
    rearrange(operand, &operand.shape().with_dims(dims), |index| {
        (0..axes.len()).map(|axis| if operand.dims()[axis] == 1 { 0 } else { index[axes[axis]] * strides[axis] }).sum()
    })
}

pub fn reshape(operand: &HostTensor, dims: &[usize]) -> HostTensor {
    operand.reshape(dims).expect("shape inference counted the elements")
}

pub fn transpose(operand: &HostTensor, permutation: &[usize], shape: &Shape) -> HostTensor {
    let strides = operand.shape().strides();
    let moved: Vec<usize> = permutation.iter().map(|&axis| strides[axis]).collect();
    rearrange(operand, shape, |index| position(index, &moved))
}

pub fn reverse(operand: &HostTensor, axes: &[usize]) -> HostTensor {
    let (dims, strides) = (operand.dims(), operand.shape().strides());
    rearrange(operand, operand.shape(), |index| {
        let reversed = |axis: usize| if axes.contains(&axis) { dims[axis] - 1 - index[axis] } else { index[axis] };
        (0..dims.len()).map(|axis| reversed(axis) * strides[axis]).sum()
    })
}

pub fn slice(operand: &HostTensor, starts: &[usize], steps: &[usize], shape: &Shape) -> HostTensor {
    let strides = operand.shape().strides();
    rearrange(operand, shape, |index| {
        (0..index.len()).map(|axis| (starts[axis] + index[axis] * steps[axis]) * strides[axis]).sum()
    })
}

/// Where a window of these sizes begins after its wished-for starts were moved so that it fits.
fn clamped_starts(operand: &HostTensor, starts: &[&HostTensor], sizes: &[usize]) -> Vec<usize> {
    let last = |axis: usize| (operand.dims()[axis] - sizes[axis]) as i128;
    (0..sizes.len()).map(|axis| scalar_index(starts[axis]).clamp(0, last(axis)) as usize).collect()
}

pub fn dynamic_slice(operand: &HostTensor, starts: &[&HostTensor], sizes: &[usize]) -> HostTensor {
    let starts = clamped_starts(operand, starts, sizes);
    slice(operand, &starts, &vec![1; sizes.len()], &operand.shape().with_dims(sizes))
}

pub fn dynamic_update_slice(operand: &HostTensor, update: &HostTensor, starts: &[&HostTensor]) -> HostTensor {
    let starts = clamped_starts(operand, starts, update.dims());
    let strides = operand.shape().strides();
    let origin = position(&starts, &strides);
    let mut canvas = TensorBuilder::copy_of(operand);
    let mut next = 0;
    for_each_index(update.dims(), |index| {
        canvas.put(origin + position(index, &strides), element(update, next));
        next += 1;
    });
    canvas.finish()
}

pub fn pad(operand: &HostTensor, value: &HostTensor, low: &[i64], interior: &[usize], shape: &Shape) -> HostTensor {
    let mut canvas = TensorBuilder::blank(shape);
    (0..shape.elements()).for_each(|position| canvas.put(position, value.bytes()));
    let strides = shape.strides();
    let mut next = 0;
    for_each_index(operand.dims(), |index| {
        let target: Option<usize> = (0..index.len())
            .map(|axis| {
                let position = low[axis] + (index[axis] * (interior[axis] + 1)) as i64;
                let inside = (0..shape.dims()[axis] as i64).contains(&position);
                inside.then(|| position as usize * strides[axis])
            })
            .sum();
        if let Some(target) = target {
            canvas.put(target, element(operand, next));
        }
        next += 1;
    });
    canvas.finish()
}

pub fn concatenate(operands: &[&HostTensor], axis: usize, shape: &Shape) -> HostTensor {
    let mut canvas = TensorBuilder::blank(shape);
    let strides = shape.strides();
    let mut offset = 0;
    for operand in operands {
        let mut next = 0;
        for_each_index(operand.dims(), |index| {
            canvas.put(offset * strides[axis] + position(index, &strides), element(operand, next));
            next += 1;
        });
        offset += operand.dims()[axis];
    }
    canvas.finish()
}
