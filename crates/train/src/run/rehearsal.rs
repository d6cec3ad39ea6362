//! What could fail hours later is tried before the first step: one batch of every split through every phase's transform, the
//! evaluation step, and a checkpoint that is written and removed again.

use super::Runner;
use crate::checkpoint::{self, Contents};
use crate::{Phase, Session, TrainError};
use octant_data::Batch;

impl<'p> Runner<'p, '_> {
    /// Reads the first batch of both splits as every phase that is left would, and compares it with what its step takes.
    pub(super) fn rehearse_data(&self) -> Result<(), TrainError> {
        for phase in &self.plan.phases[self.progress.phase..] {
            self.first_batch(true, phase)?;
            self.first_batch(false, phase)?;
        }
        Ok(())
    }

    fn first_batch(&self, training: bool, phase: &Phase) -> Result<Batch, TrainError> {
        let rows = self.rows(training, phase, self.plan.step.batch_size).len();
        let inputs = if training { phase.task.inputs(rows) } else { phase.evaluated().inputs(rows) };
        let split = if training { "training" } else { "validation" };
        let none = || TrainError::Data(format!("there is not one batch of {split} images"));
        let batch = self.loader(training, phase, self.plan.step.batch_size)?.epoch(0).next().ok_or_else(none)??;
        let tensors = inputs.tensors(&batch)?;
        for ((name, shape), tensor) in inputs.shapes().zip(&tensors) {
            if tensor.shape() != shape {
                let key = if training { "transform" } else { "eval_transform" };
                return Err(TrainError::Data(format!(
                    "in phase {} the step takes {name} of {shape}, but the {split} data has {} after `{key}`; give it a \
                     resize or a crop that fits",
                    phase.name,
                    tensor.shape()
                )));
            }
        }
        Ok(batch)
    }

    /// Runs the evaluation step on one batch; nothing of it is counted.
    pub(super) fn rehearse_evaluation(&self, phase: &'p Phase, session: &mut Session) -> Result<(), TrainError> {
        let batch = self.first_batch(false, phase)?;
        session.rehearse_evaluation(batch)
    }

    /// Writes a checkpoint of the state as it is, and removes it again.
    pub(super) fn rehearse_checkpoint(&self, session: &Session) -> Result<(), TrainError> {
        const NAME: &str = "rehearsal";
        let folder = self.directory.path().join("checkpoints");
        let contents = Contents {
            snapshot: session.snapshot()?(),
            progress: self.progress.clone(),
            config: self.plan.config.clone(),
            metadata: self.plan.metadata.clone(),
            mentioned: Vec::new(),
        };
        let written = checkpoint::write(&folder, NAME, &contents);
        for name in [NAME.to_string(), format!("{NAME}.tmp")] {
            // What cannot be removed does no harm; a checkpoint of that name is never read.
            let _ = std::fs::remove_dir_all(folder.join(name));
        }
        written.map(drop)
    }
}
