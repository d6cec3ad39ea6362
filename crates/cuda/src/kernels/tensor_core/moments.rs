//! Sums over the pixels of images that a call has just made, which the call takes along: those of a norm's statistics.
//!
//! A call sums distances from a value among them and their squares, in parts. Sums of distances from another value follow from
//! these: nothing is lost by it, because the two values are close.

use super::affine::ChannelAffine;
use super::choose::{choose, sum_parts};
use super::norm_relu::NormRelus;
use super::pairs::Pairs;
use crate::kernels::conv::task::{ConvTask, GpuProfile};
use octant_graph::{Binary, Graph, NodeId, Op, Reduction, Tensor, ValueId};
use std::collections::HashMap;

/// The sums of a graph that follow from what calls take along.
#[derive(Default)]
pub struct Moments {
    /// By the nodes that reduce.
    pub sums: HashMap<NodeId, Sum>,
    /// The images that calls make, and in how many parts of each they take the moments.
    parts: HashMap<ValueId, usize>,
}

/// A sum over the pixels of images, of shifted numbers or of their squares.
#[derive(Debug, Clone)]
pub struct Sum {
    pub shifted: ChannelAffine,
    squared: bool,
    /// Whether there is one for every image.
    of_each: bool,
}

impl Moments {
    /// All such sums of a graph.
    pub fn find(graph: &Graph, device: &GpuProfile, pairs: &Pairs, norms: &NormRelus) -> Moments {
        let mut found = Moments::default();
        for (index, node) in graph.nodes().iter().enumerate() {
            let Op::Reduce { kind: Reduction::Sum, axes } = &node.op else { continue };
            let of_each = match axes[..] {
                [0, 1, 2] => false,
                [1, 2] => true,
                _ => continue,
            };
            let operand = graph.producer(node.inputs[0]);
            let squared = operand.op == Op::Binary(Binary::Mul) && operand.inputs[0] == operand.inputs[1];
            let value = if squared { operand.inputs[0] } else { node.inputs[0] };
            let shifted = ChannelAffine::of(graph, value, &[Binary::Add, Binary::Sub]);
            let producer = graph.values()[shifted.x.index()].producer;
            let pair = pairs.of(producer);
            let called = &graph.nodes()[pair.map_or(producer, |pair| pair.plain)];
            let Some(task) = ConvTask::of(graph, called) else { continue };
            let is_called = pair.is_some() || norms.of(called.inputs[0]).is_some() || choose(&task, device).is_some();
            if is_called && pair.is_none_or(|pair| pair.sum.is_none()) && !task.is_gradient {
                found.parts.insert(shifted.x, sum_parts(&task));
                found.sums.insert(index, Sum { shifted, squared, of_each });
            }
        }
        found
    }

    /// In how many parts the call that makes a value takes its moments, if it does.
    pub fn parts(&self, value: ValueId) -> Option<usize> {
        self.parts.get(&value).copied()
    }
}

impl Sum {
    /// The sum, from moments `[images, parts, 4, channels]` and from what every channel is shifted by.
    pub fn of_moments(&self, moments: &Tensor, offset: &Tensor) -> Tensor {
        let part = [moments.dim(0), moments.dim(1), moments.dim(3)];
        let [count, shift, distances, squares] =
            [0, 1, 2, 3].map(|row| moments.slice_axis(2, row, row + 1).reshape(&part));
        // Distances d from a shift s of numbers that are shifted by o: their sum is Σd + n(s + o), and that of their squares
        // Σd² + (s + o)(2Σd + n(s + o)).
        let away = shift + offset.broadcast_to(&part);
        let sums = &distances + count * &away;
        let sums = if self.squared { squares + away * (&distances + sums) } else { sums };
        sum_in_two_steps(&sums, self.of_each)
    }
}

/// Sums `[images, parts, ..]` over the parts, and over the images unless there is one sum for each. In one step XLA would start
/// as few threads as there are channels.
pub fn sum_in_two_steps(parts: &Tensor, of_each: bool) -> Tensor {
    let of_images = parts.sum(&[1]);
    if of_each { of_images } else { parts.trace().barrier(&[of_images])[0].sum(&[0]) }
}
