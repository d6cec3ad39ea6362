//! The verifier: whether a graph keeps the promises that its readers rely on.

use crate::{Graph, Node, NodeId, Op, Shape, ValueId, ops};
use std::collections::HashSet;
use std::sync::Arc;

/// A graph breaks one of its invariants. That is a mistake of the code that made it, never of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the graph is not well formed: {message}")]
pub struct VerifyError {
    message: String,
}

/// Checks every invariant of a [`Graph`] and of all bodies inside: parameters stand for the inputs, values are made once
/// and before they are used, and their shapes are those that inference gives.
pub fn verify(graph: &Graph) -> Result<(), VerifyError> {
    Verifier::default().graph(graph).map_err(|message| VerifyError { message })
}

#[derive(Default)]
struct Verifier {
    /// Bodies seen so far; shared ones are checked once.
    seen: HashSet<*const Graph>,
}

impl Verifier {
    fn graph(&mut self, graph: &Graph) -> Result<(), String> {
        check_inputs(graph)?;
        let mut made = vec![false; graph.values().len()];
        for (index, node) in graph.nodes().iter().enumerate() {
            let check = check_operands(node, &made)
                .and_then(|()| check_results(graph, index, node, &mut made))
                .and_then(|()| check_in_place(graph, node))
                .and_then(|()| node.op.bodies().into_iter().try_for_each(|(_, body)| self.body(body)));
            check.map_err(|message| describe(index, node, &message))?;
        }
        if let Some(value) = made.iter().position(|made| !made) {
            return Err(format!("no node makes %{value}"));
        }
        match graph.outputs().iter().find(|output| output.index() >= made.len()) {
            Some(output) => Err(format!("the output %{} is not a value of the graph", output.index())),
            None => Ok(()),
        }
    }

    fn body(&mut self, body: &Arc<Graph>) -> Result<(), String> {
        match self.seen.insert(Arc::as_ptr(body)) {
            true => self.graph(body),
            false => Ok(()),
        }
    }
}

fn describe(index: NodeId, node: &Node, message: &str) -> String {
    let path = if node.path.is_empty() { String::new() } else { format!(" in {}", node.path) };
    format!("node {index} ({}{path}): {message}", node.op.name())
}

fn check_inputs(graph: &Graph) -> Result<(), String> {
    if graph.inputs().len() != graph.input_names().len() {
        return Err(format!("{} inputs have {} names", graph.inputs().len(), graph.input_names().len()));
    }
    for (index, input) in graph.inputs().iter().enumerate() {
        let producer = graph.values().get(input.index()).and_then(|value| graph.nodes().get(value.producer));
        if !matches!(producer, Some(Node { op: Op::Parameter { index: own }, .. }) if *own == index) {
            return Err(format!("input {index} is not made by the parameter of that index"));
        }
    }
    let parameters = graph.nodes().iter().filter(|node| matches!(node.op, Op::Parameter { .. })).count();
    match parameters == graph.inputs().len() {
        true => Ok(()),
        false => Err(format!("{parameters} parameters stand for {} inputs", graph.inputs().len())),
    }
}

fn check_operands(node: &Node, made: &[bool]) -> Result<(), String> {
    match node.inputs.iter().find(|input| !made.get(input.index()).is_some_and(|&made| made)) {
        Some(input) => Err(format!("%{} is used before it is made", input.index())),
        None => Ok(()),
    }
}

fn check_results(graph: &Graph, index: NodeId, node: &Node, made: &mut [bool]) -> Result<(), String> {
    for output in &node.outputs {
        match graph.values().get(output.index()) {
            Some(value) if value.producer == index && !made[output.index()] => made[output.index()] = true,
            Some(value) => return Err(format!("%{} is also made by node {}", output.index(), value.producer)),
            None => return Err(format!("%{} is not a value of the graph", output.index())),
        }
    }
    let shape = |value: &ValueId| graph.shape(*value);
    let found: Vec<&Shape> = node.outputs.iter().map(shape).collect();
    if let Op::Parameter { .. } = node.op {
        return if found.len() == 1 { Ok(()) } else { Err("a parameter is one value".into()) };
    }
    let expected = ops::infer(&node.op, &node.inputs.iter().map(shape).collect::<Vec<_>>())?;
    match expected.iter().eq(found.iter().copied()) {
        true => Ok(()),
        false => Err(format!("makes {}, recorded are {}", listed(&expected), listed(found))),
    }
}

/// What a kernel writes over has the shape of what it writes, and is one of its operands.
fn check_in_place(graph: &Graph, node: &Node) -> Result<(), String> {
    let Op::Call { kernel: Some(kernel), .. } = &node.op else { return Ok(()) };
    let mut taken = HashSet::new();
    for &(output, operand) in &kernel.in_place {
        let shapes = (node.outputs.get(output), node.inputs.get(operand));
        let fits = matches!(shapes, (Some(&output), Some(&operand)) if graph.shape(output) == graph.shape(operand));
        if !fits || !taken.insert(("output", output)) || !taken.insert(("operand", operand)) {
            return Err(format!("output {output} of {} cannot be written over operand {operand}", kernel.name));
        }
    }
    Ok(())
}

fn listed<'a>(shapes: impl IntoIterator<Item = &'a Shape>) -> String {
    let shapes: Vec<String> = shapes.into_iter().map(|shape| shape.to_string()).collect();
    if shapes.is_empty() { "nothing".into() } else { shapes.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::verify;
    use crate::{DType, Graph, Op, Shape, Trace, ValueId};

    fn graph() -> Graph {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [2]));
        let _scope = trace.scope("head");
        let y = trace.call(&[x.exp()], false, |inside| vec![inside[0].tanh()]);
        trace.finish(&y).unwrap()
    }

    /// The verifier's error for a graph after a change.
    fn message_of(spoil: impl FnOnce(&mut Graph)) -> String {
        let mut graph = graph();
        spoil(&mut graph);
        verify(&graph).unwrap_err().to_string()
    }

    #[test]
    fn a_traced_graph_is_well_formed() {
        assert_eq!(verify(&graph()), Ok(()));
    }

    #[test]
    fn broken_promises_are_named() {
        let cases = [
            (message_of(|graph| graph.nodes.swap(1, 2)), "node 1 (call in head): %1 is used before it is made"),
            (message_of(|graph| graph.nodes[2].outputs = vec![ValueId(1)]), "%1 is also made by node 1"),
            (
                message_of(|graph| graph.nodes[1].inputs[0] = ValueId(2)),
                "node 1 (exp in head): %2 is used before it is made",
            ),
            (
                message_of(|graph| graph.values[1].shape = Shape::new(DType::F32, [3])),
                "makes f32[2], recorded are f32[3]",
            ),
            (message_of(|graph| graph.outputs.push(ValueId(9))), "the output %9 is not a value"),
            (message_of(|graph| graph.inputs.push(ValueId(1))), "1 names"),
            (
                message_of(|graph| graph.nodes[0].op = Op::Parameter { index: 1 }),
                "input 0 is not made by the parameter",
            ),
            (message_of(|graph| graph.nodes[1].outputs.clear()), "makes f32[2], recorded are nothing"),
        ];
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found:?} should say {expected:?}");
        }
    }

    #[test]
    fn bodies_are_verified_too() {
        let message = message_of(|graph| {
            let Op::Call { body, .. } = &mut graph.nodes[2].op else { panic!("the third node is the call") };
            let mut spoiled = (**body).clone();
            spoiled.nodes[1].inputs.clear();
            *body = spoiled.into();
        });
        assert!(message.contains("node 2 (call in head): node 1 (tanh in head): takes 1 operands, got 0"), "{message}");
    }
}
