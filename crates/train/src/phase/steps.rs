//! From a phase to the steps that its programs are traced from.

use super::{Phase, layer_scales};
use crate::TrainError;
use crate::step::{self, StepPlan};
use octant_nn::{Precision, VariableSpec};
use octant_runtime::Mesh;
use std::collections::HashMap;

/// What is the same in the steps of all phases of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Images per step, over all devices.
    pub batch_size: usize,
    /// The devices.
    pub mesh: Mesh,
    /// What layers compute in.
    pub precision: Precision,
    /// Batch norms take their statistics over this many parts of the batch.
    pub batch_groups: usize,
    /// A step whose loss or gradients are not finite changes nothing.
    pub skip_bad: bool,
    /// Repeated blocks compute what the backward pass needs again.
    pub recompute: bool,
    /// Every device keeps only its part of what the optimizer remembers.
    pub shard_optimizer: bool,
}

impl Phase {
    /// Hands the step of this phase to `then`. Whoever compiles it gets the same program for the same phase and rules,
    /// on the machine that trains or on another.
    pub fn with_step<'a, T>(
        &'a self,
        rules: &Rules,
        then: impl FnOnce(&StepPlan<'a, '_>) -> Result<T, TrainError>,
    ) -> Result<T, TrainError> {
        let head = self.task.head_paths();
        let trainable = |spec: &VariableSpec| self.trainable.includes(spec, &head);
        let mut plan = StepPlan {
            optimizer: self.optimizer,
            weight_decay: self.weight_decay,
            decay_all: self.decay_all,
            precision: rules.precision,
            mesh: rules.mesh.clone(),
            trainable: &trainable,
            clip: self.clip,
            average: self.average,
            accumulate: self.accumulate.max(1),
            frozen_statistics: self.frozen_statistics,
            batch_groups: rules.batch_groups,
            skip_bad: rules.skip_bad,
            recompute: rules.recompute,
            shard_optimizer: rules.shard_optimizer,
            ..StepPlan::new(&*self.task, rules.batch_size)
        };
        let mut scales = HashMap::new();
        if let Some(decay) = self.layer_decay {
            scales.extend(layer_scales(&step::evaluation(&plan)?.variables, decay));
        }
        let group = |spec: &VariableSpec| self.groups.iter().find(|group| group.includes(spec));
        let scale = |spec: &VariableSpec| {
            let of_layer = scales.get(&spec.path).copied().unwrap_or(1.0);
            of_layer * group(spec).map_or(1.0, |group| group.rate_scale)
        };
        let own_decay = |spec: &VariableSpec| group(spec)?.weight_decay;
        (plan.rate_scale, plan.own_decay) = (&scale, &own_decay);
        then(&plan)
    }
}
