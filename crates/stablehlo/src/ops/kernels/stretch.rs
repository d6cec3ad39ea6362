//! Values that are others with every channel stretched and moved.

use super::super::movement;
use crate::function::{Function, Named};
use octant_graph::{Binary, Graph, Op, Shape, ValueId};

/// What a value is made from, and how: a number per channel is added, subtracted or multiplied, step by step.
#[derive(Debug, Clone)]
pub struct Stretch {
    pub x: ValueId,
    pub steps: Vec<(Binary, ValueId)>,
}

impl Stretch {
    /// Follows a value back through such steps, as far as they are wanted.
    pub fn of(graph: &Graph, value: ValueId, wanted: &[Binary]) -> Stretch {
        let (mut x, mut steps) = (value, Vec::new());
        loop {
            let node = graph.producer(x);
            let (Op::Binary(step), &[left, right]) = (&node.op, &node.inputs[..]) else { break };
            let either_way = matches!(step, Binary::Add | Binary::Mul);
            let operand = match [left, right].map(|operand| channels(graph, operand)) {
                _ if !wanted.contains(step) => break,
                [_, Some(operand)] => (left, operand),
                [Some(operand), None] if either_way => (right, operand),
                _ => break,
            };
            x = operand.0;
            steps.push((*step, operand.1));
        }
        steps.reverse();
        Stretch { x, steps }
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
            (factor, offset) = match (step, offset) {
                (Binary::Mul, offset) => (times(factor).or(Some(operand.clone())), times(offset)),
                (Binary::Sub, Some(offset)) => (factor, Some(f.same("subtract", &[&offset, &operand]))),
                (Binary::Sub, None) => (factor, Some(f.same("negate", &[&operand]))),
                (_, Some(offset)) => (factor, Some(f.same("add", &[&offset, &operand]))),
                (_, None) => (factor, Some(operand)),
            };
        }
        [factor.unwrap_or_else(|| f.full(shape, 1.0)), offset.unwrap_or_else(|| f.full(shape, 0.0))]
    }
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
