//! Which programs need XLA's slower, repeatable kernels.

use crate::attention::CUDNN_BACKWARD;
use crate::kernels::NAMES;
use octant_graph::{DType, Graph, Op};

/// Whether a prepared graph leaves a weight gradient of f32 or the gradient of an attention to cuDNN, whose fastest kernels for
/// them add atomically: the order of sums, and with it the last bits, then differ from run to run. Measured on an H200 over 20 steps, two runs each: programs
/// of fashion-cnn, ResNet-18 and a small MSHNet in f32 differed, those of five families in bf16 and of U-Net in f32 did not.
/// Our own kernels and products always add in the same order.
pub fn adds_atomically(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| match &node.op {
        // The result is a kernel: its spatial axes come first.
        Op::Convolution(conv) => conv.dtype == DType::F32 && conv.output.spatial.first() == Some(&0),
        Op::Call { kernel: Some(kernel), .. } if kernel.name == CUDNN_BACKWARD => true,
        Op::Call { kernel: Some(kernel), .. } if NAMES.contains(&kernel.name.as_str()) => false,
        op => op.bodies().into_iter().any(|(_, body)| adds_atomically(body)),
    })
}
