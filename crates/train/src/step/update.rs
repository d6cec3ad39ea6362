//! Updates: from losses to moved parameters. A step has one at its end, and any number before it where a task defines them.

use super::layout::{Layout, Role};
use super::rules::{Learned, Rules, Warmup};
use super::{Scalars, StepPlan};
use octant_graph::{DType, Tensor, Trace};
use octant_nn::optimizer::{Update, global_norm};
use octant_nn::{Context, Objective, Optimizer, Variable, VariableKind, VariableSpec};

/// The updates of one step, in order.
pub(super) struct Updates {
    trace: Trace,
    rules: Rules,
    scalars: Scalars,
    /// What optimizers keep, with its value after the updates so far.
    pub slots: Layout,
    /// Gradients of the batches since the last update.
    pub totals: Layout,
    /// Whether everything so far was finite.
    finite: Option<Tensor>,
    /// Updates before the last one.
    early: usize,
}

impl Updates {
    pub fn new(trace: &Trace, plan: &StepPlan, scalars: &Scalars) -> Updates {
        Updates {
            trace: trace.clone(),
            rules: Rules::of(plan),
            scalars: scalars.clone(),
            slots: Layout::default(),
            totals: Layout::default(),
            finite: None,
            early: 0,
        }
    }

    /// An update inside of the step: what is traced after it reads the new values, and no gradient flows through them.
    pub fn early(&mut self, cx: &Context, objectives: &[Objective]) {
        self.early += 1;
        self.update(cx, objectives).into_iter().for_each(|(index, new)| cx.set_parameter(index, new.stop_gradient()));
    }

    /// The update at the end.
    pub fn last(&mut self, cx: &Context, objectives: &[Objective]) {
        self.update(cx, objectives).into_iter().for_each(|(index, new)| cx.set_parameter(index, new));
    }

    /// Whether all losses, and where bad steps are skipped all gradients, were finite: a bool.
    pub fn finite(&self, loss: &Tensor) -> Tensor {
        self.finite.clone().unwrap_or_else(|| is_finite(loss))
    }

    /// A step that is skipped leaves no mark: neither on what early updates moved nor on statistics.
    pub fn undo_bad(&mut self, variables: &[Variable], outputs: &mut [Tensor], finite: &Tensor) {
        if !self.rules.skips_bad {
            return;
        }
        // With accumulation a bad batch adds nothing to the gradients, and what others added may still be applied.
        let undoes_updates = self.early > 0 && self.rules.phase.accumulate <= 1;
        let gate = Some(finite.clone());
        for (variable, output) in variables.iter().zip(outputs) {
            let undoes = variable.spec.kind == VariableKind::Statistic || undoes_updates;
            if let Some(updated) = variable.updated.as_ref().filter(|_| undoes) {
                *output = gated(&gate, updated.clone(), &variable.value);
            }
        }
        if undoes_updates {
            let slots = self.slots.outputs.iter_mut().zip(&self.slots.inputs);
            slots.for_each(|(output, input)| *output = gated(&gate, output.clone(), input));
        }
    }

    /// The variables that some objectives move, and their new values.
    fn update(&mut self, cx: &Context, objectives: &[Objective]) -> Vec<(usize, Tensor)> {
        if objectives.is_empty() {
            return Vec::new();
        }
        let variables = cx.variables();
        let learned = self.rules.learned(&variables, objectives);
        let gradients = gradients_of(&self.trace, &variables, &learned, objectives);
        let own = finite(objectives, self.rules.skips_bad.then_some(&gradients[..]));
        let finite = self.finite.take().map_or(own.clone(), |before| before.and(&own));
        self.finite = Some(finite.clone());
        let gate = self.rules.gate(&self.scalars.applies, &finite);
        let gradients = self.accumulated(&variables, &learned, objectives, gradients, &finite, &gate);
        let gradients = self.rules.clipped(gradients);
        self.apply(&variables, &learned, &gradients, &gate, objectives)
    }

    /// The gradient over the batches of one update, their mean or their sum; the entries keep it in between.
    fn accumulated(
        &mut self,
        variables: &[Variable],
        learned: &[Learned],
        objectives: &[Objective],
        gradients: Vec<Tensor>,
        finite: &Tensor,
        gate: &Option<Tensor>,
    ) -> Vec<Tensor> {
        let batches = self.rules.phase.accumulate;
        if batches <= 1 {
            return gradients;
        }
        let (skips_bad, shares) = (self.rules.skips_bad, if self.rules.adds_batches { 1.0 } else { batches as f64 });
        let gradients = gradients.into_iter().map(|gradient| match skips_bad {
            true => gated(&Some(finite.clone()), gradient.clone(), &gradient.zeros_like()),
            false => gradient,
        });
        let all = learned.iter().zip(gradients).map(|(&Learned { objective, variable }, gradient)| {
            let VariableSpec { path, shape, .. } = &variables[variable].spec;
            // Several updates of the same parameters have separate gradients.
            let name = match objectives[objective].turn.0 {
                0 => format!("{path}#gradient"),
                turn => format!("{path}#gradient{turn}"),
            };
            let entry = self.totals.add(&self.trace, name, Role::Gradient, shape, 0.0);
            let total = &self.totals.inputs[entry] + if shares == 1.0 { gradient } else { gradient / shares };
            self.totals.outputs[entry] = gated(gate, total.zeros_like(), &total);
            total
        });
        all.collect()
    }

    /// Every learned parameter and its slots after this update.
    fn apply(
        &mut self,
        variables: &[Variable],
        learned: &[Learned],
        gradients: &[Tensor],
        gate: &Option<Tensor>,
        objectives: &[Objective],
    ) -> Vec<(usize, Tensor)> {
        let last_layer = variables.iter().map(|variable| variable.spec.layer).max().unwrap_or(0);
        let warmup = self.rules.warmup(&self.scalars.key);
        let mut moved = Vec::with_capacity(learned.len());
        for (&Learned { objective, variable: index }, gradient) in learned.iter().zip(gradients) {
            let (variable, objective) = (&variables[index], &objectives[objective]);
            let optimizer = objective.optimizer.unwrap_or(self.rules.phase.optimizer);
            let _scope = self.trace.scope(variable.spec.path.as_str());
            let entries: Vec<usize> = optimizer
                .slots()
                .into_iter()
                .map(|slot| {
                    let name = format!("{}#{}", variable.spec.path, slot.name);
                    self.slots.entry(&self.trace, name, Role::Slot, &variable.spec.shape, slot.initial)
                })
                .collect();
            let rate = self.rate(&variable.spec, objective, last_layer, &warmup);
            let (number, gate) = turn(objective, &self.scalars.update, gate);
            let slots = entries.iter().map(|&entry| self.slots.outputs[entry].clone());
            let state: Vec<Tensor> = std::iter::once(variable.current()).chain(slots).collect();
            let momentum = warmup.momentum(&optimizer);
            let decay = self.rules.decay(&variable.spec);
            let mut next = self.optimize(optimizer, &state, gradient, [rate, number], gate, momentum, decay);
            for (entry, slot) in entries.into_iter().zip(next.split_off(1)) {
                self.slots.outputs[entry] = slot;
            }
            moved.push((index, next.swap_remove(0)));
        }
        moved
    }

    /// The learning rate of one parameter.
    fn rate(&self, spec: &VariableSpec, objective: &Objective, last_layer: usize, warmup: &Warmup) -> Tensor {
        let rate = &self.scalars.rate;
        let scale = self.rules.rate_scale(spec, last_layer) * objective.rate_scale;
        let rate = if scale == 1.0 { rate.clone() } else { rate * scale };
        if spec.path.ends_with("bias") { warmup.bias_rate(&rate) } else { rate }
    }

    /// A parameter and its slots after this update, as one call with the state first: a backend may recognize the calls of
    /// many parameters and run them together.
    fn optimize(
        &self,
        optimizer: Optimizer,
        state: &[Tensor],
        gradient: &Tensor,
        [rate, number]: [Tensor; 2],
        gate: Option<Tensor>,
        momentum: Option<Tensor>,
        decay: f64,
    ) -> Vec<Tensor> {
        let is_gated = gate.is_some();
        let scalars = [rate, number].into_iter().chain(gate).chain(momentum);
        let arguments: Vec<Tensor> = state.iter().chain([gradient]).cloned().chain(scalars).collect();
        self.trace.call(&arguments, false, |arguments| {
            let (state, others) = arguments.split_at(state.len());
            let [gradient, rate, step, rest @ ..] = others else { unreachable!("these are the arguments") };
            let (gate, momentum) = rest.split_at(usize::from(is_gated));
            let (parameter, slots) = (&state[0], &state[1..]);
            let change = Update { parameter, gradient, slots, rate, step, decay };
            let (changed, next) = optimizer.update_with(change, momentum.first());
            let all = std::iter::once(changed).chain(next).zip(state);
            all.map(|(new, old)| gated(&gate.first().cloned(), new, old)).collect()
        })
    }
}

/// The gradients of what each objective moves, at the values that the trace reads now.
pub(super) fn gradients_of(
    trace: &Trace,
    variables: &[Variable],
    learned: &[Learned],
    objectives: &[Objective],
) -> Vec<Tensor> {
    let of_objective = |(number, objective): (usize, &Objective)| {
        let own = learned.iter().filter(|learned| learned.objective == number);
        let own = own.map(|learned| variables[learned.variable].current());
        trace.gradients(&objective.loss, &own.collect::<Vec<_>>())
    };
    objectives.iter().enumerate().flat_map(of_objective).collect()
}

fn is_finite(value: &Tensor) -> Tensor {
    let value = value.convert(DType::F32);
    value.abs().less_equal(&value.scalar_like(f32::MAX as f64))
}

/// Whether the losses, and the gradients where they are given, are finite: a bool.
fn finite(objectives: &[Objective], gradients: Option<&[Tensor]>) -> Tensor {
    let losses = objectives.iter().map(|objective| is_finite(&objective.loss));
    let losses = losses.reduce(|all, one| all.and(&one)).expect("an update has an objective");
    match gradients {
        Some(gradients) if !gradients.is_empty() => losses.and(&is_finite(&global_norm(gradients))),
        _ => losses,
    }
}

pub(super) fn gated(gate: &Option<Tensor>, new: Tensor, old: &Tensor) -> Tensor {
    match gate {
        None => new,
        Some(gate) => gate.broadcast_to(new.dims()).select(&new, old),
    }
}

/// The number of an objective's own update, and when it takes place: at every `every`-th update of the step.
fn turn(objective: &Objective, update: &Tensor, gate: &Option<Tensor>) -> (Tensor, Option<Tensor>) {
    let Objective { every, turn: (turn, turns), .. } = *objective;
    let (own, gate) = match every {
        0 | 1 => (update.clone(), gate.clone()),
        every => {
            let own = (update / every as f64).floor();
            let due = (&own * every as f64).equal(update);
            (own, Some(gate.as_ref().map_or_else(|| due.clone(), |gate| gate.and(&due))))
        }
    };
    let number = if turns <= 1 { own } else { (own - 1.0) * turns as f64 + (turn + 1) as f64 };
    (number, gate)
}
