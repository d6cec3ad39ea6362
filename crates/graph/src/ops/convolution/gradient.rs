//! The backward rule: a convolution's gradients are convolutions with other axes.
//!
//! Along one axis, with input x (holes of factor b), kernel k (holes of factor w), stride s and left padding p,
//! `y[o] = Σ_t x[(o·s + t·w - p) / b] · k[t]` wherever the division is whole. Solving the same equation for the other
//! two indices gives both gradients: stride and input holes change positions for the input, stride and kernel holes for
//! the kernel.

use super::{Convolution, Tensor};
use crate::gradient::step::{Gradients, Step};
use crate::op::{ImageAxes, KernelAxes};

pub(crate) fn convolution(conv: &Convolution, step: &Step) -> Gradients {
    let (input, kernel) = (&step.inputs[0], &step.inputs[1]);
    if [input, kernel, &step.outputs[0]].iter().any(|value| value.shape().elements() == 0) {
        return step.nothing();
    }
    // A wider result came from narrow operands; their gradients are as narrow again.
    let ct = &step.cotangent().convert(input.dtype());
    vec![
        step.want(0, || input_gradient(conv, input, kernel, ct)),
        step.want(1, || kernel_gradient(conv, input, kernel, ct)),
    ]
}

/// The cotangent convolved with the kernel read backwards.
fn input_gradient(conv: &Convolution, input: &Tensor, kernel: &Tensor, ct: &Tensor) -> Tensor {
    let groups = conv.feature_groups.max(conv.batch_groups);
    let (kernel, kernel_axes) = transposed_kernel(conv, kernel, groups);
    let padding = (0..conv.strides.len())
        .map(|axis| {
            let reach = (kernel.dims()[conv.kernel.spatial[axis]] - 1) * conv.kernel_dilation[axis];
            crate::ops::transposed_padding(
                (input.dims()[conv.input.spatial[axis]], conv.input_dilation[axis]),
                (ct.dims()[conv.output.spatial[axis]], conv.strides[axis]),
                reach as i64,
                conv.padding[axis].0,
            )
        })
        .collect();
    let gradient = ct.convolution(
        &kernel,
        Convolution {
            input: conv.output.clone(),
            kernel: kernel_axes,
            output: conv.input.clone(),
            strides: conv.input_dilation.clone(),
            padding,
            input_dilation: conv.strides.clone(),
            kernel_dilation: conv.kernel_dilation.clone(),
            reversed: !conv.reversed,
            feature_groups: groups,
            batch_groups: 1,
            dtype: input.dtype(),
        },
    );
    if conv.batch_groups == 1 { gradient } else { features_to_batch(&gradient, &conv.input, conv.batch_groups) }
}

/// The kernel with its feature axes in each other's role. With groups, the axis over all output features `(group, own)`
/// becomes `own`, and the groups move in front of the other axis; for one feature per group that changes nothing.
fn transposed_kernel(conv: &Convolution, kernel: &Tensor, groups: usize) -> (Tensor, KernelAxes) {
    let KernelAxes { input, output, spatial } = conv.kernel.clone();
    let (inputs, outputs) = (kernel.dims()[input], kernel.dims()[output] / groups);
    if groups > 1 && inputs == 1 && outputs == 1 {
        return (kernel.clone(), conv.kernel.clone());
    }
    let swapped = KernelAxes { input: output, output: input, spatial };
    let kernel = if groups == 1 { kernel.clone() } else { move_groups(kernel, output, input, groups) };
    (kernel, swapped)
}

/// A group-major axis `from` gives its groups to the axis `to`, which becomes group-major.
fn move_groups(value: &Tensor, from: usize, to: usize, groups: usize) -> Tensor {
    let mut split = value.dims().to_vec();
    split[from] /= groups;
    split.insert(from, groups);
    // In the split shape, axes from `from` on have moved up by one.
    let position = |axis: usize| if axis >= from { axis + 1 } else { axis };
    let permutation: Vec<usize> = (0..value.rank())
        .flat_map(|axis| if axis == to { vec![from, position(axis)] } else { vec![position(axis)] })
        .collect();
    let mut merged = value.dims().to_vec();
    merged[from] /= groups;
    merged[to] *= groups;
    value.reshape(&split).transpose(&permutation).reshape(&merged)
}

/// Feature groups become groups of the batch.
fn features_to_batch(value: &Tensor, axes: &ImageAxes, groups: usize) -> Tensor {
    move_groups(value, axes.feature, axes.batch, groups)
}

/// The input convolved with the cotangent, summed over the batch: the batch plays the features' part. Groups of features
/// are groups of this convolution's batch and the other way round.
fn kernel_gradient(conv: &Convolution, input: &Tensor, kernel: &Tensor, ct: &Tensor) -> Tensor {
    let padding = (0..conv.strides.len())
        .map(|axis| {
            let last = |length: usize, factor: usize| ((length - 1) * factor) as i64;
            let low = conv.padding[axis].0;
            let needed = last(kernel.dims()[conv.kernel.spatial[axis]], conv.kernel_dilation[axis])
                + last(ct.dims()[conv.output.spatial[axis]], conv.strides[axis]);
            (low, needed - low - last(input.dims()[conv.input.spatial[axis]], conv.input_dilation[axis]))
        })
        .collect();
    let gradient = input.convolution(
        ct,
        Convolution {
            input: ImageAxes {
                batch: conv.input.feature,
                feature: conv.input.batch,
                spatial: conv.input.spatial.clone(),
            },
            kernel: KernelAxes {
                input: conv.output.batch,
                output: conv.output.feature,
                spatial: conv.output.spatial.clone(),
            },
            output: ImageAxes {
                batch: conv.kernel.input,
                feature: conv.kernel.output,
                spatial: conv.kernel.spatial.clone(),
            },
            strides: conv.kernel_dilation.clone(),
            padding,
            input_dilation: conv.input_dilation.clone(),
            kernel_dilation: conv.strides.clone(),
            reversed: false,
            feature_groups: conv.batch_groups,
            batch_groups: conv.feature_groups,
            dtype: kernel.dtype(),
        },
    );
    if conv.reversed { gradient.reverse(&sorted(&conv.kernel.spatial)) } else { gradient }
}

fn sorted(axes: &[usize]) -> Vec<usize> {
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    axes
}
