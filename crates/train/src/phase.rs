//! Phases: stretches of a run with the same rules.

mod steps;

pub use steps::Rules;

use crate::step::Clip;
use crate::{Progress, Task};
use octant_data::{Mix, Transform};
use octant_nn::schedule::{Plateau, Schedule};
use octant_nn::{Optimizer, VariableSpec};
use std::sync::Arc;

/// Which parameters learn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trainable {
    /// All.
    #[default]
    All,
    /// Those of the head; the rest gets no gradient and no optimizer state.
    Head,
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

/// Parameters with settings of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The paths below which they lie.
    pub under: Vec<String>,
    /// What the learning rate is multiplied by.
    pub rate_scale: f64,
    /// A weight decay other than the phase's.
    pub weight_decay: Option<f64>,
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
    /// Which parameters learn.
    pub trainable: Trainable,
    /// Batch norms keep their running statistics.
    pub frozen_statistics: bool,
    /// How parameters change.
    pub optimizer: Optimizer,
    /// Weight decay.
    pub weight_decay: f64,
    /// Biases and norms decay too.
    pub decay_all: bool,
    /// Layer-wise decay of the learning rate: every layer away from the head learns this many times as fast as the next.
    pub layer_decay: Option<f64>,
    /// Parameters with settings of their own.
    pub groups: Vec<Group>,
    /// A bound on gradients.
    pub clip: Clip,
    /// The moving average of weights.
    pub average: Option<f64>,
    /// Batches per update.
    pub accumulate: u64,
    /// The learning rate.
    pub rate: Rate,
    /// What happens to training samples.
    pub transform: Arc<dyn Transform>,
    /// Images of a batch are mixed with each other.
    pub mix: Option<Mix>,
    /// The optimizer's state of the phase before is taken over.
    pub keeps_optimizer: bool,
}

/// What every parameter's learning rate is multiplied by under layer-wise decay. The layers are the network's blocks, in
/// order, with what comes before them and what comes after; the last one learns at the full rate.
pub fn layer_scales(specs: &[VariableSpec], decay: f64) -> Vec<(String, f64)> {
    let last = specs.iter().map(|spec| spec.layer).max().unwrap_or(0);
    specs.iter().map(|spec| (spec.path.clone(), decay.powi((last - spec.layer) as i32))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn layers_far_from_the_head_learn_slowly() {
        let model = octant_zoo::build("resnet18", Some(10)).expect("a model of the zoo");
        let (specs, _) = octant_zoo::describe(&*model, [64, 64, 3]).expect("it can be traced");
        let scales: HashMap<String, f64> = layer_scales(&specs, 0.5).into_iter().collect();
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
