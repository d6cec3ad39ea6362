//! The programs of a run, and what happens when one fails.

use super::{Runner, Times};
use crate::step::OnNan;
use crate::{Session, TrainError, Usage, checkpoint};
use octant_data::{Loader, Position};
use std::time::Duration;

/// One program over all phases of a run, as far as this process ran it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramReport {
    /// What it is called.
    pub name: String,
    /// How often the compiler made it.
    pub compiled: u64,
    /// How often it was found in the cache instead.
    pub loaded: u64,
    /// How long both took.
    pub compile_time: Duration,
    /// How often it was run.
    pub runs: u64,
    /// How long the runs took, waiting for batches not counted.
    pub time: Duration,
}

impl ProgramReport {
    fn add(&mut self, usage: Usage) {
        if self.name.is_empty() {
            self.name = usage.program;
        }
        self.runs += usage.executions;
        if let Some(cost) = usage.compiled {
            self.compile_time += cost.compile_time;
            *(if cost.from_cache { &mut self.loaded } else { &mut self.compiled }) += 1;
        }
    }
}

impl Runner<'_, '_> {
    /// Adds a session that is over.
    pub(super) fn note_programs(&mut self, session: &Session) {
        let [training, evaluation] = &mut self.programs;
        session.form_usage().for_each(|usage| training.add(usage));
        evaluation.add(session.evaluation_usage());
    }

    /// Adds the time of an epoch, or of a part of one.
    pub(super) fn note_time(&mut self, times: &Times) {
        let [training, evaluation] = &mut self.programs;
        training.time += times.training.saturating_sub(times.input);
        evaluation.time += times.validation.saturating_sub(times.validation_input);
    }
}

impl Runner<'_, '_> {
    /// Ends the run where a loss was not finite, naming the step, its files and the last good checkpoint; or, where such
    /// steps are skipped, reports how many there were.
    pub(super) fn check_finite(&mut self, session: &Session, train: &Loader) -> Result<(), TrainError> {
        let (bad, first) = session.bad_steps()?;
        if bad == 0 {
            return Ok(());
        }
        let files = self.files_of(first, train);
        if self.plan.step.on_nan == OnNan::Skip {
            if bad > self.skipped {
                let text = format!(
                    "{bad} steps of this epoch were not finite and changed nothing; the first was step {first} with {files}"
                );
                self.watcher.message(&text);
            }
            self.skipped = bad;
            return Ok(());
        }
        // Let what is being written come to its end, so that what is named here exists.
        let _ = self.writer.finish();
        let resume = match checkpoint::kept(&self.directory.path().join("checkpoints")) {
            Some(kept) => format!("the last good checkpoint is {} at step {}", kept.path.display(), kept.progress.step),
            None => "there is no checkpoint yet".to_string(),
        };
        let text = format!(
            "the loss is not finite since step {first}, whose batch was {files}; {resume}; try a smaller `lr`, `clip_norm = 1`, \
             or `on_nan = \"skip\"`"
        );
        let _ = self.directory.log(&text);
        Err(TrainError::NotFinite(text))
    }

    /// The files of a step of this epoch. The order of samples is a function, so it need not be stored.
    fn files_of(&self, step: u64, train: &Loader) -> String {
        const SHOWN: usize = 4;
        let per_epoch = train.batches_per_epoch().max(1);
        // Batch sizes change between epochs of the run, so that all of its batches before the next one have one size.
        let Position { epoch, batch, skipped } = self.progress.position;
        let back = (self.progress.step + 1).saturating_sub(step);
        let position = match batch.checked_sub(back) {
            Some(batch) => Position { epoch, batch, skipped },
            None => {
                let before = (epoch * per_epoch + batch).saturating_sub(back);
                Position::new(before / per_epoch, before % per_epoch)
            }
        };
        let samples: Vec<u64> = train.sampler().batch(position).into_iter().flatten().collect();
        let names = samples.iter().take(SHOWN).map(|&sample| train.dataset().location(sample as usize));
        let names: Vec<String> = names.collect();
        let more = samples.len().saturating_sub(SHOWN);
        if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
    }
}
