//! What a run is made of.

use crate::state::Values;
use crate::{Phase, Rules, Task, TrainError};
use octant_data::{Corrupt, Dataset, LastBatch, Transform};
use octant_nn::Precision;
use octant_runtime::{Backend, CompileOptions, Mesh};
use std::sync::Arc;
use std::time::Instant;

/// What happens at a step whose loss is not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBad {
    /// The run ends and says where.
    #[default]
    Stop,
    /// The step changes nothing, and the run goes on.
    Skip,
}

/// The metric that decides which epoch was best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Its name in `metrics.csv`, such as `val_accuracy`.
    pub metric: String,
    /// Smaller is better.
    pub smaller: bool,
}

/// Everything a run is made of.
pub struct Plan<'a> {
    /// Who computes.
    pub backend: &'a dyn Backend,
    /// On how many devices.
    pub mesh: Mesh,
    /// How programs are compiled.
    pub options: CompileOptions,
    /// Blocks of the network are computed again in the backward pass instead of being kept.
    pub recompute: bool,
    /// Every device keeps only its part of what the optimizer remembers.
    pub shard_optimizer: bool,
    /// What the devices do in this many steps is recorded, once the first ones are over; for [`Watcher::recorded`].
    ///
    /// [`Watcher::recorded`]: super::Watcher::recorded
    pub record: Option<u64>,
    /// What layers compute in.
    pub precision: Precision,
    /// The seed of weights, order and augmentation.
    pub seed: u64,
    /// Images per step.
    pub batch_size: usize,
    /// Parts of a batch that batch norms look at separately.
    pub batch_groups: usize,
    /// Threads that prepare batches; 0 for one per core.
    pub workers: usize,
    /// What happens to the samples that do not fill the last batch of an epoch of training.
    pub last: LastBatch,
    /// What happens to a sample that cannot be read.
    pub corrupt: Corrupt,
    /// Steps of an epoch; a pass over the data if not given.
    pub steps_per_epoch: Option<u64>,
    /// What happens, in order.
    pub phases: Vec<Phase>,
    /// What is learned from.
    pub train: Arc<dyn Dataset>,
    /// What is judged on.
    pub valid: Arc<dyn Dataset>,
    /// What happens to samples that are judged on.
    pub valid_transform: Arc<dyn Transform>,
    /// Validation after every this many epochs, and at the end of every phase.
    pub validate_every: u64,
    /// Which epoch was best.
    pub watched: Watched,
    /// The run ends after this many epochs without a better one.
    pub patience: Option<u64>,
    /// A checkpoint after every this many steps too, not only after every epoch.
    pub checkpoint_every: Option<u64>,
    /// Histograms of all weights and of their gradients go into the event file after every this many epochs.
    pub histograms_every: Option<u64>,
    /// What happens at a step whose loss is not finite.
    pub on_bad: OnBad,
    /// The run ends cleanly at this time.
    pub deadline: Option<Instant>,
    /// Values to start from instead of random ones, by path, in the layout of the device.
    pub weights: Values,
    /// The resolved configuration, kept with every checkpoint.
    pub config: String,
    /// What `model.safetensors` says about itself.
    pub metadata: Vec<(String, String)>,
}

impl Plan<'_> {
    /// What is the same in the steps of all phases.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            batch_size: self.batch_size,
            mesh: self.mesh.clone(),
            precision: self.precision,
            batch_groups: self.batch_groups,
            skip_bad: self.on_bad == OnBad::Skip,
            recompute: self.recompute,
            shard_optimizer: self.shard_optimizer,
        }
    }

    /// Refuses what would only show after hours, such as a watched metric that never comes.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        let Some(phase) = self.phases.first() else {
            return Err(TrainError::Data("there is nothing to do: the run has no phases".into()));
        };
        let task = &*phase.task;
        let learned = task.metrics(&vec![0.0; task.sums(true)], true);
        let names: Vec<String> = learned.into_iter().map(|(name, _)| name).chain(validated_names(task)).collect();
        match names.contains(&self.watched.metric) {
            true => Ok(()),
            false => Err(TrainError::Data(format!(
                "there is no metric {:?} to tell the best epoch by; there are {}",
                self.watched.metric,
                names.join(", ")
            ))),
        }
    }
}

/// What a validation's metrics will be called.
pub(super) fn validated_names(task: &dyn Task) -> Vec<String> {
    let of_sums = task.metrics(&vec![0.0; task.sums(false)], false);
    let of_observer = task.observer().map(|observer| observer.metrics()).unwrap_or_default();
    of_sums.into_iter().chain(of_observer).map(|(name, _)| format!("val_{name}")).collect()
}
