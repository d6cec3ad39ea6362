//! Reductions, arg-max and sorting.

use super::elementwise::float_max;
use super::movement::rearrange;
use super::numbers::{Numbers, from_floats, from_integers, integer_range, numbers};
use super::positions::{TensorBuilder, element, for_each_index, position};
use crate::{DType, HostTensor, Reduction, Shape};
use std::cmp::Ordering;

/// What combining nothing gives.
pub fn float_identity(kind: Reduction) -> f64 {
    match kind {
        Reduction::Sum => 0.0,
        Reduction::Product => 1.0,
        Reduction::Max => f64::NEG_INFINITY,
        Reduction::Min => f64::INFINITY,
        Reduction::And | Reduction::Or => unreachable!("shape inference gives these no floats"),
    }
}

pub fn float_combine(kind: Reduction, x: f64, y: f64) -> f64 {
    match kind {
        Reduction::Sum => x + y,
        Reduction::Product => x * y,
        Reduction::Max => float_max(x, y),
        Reduction::Min => -float_max(-x, -y),
        Reduction::And | Reduction::Or => unreachable!("shape inference gives these no floats"),
    }
}

/// What combining nothing gives.
pub fn integer_identity(kind: Reduction, dtype: DType) -> i128 {
    match kind {
        Reduction::Sum | Reduction::Or => 0,
        Reduction::Product | Reduction::And => 1,
        Reduction::Max => integer_range(dtype).0,
        Reduction::Min => integer_range(dtype).1,
    }
}

pub fn integer_combine(kind: Reduction, x: i128, y: i128) -> i128 {
    match kind {
        Reduction::Sum => x + y,
        Reduction::Product => x.wrapping_mul(y),
        Reduction::Max | Reduction::Or => x.max(y),
        Reduction::Min | Reduction::And => x.min(y),
    }
}

pub fn reduce(operand: &HostTensor, kind: Reduction, axes: &[usize], shape: &Shape) -> HostTensor {
    fn fold<T: Copy>(dims: &[usize], targets: &[usize], result: &mut [T], values: &[T], combine: impl Fn(T, T) -> T) {
        let mut next = 0;
        for_each_index(dims, |index| {
            let slot = &mut result[position(index, targets)];
            *slot = combine(*slot, values[next]);
            next += 1;
        });
    }
    // Along a reduced axis the target does not move.
    let mut kept = shape.strides().into_iter();
    let mut target = |axis: usize| if axes.contains(&axis) { Some(0) } else { kept.next() };
    let targets: Vec<usize> =
        (0..operand.shape().rank()).map(|axis| target(axis).expect("kept axes are the result's axes")).collect();
    match numbers(operand) {
        Numbers::Floats(values) => {
            let mut result = vec![float_identity(kind); shape.elements()];
            fold(operand.dims(), &targets, &mut result, &values, |x, y| float_combine(kind, x, y));
            from_floats(shape, &result)
        }
        Numbers::Integers(values) => {
            let mut result = vec![integer_identity(kind, shape.dtype()); shape.elements()];
            fold(operand.dims(), &targets, &mut result, &values, |x, y| integer_combine(kind, x, y));
            from_integers(shape, &result)
        }
    }
}

/// Visits every line along an axis: the positions of its elements, in order. Lines come in row-major order.
fn for_each_line(dims: &[usize], axis: usize, mut visit: impl FnMut(&[usize])) {
    let strides = Shape::new(DType::Bool, dims).strides();
    let mut starts = dims.to_vec();
    starts[axis] = 1;
    for_each_index(&starts, |index| {
        let start = position(index, &strides);
        visit(&(0..dims[axis]).map(|i| start + i * strides[axis]).collect::<Vec<_>>());
    });
}

pub fn arg_reduce(operand: &HostTensor, largest: bool, axis: usize) -> Vec<HostTensor> {
    let wins = winner_test(operand, largest);
    let mut dims = operand.dims().to_vec();
    dims.remove(axis);
    let values = operand.shape().with_dims(dims);
    let mut chosen = TensorBuilder::blank(&values);
    let mut indices = Vec::with_capacity(values.elements());
    for_each_line(operand.dims(), axis, |line| {
        let best = (1..line.len()).fold(0, |best, i| if wins(line[i], line[best]) { i } else { best });
        chosen.put(indices.len(), element(operand, line[best]));
        indices.push(best as i128);
    });
    vec![chosen.finish(), from_integers(&values.with_dtype(DType::I32), &indices)]
}

/// Whether the element at one position is chosen although the one at another position came before it.
fn winner_test(operand: &HostTensor, largest: bool) -> Box<dyn Fn(usize, usize) -> bool> {
    match numbers(operand) {
        Numbers::Floats(values) => Box::new(move |new, old| {
            let (new, old) = (values[new], values[old]);
            let better = if largest { new > old } else { new < old };
            better || (new.is_nan() && !old.is_nan())
        }),
        Numbers::Integers(values) if largest => Box::new(move |new, old| values[new] > values[old]),
        Numbers::Integers(values) => Box::new(move |new, old| values[new] < values[old]),
    }
}

pub fn sort(operands: &[&HostTensor], axis: usize, descending: bool) -> Vec<HostTensor> {
    let order: Box<dyn Fn(usize, usize) -> Ordering> = match numbers(operands[0]) {
        Numbers::Floats(values) => Box::new(move |x, y| nan_is_max(values[x], values[y])),
        Numbers::Integers(values) => Box::new(move |x, y| values[x].cmp(&values[y])),
    };
    let dims = operands[0].dims();
    // Where each element of the result comes from.
    let mut sources = vec![0; operands[0].shape().elements()];
    for_each_line(dims, axis, |line| {
        let mut sorted = line.to_vec();
        sorted.sort_by(|&x, &y| if descending { order(y, x) } else { order(x, y) });
        line.iter().zip(sorted).for_each(|(&position, source)| sources[position] = source);
    });
    let strides = operands[0].shape().strides();
    let sorted =
        |operand: &&HostTensor| rearrange(operand, operand.shape(), |index| sources[position(index, &strides)]);
    operands.iter().map(sorted).collect()
}

fn nan_is_max(x: f64, y: f64) -> Ordering {
    x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()))
}
