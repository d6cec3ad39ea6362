//! The graph with packed regions: every value is made in the forms that its consumers read.

use super::conv::PackedConv;
use super::roles::{Roles, roles};
use super::{Form, SIDE};
use crate::{Graph, GraphBuilder, HostTensor, Node, Op, Shape, ValueId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The same graph, computed on packed values where `packed` says so.
pub(super) fn build(graph: &Graph, packed: &HashSet<(ValueId, Form)>) -> Result<Graph, String> {
    let (builder, made, path) = (GraphBuilder::new(), HashMap::new(), "".into());
    let mut build = Build { graph, builder, made, path };
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        let made = build.builder.input(name, graph.shape(input).clone());
        build.made.insert((input, None), made);
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        build.path = node.path.clone();
        let alternatives = roles(graph, node)
            .into_iter()
            .filter(|roles| roles.packed(node).iter().any(|value| packed.contains(value)));
        let roles = match node.op {
            Op::Barrier => alternatives.reduce(merged),
            _ => alternatives.into_iter().next(),
        };
        build.node(node, roles)?;
    }
    let outputs = graph.outputs().iter().map(|&output| build.value(output, None)).collect::<Result<_, _>>()?;
    Ok(build.builder.finish(outputs))
}

/// The alternatives of a barrier concern different values; the first counts where they do not.
fn merged(left: Roles, right: Roles) -> Roles {
    let either = |left: Vec<Option<Form>>, right: &[Option<Form>]| {
        left.into_iter().zip(right).map(|(left, right)| left.or(*right)).collect::<Vec<_>>()
    };
    Roles { inputs: either(left.inputs, &right.inputs), outputs: either(left.outputs, &right.outputs) }
}

pub(super) struct Build<'g> {
    pub graph: &'g Graph,
    pub builder: GraphBuilder,
    /// Values of the old graph as they are and in packed form.
    made: HashMap<(ValueId, Option<Form>), ValueId>,
    path: Arc<str>,
}

impl Build<'_> {
    fn node(&mut self, node: &Node, roles: Option<Roles>) -> Result<(), String> {
        let plain = || Roles { inputs: vec![None; node.inputs.len()], outputs: vec![None; node.outputs.len()] };
        let is_packed = roles.is_some();
        let roles = roles.unwrap_or_else(plain);
        let operands = node.inputs.iter().zip(&roles.inputs).map(|(&input, &form)| self.value(input, form));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        let results = match &node.op {
            _ if !is_packed => self.builder.copy(self.graph, node, operands),
            Op::Barrier => self.builder.push(Op::Barrier, operands, self.path.clone())?,
            Op::Convolution(conv) => {
                let packed = PackedConv::of(conv, self.graph, node).ok_or("a convolution without packed form")?;
                let kernel = if packed.is_gradient() { node.outputs[0] } else { node.inputs[1] };
                let shape = self.graph.shape(kernel).clone();
                vec![packed.emit(conv, [operands[0], operands[1]], &shape, self)?]
            }
            _ => vec![self.packed(node, &roles, &operands)?],
        };
        for ((&output, form), result) in node.outputs.iter().zip(roles.outputs).zip(results) {
            self.made.insert((output, form), result);
        }
        Ok(())
    }

    /// A value in a form, converted if it was made in another.
    fn value(&mut self, value: ValueId, form: Option<Form>) -> Result<ValueId, String> {
        if let Some(&made) = self.made.get(&(value, form)) {
            return Ok(made);
        }
        let converted = match form {
            Some(form) => {
                let plain = self.value(value, None)?;
                self.pack(plain, form)?
            }
            None => {
                let (form, packed) = Form::ALL
                    .into_iter()
                    .find_map(|form| Some((form, *self.made.get(&(value, Some(form)))?)))
                    .ok_or("a value that was never made")?;
                self.unpack(packed, self.graph.shape(value).clone(), form)?
            }
        };
        self.made.insert((value, form), converted);
        Ok(converted)
    }

    fn pack(&mut self, value: ValueId, form: Form) -> Result<ValueId, String> {
        let dims = self.builder.shape(value).dims().to_vec();
        let packed = form.packed(&dims).ok_or("a value that cannot be packed")?;
        let (leading, [height, width, channels]) = form.split(&dims).ok_or("a value without pixels")?;
        let split = [leading, &[height / SIDE, SIDE, width / SIDE, SIDE, channels]].concat();
        let split = self.emit(Op::Reshape { dims: split }, &[value])?;
        let moved = self.emit(Op::Transpose { permutation: swapped(leading.len()) }, &[split])?;
        self.emit(Op::Reshape { dims: packed }, &[moved])
    }

    fn unpack(&mut self, value: ValueId, shape: Shape, form: Form) -> Result<ValueId, String> {
        let (leading, [height, width, channels]) = form.split(shape.dims()).ok_or("a value without pixels")?;
        let split = [leading, &[height / SIDE, width / SIDE, SIDE, SIDE, channels]].concat();
        let split = self.emit(Op::Reshape { dims: split }, &[value])?;
        let moved = self.emit(Op::Transpose { permutation: swapped(leading.len()) }, &[split])?;
        self.emit(Op::Reshape { dims: shape.dims().to_vec() }, &[moved])
    }

    pub fn emit(&mut self, op: Op, inputs: &[ValueId]) -> Result<ValueId, String> {
        let results = self.builder.push(op, inputs.to_vec(), self.path.clone())?;
        results.first().copied().ok_or_else(|| "an operation without results".into())
    }

    /// Zeros of a shape.
    pub fn zero(&mut self, shape: &Shape) -> Result<ValueId, String> {
        let zero = HostTensor::from_f64s(Shape::scalar(shape.dtype()), &[0.0]).map_err(|error| error.to_string())?;
        let zero = self.emit(Op::Constant(zero), &[])?;
        if shape.rank() == 0 {
            return Ok(zero);
        }
        self.emit(Op::Broadcast { dims: shape.dims().to_vec(), axes: vec![] }, &[zero])
    }
}

/// Rows inside of blocks and columns of blocks change positions; it is its own inverse.
fn swapped(leading: usize) -> Vec<usize> {
    let order = (0..leading).chain([0, 2, 1, 3, 4].map(|axis| leading + axis));
    order.collect()
}
