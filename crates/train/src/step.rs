//! The step: model, loss, gradients and optimizer traced into one program.

use crate::state::{Entry, Role};
use crate::{Objective, Outcome, Task, TrainError};
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::optimizer::{Update, clip_by_norm, clip_by_value, global_norm, moving_average};
use octant_nn::{Context, Kind, Mode, Optimizer, Precision, Training, Variable, VariableSpec};
use octant_runtime::{Mesh, Program, Sharding};

/// A bound on gradients.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Clip {
    /// None.
    #[default]
    Off,
    /// The norm of all gradients together is at most this.
    Norm(f64),
    /// Every element lies within ± this.
    Value(f64),
}

/// What a step is made of.
pub struct StepPlan<'a, 'f> {
    /// What is learned.
    pub task: &'a dyn Task,
    /// How parameters change.
    pub optimizer: Optimizer,
    /// The weight decay.
    pub weight_decay: f64,
    /// Biases and the scales of norms decay too, as PyTorch's optimizers do by default.
    pub decay_all: bool,
    /// What layers compute in.
    pub precision: Precision,
    /// Pictures per step, over all devices.
    pub batch_size: usize,
    /// The devices.
    pub mesh: Mesh,
    /// Which parameters learn; the others get no gradient and no optimizer state.
    pub trainable: &'f dyn Fn(&VariableSpec) -> bool,
    /// What a parameter's learning rate is multiplied by.
    pub rate_scale: &'f dyn Fn(&VariableSpec) -> f64,
    /// A bound on gradients.
    pub clip: Clip,
    /// How much of the moving average of all variables is kept at every update; evaluation then uses the averages.
    pub average: Option<f64>,
    /// Parameters change at every this many batches, by the mean of their gradients.
    pub accumulate: u64,
    /// Batch norms use and keep their running statistics.
    pub frozen_statistics: bool,
    /// Batch norms take their statistics over this many parts of the batch.
    pub batch_groups: usize,
    /// A step whose loss or gradients are not finite changes nothing.
    pub skip_bad: bool,
}

impl<'a> StepPlan<'a, '_> {
    /// Everything learns by plain Adam in f32 on one device.
    pub fn new(task: &'a dyn Task, batch_size: usize) -> StepPlan<'a, 'static> {
        StepPlan {
            task,
            optimizer: Optimizer::named("adam").expect("adam is a known optimizer"),
            weight_decay: 0.0,
            decay_all: false,
            precision: Precision::F32,
            batch_size,
            mesh: Mesh::single(),
            trainable: &|_| true,
            rate_scale: &|_| 1.0,
            clip: Clip::Off,
            average: None,
            accumulate: 1,
            frozen_statistics: false,
            batch_groups: 1,
            skip_bad: false,
        }
    }

    fn decay(&self, spec: &VariableSpec) -> f64 {
        if self.decay_all || spec.is_matrix() { self.weight_decay } else { 0.0 }
    }
}

/// A traced step with the layout of its inputs: state, batch, scalars.
pub struct TracedStep {
    /// What the backend compiles.
    pub program: Program,
    /// The model's variables, in the order of the inputs.
    pub variables: Vec<VariableSpec>,
    /// Everything that lives between steps, in the order of the inputs; the variables come first, the sums last.
    pub entries: Vec<Entry>,
}

/// Scalars after the batch: learning rate, number of the update, whether this batch ends one, and the key of this step,
/// whose second word is the step's number.
const SCALARS: [(&str, DType, &[usize]); 4] =
    [("rate", DType::F32, &[]), ("update", DType::F32, &[]), ("applies", DType::F32, &[]), ("key", DType::U32, &[2])];

/// After the task's own sums: how many steps were not finite, and the number of the first one.
pub const WATCH: usize = 2;

/// The state's inputs and outputs as they are collected.
#[derive(Default)]
struct Layout {
    entries: Vec<Entry>,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl Layout {
    fn add(&mut self, trace: &Trace, name: String, role: Role, shape: &Shape, initial: f64) -> Tensor {
        let input = trace.input(&name, shape.clone());
        self.entries.push(Entry { name, role, shape: shape.clone(), initial });
        self.inputs.push(input.clone());
        input
    }
}

/// Traces the step that learns.
pub fn training(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let batch = batch_inputs(&trace, plan);
    let scalars = SCALARS.map(|(name, dtype, dims)| trace.input(name, Shape::new(dtype, dims)));
    let [_, _, applies, key] = &scalars;
    let training =
        Training { batch_groups: plan.batch_groups, frozen_statistics: plan.frozen_statistics, ..Training::new(key) };
    let context = Context::new(&trace, Mode::Train(training), plan.precision);
    let outcome = plan.task.outcome(&context, &batch);
    let variables = context.variables();
    let learned = learned(plan, &variables, &outcome);
    let gradients = gradients(&trace, &variables, &learned, &outcome);

    let mut layout = Layout::default();
    for (index, variable) in variables.iter().enumerate() {
        let VariableSpec { path, shape, .. } = &variable.spec;
        layout.entries.push(Entry {
            name: path.clone(),
            role: Role::Variable(index),
            shape: shape.clone(),
            initial: 0.0,
        });
        layout.inputs.push(variable.value.clone());
        layout.outputs.push(variable.updated.clone().unwrap_or_else(|| variable.value.clone()));
    }
    let finite = finite(&outcome, plan.skip_bad.then_some(&gradients[..]));
    let gate = gate(plan, applies, &finite);
    let (gradients, totals) = accumulated(&trace, plan, &variables, &learned, gradients, &finite, &gate);
    let gradients = clipped(plan, gradients);
    apply(&trace, plan, &variables, &learned, &gradients, &scalars, &gate, &outcome, &mut layout);
    if plan.skip_bad {
        keep_statistics(&variables, &finite, &mut layout);
    }
    if let Some(decay) = plan.average {
        average(&trace, &variables, decay, &gate, &mut layout);
    }
    totals.into_iter().for_each(|(entry, input, output)| {
        layout.entries.push(entry);
        layout.inputs.push(input);
        layout.outputs.push(output);
    });
    watch(&trace, plan, &outcome, &finite, key, &mut layout);

    let specs = variables.into_iter().map(|variable| variable.spec).collect();
    let Layout { entries, inputs, outputs } = layout;
    let state = inputs.len();
    let inputs: Vec<Tensor> = inputs.into_iter().chain(batch).chain(scalars).collect();
    let program = program("training step", trace, &inputs, &outputs, 0..state, plan)?;
    Ok(TracedStep { program, variables: specs, entries })
}

/// Which objective moves which variable.
fn learned(plan: &StepPlan, variables: &[Variable], outcome: &Outcome) -> Vec<(usize, usize)> {
    let objectives = outcome.objectives.iter().enumerate();
    objectives
        .flat_map(|(objective, Objective { scope, .. })| {
            let moves = |spec: &VariableSpec| {
                spec.kind == Kind::Parameter && spec.path.starts_with(scope) && (plan.trainable)(spec)
            };
            let indices = (0..variables.len()).filter(move |&index| moves(&variables[index].spec));
            indices.map(move |index| (objective, index)).collect::<Vec<_>>()
        })
        .collect()
}

fn gradients(trace: &Trace, variables: &[Variable], learned: &[(usize, usize)], outcome: &Outcome) -> Vec<Tensor> {
    let of_objective = |(number, objective): (usize, &Objective)| {
        let own = learned.iter().filter(|(of, _)| *of == number).map(|&(_, index)| variables[index].value.clone());
        trace.gradients(&objective.loss, &own.collect::<Vec<_>>())
    };
    outcome.objectives.iter().enumerate().flat_map(of_objective).collect()
}

/// Whether the loss, and the gradients where they are given, are finite: a truth value.
fn finite(outcome: &Outcome, gradients: Option<&[Tensor]>) -> Tensor {
    let is_finite = |value: &Tensor| value.abs().less_equal(&value.scalar_like(f32::MAX as f64));
    let loss = is_finite(&outcome.objectives[0].loss.convert(DType::F32));
    match gradients {
        Some(gradients) if !gradients.is_empty() => loss.and(&is_finite(&global_norm(gradients))),
        _ => loss,
    }
}

/// The condition under which parameters change, where there is one. With accumulation, a bad batch adds nothing instead.
fn gate(plan: &StepPlan, applies: &Tensor, finite: &Tensor) -> Option<Tensor> {
    let due = (plan.accumulate > 1).then(|| applies.greater(&applies.scalar_like(0.5)));
    due.or_else(|| plan.skip_bad.then(|| finite.clone()))
}

fn gated(gate: &Option<Tensor>, new: Tensor, old: &Tensor) -> Tensor {
    match gate {
        None => new,
        Some(gate) => gate.broadcast_to(new.dims()).select(&new, old),
    }
}

type Total = (Entry, Tensor, Tensor);

/// The mean gradient over the batches of one update, and the entries that keep it in between.
fn accumulated(
    trace: &Trace,
    plan: &StepPlan,
    variables: &[Variable],
    learned: &[(usize, usize)],
    gradients: Vec<Tensor>,
    finite: &Tensor,
    gate: &Option<Tensor>,
) -> (Vec<Tensor>, Vec<Total>) {
    if plan.accumulate <= 1 {
        return (gradients, Vec::new());
    }
    let gradients = gradients.into_iter().map(|gradient| match plan.skip_bad {
        true => gated(&Some(finite.clone()), gradient.clone(), &gradient.zeros_like()),
        false => gradient,
    });
    let mut totals = Vec::new();
    let means = learned.iter().zip(gradients).map(|(&(_, index), gradient)| {
        let VariableSpec { path, shape, .. } = &variables[index].spec;
        let name = format!("{path}#gradient");
        let input = trace.input(&name, shape.clone());
        let mean = &input + gradient / plan.accumulate as f64;
        let output = gated(gate, mean.zeros_like(), &mean);
        let entry = Entry { name, role: Role::Gradient, shape: shape.clone(), initial: 0.0 };
        totals.push((entry, input, output));
        mean
    });
    (means.collect(), totals)
}

fn clipped(plan: &StepPlan, gradients: Vec<Tensor>) -> Vec<Tensor> {
    match plan.clip {
        Clip::Off => gradients,
        _ if gradients.is_empty() => gradients,
        Clip::Norm(greatest) => clip_by_norm(&gradients, greatest).0,
        Clip::Value(greatest) => clip_by_value(&gradients, greatest),
    }
}

/// Every learned parameter and its slots after this step.
fn apply(
    trace: &Trace,
    plan: &StepPlan,
    variables: &[Variable],
    learned: &[(usize, usize)],
    gradients: &[Tensor],
    [rate, update, ..]: &[Tensor; 4],
    gate: &Option<Tensor>,
    outcome: &Outcome,
    layout: &mut Layout,
) {
    for (&(objective, index), gradient) in learned.iter().zip(gradients) {
        let spec = &variables[index].spec;
        let optimizer = outcome.objectives[objective].optimizer.unwrap_or(plan.optimizer);
        let _scope = trace.scope(spec.path.as_str());
        let slots: Vec<Tensor> = optimizer
            .slots()
            .into_iter()
            .map(|slot| {
                layout.add(trace, format!("{}#{}", spec.path, slot.name), Role::Slot, &spec.shape, slot.initial)
            })
            .collect();
        let scale = (plan.rate_scale)(spec);
        let rate = if scale == 1.0 { rate.clone() } else { rate * scale };
        let parameter = &variables[index].value;
        let change = Update { parameter, gradient, slots: &slots, rate: &rate, step: update, decay: plan.decay(spec) };
        let (changed, next) = optimizer.update(change);
        layout.outputs[index] = gated(gate, changed, parameter);
        let next: Vec<Tensor> = next.into_iter().zip(&slots).map(|(new, old)| gated(gate, new, old)).collect();
        layout.outputs.extend(next);
    }
}

/// A batch that is skipped must not leave its mark on running statistics either.
fn keep_statistics(variables: &[Variable], finite: &Tensor, layout: &mut Layout) {
    for (index, variable) in variables.iter().enumerate() {
        if let Some(updated) = &variable.updated {
            layout.outputs[index] = gated(&Some(finite.clone()), updated.clone(), &variable.value);
        }
    }
}

fn average(trace: &Trace, variables: &[Variable], decay: f64, gate: &Option<Tensor>, layout: &mut Layout) {
    for (index, variable) in variables.iter().enumerate() {
        let VariableSpec { path, shape, .. } = &variable.spec;
        let old = layout.add(trace, format!("{path}#average"), Role::Average(index), shape, 0.0);
        let new = moving_average(&old, &layout.outputs[index], &old.scalar_like(decay));
        layout.outputs.push(gated(gate, new, &old));
    }
}

/// The sums after this step, with the watch behind them.
fn watch(trace: &Trace, plan: &StepPlan, outcome: &Outcome, finite: &Tensor, key: &Tensor, layout: &mut Layout) {
    let count = plan.task.sums(true);
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

/// Traces the step that only counts. Its inputs are the variables (read), the sums (updated) and the batch; its outputs
/// are the sums and, where the task has an observer, the predictions.
pub fn evaluation(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let batch = batch_inputs(&trace, plan);
    let sums = trace.input("#sums", Shape::new(DType::F32, [plan.task.sums(false)]));
    let context = Context::new(&trace, Mode::Evaluate, plan.precision);
    let outcome = plan.task.outcome(&context, &batch);
    let variables = context.variables();
    let outputs: Vec<Tensor> = std::iter::once(&sums + &outcome.sums).chain(outcome.predictions).collect();
    let inputs: Vec<Tensor> = variables.iter().map(|v| v.value.clone()).chain([sums]).chain(batch).collect();
    let place = variables.len();
    let program = program("evaluation step", trace, &inputs, &outputs, place..place + 1, plan)?;
    Ok(TracedStep { program, variables: variables.into_iter().map(|v| v.spec).collect(), entries: Vec::new() })
}

/// Traces what is asked of pictures alone: variables and pictures in, predictions out.
pub fn prediction(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let (name, shape) = plan.task.batch_shapes(plan.batch_size).swap_remove(0);
    let images = trace.input(&name, shape);
    let context = Context::new(&trace, Mode::Evaluate, plan.precision);
    let output = plan.task.predict(&context, &images);
    let variables = context.variables();
    let inputs: Vec<Tensor> = variables.iter().map(|v| v.value.clone()).chain([images]).collect();
    let order = order(&trace, &inputs);
    let program = Program::new("prediction", trace.finish(&[output])?.with_inputs_ordered(&order));
    Ok(TracedStep { program, variables: variables.into_iter().map(|v| v.spec).collect(), entries: Vec::new() })
}

fn batch_inputs(trace: &Trace, plan: &StepPlan) -> Vec<Tensor> {
    plan.task.batch_shapes(plan.batch_size).into_iter().map(|(name, shape)| trace.input(&name, shape)).collect()
}

fn order(trace: &Trace, inputs: &[Tensor]) -> Vec<usize> {
    let place = |input: &Tensor| trace.with_graph(|graph| graph.inputs().iter().position(|&id| Some(id) == input.id()));
    inputs.iter().filter_map(place).collect()
}

/// Puts the inputs into the order given. Those in `donated` hand their memory to the first outputs, in order; the batch
/// follows them and is split over the devices.
fn program(
    name: &str,
    trace: Trace,
    inputs: &[Tensor],
    outputs: &[Tensor],
    donated: std::ops::Range<usize>,
    plan: &StepPlan,
) -> Result<Program, TrainError> {
    let order = order(&trace, inputs);
    let graph = trace.finish(outputs)?.with_inputs_ordered(&order);
    let mut program = Program::new(name, graph);
    let first_batch = donated.end;
    program.donated = donated.enumerate().map(|(output, input)| (input, output)).collect();
    program.mesh = plan.mesh.clone();
    for split in &mut program.inputs[first_batch..first_batch + plan.task.batch_shapes(1).len()] {
        *split = if plan.mesh.devices() > 1 { Sharding::Split { axis: 0 } } else { Sharding::Replicated };
    }
    Ok(program)
}
