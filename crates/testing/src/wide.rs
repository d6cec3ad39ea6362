//! The same program in double precision: what a network means, without what f32 rounds away.

use octant_graph::{DType, Graph, GraphBuilder, HostTensor, Op, Shape, ValueId};
use std::sync::Arc;

/// The graph with every f32 replaced by f64. Constants keep the values that f32 gave them.
pub fn widened(graph: &Graph) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut values: Vec<Option<ValueId>> = vec![None; graph.values().len()];
    let names = graph.input_names();
    for (&input, name) in graph.inputs().iter().zip(names) {
        values[input.index()] = Some(builder.input(name, wide_shape(graph.shape(input))));
    }
    let at = |values: &[Option<ValueId>], id: ValueId| values[id.index()].unwrap();
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let inputs = node.inputs.iter().map(|&input| at(&values, input)).collect();
        let outputs = builder.push(wide_op(&node.op), inputs, node.path.clone()).unwrap();
        for (&before, after) in node.outputs.iter().zip(outputs) {
            values[before.index()] = Some(after);
        }
    }
    let outputs = graph.outputs().iter().map(|&output| at(&values, output)).collect();
    builder.finish(outputs)
}

/// The same numbers in f64.
pub fn wide_tensor(tensor: &HostTensor) -> HostTensor {
    HostTensor::from_f64s(wide_shape(tensor.shape()), &tensor.to_f64s()).unwrap()
}

fn wide_type(dtype: DType) -> DType {
    if dtype == DType::F32 { DType::F64 } else { dtype }
}

fn wide_shape(shape: &Shape) -> Shape {
    shape.with_dtype(wide_type(shape.dtype()))
}

/// Only these primitives name an element type or hold a graph.
fn wide_op(op: &Op) -> Op {
    let body = |graph: &Arc<Graph>| Arc::new(widened(graph));
    match op.clone() {
        Op::Constant(tensor) if tensor.dtype() == DType::F32 => Op::Constant(wide_tensor(&tensor)),
        Op::Iota { shape, axis } => Op::Iota { shape: wide_shape(&shape), axis },
        Op::Convert(dtype) => Op::Convert(wide_type(dtype)),
        // Gradients are stopped by going through the bits and back.
        Op::Bitcast(DType::U32) => Op::Bitcast(DType::U64),
        Op::Bitcast(DType::F32) => Op::Bitcast(DType::F64),
        Op::Dot(mut dot) => {
            dot.dtype = wide_type(dot.dtype);
            Op::Dot(dot)
        }
        Op::Convolution(mut convolution) => {
            convolution.dtype = wide_type(convolution.dtype);
            Op::Convolution(convolution)
        }
        Op::While { condition, body: round, bound } => {
            Op::While { condition: body(&condition), body: body(&round), bound }
        }
        Op::If { then, otherwise } => Op::If { then: body(&then), otherwise: body(&otherwise) },
        // Kernels are chosen for an element type.
        Op::Call { body: called, recompute, .. } => Op::Call { body: body(&called), recompute, kernel: None },
        other => other,
    }
}
