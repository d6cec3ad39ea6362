//! Phases: stretches of a run with the same rules.

mod options;

pub use options::{Group, MixOptions, PhaseOptions, WarmupOptions};

use crate::step::{StepOptions, StepPlan};
use crate::{Progress, Task};
use octant_data::Transform;
use octant_nn::VariableSpec;
use octant_nn::schedule::{Plateau, Schedule};
use octant_runtime::Mesh;
use std::sync::Arc;

/// Which parameters learn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trainable {
    /// All.
    #[default]
    All,
    /// Those of the head; the rest gets no gradient and no optimizer state.
    Head,
    /// Those of low-rank adapters, and the head.
    Adapters,
    /// Those whose paths begin with one of these.
    Under(Vec<String>),
}

impl Trainable {
    /// Whether a parameter learns, given where the head lies.
    pub fn includes(&self, spec: &VariableSpec, head: &[String]) -> bool {
        let under = |scope: &String| is_under(&spec.path, scope);
        match self {
            Trainable::All => true,
            Trainable::Head => head.iter().any(under),
            Trainable::Adapters => spec.is_adapter() || head.iter().any(under),
            Trainable::Under(scopes) => scopes.iter().any(under),
        }
    }
}

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
    pub fn now(&self, progress: &Progress) -> f64 {
        match self {
            Rate::Scheduled(schedule, Pace::Epoch) => schedule.rate(progress.phase_epoch),
            Rate::Scheduled(schedule, Pace::Step) => schedule.rate(progress.phase_step),
            Rate::Plateau(plateau) => plateau.rate,
        }
    }
}

impl Group {
    /// Whether a parameter belongs to it.
    pub fn includes(&self, spec: &VariableSpec) -> bool {
        self.under.iter().any(|scope| is_under(&spec.path, scope))
    }
}

/// Whether a path lies below a scope, or is it. Everything lies below the empty one.
pub(crate) fn is_under(path: &str, scope: &str) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('.') || scope.is_empty();
    path.strip_prefix(scope).is_some_and(below)
}

/// A stretch of a run.
pub struct Phase {
    /// What people call it, such as `burn-in`.
    pub name: String,
    /// How many epochs it lasts.
    pub epochs: u64,
    /// What is learned.
    pub task: Box<dyn Task>,
    /// How parameters learn.
    pub options: PhaseOptions,
    /// The learning rate.
    pub rate: Rate,
    /// What happens to training samples.
    pub transform: Arc<dyn Transform>,
}

impl Phase {
    /// The step of this phase. Whoever compiles it gets the same program for the same phase and options, on the machine
    /// that trains or on another.
    pub fn step(&self, step: &StepOptions, mesh: &Mesh) -> StepPlan<'_> {
        StepPlan { task: &*self.task, mesh: mesh.clone(), step: step.clone(), phase: self.options.clone() }
    }
}

/// What a parameter's learning rate is multiplied by under layer-wise decay. The layers are the network's blocks, in order,
/// with what comes before them and what comes after; the last one learns at the full rate.
pub(crate) fn layer_scale(spec: &VariableSpec, last: usize, decay: f64) -> f64 {
    decay.powi(last.saturating_sub(spec.layer) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn layers_far_from_the_head_learn_slowly() {
        let model = octant_zoo::build("resnet18", Some(10)).expect("a model of the zoo");
        let (specs, _) = octant_zoo::describe(&*model, [64, 64, 3]).expect("it can be traced");
        let last = specs.iter().map(|spec| spec.layer).max().expect("a model has variables");
        let scales: HashMap<&str, f64> =
            specs.iter().map(|spec| (spec.path.as_str(), layer_scale(spec, last, 0.5))).collect();
        // Eight blocks between the stem and the head.
        assert_eq!(scales["fc.weight"], 1.0);
        assert_eq!(scales["layer4.1.conv2.weight"], 0.5);
        assert_eq!(scales["layer1.0.conv1.weight"], 0.5f64.powi(8));
        assert_eq!(scales["conv1.weight"], 0.5f64.powi(9));
    }

    #[test]
    fn a_path_lies_below_whole_steps_only() {
        assert!(is_under("head.fc.weight", "head.fc") && is_under("anything", ""));
        assert!(!is_under("header.weight", "head"));
    }
}
