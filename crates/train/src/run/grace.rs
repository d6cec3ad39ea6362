//! Whether a stop by a signal has enough time to save.
//!
//! Schedulers end a process some time after they signal it to end. A checkpoint that is not whole by then is lost, which the run can
//! know before: it has saved already.

use super::Runner;
use crate::TrainError;
use crate::checkpoint::step_of;
use octant_events::units::duration;
use std::time::Duration;

impl Runner<'_, '_> {
    /// How long saving took the last time, and how long a stop may take, where that is less.
    fn short_of_time(&self) -> Option<[String; 2]> {
        let grace = Duration::try_from_secs_f64(self.plan.run.grace?).ok()?;
        let took = self.writer.took().filter(|took| *took > grace)?;
        Some([took, grace].map(duration))
    }

    /// Reports once that saving takes longer than a stop may.
    pub(super) fn check_grace(&mut self) -> Result<(), TrainError> {
        if self.grace_reported {
            return Ok(());
        }
        let Some([took, grace]) = self.short_of_time() else { return Ok(()) };
        self.grace_reported = true;
        self.report_grace(format!(
            "saving took {took}, and a stop by a signal may take {grace} (`grace`): such a stop would lose what came after the \
             checkpoint before; have the scheduler allow more, or set `checkpoint_every` to lose less"
        ))
    }

    /// The run stops because of a signal: whether its checkpoint will probably be whole in time.
    pub(super) fn announce_stop(&mut self) -> Result<(), TrainError> {
        let Some([took, grace]) = self.short_of_time() else { return Ok(()) };
        let saved = step_of(&self.directory.path().join("checkpoints").join("last"));
        let saved = saved.map_or_else(|| "from its beginning".into(), |step| format!("from step {step}"));
        self.report_grace(format!(
            "stopping after step {}: saving took {took} the last time, and this stop may take {grace}; if the process is ended \
             before, the run resumes {saved}",
            self.progress.step
        ))
    }

    fn report_grace(&mut self, text: String) -> Result<(), TrainError> {
        self.directory.log(&text)?;
        self.watcher.message(&text);
        Ok(())
    }
}
