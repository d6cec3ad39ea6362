//! Sums of products: dot and convolution.

use super::numbers::{Numbers, from_floats, from_integers, numbers};
use super::positions::{for_each_index, position};
use super::window::Slide;
use crate::ops::contract::free_axes;
use crate::{Convolution, DotGeneral, HostTensor, Shape};

/// For every element of the result, the pairs of positions whose products are summed.
fn sum_products(
    left: &HostTensor,
    right: &HostTensor,
    shape: &Shape,
    pairs: impl Fn(&[usize], &mut dyn FnMut(usize, usize)),
) -> HostTensor {
    match (numbers(left), numbers(right)) {
        (Numbers::Floats(left), Numbers::Floats(right)) => {
            let mut sums = Vec::with_capacity(shape.elements());
            for_each_index(shape.dims(), |index| {
                let mut sum = 0.0;
                pairs(index, &mut |l, r| sum += left[l] * right[r]);
                sums.push(sum);
            });
            from_floats(shape, &sums)
        }
        (Numbers::Integers(left), Numbers::Integers(right)) => {
            let mut sums = Vec::with_capacity(shape.elements());
            for_each_index(shape.dims(), |index| {
                let mut sum = 0i128;
                pairs(index, &mut |l, r| sum = sum.wrapping_add(left[l].wrapping_mul(right[r])));
                sums.push(sum);
            });
            from_integers(shape, &sums)
        }
        _ => unreachable!("operands are of one type"),
    }
}

pub fn dot(left: &HostTensor, right: &HostTensor, dot: &DotGeneral, shape: &Shape) -> HostTensor {
    let (left_strides, right_strides) = (left.shape().strides(), right.shape().strides());
    let pick = |strides: &[usize], axes: &[usize]| axes.iter().map(|&axis| strides[axis]).collect::<Vec<_>>();
    let left_free = free_axes(left.shape(), &dot.left_batch, &dot.left_contract);
    let right_free = free_axes(right.shape(), &dot.right_batch, &dot.right_contract);
    let contracted: Vec<usize> = dot.left_contract.iter().map(|&axis| left.dims()[axis]).collect();
    // How far each axis of the result moves in either operand.
    let along_left = [pick(&left_strides, &dot.left_batch), pick(&left_strides, &left_free), vec![0; right_free.len()]];
    let along_right =
        [pick(&right_strides, &dot.right_batch), vec![0; left_free.len()], pick(&right_strides, &right_free)];
    let (along_left, along_right) = (along_left.concat(), along_right.concat());
    let summed_left = pick(&left_strides, &dot.left_contract);
    let summed_right = pick(&right_strides, &dot.right_contract);
    sum_products(left, right, shape, |index, add| {
        let (left_start, right_start) = (position(index, &along_left), position(index, &along_right));
        for_each_index(&contracted, |summed| {
            add(left_start + position(summed, &summed_left), right_start + position(summed, &summed_right));
        });
    })
}

pub fn convolution(input: &HostTensor, kernel: &HostTensor, conv: &Convolution, shape: &Shape) -> HostTensor {
    let (input_strides, kernel_strides) = (input.shape().strides(), kernel.shape().strides());
    let kernel_space: Vec<usize> = conv.kernel.spatial.iter().map(|&axis| kernel.dims()[axis]).collect();
    let features = kernel.dims()[conv.kernel.input];
    let outputs = kernel.dims()[conv.kernel.output];
    let batch = input.dims()[conv.input.batch];
    let slides: Vec<Slide> = (0..kernel_space.len())
        .map(|axis| Slide {
            stride: conv.strides[axis],
            low: conv.padding[axis].0,
            base_dilation: conv.input_dilation[axis],
            window_dilation: conv.kernel_dilation[axis],
            length: input.dims()[conv.input.spatial[axis]],
        })
        .collect();
    sum_products(input, kernel, shape, |index, add| {
        let output = index[conv.output.feature];
        // Output features fall into consecutive groups, each reading its own input features or its own part of the batch.
        let first_feature = output / (outputs / conv.feature_groups) * features;
        let first_image = output / (outputs / conv.batch_groups) * (batch / conv.batch_groups);
        let image = first_image + index[conv.output.batch];
        for_each_index(&kernel_space, |within| {
            let mut from = image * input_strides[conv.input.batch];
            let mut with = output * kernel_strides[conv.kernel.output];
            for axis in 0..within.len() {
                let window = index[conv.output.spatial[axis]];
                let Some(source) = slides[axis].source(window, within[axis]) else { return };
                let tap = if conv.reversed { kernel_space[axis] - 1 - within[axis] } else { within[axis] };
                from += source * input_strides[conv.input.spatial[axis]];
                with += tap * kernel_strides[conv.kernel.spatial[axis]];
            }
            for feature in 0..features {
                add(
                    from + (first_feature + feature) * input_strides[conv.input.feature],
                    with + feature * kernel_strides[conv.kernel.input],
                );
            }
        });
    })
}
