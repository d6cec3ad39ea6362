//! The step: model, loss, gradients and optimizer traced into one program.

mod inference;
mod slopes;
mod update;

pub use inference::{evaluation, prediction};
pub use slopes::slopes;
pub use update::WATCH;

use crate::state::{Entry, Role};
use crate::{Task, TrainError, spread};
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::{Context, Mode, Optimizer, Precision, Training, VariableSpec};
use octant_runtime::{Mesh, Program};
use update::{Layout, accumulated, apply, average, clipped, finite, gate, gradients, keep_statistics, learned, watch};

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
    /// Images per step, over all devices.
    pub batch_size: usize,
    /// The devices.
    pub mesh: Mesh,
    /// Which parameters learn; the others get no gradient and no optimizer state.
    pub trainable: &'f dyn Fn(&VariableSpec) -> bool,
    /// What a parameter's learning rate is multiplied by.
    pub rate_scale: &'f dyn Fn(&VariableSpec) -> f64,
    /// A parameter's own weight decay, where it has one.
    pub own_decay: &'f dyn Fn(&VariableSpec) -> Option<f64>,
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
    /// Repeated blocks of the network keep nothing for the backward pass but compute it again: less memory, more time.
    pub recompute: bool,
    /// Every device keeps only its part of what the optimizer remembers.
    pub shard_optimizer: bool,
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
            own_decay: &|_| None,
            clip: Clip::Off,
            average: None,
            accumulate: 1,
            frozen_statistics: false,
            batch_groups: 1,
            skip_bad: false,
            recompute: false,
            shard_optimizer: false,
        }
    }

    fn decay(&self, spec: &VariableSpec) -> f64 {
        let usual = if self.decay_all || spec.is_matrix() { self.weight_decay } else { 0.0 };
        (self.own_decay)(spec).unwrap_or(usual)
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
    pub entries: Vec<Entry>,
}

/// Scalars after the batch: learning rate, number of the update, whether this batch ends one, and the key of this step,
/// whose second word is the step's number.
const SCALARS: [(&str, DType, &[usize]); 4] =
    [("rate", DType::F32, &[]), ("update", DType::F32, &[]), ("applies", DType::F32, &[]), ("key", DType::U32, &[2])];

/// Traces the step that learns.
pub fn training(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let (batch_inputs, batch) = batch(&trace, plan);
    let scalars = SCALARS.map(|(name, dtype, dims)| trace.input(name, Shape::new(dtype, dims)));
    let [_, _, applies, key] = &scalars;
    let training = Training {
        batch_groups: plan.batch_groups,
        frozen_statistics: plan.frozen_statistics,
        recompute_blocks: plan.recompute,
        ..Training::new(key)
    };
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
    let Layout { entries, inputs, mut outputs } = layout;
    // Nothing takes this one over, so somebody who holds it can see when the step is done.
    outputs.push(outcome.objectives[0].loss.convert(DType::F32));
    let state = inputs.len();
    let inputs: Vec<Tensor> = inputs.into_iter().chain(batch_inputs).chain(scalars).collect();
    let mut program = program("training step", trace, &inputs, &outputs, 0..state, plan)?;
    if plan.shard_optimizer {
        for (place, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.role.is_of_optimizer()) {
            let sharding = spread::in_parts(&entry.shape, &plan.mesh);
            (program.inputs[place], program.outputs[place]) = (sharding, sharding);
        }
    }
    Ok(TracedStep { program, variables: specs, entries })
}

/// The tensors of a batch as they come to the devices, and without the rows that only make it divide over them.
fn batch(trace: &Trace, plan: &StepPlan) -> (Vec<Tensor>, Vec<Tensor>) {
    let rows = spread::rows(plan.batch_size, &plan.mesh);
    let shapes = plan.task.batch_shapes(rows).into_iter();
    let inputs: Vec<Tensor> = shapes.map(|(name, shape)| trace.input(&name, shape)).collect();
    let real = |input: &Tensor| match rows == plan.batch_size {
        true => input.clone(),
        false => input.slice_axis(0, 0, plan.batch_size),
    };
    let batch = inputs.iter().map(real).collect();
    (inputs, batch)
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
    program.inputs[first_batch..][..plan.task.batch_shapes(1).len()].fill(spread::of_batch(&plan.mesh));
    Ok(program)
}
