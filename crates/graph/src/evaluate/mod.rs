//! The reference evaluator: what every graph means, computed slowly and plainly.
//!
//! It is the yardstick of the conformance suite, so it prefers being obviously right to being fast. Floats are computed
//! in double precision and rounded to their type after every operation; sums are kept in double precision and rounded
//! once. Integers are computed in 128 bits and wrapped to their width. Operations that only move elements copy bytes,
//! so that they are exact to the last bit.
//!
//! Start reading at [`evaluate`]; the meaning of each primitive is in the file of its kind.

mod contract;
mod elementwise;
mod index;
mod movement;
mod numbers;
mod positions;
mod reduce;
mod window;

#[cfg(test)]
mod tests;

use crate::{Graph, HostTensor, Node, Op, Shape, ValueId};

/// A graph could not be evaluated on what was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// Another number of inputs.
    #[error("the graph takes {expected} inputs, it was given {given}")]
    InputCount {
        /// How many it takes.
        expected: usize,
        /// How many came.
        given: usize,
    },
    /// An input of another shape.
    #[error("input {index} ({name}) should be {expected}, it is {given}")]
    Input {
        /// Which input.
        index: usize,
        /// Its name.
        name: String,
        /// The shape the graph was traced with.
        expected: Shape,
        /// The shape that came.
        given: Shape,
    },
    /// A loop ran longer than its tracing code promised.
    #[error("a loop promised to end after at most {bound} rounds and did not; give it a greater bound")]
    Bound {
        /// The promise.
        bound: usize,
    },
}

/// Computes the outputs of a graph from its inputs.
pub fn evaluate(graph: &Graph, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, EvaluateError> {
    check_inputs(graph, inputs)?;
    let inputs: Vec<&HostTensor> = inputs.iter().collect();
    run(graph, &inputs)
}

fn check_inputs(graph: &Graph, inputs: &[HostTensor]) -> Result<(), EvaluateError> {
    if graph.inputs().len() != inputs.len() {
        return Err(EvaluateError::InputCount { expected: graph.inputs().len(), given: inputs.len() });
    }
    for (index, (&value, given)) in graph.inputs().iter().zip(inputs).enumerate() {
        if graph.shape(value) != given.shape() {
            return Err(EvaluateError::Input {
                index,
                name: graph.input_names()[index].to_string(),
                expected: graph.shape(value).clone(),
                given: given.shape().clone(),
            });
        }
    }
    Ok(())
}

fn run(graph: &Graph, inputs: &[&HostTensor]) -> Result<Vec<HostTensor>, EvaluateError> {
    let mut values: Vec<Option<HostTensor>> = vec![None; graph.values().len()];
    let mut uses_left = count_uses(graph);
    for node in graph.nodes() {
        let operands: Vec<HostTensor> = node.inputs.iter().map(|&input| value(&values, input)).collect();
        let results = if let Op::Parameter { index } = node.op {
            vec![inputs[index].clone()]
        } else {
            apply(graph, node, &operands.iter().collect::<Vec<_>>())?
        };
        for (&output, result) in node.outputs.iter().zip(results) {
            debug_assert_eq!(graph.shape(output), result.shape(), "{} disagrees with shape inference", node.op.name());
            values[output.index()] = Some(result);
        }
        for &input in &node.inputs {
            uses_left[input.index()] -= 1;
            if uses_left[input.index()] == 0 {
                values[input.index()] = None;
            }
        }
    }
    Ok(graph.outputs().iter().map(|&output| value(&values, output)).collect())
}

fn value(values: &[Option<HostTensor>], id: ValueId) -> HostTensor {
    values[id.index()].clone().expect("nodes are in topological order and values live until their last use")
}

/// How often each value is read; being an output counts as one more that is never used up.
fn count_uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.values().len()];
    let read = graph.nodes().iter().flat_map(|node| &node.inputs).chain(graph.outputs());
    read.for_each(|value| uses[value.index()] += 1);
    uses
}

fn apply(graph: &Graph, node: &Node, operands: &[&HostTensor]) -> Result<Vec<HostTensor>, EvaluateError> {
    let shape = || graph.shape(node.outputs[0]);
    let result = match &node.op {
        Op::Parameter { .. } => unreachable!("inputs are bound before operations are applied"),
        Op::Constant(tensor) => tensor.clone(),
        Op::Iota { shape, axis } => elementwise::iota(shape, *axis),
        Op::Unary(unary) => elementwise::unary(*unary, operands[0]),
        Op::Binary(binary) => elementwise::binary(*binary, operands[0], operands[1]),
        Op::Compare(comparison) => elementwise::compare(*comparison, operands[0], operands[1]),
        Op::Select => movement::select(operands[0], operands[1], operands[2]),
        Op::Clamp => elementwise::clamp(operands[0], operands[1], operands[2]),
        Op::Convert(dtype) => elementwise::convert(operands[0], *dtype),
        Op::Bitcast(dtype) => movement::bitcast(operands[0], *dtype),
        Op::Broadcast { dims, axes } => movement::broadcast(operands[0], dims, axes),
        Op::Reshape { dims } => movement::reshape(operands[0], dims),
        Op::Transpose { permutation } => movement::transpose(operands[0], permutation, shape()),
        Op::Reverse { axes } => movement::reverse(operands[0], axes),
        Op::Slice { starts, strides, .. } => movement::slice(operands[0], starts, strides, shape()),
        Op::DynamicSlice { sizes } => movement::dynamic_slice(operands[0], &operands[1..], sizes),
        Op::DynamicUpdateSlice => movement::dynamic_update_slice(operands[0], operands[1], &operands[2..]),
        Op::Pad { low, interior, .. } => movement::pad(operands[0], operands[1], low, interior, shape()),
        Op::Concatenate { axis } => movement::concatenate(operands, *axis, shape()),
        Op::Reduce { kind, axes } => reduce::reduce(operands[0], *kind, axes, shape()),
        Op::ArgReduce { largest, axis } => return Ok(reduce::arg_reduce(operands[0], *largest, *axis)),
        Op::ReduceWindow { kind, window } => window::reduce_window(operands[0], *kind, window, shape()),
        Op::SelectAndScatter { window } => window::select_and_scatter(operands[0], operands[1], window),
        Op::Dot(dot) => contract::dot(operands[0], operands[1], dot, shape()),
        Op::Convolution(conv) => contract::convolution(operands[0], operands[1], conv, shape()),
        Op::Gather(gather) => index::gather(operands[0], operands[1], gather, shape()),
        Op::Scatter(scatter) => index::scatter(operands[0], operands[1], operands[2], scatter),
        Op::Sort { axis, descending } => return Ok(reduce::sort(operands, *axis, *descending)),
        Op::While { condition, body, bound } => return run_while(condition, body, *bound, operands),
        Op::If { then, otherwise } => {
            return run(if is_true(operands[0]) { then } else { otherwise }, &operands[1..]);
        }
        Op::Call { body, .. } => return run(body, operands),
        Op::Barrier => return Ok(operands.iter().map(|&operand| operand.clone()).collect()),
        Op::RandomBits { dims } => numbers::random_bits(operands[0], dims),
    };
    Ok(vec![result])
}

fn run_while(
    condition: &Graph,
    body: &Graph,
    bound: Option<usize>,
    operands: &[&HostTensor],
) -> Result<Vec<HostTensor>, EvaluateError> {
    let mut carried: Vec<HostTensor> = operands.iter().map(|&operand| operand.clone()).collect();
    let mut rounds = 0;
    loop {
        let inputs: Vec<&HostTensor> = carried.iter().collect();
        if !is_true(&run(condition, &inputs)?[0]) {
            return Ok(carried);
        }
        match bound {
            Some(bound) if rounds == bound => return Err(EvaluateError::Bound { bound }),
            _ => rounds += 1,
        }
        carried = run(body, &inputs)?;
    }
}

fn is_true(scalar: &HostTensor) -> bool {
    scalar.bytes()[0] != 0
}
