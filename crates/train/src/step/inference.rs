//! Programs that do not learn: evaluation, prediction, and the gradients of a step by themselves.

use super::rules::Rules;
use super::update::gradients_of;
use super::{StepPlan, TracedStep, batch, order, program};
use crate::TrainError;
use octant_graph::passes::quantized;
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::{Context, Mode, Objective, Variable};
use octant_runtime::Program;
use std::cell::RefCell;
use std::rc::Rc;

/// Traces the evaluation step. Its inputs are the variables (read), the sums (updated) and the batch; its outputs
/// are the sums, the loss and, where the task has an observer, the predictions.
pub fn evaluation(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let plan = &plan.evaluated();
    let trace = Trace::new();
    let (batch_inputs, batch) = batch(&trace, plan);
    let context = Context::new(&trace, Mode::Evaluate, plan.step.precision);
    let outcome = plan.task.outcome(&context, &batch);
    let count = outcome.sums.dims().first().copied().unwrap_or(0);
    let sums = trace.input("#sums", Shape::new(DType::F32, [count]));
    let variables = context.variables();
    let loss = outcome.loss.convert(DType::F32);
    let predictions = outcome.predictions.map(|predictions| match plan.mesh.is_remote() {
        true => plan.task.reduced(&predictions),
        false => predictions,
    });
    let outputs: Vec<Tensor> = [&sums + &outcome.sums, loss].into_iter().chain(predictions).collect();
    let inputs = inputs_after(&variables, [sums].into_iter().chain(batch_inputs));
    let program = program("evaluation step", trace, &inputs, &outputs, (&variables, 1), plan)?;
    let traced = without_state(in_8_bits(program, variables.len(), plan)?, variables);
    Ok(TracedStep { sums: count, ..traced })
}

/// Traces what is predicted from images alone: variables and images in, predictions out.
pub fn prediction(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let inputs = plan.task.inputs(plan.step.batch_size);
    let (name, shape) = inputs.shapes().next().expect("the first input is the images");
    let images = trace.input(name, shape.clone());
    let context = Context::new(&trace, Mode::Evaluate, plan.step.precision);
    let output = plan.task.predict(&context, &images);
    let variables = context.variables();
    let inputs = inputs_after(&variables, [images]);
    let order = order(&trace, &inputs);
    let program = Program::new("prediction", trace.finish(&[output])?.with_inputs_ordered(&order));
    Ok(without_state(in_8_bits(program, variables.len(), plan)?, variables))
}

/// Traces the images that show what was learned, and what their columns are called; none where the task has none. Variables
/// and a batch in, columns out.
pub fn samples(plan: &StepPlan) -> Result<Option<(TracedStep, Vec<&'static str>)>, TrainError> {
    let plan = &plan.evaluated();
    let trace = Trace::new();
    let (batch_inputs, batch) = batch(&trace, plan);
    let context = Context::new(&trace, Mode::Evaluate, plan.step.precision);
    let (names, columns): (Vec<&'static str>, Vec<Tensor>) = plan.task.samples(&context, &batch).into_iter().unzip();
    if names.is_empty() {
        return Ok(None);
    }
    let variables = context.variables();
    let inputs = inputs_after(&variables, batch_inputs);
    let program = program("samples", trace, &inputs, &columns, (&variables, 0), plan)?;
    Ok(Some((without_state(program, variables), names)))
}

/// Traces the gradients of a training step, before they are accumulated and clipped. Its inputs are the variables, the
/// batch and the step's key. Its outputs are the gradients of the parameters that learn, whose numbers come with it. All of
/// them are taken at the weights before the step, also where a step has several updates.
pub fn gradients(plan: &StepPlan) -> Result<(TracedStep, Vec<usize>), TrainError> {
    let trace = Trace::new();
    let (batch_inputs, batch) = batch(&trace, plan);
    let key = trace.input("key", Shape::new(DType::U32, [2]));
    let context = Context::new(&trace, Mode::Train(plan.training(&key)), plan.step.precision);
    let early = Rc::new(RefCell::new(Vec::<Objective>::new()));
    let collected = early.clone();
    context.on_minimize(move |_, objectives| collected.borrow_mut().extend_from_slice(objectives));
    let outcome = plan.task.outcome(&context, &batch);
    let objectives = [early.take(), outcome.objectives].concat();
    let variables = context.variables();
    let learned = Rules::of(plan).learned(&variables, &objectives);
    let outputs = gradients_of(&trace, &variables, &learned, &objectives);
    let inputs = inputs_after(&variables, batch_inputs.into_iter().chain([key]));
    let program = program("gradients", trace, &inputs, &outputs, (&variables, 0), plan)?;
    let numbers = learned.into_iter().map(|learned| learned.variable).collect();
    Ok((without_state(program, variables), numbers))
}

/// The values of the variables, the first inputs of every program here, then others.
fn inputs_after(variables: &[Variable], others: impl IntoIterator<Item = Tensor>) -> Vec<Tensor> {
    variables.iter().map(|variable| variable.value.clone()).chain(others).collect()
}

/// The program with the layers of the plan in 8 bits. Its first inputs are the variables.
fn in_8_bits(program: Program, variables: usize, plan: &StepPlan) -> Result<Program, TrainError> {
    let Some(ranges) = &plan.int8 else { return Ok(program) };
    let activations: Vec<usize> = (variables..program.graph.inputs().len()).collect();
    Ok(Program { graph: quantized(&program.graph, &activations, ranges)?, ..program })
}

/// A program that reads variables and keeps nothing between its runs.
fn without_state(program: Program, variables: Vec<Variable>) -> TracedStep {
    let variables = variables.into_iter().map(|variable| variable.spec).collect();
    TracedStep { program, variables, entries: Vec::new(), sums: 0 }
}
