//! Networks in half precision.

use crate::ExportError;
use octant_graph::{DType, Graph, GraphBuilder, HostTensor, KernelHint, LayerNormKernel, Op, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// A graph with f16 wherever it has bf16: which layers may compute in 16 bits is decided by the model code, and other
/// runtimes have kernels for f16. It comes before weights are folded, so that they are rounded to f16 at once.
pub(crate) fn retyped(graph: &Graph) -> Result<Graph, ExportError> {
    let mut builder = GraphBuilder::new();
    let mut values: HashMap<ValueId, ValueId> = HashMap::new();
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        let shape = graph.shape(input);
        values.insert(input, builder.input(name, shape.with_dtype(replaced(shape.dtype()))));
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let inputs = node.inputs.iter().map(|input| values[input]).collect();
        let pushed = builder.push(op(&node.op)?, inputs, node.path.clone());
        let outputs = pushed.map_err(|error| ExportError::Refused(format!("in half precision, {error}")))?;
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    let outputs = graph.outputs().iter().map(|output| values[output]).collect();
    Ok(builder.finish(outputs))
}

fn replaced(dtype: DType) -> DType {
    if dtype == DType::BF16 { DType::F16 } else { dtype }
}

fn op(op: &Op) -> Result<Op, ExportError> {
    Ok(match op {
        Op::Convert(dtype) => Op::Convert(replaced(*dtype)),
        Op::Iota { shape, axis } => Op::Iota { shape: shape.with_dtype(replaced(shape.dtype())), axis: *axis },
        Op::Constant(tensor) if tensor.dtype() == DType::BF16 => {
            let made = HostTensor::from_f64s(tensor.shape().with_dtype(DType::F16), &tensor.to_f64s());
            Op::Constant(made.map_err(|error| ExportError::Refused(error.to_string()))?)
        }
        Op::Dot(dot) => Op::Dot(octant_graph::DotGeneral { dtype: replaced(dot.dtype), ..dot.clone() }),
        Op::Convolution(conv) => {
            Op::Convolution(octant_graph::Convolution { dtype: replaced(conv.dtype), ..conv.clone() })
        }
        Op::Call { body, recompute, kernel } => {
            let kernel = kernel.as_deref().map(|hint| match LayerNormKernel::decode(&hint.integers) {
                Some(norm) if hint.name == LayerNormKernel::FORWARD => {
                    let norm = LayerNormKernel { dtype: replaced(norm.dtype), ..norm };
                    Arc::new(KernelHint::new(&hint.name, norm.encode()))
                }
                _ => Arc::new(hint.clone()),
            });
            Op::Call { body: Arc::new(retyped(body)?), recompute: *recompute, kernel }
        }
        other => other.clone(),
    })
}

/// Refuses weights that are infinite in f16, and scalars that become 0: what is divided by them would be infinite.
pub(crate) fn require_range(builder: &GraphBuilder, from: ValueId, to: &HostTensor) -> Result<(), ExportError> {
    let producer = builder.graph().producer(from);
    let Op::Constant(before) = &producer.op else { return Ok(()) };
    let (numbers, rounded) = (before.to_f64s(), to.to_f64s());
    let path = &producer.path;
    if numbers.iter().zip(&rounded).any(|(number, rounded)| number.is_finite() && rounded.is_infinite()) {
        let text = format!("{path} has numbers above 65504, the largest of f16; export in f32 instead");
        return Err(ExportError::Refused(text));
    }
    match (&numbers[..], &rounded[..]) {
        (&[number], &[0.0]) if number != 0.0 => {
            Err(ExportError::Refused(format!("{number:e} in {path} is 0 in f16; export in f32 instead")))
        }
        _ => Ok(()),
    }
}
