//! Backward rules of operations with bodies.

use super::{Graph, Op, Tensor};
use crate::gradient::body::{Joint, Kept, Split, shapes_of};
use crate::gradient::step::{Gradients, Step, dependants};
use crate::{DType, KernelHint, Shape, Trace};
use std::sync::Arc;

pub(crate) fn barrier(step: &Step) -> Gradients {
    step.cotangents.clone()
}

fn connected(step: &Step) -> Vec<bool> {
    step.cotangents.iter().map(Option::is_some).collect()
}

fn cotangents(step: &Step) -> Vec<Tensor> {
    step.cotangents.iter().flatten().cloned().collect()
}

/// Gradients in the order of the operands from `first` on.
fn placed(step: &Step, first: usize, operands: &[usize], gradients: Vec<Tensor>) -> Gradients {
    let mut all = step.nothing();
    for (operand, gradient) in operands.iter().zip(gradients) {
        all[first + operand] = Some(gradient);
    }
    all
}

pub(crate) fn call(body: &Graph, recompute: bool, kernel: Option<&KernelHint>, step: &Step) -> Gradients {
    let trace = step.trace();
    if let Some(backward) = kernel.and_then(|kernel| kernel.gradient.clone()) {
        let zeros = |(i, cotangent): (usize, &Option<Tensor>)| {
            cotangent.clone().unwrap_or_else(|| step.outputs[i].zeros_like())
        };
        let cotangents: Vec<Tensor> = step.cotangents.iter().enumerate().map(zeros).collect();
        let arguments = [&step.inputs[..], &step.outputs[..], &cotangents[..]].concat();
        let op = Op::Call { body: backward, recompute: false, kernel: None };
        let gradients = trace.emit(op, &arguments.iter().collect::<Vec<_>>());
        return gradients.into_iter().zip(&step.wanted).map(|(gradient, &wanted)| wanted.then_some(gradient)).collect();
    }
    let joint = Joint::trace(trace, body, &step.wanted, &connected(step));
    if !joint.is_valid() {
        return step.mistake("");
    }
    let (backward, arguments) = match recompute {
        true => {
            let (used, backward) = joint.recomputing();
            let inputs: Vec<Tensor> = used.iter().map(|&input| step.inputs[input].clone()).collect();
            // Without the barrier the values computed again would be recognized as those of the forward pass and kept.
            (backward, trace.barrier(&[inputs, cotangents(step)].concat()))
        }
        false => {
            let Split { forward, backward, kept } = joint.split();
            let made = replace(step, Op::Call { body: Arc::new(forward), recompute: false, kernel: None });
            (backward, [kept_values(&step.inputs, &made, &kept), cotangents(step)].concat())
        }
    };
    let op = Op::Call { body: Arc::new(backward), recompute, kernel: None };
    let gradients = trace.emit(op, &arguments.iter().collect::<Vec<_>>());
    placed(step, 0, &joint.with_gradient, gradients)
}

/// Replaces the node; returns all of its results.
fn replace(step: &Step, op: Op) -> Vec<Tensor> {
    let added = step.replace(op);
    step.outputs.iter().cloned().chain(added).collect()
}

fn kept_values(inputs: &[Tensor], results: &[Tensor], kept: &[Kept]) -> Vec<Tensor> {
    let find = |kept: &Kept| match *kept {
        Kept::Input(index) => inputs[index].clone(),
        Kept::Result(index) => results[index].clone(),
    };
    kept.iter().map(find).collect()
}

/// The forward branches return what either backward branch needs, zeros standing in for the values of the branch that
/// was not taken; the backward pass branches on the same condition.
pub(crate) fn branch(then: &Graph, otherwise: &Graph, step: &Step) -> Gradients {
    let (trace, condition, arguments) = (step.trace(), &step.inputs[0], &step.inputs[1..]);
    let joints = [then, otherwise].map(|body| Joint::trace(trace, body, &step.wanted[1..], &connected(step)));
    if joints.iter().any(|joint| !joint.is_valid()) {
        return step.mistake("");
    }
    let mut splits = [joints[0].split(), joints[1].split()];
    let [then, otherwise] = forward_branches(step, &mut splits);
    let made = replace(step, Op::If { then, otherwise });

    let kept = splits.each_ref().map(|split| kept_values(arguments, &made, &split.kept));
    let (first, second) = (kept[0].len(), kept[0].len() + kept[1].len());
    let passed = [&kept[0][..], &kept[1], &cotangents(step)].concat();
    let with_gradient: Vec<usize> =
        (0..arguments.len()).filter(|input| joints.iter().any(|joint| joint.with_gradient.contains(input))).collect();
    let backward = |taken: usize| {
        let own = if taken == 0 { 0..first } else { first..second };
        let make = |child: &Trace, passed: &[Tensor]| {
            let gradients = child.replay(&splits[taken].backward, &[&passed[own], &passed[second..]].concat());
            with_zeros(child, &with_gradient, &joints[taken].with_gradient, gradients, &shapes_of(arguments))
        };
        trace.body(&shapes_of(&passed), make).0
    };
    let inputs: Vec<&Tensor> = std::iter::once(condition).chain(&passed).collect();
    let gradients = trace.emit(Op::If { then: backward(0), otherwise: backward(1) }, &inputs);
    placed(step, 1, &with_gradient, gradients)
}

/// Both forward branches with the same results: the outputs, what the first branch keeps, what the second one keeps.
fn forward_branches(step: &Step, splits: &mut [Split; 2]) -> [Arc<Graph>; 2] {
    let outputs = step.outputs.len();
    let extra = splits.each_ref().map(|split| split.forward.output_shapes().split_off(outputs));
    let branches = [0, 1].map(|taken: usize| {
        let make = |child: &Trace, arguments: &[Tensor]| {
            let mut results = child.replay(&splits[taken].forward, arguments);
            let own = results.split_off(outputs);
            let zeros: Vec<Tensor> = extra[1 - taken].iter().map(|shape| child.full(shape, 0.0)).collect();
            results.extend(if taken == 0 { [own, zeros].concat() } else { [zeros, own].concat() });
            results
        };
        step.trace().body(&shapes_of(&step.inputs[1..]), make).0
    });
    for kept in &mut splits[1].kept {
        match kept {
            Kept::Result(index) if *index >= outputs => *index += extra[0].len(),
            Kept::Result(_) | Kept::Input(_) => {}
        }
    }
    branches
}

/// Gradients for all of `wanted`, zeros for those that are not `found`.
fn with_zeros(
    trace: &Trace,
    wanted: &[usize],
    found: &[usize],
    gradients: Vec<Tensor>,
    shapes: &[Shape],
) -> Vec<Tensor> {
    let one = |input: &usize| match found.iter().position(|known| known == input) {
        Some(position) => gradients[position].clone(),
        None => trace.full(&shapes[*input], 0.0),
    };
    wanted.iter().map(one).collect()
}

/// The forward loop also counts its rounds and stacks the values each round started with; the backward loop takes them
/// from the stack, last round first, and computes each round once more to find its gradients.
pub(crate) fn while_loop(condition: &Graph, body: &Graph, bound: Option<usize>, step: &Step) -> Gradients {
    let Some(bound) = bound else {
        return step.mistake("while: a loop has a gradient only when it was given a bound on its rounds");
    };
    let (trace, bound) = (step.trace(), bound.max(1));
    let active = active_values(body, step);
    let joint = Joint::trace(trace, body, &active, &active);
    if !joint.is_valid() {
        return step.mistake("");
    }
    let (used, backward) = joint.recomputing();
    let changes = |value: &usize| body.outputs()[*value] != body.inputs()[*value];
    let stacked: Vec<usize> = used.iter().copied().filter(changes).collect();
    let forward = stacking_loop(trace, condition, body, bound, &stacked);
    let added = step.replace(Op::Call { body: forward, recompute: false, kernel: None });
    let Some((rounds, stacks)) = added.split_first() else { return step.mistake("") };

    let active: Vec<usize> = (0..active.len()).filter(|&value| active[value]).collect();
    let last =
        active.iter().map(|&value| step.cotangents[value].clone().unwrap_or_else(|| step.inputs[value].zeros_like()));
    let carried: Vec<Tensor> = std::iter::once(rounds.clone()).chain(last).collect();
    let shapes = body.input_shapes();
    let first = trace.while_loop(
        &carried,
        Some(bound),
        |carried| carried[0].greater(&carried[0].scalar_like(0.0)),
        |carried| {
            let round = &carried[0] - 1.0;
            let value = |value: &usize| match stacked.iter().position(|known| known == value) {
                Some(position) => pick(&stacks[position], &round),
                None => step.inputs[*value].clone(),
            };
            let inputs: Vec<Tensor> = used.iter().map(value).chain(carried[1..].iter().cloned()).collect();
            let gradients = round.trace().replay(&backward, &inputs);
            let gradients = with_zeros(round.trace(), &active, &joint.with_gradient, gradients, &shapes);
            std::iter::once(round).chain(gradients).collect()
        },
    );
    placed(step, 0, &active, first.into_iter().skip(1).collect())
}

/// The carried values that can receive a gradient: they depend on what gradients are wanted for, and something with a
/// cotangent depends on them, be it rounds later.
fn active_values(body: &Graph, step: &Step) -> Vec<bool> {
    let count = step.inputs.len();
    // reaches[i][o]: whether output o of one round depends on input i.
    let reaches: Vec<Vec<bool>> = body
        .inputs()
        .iter()
        .map(|&input| {
            let depends = dependants(body, &[input]);
            body.outputs().iter().map(|output| depends[output.index()]).collect()
        })
        .collect();
    let mut sources = step.wanted.clone();
    let mut sinks = connected(step);
    for _ in 0..count {
        for (i, o) in (0..count).flat_map(|i| (0..count).map(move |o| (i, o))).filter(|&(i, o)| reaches[i][o]) {
            sources[o] |= sources[i];
            sinks[i] |= sinks[o];
        }
    }
    (0..count).map(|value| sources[value] && sinks[value] && step.inputs[value].dtype().is_float()).collect()
}

/// The loop with a counter and stacks, as a function of its own carried values: → carried values, rounds, stacks.
fn stacking_loop(trace: &Trace, condition: &Graph, body: &Graph, bound: usize, stacked: &[usize]) -> Arc<Graph> {
    let shapes = body.input_shapes();
    let count = shapes.len();
    let (graph, _) = trace.body(&shapes, |child, inputs| {
        let counter = child.scalar(DType::I32, 0.0);
        let stack =
            |value: &usize| child.full(&shapes[*value].with_dims([&[bound], shapes[*value].dims()].concat()), 0.0);
        let stacks: Vec<Tensor> = stacked.iter().map(stack).collect();
        let carried = [&[counter], inputs, &stacks].concat();
        let mut results = child.while_loop(
            &carried,
            Some(bound),
            |carried| carried[0].trace().replay(condition, &carried[1..=count]).swap_remove(0),
            |carried| {
                let (round, own, stacks) = (&carried[0], &carried[1..=count], &carried[count + 1..]);
                let grown = stacked.iter().zip(stacks).map(|(&value, stack)| put(stack, &own[value], round));
                let next = round.trace().replay(body, own);
                std::iter::once(round + 1.0).chain(next).chain(grown).collect()
            },
        );
        let counter = results.remove(0);
        results.insert(count, counter);
        results
    });
    graph
}

fn starts(stack: &Tensor, round: &Tensor) -> Vec<Tensor> {
    std::iter::once(round.clone()).chain(vec![round.scalar_like(0.0); stack.rank() - 1]).collect()
}

/// The entry of a stack at a round.
fn pick(stack: &Tensor, round: &Tensor) -> Tensor {
    let dims = &stack.dims()[1..];
    stack.dynamic_slice(&starts(stack, round), &[&[1], dims].concat()).reshape(dims)
}

/// A stack with the entry of a round written.
fn put(stack: &Tensor, value: &Tensor, round: &Tensor) -> Tensor {
    let entry = value.reshape(&[&[1], value.dims()].concat());
    stack.dynamic_update_slice(&entry, &starts(stack, round))
}
