//! One file per kind of primitive: its shape inference, its tracing methods, its gradient.

pub mod contract;
pub mod control;
pub mod convolution;
pub mod elementwise;
pub mod index;
pub mod movement;
pub mod reduce;
pub mod window;

use crate::gradient::step::{Gradients, Step};
use crate::op::Results;
use crate::{DType, Op, Shape};

/// The shapes of an operation's results, or a sentence with the shapes that do not fit. The only shape inference.
pub fn infer(op: &Op, inputs: &[&Shape]) -> Result<Vec<Shape>, String> {
    let result = match op {
        Op::Parameter { .. } => return Err("inputs are added with their shape".into()),
        Op::Constant(tensor) => tensor.shape().clone(),
        Op::Iota { shape, axis } => elementwise::infer_iota(shape, *axis)?,
        Op::Unary(unary) => elementwise::infer_unary(*unary, one(inputs)?)?,
        Op::Binary(binary) => elementwise::infer_binary(*binary, two(inputs)?)?,
        Op::Compare(_) => elementwise::infer_compare(two(inputs)?)?,
        Op::Select => elementwise::infer_select(three(inputs)?)?,
        Op::Clamp => elementwise::infer_clamp(three(inputs)?)?,
        Op::Convert(dtype) => one(inputs)?.with_dtype(*dtype),
        Op::Bitcast(dtype) => elementwise::infer_bitcast(one(inputs)?, *dtype)?,
        Op::Broadcast { dims, axes } => movement::infer_broadcast(one(inputs)?, dims, axes)?,
        Op::Reshape { dims } => movement::infer_reshape(one(inputs)?, dims)?,
        Op::Transpose { permutation } => movement::infer_transpose(one(inputs)?, permutation)?,
        Op::Reverse { axes } => movement::infer_reverse(one(inputs)?, axes)?,
        Op::Slice { starts, limits, strides } => movement::infer_slice(one(inputs)?, starts, limits, strides)?,
        Op::DynamicSlice { sizes } => movement::infer_dynamic_slice(inputs, sizes)?,
        Op::DynamicUpdateSlice => movement::infer_dynamic_update_slice(inputs)?,
        Op::Pad { low, high, interior } => movement::infer_pad(two(inputs)?, low, high, interior)?,
        Op::Concatenate { axis } => movement::infer_concatenate(inputs, *axis)?,
        Op::Reduce { kind, axes } => reduce::infer_reduce(one(inputs)?, *kind, axes)?,
        Op::ArgReduce { axis, .. } => return reduce::infer_arg_reduce(one(inputs)?, *axis),
        Op::ReduceWindow { kind, window } => window::infer_reduce_window(one(inputs)?, *kind, window)?,
        Op::SelectAndScatter { window } => window::infer_select_and_scatter(two(inputs)?, window)?,
        Op::Dot(dot) => contract::infer_dot(two(inputs)?, dot)?,
        Op::Convolution(conv) => convolution::infer_convolution(two(inputs)?, conv)?,
        Op::Gather(gather) => index::infer_gather(two(inputs)?, gather)?,
        Op::Scatter(scatter) => index::infer_scatter(three(inputs)?, scatter)?,
        Op::Sort { axis, .. } => return reduce::infer_sort(inputs, *axis),
        Op::While { condition, body, .. } => return control::infer_while(inputs, condition, body),
        Op::If { then, otherwise } => return control::infer_if(inputs, then, otherwise),
        Op::Call { body, .. } => return control::infer_call(inputs, body),
        Op::Barrier => return Ok(inputs.iter().map(|&shape| shape.clone()).collect()),
        Op::RandomBits { dims } => elementwise::infer_random_bits(one(inputs)?, dims)?,
    };
    Ok(vec![result])
}

/// What flows back into the operands of a node when `step` has what flows into its results.
pub(crate) fn pull_back(op: &Op, step: &Step) -> Gradients {
    match op {
        // They read nothing, or nothing but integers.
        Op::Parameter { .. } | Op::Constant(_) | Op::Iota { .. } | Op::RandomBits { .. } => step.nothing(),
        Op::Unary(unary) => elementwise::gradient::unary(*unary, step),
        Op::Binary(binary) => elementwise::gradient::binary(*binary, step),
        // Bools carry no gradient.
        Op::Compare(_) => step.nothing(),
        Op::Select => elementwise::gradient::select(step),
        Op::Clamp => elementwise::gradient::clamp(step),
        Op::Convert(_) => elementwise::gradient::convert(step),
        Op::Bitcast(_) => elementwise::gradient::bitcast(step),
        Op::Broadcast { axes, .. } => movement::gradient::broadcast(axes, step),
        Op::Reshape { .. } => movement::gradient::reshape(step),
        Op::Transpose { permutation } => movement::gradient::transpose(permutation, step),
        Op::Reverse { axes } => movement::gradient::reverse(axes, step),
        Op::Slice { starts, strides, .. } => movement::gradient::slice(starts, strides, step),
        Op::DynamicSlice { .. } => movement::gradient::dynamic_slice(step),
        Op::DynamicUpdateSlice => movement::gradient::dynamic_update_slice(step),
        Op::Pad { low, high, interior } => movement::gradient::pad(low, high, interior, step),
        Op::Concatenate { axis } => movement::gradient::concatenate(*axis, step),
        Op::Reduce { kind, axes } => reduce::gradient::reduce(*kind, axes, step),
        Op::ArgReduce { axis, .. } => reduce::gradient::arg_reduce(*axis, step),
        Op::ReduceWindow { kind, window } => window::gradient::reduce_window(*kind, window, step),
        Op::SelectAndScatter { window } => window::gradient::select_and_scatter(window, step),
        Op::Dot(dot) => contract::dot(dot, step),
        Op::Convolution(conv) => convolution::gradient::convolution(conv, step),
        Op::Gather(gather) => index::gradient::gather(gather, step),
        Op::Scatter(scatter) => index::gradient::scatter(scatter, step),
        Op::Sort { axis, descending } => reduce::gradient::sort(*axis, *descending, step),
        Op::While { condition, body, bound } => control::gradient::while_loop(condition, body, *bound, step),
        Op::If { then, otherwise } => control::gradient::branch(then, otherwise, step),
        Op::Call { body, recompute, kernel } => control::gradient::call(body, *recompute, kernel.as_deref(), step),
        Op::Barrier => control::gradient::barrier(step),
    }
}

/// How many results an operation over that many inputs has.
pub(crate) fn result_count(op: &Op, inputs: usize) -> usize {
    match op.results() {
        Results::One => 1,
        Results::Two => 2,
        Results::PerOperand => inputs,
        Results::OfBody => op.bodies().first().map_or(0, |(_, body)| body.outputs().len()),
    }
}

fn arity<'a, const N: usize>(inputs: &[&'a Shape]) -> Result<[&'a Shape; N], String> {
    inputs.try_into().map_err(|_| format!("takes {N} operands, got {}", inputs.len()))
}

fn one<'a>(inputs: &[&'a Shape]) -> Result<&'a Shape, String> {
    arity::<1>(inputs).map(|[only]| only)
}

fn two<'a>(inputs: &[&'a Shape]) -> Result<[&'a Shape; 2], String> {
    arity(inputs)
}

fn three<'a>(inputs: &[&'a Shape]) -> Result<[&'a Shape; 3], String> {
    arity(inputs)
}

/// Checks that `axes` are ascending, without repetition, and inside `rank`.
fn check_axes(axes: &[usize], rank: usize) -> Result<(), String> {
    let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
    match ascending && axes.iter().all(|&axis| axis < rank) {
        true => Ok(()),
        false => Err(format!("the axes {axes:?} are not ascending axes of a value of rank {rank}")),
    }
}

/// Checks that an axis is inside `rank`.
fn check_axis(axis: usize, rank: usize) -> Result<(), String> {
    match axis < rank {
        true => Ok(()),
        false => Err(format!("there is no axis {axis} in a value of rank {rank}")),
    }
}

/// Checks that per-axis attributes have one entry per axis.
fn check_lengths(rank: usize, attributes: &[(&str, usize)]) -> Result<(), String> {
    match attributes.iter().find(|(_, length)| *length != rank) {
        None => Ok(()),
        Some((name, length)) => Err(format!("{name} has {length} entries for {rank} axes")),
    }
}

/// Checks that an index operand is of an integer type.
fn check_index(shape: &Shape) -> Result<(), String> {
    match shape.dtype().is_integer() {
        true => Ok(()),
        false => Err(format!("indices must be integers, found {shape}")),
    }
}

/// Checks that an operand type may be widened to `dtype` in a sum of products.
fn check_accumulation(operand: DType, dtype: DType) -> Result<(), String> {
    let widened = operand.is_float() == dtype.is_float() && dtype.size() >= operand.size();
    match operand == dtype || (widened && operand != DType::Bool) {
        true => Ok(()),
        false => Err(format!("the result type {dtype} is not {operand} or wider")),
    }
}

/// The length of an axis after dilation and padding, or `None` when nothing is left.
fn padded_length(length: usize, dilation: usize, (low, high): (i64, i64)) -> i64 {
    let dilated = if length == 0 { 0 } else { (length as i64 - 1) * dilation as i64 + 1 };
    dilated + low + high
}

/// How many windows of `size` (dilated) fit into `length` with that stride.
fn window_count(length: i64, size: usize, dilation: usize, stride: usize) -> usize {
    let reach = if size == 0 { 0 } else { (size as i64 - 1) * dilation as i64 + 1 };
    if length < reach { 0 } else { (length - reach) as usize / stride.max(1) + 1 }
}

/// The padding of the window (or convolution) that runs over results, dilated by their stride, and makes operand
/// elements again. `operand` and `result` are pairs of length and factor, `reach` is the distance from the first to
/// the last element of the window, `low` the padding that the operand had in front.
fn transposed_padding(operand: (usize, usize), result: (usize, usize), reach: i64, low: i64) -> (i64, i64) {
    let last = |(length, factor): (usize, usize)| (length as i64 - 1) * factor as i64;
    (reach - low, last(operand) + low - last(result))
}
