//! Algebraic simplification: rewrites that look at one node and what its operands are made by.

mod arithmetic;
mod movement;

use crate::{Graph, GraphBuilder, Op, OpClass, Shape, ValueId};
use std::sync::Arc;

/// Replaces operations by simpler ones with the same result.
pub fn simplify(graph: &Graph) -> Graph {
    super::rebuild(graph, |builder, node, operands| {
        if let Op::If { then, otherwise } = &node.op
            && let Some(condition) = splat(builder.graph(), operands[0])
        {
            let taken = if condition != 0.0 { then } else { otherwise };
            return super::inline::paste(builder, taken, &operands[1..], &node.path);
        }
        let mut site = Site { builder, path: node.path.clone() };
        let simpler = match node.outputs[..] {
            [output] => site.simplify(&node.op, &operands, graph.shape(output)),
            _ => None,
        };
        match simpler {
            Some(value) => vec![value],
            None => builder.copy(graph, node, operands),
        }
    })
}

/// The context of a rewrite: the graph built so far, to read and to append to.
struct Site<'a> {
    builder: &'a mut GraphBuilder,
    path: Arc<str>,
}

impl Site<'_> {
    /// The value that makes a node with one result superfluous; it has the same shape.
    fn simplify(&mut self, op: &Op, operands: &[ValueId], shape: &Shape) -> Option<ValueId> {
        let simpler = match op {
            Op::Unary(unary) => self.unary(*unary, operands[0]),
            Op::Binary(binary) => self.binary(*binary, operands, shape),
            Op::Select => self.select(operands),
            Op::Convert(_) => self.convert(operands[0], shape),
            Op::Bitcast(_) => self.bitcast(operands[0], shape),
            Op::Broadcast { axes, .. } => self.broadcast(operands[0], axes, shape),
            Op::Reshape { .. } => self.reshape(operands[0], shape),
            Op::Transpose { permutation } => self.transpose(operands[0], permutation, shape),
            Op::Reverse { axes } => self.reverse(operands[0], axes),
            Op::Slice { starts, strides, .. } => self.slice(operands[0], starts, strides, shape),
            Op::DynamicSlice { sizes } => self.dynamic_slice(operands, sizes, shape),
            Op::DynamicUpdateSlice => (self.shape(operands[1]) == shape).then_some(operands[1]),
            Op::Pad { low, high, interior } => self.pad(operands[0], low, high, interior, shape),
            Op::Concatenate { axis } => self.concatenate(operands, *axis),
            Op::Reduce { .. } if self.shape(operands[0]).elements() == shape.elements() => {
                self.reduce_of_one(operands[0], shape)
            }
            // No rule of its own.
            op => match op.class() {
                OpClass::Source | OpClass::Elementwise | OpClass::View | OpClass::Join | OpClass::Reduction => None,
                OpClass::Whole | OpClass::Control | OpClass::Barrier => None,
            },
        };
        simpler.or_else(|| self.before_moving(op, operands, shape))
    }

    fn graph(&self) -> &Graph {
        self.builder.graph()
    }

    fn shape(&self, value: ValueId) -> &Shape {
        self.builder.shape(value)
    }

    /// What makes a value, with its operands.
    fn producer(&self, value: ValueId) -> (&Op, &[ValueId]) {
        let node = self.graph().producer(value);
        (&node.op, &node.inputs)
    }

    /// Appends an operation with one result; none when its operands do not fit, so that the rewrite does not happen.
    fn emit(&mut self, op: Op, operands: &[ValueId]) -> Option<ValueId> {
        let results = self.builder.push(op, operands.to_vec(), self.path.clone()).ok()?;
        results.first().copied()
    }

    /// The number that all elements of a value are equal to.
    fn splat(&self, value: ValueId) -> Option<f64> {
        splat(self.graph(), value)
    }

    /// One number everywhere.
    fn full(&mut self, shape: &Shape, value: f64) -> Option<ValueId> {
        let scalar = crate::HostTensor::from_f64s(Shape::scalar(shape.dtype()), &[value]).ok()?;
        let scalar = self.emit(Op::Constant(scalar), &[])?;
        self.spread(scalar, shape)
    }

    /// A scalar repeated to a shape.
    fn spread(&mut self, scalar: ValueId, shape: &Shape) -> Option<ValueId> {
        match shape.rank() {
            0 => Some(scalar),
            _ => self.emit(Op::Broadcast { dims: shape.dims().to_vec(), axes: vec![] }, &[scalar]),
        }
    }

    /// The scalar that a value repeats.
    fn repeated_scalar(&self, value: ValueId) -> Option<ValueId> {
        let (Op::Broadcast { .. }, [source]) = self.producer(value) else { return None };
        (self.shape(*source).rank() == 0).then_some(*source)
    }
}

/// The number that all elements of a value are equal to, where its making shows that at a glance.
fn splat(graph: &Graph, value: ValueId) -> Option<f64> {
    let node = graph.producer(value);
    if let Op::Broadcast { .. } | Op::Reshape { .. } = node.op {
        return splat(graph, node.inputs[0]);
    }
    let Op::Constant(tensor) = &node.op else { return None };
    if tensor.shape().elements() == 1 { tensor.to_f64s().first().copied() } else { None }
}
