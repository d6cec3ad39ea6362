//! What a phase sets for every parameter: whether it is trainable, its learning rate and its weight decay.

use super::phase_options::{Clip, Group, PhaseOptions};
use super::trainable::layer_scale;
use super::{OnNan, StepPlan};
use octant_graph::{DType, Tensor};
use octant_nn::optimizer::{clip_by_norm, clip_by_value};
use octant_nn::{Objective, Optimizer, Variable, VariableSpec};

/// The part of a plan that updates need; it outlives the borrowed task.
pub(super) struct Rules {
    pub phase: PhaseOptions,
    pub skips_bad: bool,
    /// Gradients of the batches of one update are added, not averaged.
    pub adds_batches: bool,
    head: Vec<String>,
}

/// A parameter and the objective that moves it, by their numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learned {
    pub objective: usize,
    pub variable: usize,
}

impl Rules {
    pub fn of(plan: &StepPlan) -> Rules {
        let (phase, head) = (plan.phase.clone(), plan.task.head_paths());
        let (skips_bad, adds_batches) = (plan.step.on_nan == OnNan::Skip, plan.task.sums_over_images());
        Rules { phase, skips_bad, adds_batches, head }
    }

    /// Which objective moves which variable, objective by objective.
    pub fn learned(&self, variables: &[Variable], objectives: &[Objective]) -> Vec<Learned> {
        let of_objective = |(number, objective): (usize, &Objective)| {
            let moves = |spec: &VariableSpec| objective.includes(spec) && self.phase.trains(spec, &self.head);
            let indices = (0..variables.len()).filter(|&index| moves(&variables[index].spec));
            indices.map(|variable| Learned { objective: number, variable }).collect::<Vec<_>>()
        };
        objectives.iter().enumerate().flat_map(of_objective).collect()
    }

    fn group(&self, spec: &VariableSpec) -> Option<&Group> {
        self.phase.groups.iter().find(|group| group.includes(spec))
    }

    pub fn decay(&self, spec: &VariableSpec) -> f64 {
        let usual = if self.phase.decay_all || spec.is_matrix() { self.phase.weight_decay } else { 0.0 };
        self.group(spec).and_then(|group| group.weight_decay).unwrap_or(usual)
    }

    /// What a parameter's learning rate is multiplied by. `last` is the number of the network's last layer.
    pub fn rate_scale(&self, spec: &VariableSpec, last: usize) -> f64 {
        let of_layer = self.phase.layer_decay.map_or(1.0, |decay| layer_scale(spec, last, decay));
        of_layer * self.group(spec).map_or(1.0, |group| group.lr_scale)
    }

    /// The condition under which parameters change, where there is one. With accumulation, a bad batch adds nothing
    /// instead.
    pub fn gate(&self, applies: &Tensor, finite: &Tensor) -> Option<Tensor> {
        let due = (self.phase.accumulate > 1).then(|| applies.greater(&applies.scalar_like(0.5)));
        due.or_else(|| self.skips_bad.then(|| finite.clone()))
    }

    pub fn clipped(&self, gradients: Vec<Tensor>) -> Vec<Tensor> {
        match self.phase.clip {
            Clip::Off => gradients,
            _ if gradients.is_empty() => gradients,
            Clip::Norm(max) => clip_by_norm(&gradients, max).0,
            Clip::Value(max) => clip_by_value(&gradients, max),
        }
    }

    pub fn warmup(&self, key: &Tensor) -> Warmup<'_> {
        let options = self.phase.warmup.as_ref();
        let share = options.and_then(|options| options.steps).map(|steps| {
            // Steps count from 1.
            let done = key.slice_axis(0, 1, 2).reshape(&[]).convert(DType::F32) - 1.0;
            let share = done / steps as f64;
            share.min(&share.scalar_like(1.0))
        });
        Warmup { rules: self, share }
    }
}

/// What biases and momentum are in the first steps: functions of the step's number alone.
pub(super) struct Warmup<'a> {
    rules: &'a Rules,
    /// From 0 at the first step to 1 at the end of the warm-up.
    share: Option<Tensor>,
}

impl Warmup<'_> {
    pub fn bias_rate(&self, rate: &Tensor) -> Tensor {
        match (&self.rules.phase.warmup, &self.share) {
            (Some(options), Some(share)) if options.bias_lr > 0.0 => rate + (1.0 - share) * options.bias_lr,
            _ => rate.clone(),
        }
    }

    /// The momentum of this step, where it differs from the optimizer's.
    pub fn momentum(&self, optimizer: &Optimizer) -> Option<Tensor> {
        let (share, first) = (self.share.as_ref()?, self.rules.phase.warmup.as_ref()?.momentum?);
        match optimizer {
            Optimizer::Sgd(sgd) if sgd.momentum > 0.0 => Some(share * (sgd.momentum - first) + first),
            _ => None,
        }
    }
}
