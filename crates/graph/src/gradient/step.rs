//! What the backward rule of an operation sees and returns.

use crate::{Graph, NodeId, Op, Tensor, Trace, ValueId};

/// What flows back into each operand; none where nothing does.
pub(crate) type Gradients = Vec<Option<Tensor>>;

/// One node of the forward pass as its backward rule sees it.
pub(crate) struct Step {
    pub(super) trace: Trace,
    pub(super) node: NodeId,
    /// The operands.
    pub inputs: Vec<Tensor>,
    /// The results.
    pub outputs: Vec<Tensor>,
    /// The derivative of the loss with respect to each result; none where the loss does not depend on it.
    pub cotangents: Gradients,
    /// Which operands depend on the values that gradients were requested for.
    pub wanted: Vec<bool>,
}

impl Step {
    /// The cotangent of the only result.
    pub fn cotangent(&self) -> &Tensor {
        self.cotangents[0].as_ref().expect("a node is visited when a cotangent has reached it")
    }

    /// The gradient of one operand, emitted only when it is wanted.
    pub fn want(&self, operand: usize, gradient: impl FnOnce() -> Tensor) -> Option<Tensor> {
        self.wanted[operand].then(gradient)
    }

    /// No operand receives a gradient.
    pub fn nothing(&self) -> Gradients {
        vec![None; self.inputs.len()]
    }

    /// The operation has no gradient, which is a mistake because one was requested.
    pub fn mistake(&self, message: impl Into<String>) -> Gradients {
        let message = message.into();
        let fail = |input: &Tensor| Some(self.trace.fail(message.clone(), input.shape().clone()));
        self.inputs.iter().map(fail).collect()
    }

    /// The body that the node is recorded in.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Replaces the node by one that makes the same results and more; returns the additional ones.
    pub fn replace(&self, op: Op) -> Vec<Tensor> {
        self.trace.replace(self.node, op)
    }
}

/// By value: whether it depends on one of `sources` through floating-point values alone.
pub(crate) fn dependants(graph: &Graph, sources: &[ValueId]) -> Vec<bool> {
    let mut depends = vec![false; graph.values().len()];
    for source in sources {
        depends[source.index()] = true;
    }
    for node in graph.nodes() {
        if node.inputs.iter().any(|input| depends[input.index()]) {
            for output in &node.outputs {
                depends[output.index()] |= graph.shape(*output).dtype().is_float();
            }
        }
    }
    depends
}
