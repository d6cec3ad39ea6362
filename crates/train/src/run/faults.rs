//! Steps whose loss is not finite.

use super::Runner;
use crate::step::OnNan;
use crate::{Session, TrainError};
use octant_data::{Loader, Position};

impl Runner<'_, '_> {
    /// Ends the run where a loss was not finite, naming the step, its files and the last good checkpoint; or, where such
    /// steps are skipped, says how many there were.
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
        let good = self.directory.path().join("checkpoints").join("last");
        let resume = match good.exists() {
            true => format!("the last good checkpoint is {}", good.display()),
            false => "there is no checkpoint yet".to_string(),
        };
        let text = format!(
            "the loss is not finite since step {first}, whose batch was {files}; {resume}; try a smaller `lr`, `clip_norm = 1`, \
             or `on_nan = \"skip\"`"
        );
        let _ = self.directory.log(&text);
        Err(TrainError::NotFinite(text))
    }

    /// The files of a step of this epoch. The order of samples is a function, so nobody has to remember it.
    fn files_of(&self, step: u64, train: &Loader) -> String {
        const SHOWN: usize = 4;
        let per_epoch = train.batches_per_epoch().max(1);
        let next = self.progress.position.epoch * per_epoch + self.progress.position.batch;
        let place = (next + step).saturating_sub(self.progress.step + 1);
        let position = Position { epoch: place / per_epoch, batch: place % per_epoch };
        let samples: Vec<u64> = train.sampler().batch(position).into_iter().flatten().collect();
        let names = samples.iter().take(SHOWN).map(|&sample| train.dataset().location(sample as usize));
        let names: Vec<String> = names.collect();
        let more = samples.len().saturating_sub(SHOWN);
        if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
    }
}
