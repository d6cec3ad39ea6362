//! Rectified norms that are never written. Where only our calls look at one, they read what it was made from, and stretch,
//! move and rectify that themselves: forward, and for the gradients of their kernels.

use super::{Chosen, Pairs, Task, tensor_core};
use crate::Options;
use crate::function::{Function, Named};
use crate::ops::movement;
use octant_graph::{Binary, Comparison, Graph, Op, Shape, ValueId};
use std::collections::HashMap;

/// The rectified norms of a graph that calls make of what they read.
#[derive(Default)]
pub struct Rectified {
    norms: HashMap<ValueId, Norm>,
}

/// What a rectified value is made from, and how: a number per channel is added, subtracted or multiplied, step by step.
pub struct Norm {
    pub x: ValueId,
    pub steps: Vec<(Binary, ValueId)>,
}

impl Rectified {
    /// All of them, if programs may call our kernels.
    pub fn find(graph: &Graph, options: &Options, pairs: &Pairs) -> Rectified {
        let mut norms = HashMap::new();
        if !options.cuda_kernels {
            return Rectified { norms };
        }
        let mut users: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (index, node) in graph.nodes().iter().enumerate() {
            node.inputs.iter().for_each(|&input| users.entry(input).or_default().push(index));
        }
        let is_called = |value: ValueId, user: usize| {
            let node = &graph.nodes()[user];
            let task = Task::of_node(graph, node);
            let chosen = task.and_then(|task| tensor_core::choose_rectified(&task, options.precision));
            chosen.is_some() && node.inputs[0] == value && node.inputs[1] != value && pairs.of(user).is_none()
        };
        for node in graph.nodes() {
            let Some(norm) = Norm::of(graph, &node.op, &node.inputs) else { continue };
            let value = node.outputs[0];
            let looks = users.get(&value).map_or(&[][..], Vec::as_slice);
            if !graph.outputs().contains(&value) && looks.iter().all(|&user| is_called(value, user)) {
                norms.insert(value, norm);
            }
        }
        Rectified { norms }
    }

    /// How a value is made, if calls make it.
    pub fn of(&self, value: ValueId) -> Option<&Norm> {
        self.norms.get(&value)
    }
}

impl Norm {
    /// The norm of a node that rectifies one: `v <= 0 ? 0 : v`.
    fn of(graph: &Graph, op: &Op, inputs: &[ValueId]) -> Option<Norm> {
        let (Op::Select, &[condition, zero, value]) = (op, inputs) else { return None };
        let condition = graph.producer(condition);
        let below = matches!(condition.op, Op::Compare(Comparison::LessEqual)) && condition.inputs[0] == value;
        if !below || !is_zero(graph, zero) || !is_zero(graph, condition.inputs[1]) {
            return None;
        }
        let (mut x, mut steps) = (value, Vec::new());
        while let (Op::Binary(step), &[left, right]) = (&graph.producer(x).op, &graph.producer(x).inputs[..]) {
            let of_channels = [left, right].map(|operand| channels(graph, operand));
            (x, steps) = match (step, of_channels) {
                (Binary::Add | Binary::Sub | Binary::Mul, [_, Some(operand)]) => {
                    (left, [steps, vec![(*step, operand)]].concat())
                }
                (Binary::Add | Binary::Mul, [Some(operand), None]) => (right, [steps, vec![(*step, operand)]].concat()),
                _ => break,
            };
        }
        steps.reverse();
        (!steps.is_empty()).then_some(Norm { x, steps })
    }

    /// Writes the factor and the offset of every channel, of that shape, from the operands of the steps.
    pub fn factors(&self, f: &mut Function, operands: &[Named], shape: &Shape) -> [Named; 2] {
        let (mut factor, mut offset): (Option<Named>, Option<Named>) = (None, None);
        for ((step, _), operand) in self.steps.iter().zip(operands) {
            let operand = match operand.shape.elements() {
                1 => {
                    let number = f.typed("reshape", &[operand], "", &Shape::scalar(operand.dtype()));
                    movement::broadcast(f, &number, &[], shape)
                }
                _ if operand.shape == *shape => operand.clone(),
                _ => f.typed("reshape", &[operand], "", shape),
            };
            let mut times = |value: Option<Named>| value.map(|value| f.same("multiply", &[&value, &operand]));
            (factor, offset) = match step {
                Binary::Mul => (times(factor).or(Some(operand.clone())), times(offset)),
                Binary::Sub => (
                    factor,
                    Some(match offset {
                        Some(offset) => f.same("subtract", &[&offset, &operand]),
                        None => f.same("negate", &[&operand]),
                    }),
                ),
                _ => (
                    factor,
                    Some(match offset {
                        Some(offset) => f.same("add", &[&offset, &operand]),
                        None => operand,
                    }),
                ),
            };
        }
        [factor.unwrap_or_else(|| f.full(shape, 1.0)), offset.unwrap_or_else(|| f.full(shape, 0.0))]
    }
}

/// Writes the call of a convolution node, or of a kernel's gradient, that rectifies its input.
pub fn call(f: &mut Function, graph: &Graph, node: usize, operands: [&Named; 4]) -> Vec<Named> {
    let node = &graph.nodes()[node];
    let task = Task::of_node(graph, node).expect("its user is a convolution");
    let chosen = tensor_core::choose_rectified(&task, f.module.options.precision).expect("it has a call");
    let name = if task.is_gradient { "octant.convolution_gradient_rectified" } else { "octant.convolution_rectified" };
    task.write(f, &operands, &Chosen { name, ..chosen }, &[graph.shape(node.outputs[0])])
}

/// The value of which a broadcast value holds a number for every channel, or one for all of them.
fn channels(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let node = graph.producer(value);
    let Op::Broadcast { axes, .. } = &node.op else { return None };
    let (source, shape) = (graph.shape(node.inputs[0]), graph.shape(value));
    let last = shape.dims().last().copied()?;
    let along = axes.last() == Some(&(shape.rank() - 1)) && source.dims().last() == Some(&last);
    (source.elements() == 1 || along && source.elements() == last).then_some(node.inputs[0])
}

fn is_zero(graph: &Graph, value: ValueId) -> bool {
    let node = graph.producer(value);
    match &node.op {
        Op::Constant(tensor) => tensor.to_f64s().iter().all(|&value| value == 0.0),
        Op::Broadcast { .. } => is_zero(graph, node.inputs[0]),
        _ => false,
    }
}
