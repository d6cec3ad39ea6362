//! The operations, one file per kind.

mod contract;
mod custom_call;
mod elementwise;
mod index;
mod movement;
mod random;
mod reduce;
mod window;

use crate::function::Function;
use crate::operation::{Kind, Region, Value, shapes};
use octant_graph::{Graph, Node, Op, Shape, ValueId};

/// Writes one node of a graph; returns the names of its results.
pub fn lower_node(f: &mut Function, graph: &Graph, node: &Node, operands: &[Value], shapes: &[&Shape]) -> Vec<Value> {
    let refs: Vec<&Value> = operands.iter().collect();
    let (x, shape) = (refs.as_slice(), shapes.first().copied());
    let Some(shape) = shape else { return Vec::new() };
    let result = match &node.op {
        Op::Parameter { .. } => unreachable!("inputs are named before the nodes are written"),
        Op::Constant(tensor) => f.constant(tensor),
        Op::Iota { shape, axis } => movement::iota(f, shape, *axis),
        Op::Unary(unary) => elementwise::unary(f, *unary, x[0]),
        Op::Binary(binary) => f.same(elementwise::binary_name(*binary), x),
        Op::Compare(comparison) => f.compare(elementwise::comparison_name(*comparison), x[0], x[1]),
        Op::Select => f.select(x[0], x[1], x[2]),
        Op::Clamp => elementwise::clamp(f, x[0], x[1], x[2]),
        Op::Convert(dtype) => elementwise::convert(f, x[0], *dtype),
        Op::Bitcast(_) => elementwise::bitcast(f, x[0], shape),
        Op::Broadcast { axes, .. } => movement::broadcast(f, x[0], axes, shape),
        Op::Reshape { .. } => f.typed("reshape", x, shape),
        Op::Transpose { permutation } => movement::transpose(f, x[0], permutation, shape),
        Op::Reverse { axes } => movement::reverse(f, x[0], axes),
        Op::Slice { starts, limits, strides } => movement::slice(f, x[0], [starts.as_slice(), limits, strides], shape),
        Op::DynamicSlice { sizes } => movement::dynamic_slice(f, x, sizes, shape),
        Op::DynamicUpdateSlice => f.typed("dynamic_update_slice", x, shape),
        Op::Pad { low, high, interior } => movement::pad(f, x, low, high, interior, shape),
        Op::Concatenate { axis } => f.op(Kind::Concatenate { axis: *axis }, x, shape),
        Op::Reduce { kind, axes } => reduce::reduce(f, x[0], *kind, axes, shape),
        Op::ArgReduce { largest, axis } => return reduce::arg_reduce(f, x[0], *largest, *axis, shapes),
        Op::ReduceWindow { kind, window } => window::reduce_window(f, x[0], *kind, window, shape),
        Op::SelectAndScatter { window } => window::select_and_scatter(f, x[0], x[1], window),
        Op::Dot(dot) => contract::dot(f, x[0], x[1], dot, shape),
        Op::Convolution(conv) => {
            let input = match is_from_integers(graph, node.inputs[0]) {
                true => f.barrier(&operands[..1]).remove(0),
                false => x[0].clone(),
            };
            contract::convolution(f, &input, x[1], conv, shape)
        }
        Op::Gather(gather) => index::gather(f, x[0], x[1], gather, shape),
        Op::Scatter(scatter) => index::scatter(f, x[0], x[1], x[2], scatter),
        Op::Sort { axis, descending } => return reduce::sort(f, operands, *axis, *descending),
        Op::While { condition, body, .. } => return while_loop(f, condition, body, operands),
        Op::If { then, otherwise } => return branch(f, then, otherwise, operands, shapes),
        Op::Call { body, kernel, .. } => {
            let hint = kernel.as_deref();
            return match hint.and_then(|hint| custom_call::known(f, hint, x, shapes)) {
                Some(results) => results,
                None => {
                    let name = f.outlined(&node.path, &body.input_shapes(), |inner, inputs| inner.graph(body, inputs));
                    f.call(name, operands, shapes)
                }
            };
        }
        Op::Barrier => return f.barrier(operands),
        Op::RandomBits { dims } => random::random_bits(f, x[0], dims),
    };
    vec![result]
}

/// Whether a value is pixels as floats, with nothing done to them yet. libtpu merges the conversion of pixels into a convolution,
/// and then cannot write its gradient for boards from v5e on.
fn is_from_integers(graph: &Graph, value: ValueId) -> bool {
    let node = graph.producer(value);
    matches!(node.op, Op::Convert(to) if to.is_float() && !graph.shape(node.inputs[0]).dtype().is_float())
}

impl Function<'_> {
    /// Writes a graph over these values.
    pub fn graph(&mut self, graph: &Graph, inputs: &[Value]) -> Vec<Value> {
        let mut values: Vec<Option<Value>> = vec![None; graph.values().len()];
        for (&id, input) in graph.inputs().iter().zip(inputs) {
            values[id.index()] = Some(input.clone());
        }
        const MADE: &str = "a value is made before it is used";
        let outer = self.set_path(&"".into());
        for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
            let operands: Vec<Value> =
                node.inputs.iter().map(|input| values[input.index()].clone().expect(MADE)).collect();
            let shapes: Vec<&Shape> = node.outputs.iter().map(|&output| graph.shape(output)).collect();
            self.set_path(if node.path.is_empty() { &outer } else { &node.path });
            let results = lower_node(self, graph, node, &operands, &shapes);
            for (output, result) in node.outputs.iter().zip(results) {
                values[output.index()] = Some(result);
            }
        }
        self.set_path(&outer);
        graph.outputs().iter().map(|output| values[output.index()].clone().expect(MADE)).collect()
    }
}

fn while_loop(f: &mut Function, condition: &Graph, body: &Graph, operands: &[Value]) -> Vec<Value> {
    let carried: Vec<Shape> = operands.iter().map(|operand| operand.shape.clone()).collect();
    let regions = [condition, body].map(|graph| f.region(&carried, |f, arguments| f.graph(graph, arguments)));
    f.push(Kind::While, operands, regions.into(), &shapes(operands))
}

fn branch(f: &mut Function, then: &Graph, otherwise: &Graph, operands: &[Value], made: &[&Shape]) -> Vec<Value> {
    let (condition, visible) = operands.split_first().expect("shape inference requires a condition");
    let regions: [Region; 2] = [then, otherwise].map(|graph| f.region(&[], |f, _| f.graph(graph, visible)));
    f.push(Kind::If, std::slice::from_ref(condition), regions.into(), made)
}
