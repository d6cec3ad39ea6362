//! Steps that do not learn: counting and answering.

use super::{StepPlan, TracedStep, batch, order, program};
use crate::TrainError;
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::{Context, Mode};
use octant_runtime::Program;

/// Traces the step that only counts. Its inputs are the variables (read), the sums (updated) and the batch; its outputs
/// are the sums, the loss and, where the task has an observer, the predictions.
pub fn evaluation(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let (batch_inputs, batch) = batch(&trace, plan);
    let context = Context::new(&trace, Mode::Evaluate, plan.step.precision);
    let outcome = plan.task.outcome(&context, &batch);
    let count = outcome.sums.dims().first().copied().unwrap_or(0);
    let sums = trace.input("#sums", Shape::new(DType::F32, [count]));
    let variables = context.variables();
    let loss = outcome.loss.convert(DType::F32);
    let outputs: Vec<Tensor> = [&sums + &outcome.sums, loss].into_iter().chain(outcome.predictions).collect();
    let inputs: Vec<Tensor> = variables.iter().map(|v| v.value.clone()).chain([sums]).chain(batch_inputs).collect();
    let position = variables.len();
    let program = program("evaluation step", trace, &inputs, &outputs, position..position + 1, plan)?;
    let variables = variables.into_iter().map(|v| v.spec).collect();
    Ok(TracedStep { program, variables, entries: Vec::new(), sums: count })
}

/// Traces what is asked of images alone: variables and images in, predictions out.
pub fn prediction(plan: &StepPlan) -> Result<TracedStep, TrainError> {
    let trace = Trace::new();
    let inputs = plan.task.inputs(plan.step.batch_size);
    let (name, shape) = inputs.shapes().next().expect("the first input is the images");
    let images = trace.input(name, shape.clone());
    let context = Context::new(&trace, Mode::Evaluate, plan.step.precision);
    let output = plan.task.predict(&context, &images);
    let variables = context.variables();
    let inputs: Vec<Tensor> = variables.iter().map(|v| v.value.clone()).chain([images]).collect();
    let order = order(&trace, &inputs);
    let program = Program::new("prediction", trace.finish(&[output])?.with_inputs_ordered(&order));
    Ok(TracedStep { program, variables: variables.into_iter().map(|v| v.spec).collect(), entries: Vec::new(), sums: 0 })
}
