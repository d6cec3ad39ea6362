//! What a run is made of, and the options of its loop.

use super::Fetched;
use crate::options::defaults;
use crate::session::validated_names;
use crate::step::{self, StepOptions};
use crate::values::Values;
use crate::{Phase, TrainError, spread};
use octant_cluster::Cluster;
use octant_data::{Corrupt, Dataset, LastBatch, SampleOrder, Transform};
use octant_runtime::{Backend, CompileOptions, Mesh};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The metric that decides which epoch was best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Its name in `metrics.csv`, such as `val_accuracy`.
    pub metric: String,
    /// Smaller is better.
    pub smaller: bool,
}

/// Everything a run is made of.
pub struct RunPlan {
    /// Who computes.
    pub backend: Arc<dyn Backend>,
    /// On how many devices.
    pub mesh: Mesh,
    /// How programs are compiled.
    pub compile: CompileOptions,
    /// What the devices do in this many steps is recorded, once the first ones are over; for [`Watcher::recorded`].
    ///
    /// [`Watcher::recorded`]: super::Watcher::recorded
    pub record: Option<u64>,
    /// What the steps of all phases share.
    pub step: StepOptions,
    /// What the loop does around them.
    pub run: RunOptions,
    /// What happens, in order.
    pub phases: Vec<Phase>,
    /// What is learned from.
    pub train: Arc<dyn Dataset>,
    /// What of it was fetched from elsewhere for this run.
    pub fetched: Option<Fetched>,
    /// In which order.
    pub order: SampleOrder,
    /// The validation data.
    pub valid: Arc<dyn Dataset>,
    /// The transform of validation samples.
    pub valid_transform: Arc<dyn Transform>,
    /// Which epoch was best.
    pub watched: Watched,
    /// The processes whose devices make up the mesh, where there are several. The first one writes the run directory.
    pub cluster: Option<Arc<Cluster>>,
    /// The run ends cleanly at this time.
    pub deadline: Option<Instant>,
    /// Values to start from instead of random ones, by path, in the layout of the device.
    pub weights: Values,
    /// The resolved configuration, kept with every checkpoint.
    pub config: String,
    /// The metadata of `model.safetensors`.
    pub metadata: Vec<(String, String)>,
}

impl RunPlan {
    /// The rows of batches of the first size that this process brings.
    pub fn rows_here(&self) -> Range<usize> {
        spread::rows_here(self.step.batch_size, &self.mesh)
    }

    /// Refuses what would only show after hours, such as a watched metric that never comes.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        let Some(phase) = self.phases.first() else {
            return Err(TrainError::Data("there is nothing to do: the run has no phases".into()));
        };
        let step = phase.step(&self.step, &self.mesh);
        let mut names = validated_names(&*step.task, step::evaluation(&step)?.sums);
        if !self.watched.metric.starts_with("val_") {
            let learned = step.task.metrics(&vec![0.0; step::training(&step)?.sums], true);
            names.extend(learned.into_iter().map(|(name, _)| name));
        }
        match names.contains(&self.watched.metric) {
            true => Ok(()),
            false => Err(TrainError::Data(format!(
                "there is no metric {:?} to choose the best epoch by; there are {}",
                self.watched.metric,
                names.join(", ")
            ))),
        }
    }
}

crate::options! {
    /// What the loop does around the steps.
    pub struct RunOptions {
        /// The seed of weights, order and augmentation.
        seed: u64 = 0, flag();
        /// Steps of one epoch.
        steps_per_epoch: Option<u64>, within(1..), unset("a pass over the data"), flag();
        /// Threads that prepare batches.
        workers: usize = 0, within(0..=1024), unset("one per core"), alias("num-workers");
        /// The images that do not fill an epoch's last batch: they are dropped, or rows that do not count are added.
        last_batch: LastBatch = LastBatch::Drop, flag();
        /// An image that cannot be read: the run ends, or it is named and left out.
        on_corrupt: Corrupt = Corrupt::Fatal, flag();
        /// Epochs between validations; the end of a phase is always validated.
        validate_every: u64 = 1, within(1..), flag();
        /// Epochs without a better one after which the run ends.
        patience: Option<u64>, within(1..), unset("never"), flag();
        /// Steps between checkpoints within an epoch.
        checkpoint_every: Option<u64>, within(1..), unset("after epochs only"), flag();
        /// Seconds that a stop by a signal may take, such as what a scheduler allows before it ends a process. The run reports when
        /// saving takes longer.
        grace: Option<f64>, positive(), unset("not known");
        /// Validation images whose outputs are drawn after every validation, where the task makes images.
        samples: usize = 3, within(0..=64);
        /// Epochs between histograms of all weights and gradients in the event file.
        histograms: Option<u64>, within(1..), unset("none"), flag(), value("EPOCHS");
        /// Epochs between galleries of predictions in the event file; the best epoch's is written at the end.
        gallery: Option<u64>, within(1..), unset("at the end only"), flag(), value("EPOCHS");
    }
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        defaults()
    }
}
