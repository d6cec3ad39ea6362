//! Running plans.

mod control;
mod instructions;
mod kept;
mod kernels;
mod looping;
mod memory;

pub(crate) use memory::Memory;

use crate::kernels::Machine;
use crate::plan::{Plan, SteadyStep, Step};
use kept::MadeFrom;
use octant_runtime::PartTiming;
use octant_tensor::AlignedBytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
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
    /// When steps need not run.
    needs: Vec<Need>,
    /// Memory of values that are kept from run to run.
    kept: Mutex<AlignedBytes>,
    /// Held to read by runs that find all kept values there, to write by a run that makes them: see [`Prepared::enter`].
    steady: RwLock<()>,
    /// A whole run has ended, so that everything that is ever kept is there.
    has_run: AtomicBool,
    profile: Option<Vec<Measured>>,
}

/// A run that is under way.
pub(crate) enum Entered<'a> {
    /// Others may run the same program.
    Shared { _guard: RwLockReadGuard<'a, ()> },
    /// No other runs the same program.
    Alone { _guard: RwLockWriteGuard<'a, ()> },
}

/// When a step has to run.
enum Need {
    Always,
    /// If its results were not made from the inputs of this run.
    Changed(Mutex<MadeFrom>),
    /// If one of these steps has not kept what it makes from its results.
    By(Vec<usize>),
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
        let mut weights: HashMap<usize, Vec<usize>> = std::mem::take(&mut plan.steady.weights).into_iter().collect();
        let steps = std::mem::take(&mut plan.steps).into_iter().enumerate();
        let steps: Vec<_> = steps.map(|(at, step)| PreparedStep::new(step, weights.remove(&at), machine)).collect();
        let mut needs: Vec<Need> = steps.iter().map(|_| Need::Always).collect();
        for (at, step) in std::mem::take(&mut plan.steady.steps) {
            needs[at] = match step {
                SteadyStep::Kept(inputs) => Need::Changed(Mutex::new(MadeFrom::nothing(inputs))),
                SteadyStep::Before(keepers) => Need::By(keepers),
            };
        }
        let kept = Mutex::new(AlignedBytes::zeroed(plan.steady.bytes));
        Prepared { plan, steps, needs, kept, steady: RwLock::new(()), has_run: AtomicBool::new(false), profile: None }
    }

    /// Where values lie that are kept from run to run.
    pub fn kept_memory(&self) -> *mut u8 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).as_mut_ptr()
    }

    /// Begins a run. Runs of the same program are concurrent as long as each finds the kept values of its own inputs; one
    /// that has to make them, because its weights are others, has the program to itself.
    pub fn enter(&self, memory: &Memory) -> Entered<'_> {
        let shared = self.steady.read().unwrap_or_else(PoisonError::into_inner);
        if self.is_steady(memory) {
            return Entered::Shared { _guard: shared };
        }
        drop(shared);
        Entered::Alone { _guard: self.steady.write().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Notes that a run has ended without a panic.
    pub fn has_ended(&self) {
        self.has_run.store(true, Ordering::Release);
    }

    /// Whether no step of this run would overwrite anything that is kept.
    fn is_steady(&self, memory: &Memory) -> bool {
        let has_run = self.has_run.load(Ordering::Acquire);
        has_run
            && self.needs.iter().zip(&self.steps).all(|(need, step)| match (need, step) {
                (Need::Changed(made_from), _) => {
                    made_from.lock().unwrap_or_else(PoisonError::into_inner).is_now(memory)
                }
                (Need::Always | Need::By(_), PreparedStep::Kernel(kernel)) => kernel.keeps_nothing_else(memory),
                (Need::Always | Need::By(_), _) => true,
            })
    }

    fn run_step(&self, at: usize, memory: &Memory, machine: &Machine) {
        match &self.needs[at] {
            Need::By(keepers) if keepers.iter().all(|&keeper| self.has_kept(keeper, memory)) => {}
            Need::Changed(made_from) => {
                // A panic while the step ran left its results without identities.
                let mut made_from = made_from.lock().unwrap_or_else(PoisonError::into_inner);
                if !made_from.is_now(memory) {
                    made_from.forget();
                    self.steps[at].run(memory, machine);
                    made_from.remember(memory);
                }
            }
            Need::Always | Need::By(_) => self.steps[at].run(memory, machine),
        }
    }

    /// Whether a step has kept what it makes from the inputs of this run.
    fn has_kept(&self, at: usize, memory: &Memory) -> bool {
        match (&self.needs[at], &self.steps[at]) {
            (Need::Changed(made_from), _) => made_from.lock().unwrap_or_else(PoisonError::into_inner).is_now(memory),
            (Need::Always | Need::By(_), PreparedStep::Kernel(kernel)) => kernel.has_weights(memory),
            (Need::Always | Need::By(_), _) => false,
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
    /// `steady`: what the weights of a kernel are made from, where they may be kept.
    fn new(step: Step, steady: Option<Vec<usize>>, machine: &Machine) -> PreparedStep {
        match step {
            Step::Loop(step) => PreparedStep::Loop(looping::PreparedLoop::new(step, machine.simd)),
            Step::Kernel(step) => PreparedStep::Kernel(kernels::PreparedKernel::new(step, steady, machine.simd)),
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
