//! The steps of a plan.

use super::Plan;
use super::kernel::{BufferId, Loop, Source};
use super::nest::Nest;
use octant_graph::{Op, Shape};

/// One thing to do; steps run one after another, each on all threads.
pub(crate) enum Step {
    Loop(LoopStep),
    Kernel(KernelStep),
    /// Carried values: copied from the inputs into the outputs, then turned by the body as long as the condition holds.
    While {
        inputs: Vec<BufferId>,
        outputs: Vec<BufferId>,
        condition: Plan,
        body: Plan,
        scratch: BufferId,
    },
    If {
        condition: BufferId,
        inputs: Vec<BufferId>,
        outputs: Vec<BufferId>,
        then: Plan,
        otherwise: Plan,
        scratch: BufferId,
    },
    Copy {
        from: BufferId,
        to: BufferId,
        bytes: usize,
    },
}

/// A fused loop with the way it is cut into tasks.
pub(crate) struct LoopStep {
    pub body: Loop,
    pub nest: Nest,
    /// Partial results of folds, combined in order after all tasks.
    pub partials: Option<BufferId>,
}

/// An operation with a kernel of its own.
pub(crate) struct KernelStep {
    pub op: Op,
    pub inputs: Vec<(BufferId, Shape)>,
    pub outputs: Vec<(BufferId, Shape)>,
    /// The layer that asked for it, for profiles.
    pub path: std::sync::Arc<str>,
}

impl Step {
    /// The buffers that are read.
    pub fn reads(&self) -> Vec<BufferId> {
        match self {
            Step::Loop(step) => Step::reads_of(&step.body),
            Step::Kernel(step) => step.inputs.iter().map(|(buffer, _)| *buffer).collect(),
            Step::While { inputs, .. } => inputs.clone(),
            Step::If { condition, inputs, .. } => [&[*condition], inputs.as_slice()].concat(),
            Step::Copy { from, .. } => vec![*from],
        }
    }

    /// The buffers that a loop reads.
    pub fn reads_of(body: &Loop) -> Vec<BufferId> {
        let memory = body.loads.iter().filter_map(|load| match &load.source {
            Source::Memory(operand) => Some(operand.buffer),
            Source::Immediate(_) | Source::Count { .. } => None,
        });
        memory.collect()
    }

    /// The buffers that are written, scratch memory included.
    pub fn writes(&self) -> Vec<BufferId> {
        match self {
            Step::Loop(step) => {
                let stores = step.body.stores.iter().map(|store| store.to.buffer);
                let folds = step.body.folds.iter().map(|fold| fold.to.buffer);
                stores.chain(folds).chain(step.partials).collect()
            }
            Step::Kernel(step) => step.outputs.iter().map(|(buffer, _)| *buffer).collect(),
            Step::While { outputs, scratch, .. } | Step::If { outputs, scratch, .. } => {
                outputs.iter().copied().chain([*scratch]).collect()
            }
            Step::Copy { to, .. } => vec![*to],
        }
    }

    /// All buffers of the step, to be renamed.
    pub fn buffers_mut(&mut self) -> Vec<&mut BufferId> {
        match self {
            Step::Loop(step) => {
                let loads = step.body.loads.iter_mut().filter_map(|load| match &mut load.source {
                    Source::Memory(operand) => Some(&mut operand.buffer),
                    Source::Immediate(_) | Source::Count { .. } => None,
                });
                let stores = step.body.stores.iter_mut().map(|store| &mut store.to.buffer);
                let folds = step.body.folds.iter_mut().map(|fold| &mut fold.to.buffer);
                loads.chain(stores).chain(folds).chain(step.partials.as_mut()).collect()
            }
            Step::Kernel(step) => step.inputs.iter_mut().chain(&mut step.outputs).map(|(buffer, _)| buffer).collect(),
            Step::While { inputs, outputs, scratch, .. } => inputs.iter_mut().chain(outputs).chain([scratch]).collect(),
            Step::If { condition, inputs, outputs, scratch, .. } => {
                inputs.iter_mut().chain(outputs).chain([condition, scratch]).collect()
            }
            Step::Copy { from, to, .. } => vec![from, to],
        }
    }
}
