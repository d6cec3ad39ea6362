//! A batch norm that waits for the weights of its channels, and biases that a norm cancels.
//!
//! Canceled biases are found in the traced graph instead of by a pass: only before the gradients are recorded does the bias's
//! own gradient become exactly zero. Afterwards it would have to be recovered from sums that cancel up to rounding.

use super::Norm;
use octant_graph::{Binary, DType, Graph, Op, Tensor, ValueId};

/// Images and the batch norm that is still to be applied to them.
///
/// A norm is an affine function of whole channels, so their means and maxima follow from those of the images, the means from
/// the norm's own statistics; and weights per channel, which attention makes of these, become a part of the norm's factor.
/// Backward the sums that weights, scale and shift need are then the same two.
pub struct PendingNorm {
    dims: Vec<usize>,
    /// The images, groups of the batch on an axis of their own if there are several.
    x: Tensor,
    norm: Norm,
    /// Of every sample's channels, the positions kept with length 1.
    means: Tensor,
    positions: Vec<usize>,
}

impl PendingNorm {
    pub(super) fn new(x: &Tensor, grouped: Tensor, norm: Norm, means: Tensor, positions: &[usize]) -> PendingNorm {
        PendingNorm { dims: x.dims().to_vec(), x: grouped, norm, means, positions: positions.to_vec() }
    }

    /// How many channels the images have.
    pub fn channels(&self) -> usize {
        self.x.channels()
    }

    /// The mean over all positions of what the norm makes: `[n, c]`.
    pub fn global_avg_pool(&self) -> Tensor {
        self.of_channels(&self.means)
    }

    /// The largest value over all positions of what the norm makes: `[n, c]`.
    pub fn global_max_pool(&self) -> Tensor {
        // Below a negative scale the least value becomes the largest.
        let one = self.norm.scale.scalar_like(1.0);
        let direction = self.norm.scale.less(&one.scalar_like(0.0)).select(&-&one, &one);
        let extremes = (self.x.convert(DType::F32) * &direction).max_keep(&self.positions) * direction;
        self.of_channels(&extremes)
    }

    /// The norm applied, then every sample's channels times their weights, which are `[n, c]`.
    pub fn weighted(&self, weights: &Tensor) -> Tensor {
        let weights = weights.convert(DType::F32).reshape(self.means.dims());
        let (factor, shift) = (&self.norm.factor * &weights, &self.norm.shift * &weights);
        self.x.channel_affine(&self.norm.mean, &factor, &shift).reshape(&self.dims)
    }

    fn of_channels(&self, values: &Tensor) -> Tensor {
        let (batch, channels) = (self.dims[0], self.dims[self.dims.len() - 1]);
        self.norm.of(values).reshape(&[batch, channels]).convert(self.x.dtype())
    }
}

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
