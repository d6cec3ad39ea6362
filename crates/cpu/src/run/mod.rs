//! Running plans.

mod control;
mod instructions;
mod kernels;
mod looping;
mod memory;

pub(crate) use memory::Memory;

use crate::kernels::Machine;
use crate::plan::{Plan, SteadyWeights, Step};
use octant_runtime::PartTiming;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs all steps of a plan over memory that was bound to it.
pub(crate) fn run(plan: &Prepared, memory: &Memory, machine: &Machine) {
    match &plan.profile {
        None => (0..plan.steps.len()).for_each(|at| plan.run_step(at, memory, machine)),
        Some(profile) => {
            for (at, part) in profile.iter().enumerate() {
                let begun = Instant::now();
                plan.run_step(at, memory, machine);
                part.nanoseconds.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            }
        }
    }
}

/// A plan with everything chosen that does not change from run to run: compiled instructions, kernel plans.
pub(crate) struct Prepared {
    pub plan: Plan,
    steps: Vec<PreparedStep>,
    /// For every step that makes nothing but weights: the step that may have kept them.
    keepers: Vec<Option<usize>>,
    profile: Option<Vec<Measured>>,
}

/// What is known of a step that is measured.
struct Measured {
    what: String,
    path: String,
    flops: f64,
    nanoseconds: AtomicU64,
}

#[allow(clippy::large_enum_variant, reason = "a plan has a few thousand at most, and they are never copied")]
enum PreparedStep {
    Loop(looping::PreparedLoop),
    Kernel(kernels::PreparedKernel),
    Control(control::PreparedControl),
    Copy { from: usize, to: usize, bytes: usize },
}

impl Prepared {
    /// Chooses instructions and kernels for the machine.
    pub fn new(mut plan: Plan, machine: &Machine) -> Prepared {
        let steps = std::mem::take(&mut plan.steps).into_iter();
        let mut steps: Vec<_> = steps.map(|step| PreparedStep::new(step, machine)).collect();
        let mut keepers = vec![None; steps.len()];
        for SteadyWeights { consumer, inputs, producer } in std::mem::take(&mut plan.steady) {
            let PreparedStep::Kernel(kernel) = &mut steps[consumer] else { continue };
            kernel.keep_weights(inputs);
            if let Some(producer) = producer {
                keepers[producer] = Some(consumer);
            }
        }
        Prepared { plan, steps, keepers, profile: None }
    }

    fn run_step(&self, at: usize, memory: &Memory, machine: &Machine) {
        let keeper = self.keepers[at].map(|keeper| &self.steps[keeper]);
        match keeper {
            Some(PreparedStep::Kernel(keeper)) if keeper.has_weights(memory) => {}
            _ => self.steps[at].run(memory, machine),
        }
    }

    /// The same, with the time of every step measured from now on.
    pub fn measured(plan: Plan, machine: &Machine) -> Prepared {
        let measure = |step: &Step| {
            let (what, path) = step.describe();
            Measured { what, path, flops: step.flops(), nanoseconds: AtomicU64::new(0) }
        };
        let profile = plan.steps.iter().map(measure).collect();
        Prepared { profile: Some(profile), ..Prepared::new(plan, machine) }
    }

    /// Where the time went so far.
    pub fn profile(&self) -> Vec<PartTiming> {
        let part = |measured: &Measured| PartTiming {
            what: measured.what.clone(),
            path: measured.path.clone(),
            time: Duration::from_nanos(measured.nanoseconds.load(Ordering::Relaxed)),
            flops: measured.flops,
        };
        self.profile.iter().flatten().map(part).collect()
    }
}

impl PreparedStep {
    fn new(step: Step, machine: &Machine) -> PreparedStep {
        match step {
            Step::Loop(step) => PreparedStep::Loop(looping::PreparedLoop::new(step, machine.simd)),
            Step::Kernel(step) => PreparedStep::Kernel(kernels::PreparedKernel::new(step, machine.simd)),
            Step::While { .. } | Step::If { .. } => PreparedStep::Control(control::PreparedControl::new(step, machine)),
            Step::Copy { from, to, bytes } => PreparedStep::Copy { from: from.0 as usize, to: to.0 as usize, bytes },
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
