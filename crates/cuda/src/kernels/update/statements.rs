//! Bodies that treat every element alike as statements in C, for kernels that are compiled with them.

use crate::c::{c_type, expression, literal, uniform};
use octant_graph::{DType, Graph, Node, Op, Shape, ValueId};
use std::fmt::Write;

/// What a body does to element `i` of `arrays`, which may depend on `scalars`; the results are written over the first arrays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Statements {
    pub text: String,
    /// Which inputs are arrays of the results' shape, and which are scalars.
    pub arrays: Vec<usize>,
    pub scalars: Vec<usize>,
    pub results: usize,
}

impl Statements {
    /// None if the body does anything else, or anything that is not known here.
    pub fn of(body: &Graph) -> Option<Statements> {
        let shape = body.shape(*body.outputs().first()?);
        let are_alike = body.outputs().iter().all(|&output| body.shape(output) == shape);
        if !are_alike || shape.dtype() != DType::F32 || shape.rank() == 0 {
            return None;
        }
        let mut writer = Writer { body, shape, names: vec![None; body.values().len()], text: String::new() };
        let inputs = body.inputs();
        let (arrays, scalars): (Vec<usize>, Vec<usize>) =
            (0..inputs.len()).partition(|&index| body.shape(inputs[index]) == shape);
        for (slot, &index) in arrays.iter().enumerate() {
            writer.define(inputs[index], format!("arrays[{slot}][i]"))?;
        }
        for (slot, &index) in scalars.iter().enumerate() {
            let c_type = c_type(body.shape(inputs[index]).dtype())?;
            writer.define(inputs[index], format!("*(const {c_type} *)scalars[{slot}]"))?;
        }
        for node in body.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
            writer.node(node)?;
        }
        let results = body.outputs().len();
        for (slot, output) in body.outputs().iter().enumerate() {
            let name = writer.names[output.index()].clone()?;
            write!(writer.text, "arrays[{slot}][i] = {name}; ").ok()?;
        }
        let text = writer.text.trim_end().to_string();
        (results <= arrays.len()).then_some(Statements { text, arrays, scalars, results })
    }
}

struct Writer<'b> {
    body: &'b Graph,
    /// Of the arrays; everything else is a scalar.
    shape: &'b Shape,
    /// Of the variables that hold the values' elements.
    names: Vec<Option<String>>,
    text: String,
}

impl Writer<'_> {
    fn define(&mut self, value: ValueId, expression: String) -> Option<()> {
        let shape = self.body.shape(value);
        let (name, c_type) = (format!("v{}", value.index()), c_type(shape.dtype())?);
        let is_known = shape.dims() == self.shape.dims() || shape.rank() == 0;
        write!(self.text, "const {c_type} {name} = {expression}; ").ok()?;
        self.names[value.index()] = is_known.then_some(name);
        is_known.then_some(())
    }

    fn node(&mut self, node: &Node) -> Option<()> {
        let &[output] = &node.outputs[..] else { return None };
        let operands: Option<Vec<String>> = node.inputs.iter().map(|input| self.names[input.index()].clone()).collect();
        let operands = operands?;
        // Every element of a broadcast scalar is that scalar.
        if let Op::Broadcast { .. } = node.op {
            self.names[output.index()] = operands.into_iter().next();
            return (self.body.shape(output).dims() == self.shape.dims()).then_some(());
        }
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        let text = match &node.op {
            Op::Constant(tensor) => literal(uniform(tensor)?, tensor.dtype())?,
            op => expression(op, &operands, self.body.shape(*node.inputs.first()?).dtype())?,
        };
        self.define(output, text)
    }
}

#[cfg(test)]
#[path = "statements_tests.rs"]
mod tests;
