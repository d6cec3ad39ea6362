//! Products of 8-bit numbers: convolutions and linear layers between [`dequantize`](octant_graph::Tensor::dequantize)d operands
//! become calls that the engine has a kernel for, and a scale behind them.
//!
//! `Σ s·(q − z) · t·w` is `s·t · Σ (q − z)·w`, and the second factor is a sum of integers. The calls' bodies say so, too.

use super::geometry::{image_convolution, linear_layer};
use crate::kernels::{ConvGeometry, Int8Conv};
use octant_graph::op::ImageAxes;
use octant_graph::{
    Binary, DType, Graph, GraphBuilder, KernelHint, Node, Op, QuantizeKernel, Reduction, Shape, Trace, ValueId, Window,
};
use std::sync::Arc;

/// A convolution of images or a product of matrices whose sums of integers are returned in f32.
pub(crate) struct Int8Call {
    /// The number that stands for 0 among the activations.
    pub zero: u8,
    /// The convolution or product in the body.
    pub op: Op,
}

impl Int8Call {
    const NAME: &'static str = "int8-sums";

    /// The call of an operation.
    pub fn of(op: &Op) -> Option<Int8Call> {
        let Op::Call { body, kernel: Some(hint), .. } = op else { return None };
        let zero = u8::try_from(*hint.integers.first().filter(|_| Int8Call::is(hint))?).ok()?;
        let sums = |node: &&Node| matches!(node.op, Op::Convolution(_) | Op::Dot(_));
        Some(Int8Call { zero, op: body.nodes().iter().find(sums)?.op.clone() })
    }

    /// What its kernel computes, of operands and a result with these shapes.
    pub fn geometry(&self, shapes: [&Shape; 3]) -> ConvGeometry {
        geometry(&self.op, shapes)
    }

    /// Whether a hint is that of such a call.
    pub fn is(hint: &KernelHint) -> bool {
        hint.name == Int8Call::NAME
    }

    /// Whether an operation is such a call.
    pub fn is_op(op: &Op) -> bool {
        matches!(op, Op::Call { kernel: Some(hint), .. } if Int8Call::is(hint))
    }
}

fn geometry(op: &Op, [input, weights, output]: [&Shape; 3]) -> ConvGeometry {
    match op {
        Op::Convolution(conv) => image_convolution(conv, [input, weights, output]),
        _ => linear_layer(input, output),
    }
}

/// Whether a hint is one that [`integer_products`] looks for.
pub(super) fn is_quantization(hint: &KernelHint) -> bool {
    QuantizeKernel::decode(hint).is_some()
}

/// Replaces what can be computed between integers.
///
/// * Convolutions and linear layers of dequantized activations with dequantized weights become an [`Int8Call`] and a scale.
/// * The maximum over windows of dequantized numbers is that of the numbers, dequantized.
pub(super) fn integer_products(graph: &Graph) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut renamed = vec![None; graph.values().len()];
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        renamed[input.index()] = Some(builder.input(name, graph.shape(input).clone()));
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let new = |value: ValueId| renamed[value.index()].expect("nodes are in order");
        let product = Product::of(graph, node).and_then(|product| product.build(&mut builder, graph, node, &new));
        let made = product.or_else(|| pooled_numbers(&mut builder, graph, node, &new)).map(|value| vec![value]);
        let made = made.unwrap_or_else(|| {
            let inputs = node.inputs.iter().map(|&input| new(input)).collect();
            builder.copy(graph, node, inputs)
        });
        node.outputs.iter().zip(made).for_each(|(output, made)| renamed[output.index()] = Some(made));
    }
    let outputs = graph.outputs().iter().filter_map(|output| renamed[output.index()]).collect();
    builder.finish(outputs)
}

/// The call that dequantizes a value: its node, and the axis with scales of its own.
fn dequantized(graph: &Graph, value: ValueId) -> Option<(&Node, Option<usize>)> {
    let node = graph.producer(value);
    let Op::Call { kernel: Some(hint), .. } = &node.op else { return None };
    let kernel = QuantizeKernel::decode(hint).filter(|_| hint.name == QuantizeKernel::DEQUANTIZE)?;
    Some((node, kernel.axis))
}

/// A value of which all elements are one known number.
pub(super) fn constant(graph: &Graph, value: ValueId) -> Option<f64> {
    let node = graph.producer(value);
    match &node.op {
        Op::Broadcast { .. } | Op::Reshape { .. } => constant(graph, node.inputs[0]),
        Op::Constant(tensor) => {
            let numbers = tensor.to_f64s();
            numbers.iter().all(|number| *number == numbers[0]).then(|| numbers.first().copied()).flatten()
        }
        _ => None,
    }
}

/// A contraction of dequantized operands.
struct Product<'g> {
    activations: &'g Node,
    weights: &'g Node,
    zero: u8,
}

impl<'g> Product<'g> {
    fn of(graph: &'g Graph, node: &Node) -> Option<Product<'g>> {
        let channels = output_channels(graph, node)?;
        let (activations, spread) = dequantized(graph, node.inputs[0])?;
        let (weights, axis) = dequantized(graph, node.inputs[1])?;
        let dtype = |node: &Node| graph.shape(node.inputs[0]).dtype();
        let zero = constant(graph, activations.inputs[2])?;
        let shapes = [node.inputs[0], node.inputs[1], node.outputs[0]].map(|value| graph.shape(value));
        let fits = Int8Conv::fits(&geometry(&node.op, shapes))
            && [dtype(activations), dtype(weights)] == [DType::U8, DType::I8]
            && (spread, axis) == (None, Some(channels))
            && constant(graph, weights.inputs[2]) == Some(0.0);
        fits.then_some(Product { activations, weights, zero: zero as u8 })
    }

    /// The sums of integers, times the scales.
    fn build(
        &self,
        builder: &mut GraphBuilder,
        graph: &Graph,
        node: &Node,
        new: &dyn Fn(ValueId) -> ValueId,
    ) -> Option<ValueId> {
        let [activations, weights] = [self.activations, self.weights];
        let body = body(&node.op, [activations, weights].map(|node| graph.shape(node.inputs[0])), self.zero)?;
        let hint = KernelHint::new(Int8Call::NAME, vec![i64::from(self.zero)]);
        let call = Op::Call { body: Arc::new(body), recompute: false, kernel: Some(Arc::new(hint)) };
        let dims = graph.shape(node.outputs[0]).dims().to_vec();
        let outputs = graph.shape(weights.inputs[1]).dims().to_vec();
        let mut push = |op, inputs| builder.push(op, inputs, node.path.clone()).ok()?.first().copied();
        let sums = push(call, vec![new(activations.inputs[0]), new(weights.inputs[0])])?;
        let step = push(Op::Broadcast { dims: outputs, axes: vec![] }, vec![new(activations.inputs[1])])?;
        let steps = push(Op::Binary(Binary::Mul), vec![step, new(weights.inputs[1])])?;
        let last = dims.len() - 1;
        let steps = push(Op::Broadcast { dims, axes: vec![last] }, vec![steps])?;
        push(Op::Binary(Binary::Mul), vec![sums, steps])
    }
}

/// The axis of the weights that runs over output channels, of contractions from images to images and of linear layers.
fn output_channels(graph: &Graph, node: &Node) -> Option<usize> {
    let of_f32 = node.inputs.iter().chain(&node.outputs).all(|&value| graph.shape(value).dtype() == DType::F32);
    match &node.op {
        Op::Convolution(conv) if of_f32 => {
            let images = ImageAxes::nhwc(2);
            let is_plain = conv.input == images && conv.output == images && conv.batch_groups == 1;
            is_plain.then_some(conv.kernel.output)
        }
        Op::Dot(dot) if of_f32 => {
            let [left, right] = [graph.shape(node.inputs[0]), graph.shape(node.inputs[1])];
            let in_order = dot.left_batch.is_empty() && dot.left_contract == [left.rank().max(1) - 1];
            match dot.right_contract[..] {
                [axis] if in_order && right.rank() == 2 && left.rank() > 1 => Some(1 - axis),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `Σ (q − z)·w` in integers, as f32.
fn body(op: &Op, [input, weights]: [&Shape; 2], zero: u8) -> Option<Graph> {
    let trace = Trace::new();
    let (x, w) = (trace.input("x", input.clone()), trace.input("w", weights.clone()));
    let wide = x.convert(DType::I32);
    let (x, w) = (&wide - &wide.full_like(f64::from(zero)), w.convert(DType::I32));
    let sums = match op.clone() {
        Op::Convolution(conv) => x.convolution(&w, octant_graph::Convolution { dtype: DType::I32, ..conv }),
        Op::Dot(dot) => x.dot_general(&w, octant_graph::DotGeneral { dtype: DType::I32, ..dot }),
        _ => return None,
    };
    trace.finish(&[sums.convert(DType::F32)]).ok()
}

/// The maximum of numbers before they are dequantized, if every window has some.
fn pooled_numbers(
    builder: &mut GraphBuilder,
    graph: &Graph,
    node: &Node,
    new: &dyn Fn(ValueId) -> ValueId,
) -> Option<ValueId> {
    let Op::ReduceWindow { kind: Reduction::Max, window } = &node.op else { return None };
    let (call, axis) = dequantized(graph, node.inputs[0])?;
    let scale = constant(graph, call.inputs[1])?;
    let is_u8 = graph.shape(call.inputs[0]).dtype() == DType::U8;
    if axis.is_some() || scale <= 0.0 || !is_u8 || !never_empty(window) {
        return None;
    }
    let mut push = |op, inputs| builder.push(op, inputs, node.path.clone()).ok()?.first().copied();
    let pooled = push(node.op.clone(), vec![new(call.inputs[0])])?;
    let Op::Call { kernel, .. } = &call.op else { return None };
    let trace = Trace::new();
    let stored = trace.input("x", Shape::new(DType::U8, graph.shape(node.outputs[0]).dims().to_vec()));
    let others = [1, 2].map(|input| trace.input("", graph.shape(call.inputs[input]).clone()));
    let body = trace.finish(&[stored.dequantize(&others[0], &others[1], None)]).ok()?;
    let body = octant_graph::passes::apply(octant_graph::passes::inline_calls, &body);
    let call_again = Op::Call { body: Arc::new(body), recompute: false, kernel: kernel.clone() };
    push(call_again, vec![pooled, new(call.inputs[1]), new(call.inputs[2])])
}

/// Whether every window has an element that is no padding.
fn never_empty(window: &Window) -> bool {
    let plain = window.base_dilation.iter().chain(&window.window_dilation).all(|&factor| factor == 1);
    let reaches = |(&(low, high), &size): (&(i64, i64), &usize)| low < size as i64 && high < size as i64;
    plain && window.padding.iter().zip(&window.size).all(reaches)
}
