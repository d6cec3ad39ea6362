//! Convolutions and products of element types that no fast kernel is for (f64, integers), and convolutions of other than two
//! dimensions.
//!
//! Both keep all sums of a row of the result and add products of one element with a row of packed weights, so that the inner loop reads
//! and writes neighbors. Each sum adds its products in the order of the definition.

use octant_graph::ops::contract::free_axes;
use octant_graph::{Convolution, DotGeneral, Shape};

/// An operand's elements and their shape.
pub(super) type Operand<'a, T> = (&'a [T], &'a Shape);

/// Offsets of all indices along these dimensions, the last one fastest.
fn offsets(dims: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
    let widen = |found: Vec<usize>, (length, stride): (usize, usize)| -> Vec<usize> {
        found.iter().flat_map(|&offset| (0..length).map(move |index| offset + index * stride)).collect()
    };
    dims.into_iter().fold(vec![0], widen)
}

fn along(shape: &Shape, axes: &[usize]) -> Vec<usize> {
    let strides = shape.strides();
    offsets(axes.iter().map(|&axis| (shape.dims()[axis], strides[axis])))
}

fn add<T: Copy>(sums: &mut [T], element: T, weights: &[T], multiply_add: &impl Fn(T, T, T) -> T) {
    sums.iter_mut().zip(weights).for_each(|(sum, &weight)| *sum = multiply_add(*sum, element, weight));
}

/// The result of a product, batches first, then rows, then columns.
pub(super) fn product<T: Copy>(
    dot: &DotGeneral,
    (a, left): Operand<T>,
    (b, right): Operand<T>,
    zero: T,
    multiply_add: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let rows = along(left, &free_axes(left, &dot.left_batch, &dot.left_contract));
    let columns = along(right, &free_axes(right, &dot.right_batch, &dot.right_contract));
    let [a_steps, b_steps] = [along(left, &dot.left_contract), along(right, &dot.right_contract)];
    let mut result = Vec::new();
    for (a_first, b_first) in along(left, &dot.left_batch).into_iter().zip(along(right, &dot.right_batch)) {
        let packed: Vec<T> =
            b_steps.iter().flat_map(|step| columns.iter().map(move |column| b[b_first + step + column])).collect();
        for row in &rows {
            let first = result.len();
            result.resize(first + columns.len(), zero);
            for (number, step) in a_steps.iter().enumerate() {
                let weights = &packed[number * columns.len()..][..columns.len()];
                add(&mut result[first..], a[a_first + row + step], weights, &multiply_add);
            }
        }
    }
    result
}

/// The result of a convolution in the order of its output.
pub(super) fn convolution<T: Copy>(
    conv: &Convolution,
    (x, input): Operand<T>,
    (w, kernel): Operand<T>,
    output: &Shape,
    zero: T,
    multiply_add: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let features = kernel.dims()[conv.kernel.output];
    let inputs = kernel.dims()[conv.kernel.input];
    let mut result = vec![zero; output.elements()];
    if result.is_empty() {
        return result;
    }
    // Features of one group of both kinds read the same inputs.
    let [of_group, of_batch_group] = [conv.feature_groups, conv.batch_groups].map(|groups| features / groups);
    let together = common_divisor(of_group, of_batch_group);
    let batches = input.dims()[conv.input.batch] / conv.batch_groups;
    let (x_strides, y_strides) = (input.strides(), output.strides());
    let window = conv.kernel.spatial.iter().map(|&axis| kernel.dims()[axis]);
    let taps = indices(&window.clone().collect::<Vec<_>>());
    let packed = packed(conv, (w, kernel), &taps);
    let mut dims = output.dims().to_vec();
    dims[conv.output.feature] = 1;
    let mut sums = vec![zero; features];
    for at in indices(&dims) {
        sums.fill(zero);
        for (number, tap) in taps.iter().enumerate() {
            let pixel = tap.iter().enumerate().map(|(axis, tap)| {
                let from = at[conv.output.spatial[axis]] * conv.strides[axis] + tap * conv.kernel_dilation[axis];
                let from = from as i64 - conv.padding[axis].0;
                let dilation = conv.input_dilation[axis] as i64;
                let index = (from >= 0 && from % dilation == 0).then(|| (from / dilation) as usize)?;
                let dim = conv.input.spatial[axis];
                (index < input.dims()[dim]).then(|| index * x_strides[dim])
            });
            let Some(pixel) = pixel.sum::<Option<usize>>() else { continue };
            for first in (0..features).step_by(together) {
                let batch = at[conv.output.batch] + first / of_batch_group * batches;
                let channel = first / of_group * inputs;
                let source = pixel + batch * x_strides[conv.input.batch] + channel * x_strides[conv.input.feature];
                for channel in 0..inputs {
                    let weights = &packed[(number * inputs + channel) * features + first..][..together];
                    let element = x[source + channel * x_strides[conv.input.feature]];
                    add(&mut sums[first..first + together], element, weights, &multiply_add);
                }
            }
        }
        let first: usize = at.iter().zip(&y_strides).map(|(index, stride)| index * stride).sum();
        let stride = y_strides[conv.output.feature];
        sums.iter().enumerate().for_each(|(feature, sum)| result[first + feature * stride] = *sum);
    }
    result
}

/// Weights by tap, input and feature.
fn packed<T: Copy>(conv: &Convolution, (w, kernel): Operand<T>, taps: &[Vec<usize>]) -> Vec<T> {
    let strides = kernel.strides();
    let matrix = offsets([conv.kernel.input, conv.kernel.output].map(|axis| (kernel.dims()[axis], strides[axis])));
    let first = |tap: &Vec<usize>| -> usize {
        let along = conv.kernel.spatial.iter().zip(tap).map(|(&axis, &tap)| {
            let tap = if conv.reversed { kernel.dims()[axis] - 1 - tap } else { tap };
            tap * strides[axis]
        });
        along.sum()
    };
    let firsts = taps.iter().map(first);
    firsts.flat_map(|first| matrix.iter().map(move |offset| w[first + offset])).collect()
}

/// All indices of these dimensions, the last one fastest.
fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let widen = |found: Vec<Vec<usize>>, &length: &usize| -> Vec<Vec<usize>> {
        found.iter().flat_map(|index| (0..length).map(|last| [&index[..], &[last]].concat())).collect()
    };
    dims.iter().fold(vec![Vec::new()], widen)
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
