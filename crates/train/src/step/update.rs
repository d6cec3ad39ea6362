//! The second half of a learning step: from gradients to the state after it.

use super::{Clip, StepPlan};
use crate::phase::{WarmupOptions, is_under};
use crate::state::{Entry, Role};
use crate::{Objective, Outcome};
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::optimizer::{Update, clip_by_norm, clip_by_value, global_norm, moving_average};
use octant_nn::{Kind, Optimizer, Variable, VariableSpec};

/// After the task's own sums: how many steps were not finite, and the number of the first one.
pub const WATCH: usize = 2;

/// The state's inputs and outputs as they are collected.
#[derive(Default)]
pub(super) struct Layout {
    pub entries: Vec<Entry>,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
}

impl Layout {
    fn add(&mut self, trace: &Trace, name: String, role: Role, shape: &Shape, initial: f64) -> Tensor {
        let input = trace.input(&name, shape.clone());
        self.entries.push(Entry { name, role, shape: shape.clone(), initial });
        self.inputs.push(input.clone());
        input
    }
}

/// Which objective moves which variable.
pub(super) fn learned(plan: &StepPlan, variables: &[Variable], outcome: &Outcome) -> Vec<(usize, usize)> {
    let head = plan.task.head_paths();
    let objectives = outcome.objectives.iter().enumerate();
    objectives
        .flat_map(|(objective, Objective { scope, .. })| {
            let moves = |spec: &VariableSpec| {
                let frozen = plan.phase.freeze.iter().any(|frozen| is_under(&spec.path, frozen));
                let learns = !frozen && plan.phase.train.includes(spec, &head);
                spec.kind == Kind::Parameter && is_under(&spec.path, scope) && learns
            };
            let indices = (0..variables.len()).filter(move |&index| moves(&variables[index].spec));
            indices.map(move |index| (objective, index)).collect::<Vec<_>>()
        })
        .collect()
}

pub(super) fn gradients(
    trace: &Trace,
    variables: &[Variable],
    learned: &[(usize, usize)],
    outcome: &Outcome,
) -> Vec<Tensor> {
    let of_objective = |(number, objective): (usize, &Objective)| {
        let own = learned.iter().filter(|(of, _)| *of == number).map(|&(_, index)| variables[index].value.clone());
        trace.gradients(&objective.loss, &own.collect::<Vec<_>>())
    };
    outcome.objectives.iter().enumerate().flat_map(of_objective).collect()
}

/// Whether the loss, and the gradients where they are given, are finite: a bool.
pub(super) fn finite(outcome: &Outcome, gradients: Option<&[Tensor]>) -> Tensor {
    let is_finite = |value: &Tensor| value.abs().less_equal(&value.scalar_like(f32::MAX as f64));
    let loss = is_finite(&outcome.objectives[0].loss.convert(DType::F32));
    match gradients {
        Some(gradients) if !gradients.is_empty() => loss.and(&is_finite(&global_norm(gradients))),
        _ => loss,
    }
}

/// The condition under which parameters change, where there is one. With accumulation, a bad batch adds nothing instead.
pub(super) fn gate(plan: &StepPlan, applies: &Tensor, finite: &Tensor) -> Option<Tensor> {
    let due = (plan.phase.accumulate > 1).then(|| applies.greater(&applies.scalar_like(0.5)));
    due.or_else(|| plan.skips_bad().then(|| finite.clone()))
}

pub(super) fn gated(gate: &Option<Tensor>, new: Tensor, old: &Tensor) -> Tensor {
    match gate {
        None => new,
        Some(gate) => gate.broadcast_to(new.dims()).select(&new, old),
    }
}

pub(super) type Total = (Entry, Tensor, Tensor);

/// The gradient over the batches of one update, their sum or their mean, and the entries that keep it in between.
pub(super) fn accumulated(
    trace: &Trace,
    plan: &StepPlan,
    variables: &[Variable],
    learned: &[(usize, usize)],
    gradients: Vec<Tensor>,
    finite: &Tensor,
    gate: &Option<Tensor>,
) -> (Vec<Tensor>, Vec<Total>) {
    if plan.phase.accumulate <= 1 {
        return (gradients, Vec::new());
    }
    let gradients = gradients.into_iter().map(|gradient| match plan.skips_bad() {
        true => gated(&Some(finite.clone()), gradient.clone(), &gradient.zeros_like()),
        false => gradient,
    });
    let shares = if plan.task.sums_over_images() { 1.0 } else { plan.phase.accumulate as f64 };
    let mut totals = Vec::new();
    let all = learned.iter().zip(gradients).map(|(&(_, index), gradient)| {
        let VariableSpec { path, shape, .. } = &variables[index].spec;
        let name = format!("{path}#gradient");
        let input = trace.input(&name, shape.clone());
        let total = &input + if shares == 1.0 { gradient } else { gradient / shares };
        let output = gated(gate, total.zeros_like(), &total);
        let entry = Entry { name, role: Role::Gradient, shape: shape.clone(), initial: 0.0 };
        totals.push((entry, input, output));
        total
    });
    (all.collect(), totals)
}

pub(super) fn clipped(plan: &StepPlan, gradients: Vec<Tensor>) -> Vec<Tensor> {
    match plan.phase.clip {
        Clip::Off => gradients,
        _ if gradients.is_empty() => gradients,
        Clip::Norm(greatest) => clip_by_norm(&gradients, greatest).0,
        Clip::Value(greatest) => clip_by_value(&gradients, greatest),
    }
}

/// Every learned parameter and its slots after this step.
pub(super) fn apply(
    trace: &Trace,
    plan: &StepPlan,
    variables: &[Variable],
    learned: &[(usize, usize)],
    gradients: &[Tensor],
    [rate, update, _, key]: &[Tensor; 4],
    gate: &Option<Tensor>,
    outcome: &Outcome,
    layout: &mut Layout,
) {
    let last = variables.iter().map(|variable| variable.spec.layer).max().unwrap_or(0);
    let warmup = Warmup::new(plan, key);
    for (&(objective, index), gradient) in learned.iter().zip(gradients) {
        let spec = &variables[index].spec;
        let optimizer = outcome.objectives[objective].optimizer.unwrap_or(plan.phase.optimizer);
        let _scope = trace.scope(spec.path.as_str());
        let slots: Vec<Tensor> = optimizer
            .slots()
            .into_iter()
            .map(|slot| {
                layout.add(trace, format!("{}#{}", spec.path, slot.name), Role::Slot, &spec.shape, slot.initial)
            })
            .collect();
        let scale = plan.rate_scale(spec, last);
        let rate = if scale == 1.0 { rate.clone() } else { rate * scale };
        let rate = if spec.path.ends_with("bias") { warmup.bias_rate(&rate) } else { rate };
        let parameter = &variables[index].value;
        let (number, gate) = turn(outcome.objectives[objective].every, update, gate);
        // What is done to all variables is one function, parameter and slots first: a backend may see to many in one go.
        let state: Vec<Tensor> = std::iter::once(parameter).chain(&slots).cloned().collect();
        let gated_by = gate.is_some();
        let scalars = [rate, number].into_iter().chain(gate).chain(warmup.momentum(&optimizer));
        let arguments: Vec<Tensor> = state.iter().chain([gradient]).cloned().chain(scalars).collect();
        let mut next = trace.call(&arguments, false, |arguments| {
            let (state, others) = arguments.split_at(state.len());
            let [gradient, rate, step, rest @ ..] = others else { unreachable!("these are the arguments") };
            let (gate, momentum) = rest.split_at(usize::from(gated_by));
            let (parameter, slots) = (&state[0], &state[1..]);
            let change = Update { parameter, gradient, slots, rate, step, decay: plan.decay(spec) };
            let (changed, next) = optimizer.update_with(change, momentum.first());
            let all = std::iter::once(changed).chain(next).zip(state);
            all.map(|(new, old)| gated(&gate.first().cloned(), new, old)).collect()
        });
        layout.outputs.extend(next.split_off(1));
        layout.outputs[index] = next.swap_remove(0);
    }
}

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

/// What biases and momentum are in the first steps: functions of the step's number alone.
struct Warmup<'a> {
    options: Option<&'a WarmupOptions>,
    /// From 0 at the first step to 1 at the end of the warm-up.
    share: Option<Tensor>,
}

impl Warmup<'_> {
    fn new<'a>(plan: &'a StepPlan, key: &Tensor) -> Warmup<'a> {
        let options = plan.phase.warmup.as_ref();
        let share = options.and_then(|options| options.steps).map(|steps| {
            // Steps count from 1.
            let done = key.slice_axis(0, 1, 2).reshape(&[]).convert(DType::F32) - 1.0;
            let share = done / steps as f64;
            share.min(&share.scalar_like(1.0))
        });
        Warmup { options, share }
    }

    fn bias_rate(&self, rate: &Tensor) -> Tensor {
        match (&self.options, &self.share) {
            (Some(options), Some(share)) if options.bias_lr > 0.0 => rate + (1.0 - share) * options.bias_lr,
            _ => rate.clone(),
        }
    }

    /// The momentum of this step, where it differs from the optimizer's.
    fn momentum(&self, optimizer: &Optimizer) -> Option<Tensor> {
        let (share, first) = (self.share.as_ref()?, self.options?.momentum?);
        match optimizer {
            Optimizer::Sgd(sgd) if sgd.momentum > 0.0 => Some(share * (sgd.momentum - first) + first),
            _ => None,
        }
    }
}

/// The number of an objective's own update, and when it takes place: at every `every`-th update of the step.
fn turn(every: u64, update: &Tensor, gate: &Option<Tensor>) -> (Tensor, Option<Tensor>) {
    if every <= 1 {
        return (update.clone(), gate.clone());
    }
    let own = (update / every as f64).floor();
    let due = (&own * every as f64).equal(update);
    (own, Some(gate.as_ref().map_or_else(|| due.clone(), |gate| gate.and(&due))))
}

/// A batch that is skipped must not leave its mark on running statistics either.
pub(super) fn keep_statistics(variables: &[Variable], finite: &Tensor, layout: &mut Layout) {
    for (index, variable) in variables.iter().enumerate() {
        if let Some(updated) = &variable.updated {
            layout.outputs[index] = gated(&Some(finite.clone()), updated.clone(), &variable.value);
        }
    }
}

pub(super) fn average(
    trace: &Trace,
    variables: &[Variable],
    decay: &Decay,
    gate: &Option<Tensor>,
    layout: &mut Layout,
) {
    for (index, variable) in variables.iter().enumerate() {
        let VariableSpec { path, shape, .. } = &variable.spec;
        let old = layout.add(trace, format!("{path}#average"), Role::Average(index), shape, 0.0);
        let arguments: Vec<Tensor> =
            [&old, &layout.outputs[index]].into_iter().chain(gate).chain(decay.now.as_ref()).cloned().collect();
        layout.outputs.extend(trace.call(&arguments, false, |arguments| {
            let [old, value, rest @ ..] = arguments else { unreachable!("these are the arguments") };
            let (gate, now) = rest.split_at(usize::from(gate.is_some()));
            let new = moving_average(old, value, &now.first().cloned().unwrap_or_else(|| old.scalar_like(decay.last)));
            vec![gated(&gate.first().cloned(), new, old)]
        }));
    }
}

/// The sums after this step, with the watch behind them.
pub(super) fn watch(trace: &Trace, outcome: &Outcome, finite: &Tensor, key: &Tensor, layout: &mut Layout) {
    let count = outcome.sums.dims().first().copied().unwrap_or(0);
    let shape = Shape::new(DType::F32, [count + WATCH]);
    let old = layout.add(trace, "#sums".into(), Role::Sums, &shape, 0.0);
    let bad = 1.0 - finite.convert(DType::F32);
    let [before, first] = [count, count + 1].map(|place| old.slice_axis(0, place, place + 1).reshape(&[]));
    let number = key.slice_axis(0, 1, 2).reshape(&[]).convert(DType::F32);
    let none_yet = before.less(&before.scalar_like(0.5)).convert(DType::F32);
    let first = first + &bad * none_yet * number;
    let tail = octant_metrics::vector(&[before + bad, first]);
    // What a bad step counted is not a number either and would spoil the sums of all others.
    let sums = gated(&Some(finite.clone()), outcome.sums.clone(), &outcome.sums.zeros_like());
    layout.outputs.push(Tensor::concatenate(&[old.slice_axis(0, 0, count) + sums, tail], 0));
}
