//! What a step does after its updates: moving averages, and sums for the metrics.

use super::StepPlan;
use super::layout::{Layout, Role};
use super::update::gated;
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::optimizer::moving_average;
use octant_nn::{Variable, VariableSpec};

/// Sums behind the task's own: how many steps were not finite, and the number of the first one.
pub const BAD_STEP_SUMS: usize = 2;

/// How much of the average is kept at an update.
pub(super) struct Decay {
    last: f64,
    /// At this update, where it still grows.
    now: Option<Tensor>,
}

pub(super) fn ramped(plan: &StepPlan, update: &Tensor, decay: f64) -> Decay {
    let now = plan.phase.ema_ramp.map(|ramp| (1.0 - (update * (-1.0 / ramp)).exp()) * decay);
    Decay { last: decay, now }
}

/// Moving averages of the model's variables; its companions have none.
pub(super) fn average(
    trace: &Trace,
    variables: &[Variable],
    decay: &Decay,
    gate: &Option<Tensor>,
    layout: &mut Layout,
) {
    for (index, variable) in variables.iter().enumerate().filter(|(_, variable)| !variable.spec.companion) {
        let VariableSpec { path, shape, .. } = &variable.spec;
        let entry = layout.add(trace, format!("{path}#average"), Role::Average(index), shape, 0.0);
        let old = layout.inputs[entry].clone();
        let arguments: Vec<Tensor> =
            [&old, &layout.outputs[index]].into_iter().chain(gate).chain(decay.now.as_ref()).cloned().collect();
        let mut next = trace.call(&arguments, false, |arguments| {
            let [old, value, rest @ ..] = arguments else { unreachable!("these are the arguments") };
            let (gate, now) = rest.split_at(usize::from(gate.is_some()));
            let new = moving_average(old, value, &now.first().cloned().unwrap_or_else(|| old.scalar_like(decay.last)));
            vec![gated(&gate.first().cloned(), new, old)]
        });
        layout.outputs[entry] = next.swap_remove(0);
    }
}

/// Adds this step to the running sums, the count of steps that were not finite among them.
pub(super) fn add_sums(trace: &Trace, sums: &Tensor, finite: &Tensor, key: &Tensor, layout: &mut Layout) {
    let count = sums.dims().first().copied().unwrap_or(0);
    let shape = Shape::new(DType::F32, [count + BAD_STEP_SUMS]);
    let index = layout.add(trace, "#sums".into(), Role::Sums, &shape, 0.0);
    let old = layout.inputs[index].clone();
    let bad = 1.0 - finite.convert(DType::F32);
    let [before, first] = [count, count + 1].map(|index| old.slice_axis(0, index, index + 1).reshape(&[]));
    let number = key.slice_axis(0, 1, 2).reshape(&[]).convert(DType::F32);
    let none_yet = before.less(&before.scalar_like(0.5)).convert(DType::F32);
    let first = first + &bad * none_yet * number;
    let tail = octant_metrics::vector(&[before + bad, first]);
    // What a bad step counted is not a number either and would spoil the sums of all others.
    let sums = gated(&Some(finite.clone()), sums.clone(), &sums.zeros_like());
    layout.outputs[index] = Tensor::concatenate(&[old.slice_axis(0, 0, count) + sums, tail], 0);
}
