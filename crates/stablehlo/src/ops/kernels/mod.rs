//! Convolutions and the gradients of their kernels as calls of kernels of our own (`octant-cuda`), where those are faster.
//!
//! The calls take channels-last images and a square kernel; everything else stays a convolution.

mod apart;
mod cotangents;
mod depthwise;
mod few_channels;
mod moments;
mod pairs;
mod rectified;
mod statements;
mod stretch;
mod tensor_core;
mod updates;

pub use cotangents::{sum as sum_of_cotangent, sums as sums_of_cotangent};
pub use stretch::Stretch;
pub use updates::Group;

use apart::Apart;
use cotangents::Cotangents;
use moments::Moments;
use pairs::Pairs;
use rectified::Rectified;
use updates::Updates;

use super::reduce;
use crate::function::{Function, Named};
use crate::{Options, types};
use octant_graph::op::{ImageAxes, KernelAxes};
use octant_graph::{Convolution, DType, Graph, Node, Op, Reduction, Shape, ValueId};
use std::collections::HashMap;

/// Blocks that fill a large GPU, three on each of its processors.
const BLOCKS: usize = 396;

/// The call that computes a convolution, if one of ours does.
pub fn call(f: &mut Function, input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> Option<Named> {
    let task = Task::of(&input.shape, &kernel.shape, conv, shape)?;
    let chosen = depthwise::choose(&task).or_else(|| few_channels::choose(&task));
    let chosen = chosen.or_else(|| tensor_core::choose(&task, f.module.options.precision))?;
    task.write(f, &[input, kernel], &chosen, Extras::default(), &[shape]).pop()
}

/// The call that computes a node and more. What it tells beside the output is the last result.
pub fn extended_call(
    f: &mut Function,
    graph: &Graph,
    node: &Node,
    operands: &[&Named],
    extras: Extras,
) -> Option<Vec<Named>> {
    let task = Task::of_node(graph, node)?;
    let chosen = tensor_core::choose_rectified(&task, f.module.options.precision)?;
    Some(task.write(f, operands, &chosen, extras, &[graph.shape(node.outputs[0])]))
}

/// What our calls do with a graph beyond its single nodes.
#[derive(Default)]
pub struct Plan {
    pub pairs: Pairs,
    pub rectified: Rectified,
    pub moments: Moments,
    pub cotangents: Cotangents,
    pub apart: Apart,
    pub updates: Updates,
}

impl Plan {
    /// Nothing, unless programs may call our kernels.
    pub fn of(graph: &Graph, options: &Options) -> Plan {
        if !options.cuda_kernels {
            return Plan::default();
        }
        let pairs = Pairs::find(graph, options);
        let rectified = Rectified::find(graph, options, &pairs);
        let moments = Moments::find(graph, options, &pairs, &rectified);
        let cotangents = Cotangents::find(graph, options, &pairs, &rectified);
        let apart = Apart::find(graph, options, &pairs, &rectified, &cotangents);
        Plan { pairs, rectified, moments, cotangents, apart, updates: Updates::find(graph) }
    }
}

/// Which node makes a value.
fn makers(graph: &Graph) -> HashMap<ValueId, usize> {
    let nodes = graph.nodes().iter().enumerate();
    nodes.flat_map(|(index, node)| node.outputs.iter().map(move |&id| (id, index))).collect()
}

/// The nodes that read a value; none are said to if the graph returns it.
fn users(graph: &Graph) -> HashMap<ValueId, Vec<usize>> {
    let mut users: HashMap<ValueId, Vec<usize>> = HashMap::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        node.inputs.iter().for_each(|&input| users.entry(input).or_default().push(index));
    }
    graph.outputs().iter().for_each(|output| drop(users.remove(output)));
    users
}

/// What a call computes: a convolution, or the gradient of its kernel from input and cotangent.
struct Task<'a> {
    conv: &'a Convolution,
    is_gradient: bool,
    /// Whether the kernel holds a row of input channels for every output channel.
    is_turned: bool,
    /// How many groups of channels see nothing of each other.
    groups: usize,
    side: usize,
    /// The images that the convolution reads, and those that it makes or their cotangents.
    input: &'a Shape,
    output: &'a Shape,
}

/// A kernel that does a task. The gradient of a kernel comes in so many parts.
struct Chosen {
    name: &'static str,
    parts: usize,
}

/// What a call does beside its task; see `octant-cuda`, `window`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras {
    pub split: bool,
    pub joined: bool,
    /// Stretches and rectifies its input, by factors and offsets.
    pub rectified: bool,
    /// Takes the moments of the output, in so many parts of every image.
    pub moments: Option<usize>,
    /// Makes the cotangent of a rectified norm, and takes its sums in so many parts.
    pub cotangent: Option<usize>,
    /// Reads so many channels of its input from one array, and the others from another.
    pub apart: Option<usize>,
}

impl<'a> Task<'a> {
    /// The task of a node that is a convolution.
    fn of_node(graph: &'a Graph, node: &'a Node) -> Option<Task<'a>> {
        let Op::Convolution(conv) = &node.op else { return None };
        let [input, kernel] = [0, 1].map(|operand| graph.shape(node.inputs[operand]));
        Task::of(input, kernel, conv, graph.shape(node.outputs[0]))
    }

    fn of(input: &'a Shape, kernel: &'a Shape, conv: &'a Convolution, shape: &'a Shape) -> Option<Task<'a>> {
        let dtype = conv.dtype;
        let same_type = input.dtype() == dtype && kernel.dtype() == dtype && matches!(dtype, DType::BF16 | DType::F32);
        if !same_type || input.rank() != 4 || shape.elements() == 0 || input.elements() == 0 {
            return None;
        }
        let images = ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] };
        let kernel_axes = |input, output, first| KernelAxes { input, output, spatial: vec![first, first + 1] };
        let is_gradient = conv.input == ImageAxes { batch: 3, feature: 0, spatial: vec![1, 2] }
            && conv.kernel == kernel_axes(0, 3, 1)
            && conv.output == ImageAxes { batch: 2, feature: 3, spatial: vec![0, 1] };
        let is_turned = conv.kernel == kernel_axes(3, 2, 0);
        let is_forward =
            conv.input == images && conv.output == images && (is_turned || conv.kernel == kernel_axes(2, 3, 0));
        let (weights, output, groups, others) = match is_gradient {
            true => (shape, kernel, conv.batch_groups, conv.feature_groups),
            false => (kernel, shape, conv.feature_groups, conv.batch_groups),
        };
        // A gradient that reads the input with holes is one of a transposed convolution.
        let is_direct = !is_gradient || (!conv.reversed && conv.input_dilation.iter().all(|&dilation| dilation == 1));
        let [side, width, ..] = *weights.dims() else { return None };
        let known = (is_gradient || is_forward) && is_direct && others == 1 && side == width;
        known.then_some(Task { conv, is_gradient, is_turned, groups, side, input, output })
    }

    fn inputs(&self) -> usize {
        self.input.dims()[3]
    }

    fn outputs(&self) -> usize {
        self.output.dims()[3]
    }

    /// Strides and kernel dilations of the convolution. A gradient's windows step as its convolution's kernel is dilated,
    /// and the other way round.
    fn steps(&self) -> [&[usize]; 2] {
        let (strides, dilation) = (&self.conv.strides[..], &self.conv.kernel_dilation[..]);
        if self.is_gradient { [dilation, strides] } else { [strides, dilation] }
    }

    /// Whether it has neither strides nor holes.
    fn is_plain(&self) -> bool {
        let [strides, dilation] = self.steps();
        [strides, dilation, &self.conv.input_dilation].concat().iter().all(|&step| step == 1)
    }

    /// The attribute that tells a kernel what to compute, in the order that `octant-cuda` reads.
    fn window(&self, extras: Extras) -> Vec<i64> {
        let [strides, dilation] = self.steps();
        let whole = |values: &[usize]| values.iter().map(|&value| value as i64).collect::<Vec<_>>();
        let head = whole(&[self.side, 8 * self.conv.dtype.size(), self.inputs(), self.outputs()]);
        let low = self.conv.padding.iter().map(|&(low, _)| low).collect();
        let Extras { split, joined, rectified, moments, cotangent, apart } = extras;
        let told = [moments, cotangent].map(|parts| parts.is_some());
        let tail = [self.conv.reversed, self.is_turned, split, joined, rectified, told[0], told[1]];
        let tail = [&tail.map(i64::from)[..], &whole(&[apart.unwrap_or(self.inputs())])].concat();
        [head, whole(strides), low, whole(&self.conv.input_dilation), whole(dilation), tail].concat()
    }

    /// Calls a kernel with these operands for results of these shapes. What it tells about them follows.
    fn write(
        &self,
        f: &mut Function,
        operands: &[&Named],
        chosen: &Chosen,
        extras: Extras,
        shapes: &[&Shape],
    ) -> Vec<Named> {
        let made = |shape: &&Shape| match self.is_gradient {
            true => Shape::new(DType::F32, [&[chosen.parts], shape.dims()].concat()),
            false => (*shape).clone(),
        };
        let of_parts =
            |parts: usize, rows: usize| Shape::new(DType::F32, [self.output.dims()[0], parts, rows, self.outputs()]);
        let moments = shapes.iter().filter_map(|_| Some(of_parts(extras.moments?, 4)));
        let sums = extras.cotangent.map(|parts| of_parts(parts, 2));
        let made: Vec<Shape> = shapes.iter().map(made).chain(moments).chain(sums).collect();
        let made: Vec<&Shape> = made.iter().collect();
        let taken: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
        let text = format!(
            "stablehlo.custom_call @{}({}) {{api_version = 4 : i32, backend_config = {{window = array<i64: {}>}}, \
             operand_layouts = {}, result_layouts = {}}} : {} -> {}",
            chosen.name,
            types::join(operands),
            types::join(self.window(extras)),
            types::row_major(&taken),
            types::row_major(&made),
            types::tuple(&taken),
            types::results(&made)
        );
        let values = f.several(&made, |f, head| f.line(format!("{head} = {text}")));
        if !self.is_gradient {
            return values;
        }
        let mut sum = |(value, shape): (&Named, &&Shape)| {
            let sum = reduce::reduce(f, value, Reduction::Sum, &[0], &Shape::new(DType::F32, shape.dims()));
            f.convert(&sum, self.conv.dtype)
        };
        values.iter().zip(shapes).map(&mut sum).collect()
    }
}
