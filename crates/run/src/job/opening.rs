//! The directory of a run: begun, resumed, or followed where another process writes it.

use super::PreparedRun;
use crate::history::{self, Difference, SampleLists};
use crate::outcome::unfinish;
use crate::{Result, RunError};
use octant_events::RunDirectory;
use octant_recipe::Opened;
use octant_train::run::{RunPlan, check_checkpoint};

impl PreparedRun {
    /// Begins or resumes the run directory, or follows the process that does.
    pub(super) fn open(&self, plan: &RunPlan) -> Result<(Opened, Difference)> {
        let Some(together) = self.together() else { return self.open_alone(plan) };
        if together.leads() {
            let (opened, difference) = self.open_alone(plan)?;
            together.publish_opened(opened.checkpoint.as_ref().map(|checkpoint| checkpoint.progress.step))?;
            return Ok((opened, difference));
        }
        let mut checkpoint = None;
        together.opened(|| {
            checkpoint = octant_recipe::resumable(&self.path, &self.job.recipe)?.map(|found| found.checkpoint);
            Ok(checkpoint.as_ref().map(|checkpoint| checkpoint.progress.step))
        })?;
        let directory = RunDirectory::follow(&self.path)?;
        Ok((Opened { directory, checkpoint, warning: None }, Difference::default()))
    }

    /// What cannot be resumed exactly is refused before anything is changed.
    fn open_alone(&self, plan: &RunPlan) -> Result<(Opened, Difference)> {
        let (path, recipe) = (&self.path, &self.job.recipe);
        let found = if self.job.fresh { None } else { octant_recipe::resumable(path, recipe)? };
        let samples = SampleLists::of(&self.data);
        let Some(found) = found else {
            let lost = !self.job.fresh && octant_recipe::has_trained(path);
            let opened = octant_recipe::begin(path, recipe)?;
            history::keep(&opened.directory, &samples, None)?;
            let warning = lost.then(|| format!("{} had no checkpoint any more: the run starts over", path.display()));
            let opened = Opened { warning: joined([opened.warning, warning]), ..opened };
            return Ok((opened, Difference::default()));
        };
        let difference = Difference::of(path, &found.checkpoint, recipe, &samples);
        if !self.job.allow_changed {
            difference.refuse_inexact(&found.checkpoint.progress)?;
        }
        let step = found.checkpoint.progress.step;
        if let Some(changed) = difference.settings_text(step) {
            check_checkpoint(plan, &found.checkpoint).map_err(|error| {
                let path = path.display();
                RunError::Refused(format!("{path} cannot resume as another network ({changed}): {error}; choose another directory, or start over in this one"))
            })?;
        }
        let opened = found.open(path)?;
        unfinish(&opened.directory);
        let damaged = history::keep(&opened.directory, &samples, Some((step, &difference)))?;
        Ok((Opened { warning: joined([opened.warning, damaged]), ..opened }, difference))
    }
}

/// Several warnings as one.
fn joined(warnings: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let warnings: Vec<String> = warnings.into_iter().flatten().collect();
    (!warnings.is_empty()).then(|| warnings.join("; "))
}
