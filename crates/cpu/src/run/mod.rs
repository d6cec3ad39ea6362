//! Running plans.

mod control;
mod instructions;
mod kernels;
mod looping;
mod math;
mod memory;

pub(crate) use memory::Memory;

use crate::kernels::Machine;
use crate::plan::{Plan, Step};

/// Runs all steps of a plan over memory that was bound to it.
pub(crate) fn run(plan: &Prepared, memory: &Memory, machine: &Machine) {
    for step in &plan.steps {
        step.run(memory, machine);
    }
}

/// A plan with everything chosen that does not change from run to run: compiled instructions, kernel plans.
pub(crate) struct Prepared {
    pub plan: Plan,
    steps: Vec<PreparedStep>,
}

enum PreparedStep {
    Loop(looping::PreparedLoop),
    Kernel(kernels::PreparedKernel),
    Control(control::PreparedControl),
    Copy { from: usize, to: usize, bytes: usize },
}

impl Prepared {
    /// Chooses instructions and kernels for the machine.
    pub fn new(mut plan: Plan, machine: &Machine) -> Prepared {
        let steps = std::mem::take(&mut plan.steps).into_iter().map(|step| PreparedStep::new(step, machine)).collect();
        Prepared { plan, steps }
    }
}

impl PreparedStep {
    fn new(step: Step, machine: &Machine) -> PreparedStep {
        match step {
            Step::Loop(step) => PreparedStep::Loop(looping::PreparedLoop::new(step, machine.simd)),
            Step::Kernel(step) => PreparedStep::Kernel(kernels::PreparedKernel::new(step)),
            Step::While { .. } | Step::If { .. } => {
                PreparedStep::Control(control::PreparedControl::new(step, machine))
            }
            Step::Copy { from, to, bytes } => {
                PreparedStep::Copy { from: from.0 as usize, to: to.0 as usize, bytes }
            }
        }
    }

    fn run(&self, memory: &Memory, machine: &Machine) {
        match self {
            PreparedStep::Loop(step) => step.run(memory, machine),
            PreparedStep::Kernel(step) => step.run(memory, machine),
            PreparedStep::Control(step) => step.run(memory, machine),
            PreparedStep::Copy { from, to, bytes } => memory.copy(*from, *to, *bytes),
        }
    }
}
