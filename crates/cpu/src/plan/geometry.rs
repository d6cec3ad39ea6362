//! Convolutions of the graph as kernels describe them.

use crate::kernels::ConvGeometry;
use octant_graph::{Convolution, Shape};

/// A convolution of NHWC images, of whose weights the axes lie anywhere.
pub(crate) fn image_convolution(conv: &Convolution, [input, kernel, output]: [&Shape; 3]) -> ConvGeometry {
    let pair = |list: &[usize]| [list[0], list[1]];
    ConvGeometry {
        batch: input.dims()[0],
        input: pair(&input.dims()[1..3]),
        in_channels: input.dims()[3],
        output: pair(&output.dims()[1..3]),
        out_channels: output.dims()[3],
        kernel: [0, 1].map(|axis| kernel.dims()[conv.kernel.spatial[axis]]),
        stride: pair(&conv.strides),
        pad_low: [conv.padding[0].0, conv.padding[1].0],
        input_dilation: pair(&conv.input_dilation),
        kernel_dilation: pair(&conv.kernel_dilation),
        groups: conv.feature_groups,
        reversed: conv.reversed,
    }
}

/// A product of all rows of a tensor with a matrix, as a convolution of an image one pixel wide.
pub(crate) fn linear_layer(input: &Shape, output: &Shape) -> ConvGeometry {
    let last = |shape: &Shape| shape.dims().last().copied().unwrap_or(1);
    let rows = output.elements() / last(output).max(1);
    ConvGeometry::new(1, [rows, 1], [last(input), last(output)], [1, 1])
}
