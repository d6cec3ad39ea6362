//! Phases: epochs of a run with the same options.

use crate::step::{PhaseOptions, StepOptions, StepPlan};
use crate::{RunProgress, Task};
use octant_data::Transform;
use octant_nn::schedule::{Plateau, Schedule};
use octant_runtime::Mesh;
use std::sync::Arc;

/// How often the learning rate changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// At every epoch of the phase.
    #[default]
    Epoch,
    /// At every step of the phase.
    Step,
}

/// Where the learning rate comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// A function of time.
    Scheduled(Schedule, Pace),
    /// Reduced when the watched metric stops improving.
    Plateau(Plateau),
}

impl Rate {
    /// The rate of the next step.
    pub fn now(&self, progress: &RunProgress) -> f64 {
        match self {
            Rate::Scheduled(schedule, Pace::Epoch) => schedule.rate(progress.phase_epoch),
            Rate::Scheduled(schedule, Pace::Step) => schedule.rate(progress.phase_step),
            Rate::Plateau(plateau) => plateau.rate,
        }
    }
}

/// Epochs of a run with the same task, options and schedule.
pub struct Phase {
    /// What people call it, such as `burn-in`.
    pub name: String,
    /// How many epochs it lasts.
    pub epochs: u64,
    /// What is learned.
    pub task: Arc<dyn Task>,
    /// The same on validation images, where they have another size.
    pub evaluation: Option<Arc<dyn Task>>,
    /// How parameters learn.
    pub options: PhaseOptions,
    /// The learning rate.
    pub rate: Rate,
    /// What happens to training samples.
    pub transform: Arc<dyn Transform>,
}

impl Phase {
    /// The task on validation images.
    pub fn evaluated(&self) -> &dyn Task {
        self.evaluation.as_deref().unwrap_or(&*self.task)
    }

    /// The step of this phase. Compiling it gives the same program for the same phase and options, on the machine
    /// that trains or on another.
    pub fn step(&self, step: &StepOptions, mesh: &Mesh) -> StepPlan {
        StepPlan {
            task: self.task.clone(),
            evaluation: self.evaluation.clone(),
            mesh: mesh.clone(),
            step: step.clone(),
            phase: self.options.clone(),
            int8: None,
        }
    }
}
