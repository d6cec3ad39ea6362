//! Gradients alone, for those who want to look at them.

use super::rules::Rules;
use super::update::gradients;
use super::{StepPlan, TracedStep, batch, program};
use crate::TrainError;
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_nn::{Context, Mode, Objective};
use std::cell::RefCell;
use std::rc::Rc;

/// Traces the gradients of a step that learns, before they are accumulated and clipped. Its inputs are the variables, the
/// batch and the step's key. Its outputs are the gradients of the parameters that learn, whose numbers come with it. All of
/// them are taken at the weights before the step, also where a step has several updates.
pub fn slopes(plan: &StepPlan) -> Result<(TracedStep, Vec<usize>), TrainError> {
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
    let outputs = gradients(&trace, &variables, &learned, &objectives);
    let position = variables.len();
    let inputs: Vec<Tensor> = variables.iter().map(|v| v.value.clone()).chain(batch_inputs).chain([key]).collect();
    let mut program = program("gradients", trace, &inputs, &outputs, position..position, plan)?;
    program.donated.clear();
    let specs = variables.into_iter().map(|variable| variable.spec).collect();
    let numbers = learned.into_iter().map(|(_, index)| index).collect();
    Ok((TracedStep { program, variables: specs, entries: Vec::new(), sums: 0 }, numbers))
}
