//! Biases that a norm cancels.
//!
//! They are found in the traced graph instead of by a pass: only before the gradients are recorded does the bias's own gradient
//! become exactly zero. Afterwards it would have to be recovered from sums that cancel up to rounding.

use octant_graph::{Binary, DType, Graph, Op, Tensor, ValueId};

/// What is to be normalized without a bias per channel, such as a convolution's, and that bias in f32.
///
/// Statistics of the batch subtract such a bias together with the mean. Without it nothing is added to the activations, and its
/// gradient is zero without a sum over them, which would be zero only up to rounding.
pub(super) fn split(x: &Tensor) -> (Tensor, Option<Tensor>) {
    let parts = x.trace().with_graph(|graph| terms(graph, x.id()?));
    match parts {
        Some((data, bias)) => (x.trace().handle(data), Some(x.trace().handle(bias).convert(DType::F32))),
        None => (x.clone(), None),
    }
}

fn terms(graph: &Graph, x: ValueId) -> Option<(ValueId, ValueId)> {
    let node = graph.producer(x);
    let (Op::Binary(Binary::Add), &[left, right]) = (&node.op, &node.inputs[..]) else { return None };
    match per_channel(graph, right) {
        Some(bias) => Some((left, bias)),
        None => Some((right, per_channel(graph, left)?)),
    }
}

/// The vector that a value repeats for every pixel, if it is one with an element per channel.
fn per_channel(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let node = graph.producer(value);
    let Op::Broadcast { dims, axes } = &node.op else { return None };
    let is_channels = axes[..] == [dims.len().checked_sub(1)?] && graph.shape(node.inputs[0]).dims() == [*dims.last()?];
    is_channels.then_some(node.inputs[0])
}
