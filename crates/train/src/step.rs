//! The step: model, loss, gradients and optimizer traced into one program.

mod batch_schedule;
mod ending;
mod inference;
mod layout;
mod options;
mod phase_options;
mod rules;
mod trainable;
mod update;

pub use batch_schedule::BatchSchedule;
pub use ending::BAD_STEP_SUMS;
pub use inference::{evaluation, gradients, prediction, samples};
pub use layout::{Role, StateEntry};
pub use options::{AdapterOptions, OnNan, StepOptions};
pub use phase_options::{Clip, Group, MixOptions, PhaseOptions, WarmupOptions};
pub use trainable::Trainable;

use crate::{Task, TrainError, spread};
use ending::{add_sums, average, ramped};
use layout::Layout;
use octant_graph::passes::Int8Ranges;
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::{Context, Mode, Optimizer, Training, Variable, VariableSpec};
use octant_runtime::{Mesh, Program, Sharding};
use rules::Rules;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use update::Updates;

/// What a step is made of.
#[derive(Clone)]
pub struct StepPlan {
    /// What is learned.
    pub task: Arc<dyn Task>,
    /// The same on validation images, where they have another size.
    pub evaluation: Option<Arc<dyn Task>>,
    /// The devices.
    pub mesh: Mesh,
    /// What the steps of all phases share.
    pub step: StepOptions,
    /// How parameters learn in this phase.
    pub phase: PhaseOptions,
    /// The layers that evaluations and predictions compute in 8 bits. Networks are not trained in 8 bits.
    pub int8: Option<Arc<Int8Ranges>>,
}

impl StepPlan {
    /// All parameters are trained by plain Adam in f32 on one device.
    pub fn new(task: Arc<dyn Task>, batch_size: usize) -> StepPlan {
        let step = StepOptions { batch_size, ..StepOptions::default() };
        StepPlan { task, evaluation: None, mesh: Mesh::single(), step, phase: PhaseOptions::default(), int8: None }
    }

    /// The same with another optimizer.
    pub fn with_optimizer(mut self, optimizer: Optimizer) -> StepPlan {
        self.phase.optimizer = optimizer;
        self
    }

    /// What the training step is compiled for: every form of the task for `batch_size`, then for the other sizes. The first
    /// one is this plan.
    pub fn forms(&self) -> Vec<StepPlan> {
        let mut tasks = vec![self.task.clone()];
        tasks.extend(self.task.forms());
        let of_size = |batch_size: usize| {
            let step = StepOptions { batch_size, ..self.step.clone() };
            tasks.iter().map(move |task| StepPlan { task: task.clone(), step: step.clone(), ..self.clone() })
        };
        self.step.batch_sizes().into_iter().flat_map(of_size).collect()
    }

    /// The plan of evaluation steps: the task on validation images.
    pub fn evaluated(&self) -> StepPlan {
        StepPlan { task: self.evaluation.clone().unwrap_or_else(|| self.task.clone()), ..self.clone() }
    }

    fn training(&self, key: &Tensor) -> Training {
        Training {
            key: Some(key.clone()),
            batch_groups: self.step.batch_groups,
            recompute_blocks: self.step.recompute,
            ..self.phase.statistics(&self.task.head_paths())
        }
    }
}

/// A traced step with the layout of its inputs: state, batch, scalars.
pub struct TracedStep {
    /// What the backend compiles.
    pub program: Program,
    /// The model's variables, in the order of the inputs.
    pub variables: Vec<VariableSpec>,
    /// Everything that lives between steps, in the order of the inputs; the variables come first, the sums last. A
    /// learning step has one more output after them: its loss.
    pub entries: Vec<StateEntry>,
    /// How many sums the task makes.
    pub sums: usize,
}

/// The scalar inputs of a training step, after the batch.
#[derive(Clone)]
struct Scalars {
    /// The learning rate.
    rate: Tensor,
    /// The number of the update, from 1 on.
    update: Tensor,
    /// Whether this batch ends an update: 1 or 0.
    applies: Tensor,
    /// The random key of this step; its second word is the step's number.
    key: Tensor,
}

impl Scalars {
    fn declare(trace: &Trace) -> Scalars {
        let scalar = |name| trace.input(name, Shape::new(DType::F32, []));
        Scalars {
            rate: scalar("rate"),
            update: scalar("update"),
            applies: scalar("applies"),
            key: trace.input("key", Shape::new(DType::U32, [2])),
        }
    }

    fn in_order(self) -> [Tensor; 4] {
        [self.rate, self.update, self.applies, self.key]
    }
}

/// Which of [`forms`](StepPlan::forms) has the largest values: the one that decides whether a batch fits.
pub fn largest_form(plan: &StepPlan) -> Result<usize, TrainError> {
    let forms = plan.forms();
    if forms.len() == 1 {
        return Ok(0);
    }
    let bytes = |form: &StepPlan| -> Result<usize, TrainError> {
        Ok(training(form)?.program.graph.values().iter().map(|value| value.shape.bytes()).sum())
    };
    let sizes = forms.iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
    // The first of equals.
    Ok((0..sizes.len()).rev().max_by_key(|&form| sizes[form]).unwrap_or(0))
}

/// Traces the largest form of the training step.
pub fn largest_training(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    training(&plan.forms()[largest_form(plan)?])
}

/// Traces the training step. The task's updates move parameters while it is traced; the objectives it returns make the
/// last one.
pub fn training(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let (batch_inputs, batch) = batch(&trace, plan);
    let scalars = Scalars::declare(&trace);
    let context = Context::new(&trace, Mode::Train(plan.training(&scalars.key)), plan.step.precision);
    let updates = Rc::new(RefCell::new(Updates::new(&trace, plan, &scalars)));
    let early = updates.clone();
    context.on_minimize(move |cx, objectives| early.borrow_mut().early(cx, objectives));
    let outcome = plan.task.outcome(&context, &batch);
    let mut updates = updates.borrow_mut();
    updates.last(&context, &outcome.objectives);

    let variables = context.variables();
    let mut layout = Layout::default();
    for (index, variable) in variables.iter().enumerate() {
        let VariableSpec { path, shape, .. } = &variable.spec;
        layout.entries.push(StateEntry {
            name: path.clone(),
            role: Role::Variable(index),
            shape: shape.clone(),
            initial: 0.0,
        });
        layout.inputs.push(variable.value.clone());
        layout.outputs.push(variable.current());
    }
    let finite = updates.finite(&outcome.loss);
    let gate = Rules::of(plan).gate(&scalars.applies, &finite);
    updates.undo_bad(&variables, &mut layout.outputs, &finite);
    layout.append(std::mem::take(&mut updates.slots));
    if let Some(decay) = plan.phase.ema {
        let decay = ramped(plan, &scalars.update, decay);
        average(&trace, &variables, &decay, &gate, &mut layout);
    }
    layout.append(std::mem::take(&mut updates.totals));
    add_sums(&trace, &outcome.sums, &finite, &scalars.key, &mut layout);

    let sums = outcome.sums.dims().first().copied().unwrap_or(0);
    let specs: Vec<VariableSpec> = variables.into_iter().map(|variable| variable.spec).collect();
    let Layout { entries, inputs, mut outputs } = layout;
    // Not donated: waiting on it means that the step has finished.
    outputs.push(outcome.loss.convert(DType::F32));
    let state = inputs.len();
    let inputs: Vec<Tensor> = inputs.into_iter().chain(batch_inputs).chain(scalars.in_order()).collect();
    let mut program = program("training step", trace, &inputs, &outputs, (&[], state), plan)?;
    for (index, entry) in entries.iter().enumerate() {
        let sharding = match entry.role {
            // The host begins them anew and reads them.
            Role::Sums => Sharding::REPLICATED,
            Role::Variable(index) | Role::Average(index) => {
                spread::of_variable(&specs[index], &plan.mesh, plan.step.fsdp_from)
            }
            Role::Slot | Role::Gradient if plan.step.shard_optimizer => {
                spread::in_parts(&entry.shape, &plan.mesh, &plan.mesh.batch_axes())
            }
            Role::Slot | Role::Gradient => spread::of_slot(&entry.shape, &plan.mesh, plan.step.fsdp_from),
        };
        (program.inputs[index], program.outputs[index]) = (sharding.clone(), sharding);
    }
    Ok(TracedStep { program, variables: specs, entries, sums })
}

/// The tensors of a batch as they come to the devices, and without the rows that only make it divide over them.
fn batch(trace: &Trace, plan: &StepPlan) -> (Vec<Tensor>, Vec<Tensor>) {
    let rows = spread::rows(plan.step.batch_size, &plan.mesh);
    let declared = plan.task.inputs(rows);
    let inputs: Vec<Tensor> = declared.shapes().map(|(name, shape)| trace.input(name, shape.clone())).collect();
    let real = |input: &Tensor| match rows == plan.step.batch_size {
        true => input.clone(),
        false => input.slice_axis(0, 0, plan.step.batch_size),
    };
    let batch = inputs.iter().map(real).collect();
    (inputs, batch)
}

/// Where the graph has each of these inputs: it has them in the order in which they were declared.
fn order(trace: &Trace, inputs: &[Tensor]) -> Vec<usize> {
    let index = |input: &Tensor| trace.with_graph(|graph| graph.inputs().iter().position(|&id| Some(id) == input.id()));
    inputs.iter().filter_map(index).collect()
}

/// Puts the inputs into the order given: the variables that are only read, as many as are donated to the first outputs in order,
/// and the batch, which is split over the devices.
fn program(
    name: &str,
    trace: Trace,
    inputs: &[Tensor],
    outputs: &[Tensor],
    (variables, donated): (&[Variable], usize),
    plan: &StepPlan,
) -> Result<Program, TrainError> {
    let order = order(&trace, inputs);
    let graph = trace.finish(outputs)?.with_inputs_ordered(&order);
    let mut program = Program::new(name, graph);
    let first_batch = variables.len() + donated;
    program.donated = (0..donated).map(|output| (variables.len() + output, output)).collect();
    program.mesh = plan.mesh.clone();
    let shapes = program.graph.input_shapes();
    for (sharding, variable) in program.inputs.iter_mut().zip(variables) {
        *sharding = spread::of_variable(&variable.spec, &plan.mesh, plan.step.fsdp_from);
    }
    let batch = first_batch..first_batch + plan.task.inputs(1).count();
    for (sharding, shape) in program.inputs[batch.clone()].iter_mut().zip(&shapes[batch]) {
        *sharding = spread::of_batch(shape, &plan.mesh);
    }
    Ok(program)
}
