//! The step: model, loss, gradients and optimizer traced into one program.

use crate::{Task, TrainError};
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::optimizer::Update;
use octant_nn::{Context, Kind, Mode, Optimizer, Precision, Training, VariableSpec};
use octant_runtime::{Mesh, Program, Sharding};

/// What a step is made of.
pub struct StepPlan<'a> {
    /// What is learned.
    pub task: &'a dyn Task,
    /// How parameters change.
    pub optimizer: Optimizer,
    /// The weight decay of matrices and kernels.
    pub weight_decay: f64,
    /// What layers compute in.
    pub precision: Precision,
    /// Pictures per step, over all devices.
    pub batch_size: usize,
    /// The devices.
    pub mesh: Mesh,
    /// Which parameters learn; the others get no gradient and no optimizer state.
    pub trainable: &'a dyn Fn(&VariableSpec) -> bool,
}

/// A traced step with the layout of its inputs: variables, slots, sums, batch, scalars.
pub struct TracedStep {
    /// What the backend compiles.
    pub program: Program,
    /// The model's variables, in the order of the inputs.
    pub variables: Vec<VariableSpec>,
    /// `(variable, name, first value)` of every slot, in the order of the inputs.
    pub slots: Vec<(usize, &'static str, f64)>,
}

/// Scalars after the batch: learning rate, step number, and the key of this step.
const SCALARS: [(&str, DType, &[usize]); 3] =
    [("rate", DType::F32, &[]), ("step", DType::F32, &[]), ("key", DType::U32, &[2])];

/// Traces the step that learns.
pub fn training(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let batch = batch_inputs(&trace, plan);
    let scalars = SCALARS.map(|(name, dtype, dims)| trace.input(name, Shape::new(dtype, dims)));
    let [rate, step, key] = &scalars;
    let sums = trace.input("sums", Shape::new(DType::F32, [plan.task.sums()]));
    let mode = Mode::Train(Training::new(key));
    let context = Context::new(&trace, mode, plan.precision);
    let outcome = plan.task.outcome(&context, &batch);

    let variables = context.variables();
    let learned: Vec<usize> = (0..variables.len())
        .filter(|&index| variables[index].spec.kind == Kind::Parameter && (plan.trainable)(&variables[index].spec))
        .collect();
    let parameters: Vec<Tensor> = learned.iter().map(|&index| variables[index].value.clone()).collect();
    let gradients = trace.gradients(&outcome.loss, &parameters);

    let mut updated: Vec<Tensor> =
        variables.iter().map(|variable| variable.updated.clone().unwrap_or_else(|| variable.value.clone())).collect();
    let (mut slots, mut slot_inputs, mut slot_outputs) = (Vec::new(), Vec::new(), Vec::new());
    for (&index, gradient) in learned.iter().zip(&gradients) {
        let spec = &variables[index].spec;
        let _scope = trace.scope(spec.path.as_str());
        let own: Vec<Tensor> = plan
            .optimizer
            .slots()
            .into_iter()
            .map(|slot| {
                slots.push((index, slot.name, slot.initial));
                trace.input(&format!("{}.{}", spec.path, slot.name), spec.shape.clone())
            })
            .collect();
        let decay = if spec.is_matrix() { plan.weight_decay } else { 0.0 };
        let update = Update { parameter: &variables[index].value, gradient, slots: &own, rate, step, decay };
        let (parameter, next) = plan.optimizer.update(update);
        updated[index] = parameter;
        slot_inputs.extend(own);
        slot_outputs.extend(next);
    }

    let state_in: Vec<Tensor> = variables.iter().map(|v| v.value.clone()).chain(slot_inputs).chain([sums.clone()]).collect();
    let state_out: Vec<Tensor> = updated.into_iter().chain(slot_outputs).chain([&sums + &outcome.sums]).collect();
    let specs = variables.into_iter().map(|variable| variable.spec).collect();
    let inputs: Vec<Tensor> = state_in.into_iter().chain(batch).chain(scalars).collect();
    let program = program("training step", trace, &inputs, &state_out, plan)?;
    Ok(TracedStep { program, variables: specs, slots })
}

/// Traces the step that only counts: the state is the variables (read) and the sums.
pub fn evaluation(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let batch = batch_inputs(&trace, plan);
    let sums = trace.input("sums", Shape::new(DType::F32, [plan.task.sums()]));
    let context = Context::new(&trace, Mode::Evaluate, plan.precision);
    let outcome = plan.task.outcome(&context, &batch);
    let variables = context.variables();
    let total = &sums + &outcome.sums;
    let inputs: Vec<Tensor> = variables.iter().map(|v| v.value.clone()).chain([sums]).chain(batch).collect();
    let program = program("evaluation step", trace, &inputs, &[total], plan)?;
    Ok(TracedStep { program, variables: variables.into_iter().map(|v| v.spec).collect(), slots: Vec::new() })
}

fn batch_inputs(trace: &Trace, plan: &StepPlan) -> Vec<Tensor> {
    plan.task.batch_shapes(plan.batch_size).into_iter().map(|(name, shape)| trace.input(&name, shape)).collect()
}

/// Puts the inputs into the order of the state, and donates every input whose successor is an output: training updates
/// all of its state, evaluation only the sums.
fn program(
    name: &str,
    trace: Trace,
    inputs: &[Tensor],
    outputs: &[Tensor],
    plan: &StepPlan,
) -> Result<Program, TrainError> {
    let place = |input: &Tensor| trace.with_graph(|graph| graph.inputs().iter().position(|&id| Some(id) == input.id()));
    let order: Vec<usize> = inputs.iter().filter_map(place).collect();
    let graph = trace.finish(outputs)?.with_inputs_ordered(&order);
    let mut program = Program::new(name, graph);
    let first_batch = inputs.len() - plan.task.batch_shapes(1).len() - if outputs.len() > 1 { SCALARS.len() } else { 0 };
    let donated_from = first_batch - outputs.len();
    program.donated = (donated_from..first_batch).enumerate().map(|(output, input)| (input, output)).collect();
    program.mesh = plan.mesh.clone();
    for split in &mut program.inputs[first_batch..first_batch + plan.task.batch_shapes(1).len()] {
        *split = if plan.mesh.devices() > 1 { Sharding::Split { axis: 0 } } else { Sharding::Replicated };
    }
    Ok(program)
}
