//! Bodies that treat every element alike as statements in C, for kernels that are compiled with them.

#[cfg(test)]
mod tests;

use octant_graph::{Binary, Comparison, DType, Graph, HostTensor, Node, Op, Shape, Unary, ValueId};
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
        for (place, &index) in arrays.iter().enumerate() {
            writer.define(inputs[index], format!("arrays[{place}][i]"))?;
        }
        for (place, &index) in scalars.iter().enumerate() {
            let c_type = c_type(body.shape(inputs[index]).dtype())?;
            writer.define(inputs[index], format!("*(const {c_type} *)scalars[{place}]"))?;
        }
        for node in body.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
            writer.node(node)?;
        }
        let results = body.outputs().len();
        for (place, output) in body.outputs().iter().enumerate() {
            let name = writer.names[output.index()].clone()?;
            write!(writer.text, "arrays[{place}][i] = {name}; ").ok()?;
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
        // An element of something repeated is that thing.
        if let Op::Broadcast { .. } = node.op {
            self.names[output.index()] = operands.into_iter().next();
            return (self.body.shape(output).dims() == self.shape.dims()).then_some(());
        }
        let taken = node.inputs.first().map(|&input| self.body.shape(input).dtype());
        let expression = match (&node.op, &operands[..]) {
            (Op::Constant(tensor), []) => literal(tensor)?,
            (Op::Unary(op), [x]) => unary(*op, x, taken?)?,
            (Op::Binary(op), [x, y]) => binary(*op, x, y, taken?)?,
            (Op::Compare(comparison), [x, y]) => format!("{x} {} {y}", sign(*comparison)),
            (Op::Select, [condition, yes, no]) => format!("{condition} ? {yes} : {no}"),
            (Op::Convert(DType::F32), [x]) => format!("(float){x}"),
            _ => return None,
        };
        self.define(output, expression)
    }
}

fn c_type(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F32 => Some("float"),
        DType::Bool => Some("bool"),
        _ => None,
    }
}

/// A constant that has the same element everywhere.
fn literal(tensor: &HostTensor) -> Option<String> {
    let elements = tensor.to_f64s();
    let &first = elements.first()?;
    let is_uniform = tensor.shape().dtype() == DType::F32 && elements.iter().all(|element| *element == first);
    (is_uniform && first.is_finite()).then(|| format!("{:e}f", first as f32))
}

fn unary(unary: Unary, x: &str, dtype: DType) -> Option<String> {
    let function = match unary {
        Unary::Not if dtype == DType::Bool => return Some(format!("!{x}")),
        _ if dtype != DType::F32 => return None,
        Unary::Neg => return Some(format!("-{x}")),
        Unary::Rsqrt => return Some(format!("1.0f / sqrtf({x})")),
        Unary::Sign => return Some(format!("{x} > 0.0f ? 1.0f : {x} < 0.0f ? -1.0f : {x}")),
        Unary::Abs => "fabsf",
        Unary::Sqrt => "sqrtf",
        Unary::Exp => "expf",
        Unary::Expm1 => "expm1f",
        Unary::Log => "logf",
        Unary::Log1p => "log1pf",
        Unary::Floor => "floorf",
        _ => return None,
    };
    Some(format!("{function}({x})"))
}

fn binary(binary: Binary, x: &str, y: &str, dtype: DType) -> Option<String> {
    let sign = match (binary, dtype) {
        (Binary::And, DType::Bool) => "&&",
        (Binary::Or, DType::Bool) => "||",
        (Binary::Add, DType::F32) => "+",
        (Binary::Sub, DType::F32) => "-",
        (Binary::Mul, DType::F32) => "*",
        (Binary::Div, DType::F32) => "/",
        // NaN if either is.
        (Binary::Max, DType::F32) => return Some(format!("{x} != {x} || {x} > {y} ? {x} : {y}")),
        (Binary::Min, DType::F32) => return Some(format!("{x} != {x} || {x} < {y} ? {x} : {y}")),
        _ => return None,
    };
    Some(format!("{x} {sign} {y}"))
}

fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterEqual => ">=",
    }
}
