//! Values that are others with a scale and a shift per channel.

use octant_graph::{Binary, Graph, Op, Shape, Tensor, ValueId};

/// What a value is made from, and how: a number per channel is added, subtracted or multiplied, step by step.
#[derive(Debug, Clone)]
pub struct ChannelAffine {
    pub x: ValueId,
    pub steps: Vec<(Binary, ValueId)>,
}

impl ChannelAffine {
    /// Follows a value back through such steps of the `wanted` kinds.
    pub fn of(graph: &Graph, value: ValueId, wanted: &[Binary]) -> ChannelAffine {
        let (mut x, mut steps) = (value, Vec::new());
        loop {
            let node = graph.producer(x);
            let (Op::Binary(step), &[left, right]) = (&node.op, &node.inputs[..]) else { break };
            let commutes = matches!(step, Binary::Add | Binary::Mul);
            let operand = match [left, right].map(|operand| channels(graph, operand)) {
                _ if !wanted.contains(step) => break,
                [_, Some(operand)] => (left, operand),
                [Some(operand), None] if commutes => (right, operand),
                [Some(_) | None, None] => break,
            };
            x = operand.0;
            steps.push((*step, operand.1));
        }
        steps.reverse();
        ChannelAffine { x, steps }
    }

    /// The values that the steps read.
    pub fn operands(&self) -> Vec<ValueId> {
        self.steps.iter().map(|&(_, operand)| operand).collect()
    }

    /// The scale and the shift of every channel from the operands of the steps, in vectors of that shape.
    pub fn scale_and_shift(&self, operands: &[Tensor], shape: &Shape) -> [Tensor; 2] {
        let (mut scale, mut shift): (Option<Tensor>, Option<Tensor>) = (None, None);
        for ((step, _), operand) in self.steps.iter().zip(operands) {
            let operand = match operand.shape().elements() {
                1 => operand.reshape(&[]).broadcast_to(shape.dims()),
                _ => operand.reshape(shape.dims()),
            };
            if *step == Binary::Mul {
                shift = shift.map(|shift| shift * &operand);
                scale = Some(scale.map_or_else(|| operand.clone(), |scale| scale * &operand));
            } else {
                shift = Some(match (shift, *step == Binary::Sub) {
                    (Some(shift), true) => shift - &operand,
                    (Some(shift), false) => shift + &operand,
                    (None, true) => -operand,
                    (None, false) => operand,
                });
            }
        }
        let full = |value: f64| operands.first().map(|operand| operand.trace().full(shape, value));
        let missing = "an affine value has steps";
        [scale.or_else(|| full(1.0)).expect(missing), shift.or_else(|| full(0.0)).expect(missing)]
    }
}

/// The value of which a broadcast one holds a number for every channel, or one for all of them.
fn channels(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let node = graph.producer(value);
    let Op::Broadcast { axes, .. } = &node.op else { return None };
    let (source, shape) = (graph.shape(node.inputs[0]), graph.shape(value));
    let last = shape.dims().last().copied()?;
    let along = axes.last() == Some(&(shape.rank() - 1)) && source.dims().last() == Some(&last);
    (source.elements() == 1 || along && source.elements() == last).then_some(node.inputs[0])
}
