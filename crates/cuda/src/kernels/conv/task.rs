//! Convolutions of a graph as work for a kernel.

use super::descriptor::{ConvDescriptor, Pointwise};
use crate::GpuFacts;
use octant_graph::op::{ImageAxes, KernelAxes};
use octant_graph::{Convolution, DType, Graph, Node, Op, Shape};

/// A convolution, or the gradient of its kernel from input and cotangent. Images are channels-last and the kernel is square.
#[derive(Debug, Clone, Copy)]
pub struct ConvTask<'g> {
    pub conv: &'g Convolution,
    pub is_gradient: bool,
    /// Whether the kernel holds a row of input channels for every output channel.
    pub transposed: bool,
    /// How many groups of channels there are.
    pub groups: usize,
    pub side: usize,
    /// The images that the convolution reads, and those that it makes or their cotangents.
    pub input: &'g Shape,
    pub output: &'g Shape,
}

/// What decides whether a kernel pays.
#[derive(Debug, Clone, Copy)]
pub struct GpuProfile {
    pub gpu: GpuFacts,
    /// Products of f32 may be rounded to 11 bits.
    pub fast_products: bool,
}

/// A kernel that computes a task. The gradient of a kernel comes in so many parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub name: &'static str,
    pub parts: usize,
}

impl Choice {
    pub fn whole(name: &'static str) -> Choice {
        Choice { name, parts: 1 }
    }
}

/// What a call computes beside its task.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fused<'g> {
    pub pointwise: Pointwise,
    /// The 1×1 convolution, if there is one.
    pub beside: Option<&'g Convolution>,
    pub norm_relu: bool,
    /// Moments of all outputs, in so many parts of every image.
    pub moments: Option<usize>,
    /// The output is the cotangent of a fused norm + ReLU, with sums in so many parts of every image.
    pub cotangent: Option<usize>,
}

impl<'g> ConvTask<'g> {
    /// The task of a node that is such a convolution.
    pub fn of(graph: &'g Graph, node: &'g Node) -> Option<ConvTask<'g>> {
        let Op::Convolution(conv) = &node.op else { return None };
        let [input, kernel] = [0, 1].map(|operand| graph.shape(node.inputs[operand]));
        let (dtype, shape) = (conv.dtype, graph.shape(node.outputs[0]));
        let same_type = input.dtype() == dtype && kernel.dtype() == dtype && matches!(dtype, DType::BF16 | DType::F32);
        if !same_type || input.rank() != 4 || shape.elements() == 0 || input.elements() == 0 {
            return None;
        }
        let images = ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] };
        let kernel_axes = |input, output, first| KernelAxes { input, output, spatial: vec![first, first + 1] };
        let is_gradient = conv.input == ImageAxes { batch: 3, feature: 0, spatial: vec![1, 2] }
            && conv.kernel == kernel_axes(0, 3, 1)
            && conv.output == ImageAxes { batch: 2, feature: 3, spatial: vec![0, 1] };
        let transposed = conv.kernel == kernel_axes(3, 2, 0);
        let is_forward =
            conv.input == images && conv.output == images && (transposed || conv.kernel == kernel_axes(2, 3, 0));
        let (weights, output, groups, others) = match is_gradient {
            true => (shape, kernel, conv.batch_groups, conv.feature_groups),
            false => (kernel, shape, conv.feature_groups, conv.batch_groups),
        };
        // A gradient that reads a dilated input is one of a transposed convolution.
        let is_direct = !is_gradient || (!conv.reversed && conv.input_dilation.iter().all(|&dilation| dilation == 1));
        let [side, width, ..] = *weights.dims() else { return None };
        let known = (is_gradient || is_forward) && is_direct && others == 1 && side == width;
        known.then_some(ConvTask { conv, is_gradient, transposed, groups, side, input, output })
    }

    pub fn inputs(&self) -> usize {
        self.input.dims()[3]
    }

    pub fn outputs(&self) -> usize {
        self.output.dims()[3]
    }

    /// Strides and kernel dilations of the convolution. In the gradient of its kernel the two have changed positions.
    fn steps(&self) -> [&[usize]; 2] {
        let (strides, dilation) = (&self.conv.strides[..], &self.conv.kernel_dilation[..]);
        if self.is_gradient { [dilation, strides] } else { [strides, dilation] }
    }

    /// Whether it has neither strides nor dilation.
    pub fn is_plain(&self) -> bool {
        let [strides, dilation] = self.steps();
        [strides, dilation, &self.conv.input_dilation].concat().iter().all(|&step| step == 1)
    }

    pub fn descriptor(&self, fused: &Fused) -> ConvDescriptor {
        let [strides, dilation] = self.steps();
        let pair = |values: &[usize]| [values[0] as i64, values[1] as i64];
        ConvDescriptor {
            side: self.side as i64,
            bits: 8 * self.conv.dtype.size() as i64,
            inputs: self.inputs() as i64,
            outputs: self.outputs() as i64,
            strides: pair(strides),
            low_padding: [self.conv.padding[0].0, self.conv.padding[1].0],
            input_dilation: pair(&self.conv.input_dilation),
            kernel_dilation: pair(dilation),
            reversed: self.conv.reversed,
            transposed: self.transposed,
            pointwise: fused.pointwise,
            norm_relu: fused.norm_relu,
            moments: fused.moments.is_some(),
            cotangent: fused.cotangent.is_some(),
        }
    }
}
