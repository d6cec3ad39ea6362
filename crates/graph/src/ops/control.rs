//! Loops, branches, calls and barriers: operations with bodies of their own.

pub(super) mod gradient;

use crate::{DType, Graph, GraphBuilder, KernelHint, Op, Shape, Tensor, Trace, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

fn check_signature(what: &str, body: &Graph, inputs: &[&Shape], outputs: Option<&[&Shape]>) -> Result<(), String> {
    let differ = |given: &[&Shape], wanted: &[Shape]| {
        given.len() != wanted.len() || given.iter().zip(wanted).any(|(g, w)| **g != *w)
    };
    let taken = body.input_shapes();
    if differ(inputs, &taken) {
        return Err(format!("the {what} takes ({}), it was given ({})", list(&taken), list(inputs)));
    }
    let made = body.output_shapes();
    match outputs {
        Some(outputs) if differ(outputs, &made) => {
            Err(format!("the {what} makes ({}), it should make ({})", list(&made), list(outputs)))
        }
        _ => Ok(()),
    }
}

fn list(shapes: &[impl std::fmt::Display]) -> String {
    shapes.iter().map(|shape| shape.to_string()).collect::<Vec<_>>().join(", ")
}

pub(super) fn infer_while(inputs: &[&Shape], condition: &Graph, body: &Graph) -> Result<Vec<Shape>, String> {
    check_signature("condition", condition, inputs, Some(&[&Shape::scalar(DType::Bool)]))?;
    check_signature("body", body, inputs, Some(inputs))?;
    Ok(body.output_shapes())
}

pub(super) fn infer_if(inputs: &[&Shape], then: &Graph, otherwise: &Graph) -> Result<Vec<Shape>, String> {
    let (condition, arguments) = inputs.split_first().ok_or("takes a condition")?;
    if **condition != Shape::scalar(DType::Bool) {
        return Err(format!("the condition must be bool[], found {condition}"));
    }
    let made = then.output_shapes();
    check_signature("branch taken", then, arguments, None)?;
    check_signature("other branch", otherwise, arguments, Some(&made.iter().collect::<Vec<_>>()))?;
    Ok(made)
}

pub(super) fn infer_call(inputs: &[&Shape], body: &Graph) -> Result<Vec<Shape>, String> {
    check_signature("function", body, inputs, None)?;
    Ok(body.output_shapes())
}

impl Trace {
    /// Runs `body` on the carried values while `condition` of them holds. `bound` promises a largest number of rounds
    /// and makes the loop differentiable.
    pub fn while_loop(
        &self,
        carried: &[Tensor],
        bound: Option<usize>,
        condition: impl FnOnce(&[Tensor]) -> Tensor,
        body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Vec<Tensor> {
        let shapes: Vec<Shape> = carried.iter().map(|value| value.shape().clone()).collect();
        let (condition, condition_captures) = self.body(&shapes, |_, inputs| vec![condition(inputs)]);
        let (body, body_captures) = self.body(&shapes, |_, inputs| body(inputs));
        if self.error().is_some() {
            return carried.iter().map(|value| self.fail("", value.shape().clone())).collect();
        }
        // Both graphs take the carried values, then all captures; the body hands the captures through.
        let inputs: Vec<&Tensor> = carried.iter().chain(&condition_captures).chain(&body_captures).collect();
        let shapes: Vec<Shape> = inputs.iter().map(|input| input.shape().clone()).collect();
        let (first, second) = (carried.len(), carried.len() + condition_captures.len());
        let own_of_condition: Vec<usize> = (0..second).collect();
        let own_of_body: Vec<usize> = (0..first).chain(second..shapes.len()).collect();
        let condition = with_inputs(&condition, &shapes, &own_of_condition, shapes.len());
        let body = with_inputs(&body, &shapes, &own_of_body, first);
        let mut results = self.emit(Op::While { condition, body, bound }, &inputs);
        results.truncate(carried.len());
        results
    }

    /// One of two bodies over values captured from this trace. Both must make values of the same shapes.
    pub fn cond(
        &self,
        condition: &Tensor,
        then: impl FnOnce() -> Vec<Tensor>,
        otherwise: impl FnOnce() -> Vec<Tensor>,
    ) -> Vec<Tensor> {
        let (then, then_captures) = self.body(&[], |_, _| then());
        let (otherwise, otherwise_captures) = self.body(&[], |_, _| otherwise());
        if self.error().is_some() {
            let shapes = then.output_shapes();
            return shapes.into_iter().map(|shape| self.fail("", shape)).collect();
        }
        let arguments: Vec<&Tensor> = then_captures.iter().chain(&otherwise_captures).collect();
        let shapes: Vec<Shape> = arguments.iter().map(|argument| argument.shape().clone()).collect();
        let (own_of_then, own_of_otherwise): (Vec<usize>, Vec<usize>) =
            ((0..then_captures.len()).collect(), (then_captures.len()..shapes.len()).collect());
        let then = with_inputs(&then, &shapes, &own_of_then, shapes.len());
        let otherwise = with_inputs(&otherwise, &shapes, &own_of_otherwise, shapes.len());
        let inputs: Vec<&Tensor> = std::iter::once(condition).chain(arguments).collect();
        self.emit(Op::If { then, otherwise }, &inputs)
    }

    /// Runs `body` as one function of `arguments` and whatever it captures. With `recompute`, its intermediate values
    /// are not kept for the backward pass but computed again.
    pub fn call(
        &self,
        arguments: &[Tensor],
        recompute: bool,
        body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Vec<Tensor> {
        self.call_kernel(arguments, recompute, None, body)
    }

    /// The same with a kernel that backends may run instead of the body.
    pub fn call_kernel(
        &self,
        arguments: &[Tensor],
        recompute: bool,
        kernel: Option<Arc<KernelHint>>,
        body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Vec<Tensor> {
        let shapes: Vec<Shape> = arguments.iter().map(|value| value.shape().clone()).collect();
        let mut guesses = Vec::new();
        let (body, captured) = self.body(&shapes, |_, inputs| {
            let outputs = body(inputs);
            guesses = outputs.iter().map(|output| output.shape().clone()).collect();
            outputs
        });
        if self.error().is_some() {
            return guesses.into_iter().map(|shape| self.fail("", shape)).collect();
        }
        let inputs: Vec<&Tensor> = arguments.iter().chain(&captured).collect();
        self.emit(Op::Call { body, recompute, kernel }, &inputs)
    }

    /// Hands values through and keeps passes from moving computation across.
    pub fn barrier(&self, values: &[Tensor]) -> Vec<Tensor> {
        self.emit(Op::Barrier, &values.iter().collect::<Vec<_>>())
    }
}

/// The same body over a wider list of inputs: its own input `i` is the new input `own[i]`. The new inputs from
/// `handed_through` on are outputs as well.
fn with_inputs(body: &Graph, shapes: &[Shape], own: &[usize], handed_through: usize) -> Arc<Graph> {
    let mut builder = GraphBuilder::new();
    let inputs: Vec<ValueId> =
        shapes.iter().enumerate().map(|(i, shape)| builder.input(&format!("arg{i}"), shape.clone())).collect();
    let mut renamed: HashMap<ValueId, ValueId> =
        body.inputs().iter().zip(own).map(|(&old, &new)| (old, inputs[new])).collect();
    for node in body.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let made = builder.copy(body, node, node.inputs.iter().map(|input| renamed[input]).collect());
        renamed.extend(node.outputs.iter().copied().zip(made));
    }
    let outputs = body.outputs().iter().map(|output| renamed[output]);
    let outputs = outputs.chain(inputs[handed_through..].iter().copied()).collect();
    Arc::new(builder.finish(outputs))
}
