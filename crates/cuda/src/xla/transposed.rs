//! Gradients of the kernels of transposed convolutions, in the form that XLA knows.
//!
//! Such a gradient convolves an image with holes with a window as large as the image. XLA takes a large window for the gradient
//! of a kernel only if the holes are in the window; otherwise cuDNN computes a convolution with a window of 255 × 255 (74 % of
//! the step of a CycleGAN on an H200). With the operands exchanged the same sums appear backwards, and the holes change sides.

use octant_graph::op::{ImageAxes, KernelAxes};
use octant_graph::passes::rewrite;
use octant_graph::{Convolution, Graph, Op, Shape, Trace};

/// The same graph, where convolutions with a large window over an image with holes have their operands exchanged.
pub fn exchange_dilated(graph: &Graph) -> Graph {
    rewrite(graph, |node| {
        let Op::Convolution(conv) = &node.op else { return None };
        let [image, window] = [0, 1].map(|index| graph.shape(node.inputs[index]));
        let result = graph.shape(node.outputs[0]);
        if !has_large_window_over_holes(conv, window, result) {
            return None;
        }
        let trace = Trace::new();
        let [image, window] =
            [("image", image), ("window", window)].map(|(name, shape)| trace.input(name, shape.clone()));
        let exchanged = window.convolution(&image, exchanged(conv, image.shape(), window.shape(), result));
        let mut spatial = conv.output.spatial.clone();
        spatial.sort_unstable();
        trace.finish(&[exchanged.reverse(&spatial)]).ok()
    })
}

fn has_large_window_over_holes(conv: &Convolution, window: &Shape, result: &Shape) -> bool {
    let lengths = conv.kernel.spatial.iter().zip(&conv.output.spatial);
    conv.input_dilation.iter().any(|&holes| holes > 1)
        && conv.strides.iter().chain(&conv.kernel_dilation).all(|&step| step == 1)
        && conv.feature_groups * conv.batch_groups == 1
        && !conv.reversed
        && [window, result].iter().all(|shape| shape.elements() > 0)
        && lengths.clone().all(|(&taps, &outputs)| window.dims()[taps] > result.dims()[outputs])
}

/// Along one axis, with holes of factor b and padding p, `y[o] = Σ_t x[(o + t - p) / b] · k[t]`. Summed over the index i of x
/// instead, `y[o] = Σ_i k[i·b - (o - p)] · x[i]`: a convolution of k with x read at `last - o`.
fn exchanged(conv: &Convolution, image: &Shape, window: &Shape, result: &Shape) -> Convolution {
    let padding = |axis: usize| {
        let last = result.dims()[conv.output.spatial[axis]] as i64 - 1;
        let low = last - conv.padding[axis].0;
        let reach = (image.dims()[conv.input.spatial[axis]] as i64 - 1) * conv.input_dilation[axis] as i64;
        (low, last + reach - low - (window.dims()[conv.kernel.spatial[axis]] as i64 - 1))
    };
    Convolution {
        input: ImageAxes {
            batch: conv.kernel.output,
            feature: conv.kernel.input,
            spatial: conv.kernel.spatial.clone(),
        },
        kernel: KernelAxes { input: conv.input.feature, output: conv.input.batch, spatial: conv.input.spatial.clone() },
        output: ImageAxes {
            batch: conv.output.feature,
            feature: conv.output.batch,
            spatial: conv.output.spatial.clone(),
        },
        padding: (0..conv.strides.len()).map(padding).collect(),
        kernel_dilation: conv.input_dilation.clone(),
        input_dilation: conv.kernel_dilation.clone(),
        ..conv.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use super::*;
    use crate::passes::tests::assert_same;
    use octant_graph::DType;

    /// The gradients of a convolution with a kernel of 3 × 3 over images with holes.
    fn gradients(input_dilation: usize, strides: usize, padding: (i64, i64)) -> Graph {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [2, 7, 6, 3]));
        let kernel = trace.input("kernel", Shape::new(DType::F32, [3, 3, 3, 4]));
        let conv = Convolution {
            input: ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] },
            kernel: KernelAxes { input: 2, output: 3, spatial: vec![0, 1] },
            output: ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] },
            strides: vec![strides; 2],
            padding: vec![padding; 2],
            input_dilation: vec![input_dilation; 2],
            kernel_dilation: vec![1, 1],
            reversed: true,
            feature_groups: 1,
            batch_groups: 1,
            dtype: DType::F32,
        };
        let y = x.convolution(&kernel, conv);
        let gradients = trace.gradients(&(&y * &y).sum_all(), &[x, kernel]);
        trace.finish(&gradients).unwrap()
    }

    fn large_windows_over_holes(graph: &Graph) -> usize {
        let is_one = |node: &&octant_graph::Node| match &node.op {
            Op::Convolution(conv) => {
                let [window, result] = [node.inputs[1], node.outputs[0]].map(|value| graph.shape(value));
                has_large_window_over_holes(conv, window, result)
            }
            _ => false,
        };
        graph.nodes().iter().filter(is_one).count()
    }

    #[test]
    fn gradients_of_transposed_convolutions_have_their_holes_in_the_window() {
        for (holes, padding) in [(2, (1, 1)), (2, (2, 1)), (3, (0, 2)), (2, (-1, 2))] {
            let graph = gradients(holes, 1, padding);
            assert_eq!(large_windows_over_holes(&graph), 1);
            let made = exchange_dilated(&graph);
            assert_eq!(large_windows_over_holes(&made), 0);
            assert_same(&graph, &made);
        }
    }

    #[test]
    fn gradients_of_other_convolutions_stay() {
        for graph in [gradients(1, 1, (1, 1)), gradients(1, 2, (1, 1))] {
            assert_eq!(exchange_dilated(&graph).to_string(), graph.to_string());
        }
    }
}
