//! What a run leaves behind, and how it continues after a failure.

use super::PreparedRun;
use crate::driver::Driver;
use crate::mirror::RunEnd;
use crate::outcome::is_complete;
use crate::{Result, RunError, RunEvent, RunOutcome, plots};
use octant_data::DataError;
use octant_runtime::Backend;
use octant_train::TrainError;
use octant_train::checkpoint::Checkpoint;
use octant_train::run::Summary;
use std::path::Path;
use std::sync::Arc;

impl PreparedRun {
    /// What a run leaves behind after its last step.
    pub(super) fn finish(
        &self,
        summary: Summary,
        backend: &Arc<dyn Backend>,
        driver: &mut Driver,
    ) -> Result<RunOutcome> {
        let is_complete = is_complete(summary.ending);
        if !self.leads() {
            return RunOutcome::new(&self.path, &self.job.recipe, summary, &self.data);
        }
        if let Some(mirrors) = driver.mirrors.take() {
            let end = if is_complete { RunEnd::Finished } else { RunEnd::Stopped };
            mirrors.end(end).iter().for_each(|warning| driver.observer.event(&RunEvent::Warning(warning)));
        }
        if let Some(uploads) = driver.uploads.take() {
            let warnings = uploads.end(summary.progress.step, &mut |text| driver.message(text));
            warnings.iter().for_each(|warning| driver.observer.event(&RunEvent::Warning(warning)));
        }
        // An image is worth having, but not worth failing for after hours of training.
        let draw = || self.gallery(backend)?.write(&self.path, &summary.progress);
        if is_complete && let Err(error) = draw() {
            driver.message(&format!("the image of predictions could not be made: {error}"));
        }
        let outcome = RunOutcome::new(&self.path, &self.job.recipe, summary, &self.data)?;
        plots::write(&outcome, &*self.data.valid)?;
        if is_complete {
            outcome.keep()?;
        }
        Ok(outcome)
    }
}

/// A failure with what is left of the run; one of a sample that cannot be read, with how to go without it.
pub(super) fn with_way_back(error: TrainError, run: &Path) -> RunError {
    if let TrainError::Sample(DataError::Sample { .. }) = error {
        return RunError::Refused(format!(
            "{error}; `on_corrupt = \"skip\"` leaves such files out, `octant data verify` lists all of them"
        ));
    }
    let is_outside = matches!(error, TrainError::Device(_) | TrainError::OutOfMemory(_) | TrainError::Events(_));
    // In the order in which a run looks for where to resume.
    let resumes_from = |name: &str| Checkpoint::newest(&run.join("checkpoints"), name).ok().flatten();
    match ["last", "best"].iter().find_map(|name| resumes_from(name)).filter(|_| is_outside) {
        Some((kept, _)) => RunError::Refused(format!(
            "{error}; nothing up to step {} is lost: `octant train {}` resumes from there",
            kept.progress.step,
            run.display()
        )),
        None => error.into(),
    }
}
