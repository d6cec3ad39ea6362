//! A run that is ready for a device: from there to its last step.

use super::TrainJob;
use super::ending::with_way_back;
use crate::driver::Driver;
use crate::gallery::Gallery;
use crate::history::{self, Difference};
use crate::mirror::Mirrors;
use crate::outcome::finished_epochs;
use crate::stored::{Claim, Uploads};
use crate::together::Together;
use crate::{
    DeviceFacts, Observer, Result, Resumed, RunError, RunEvent, RunOutcome, RunStart, batch, introduction, network,
};
use octant_events::RunDirectory;
use octant_recipe::{Data, Opened, Recipe, lints};
use octant_runtime::{Backend, CompileOptions};
use octant_train::Values;
use octant_train::checkpoint::Checkpoint;
use octant_train::run::{Ending, RunPlan, Summary, run};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Enough steps to see what repeats, few enough for a trace that opens at once.
const RECORDED_STEPS: u64 = 10;

/// A run whose directory, weights and data are found; a device is all that it lacks.
pub struct PreparedRun {
    pub(super) job: TrainJob,
    pub(super) path: PathBuf,
    pub(super) data: Data,
    pub(super) weights: Option<PathBuf>,
    /// The address that its checkpoints are stored under.
    pub(super) claim: Option<Claim>,
    /// Where its checkpoint was fetched from, in a sentence.
    pub(super) restored: Option<String>,
    pub(super) deadline: Option<Instant>,
}

impl PreparedRun {
    /// The recipe; its `device` names what the run should compute on.
    pub fn recipe(&self) -> &Recipe {
        &self.job.recipe
    }

    /// The run directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the run that is there came to, where nothing of it is left to be done.
    pub fn finished(&self) -> Result<Option<RunOutcome>> {
        match self.together() {
            Some(together) if !together.is_finished()? => Ok(None),
            _ => self.is_finished(),
        }
    }

    pub(super) fn together(&self) -> Option<Together<'_>> {
        self.job.cluster.as_deref().map(Together)
    }

    /// Whether this process writes the run directory.
    pub(super) fn leads(&self) -> bool {
        self.together().is_none_or(|together| together.leads())
    }

    pub(super) fn is_finished(&self) -> Result<Option<RunOutcome>> {
        if self.job.fresh || finished_epochs(&self.path).is_none() {
            return Ok(None);
        }
        let Some(found) = octant_recipe::resumable(&self.path, &self.job.recipe)? else { return Ok(None) };
        let mut recipe = self.job.recipe.clone();
        if let Some(batch) = batch_size(&self.path).filter(|_| self.job.fits_batch.is_some()) {
            recipe.step.scale_batch(batch);
        }
        octant_recipe::resolve_auto(&mut recipe, self.data.train.len(), self.data.outputs);
        let ignored = history::changes_since(&found.checkpoint, &recipe);
        let progress = found.checkpoint.progress;
        let epochs: u64 = recipe.phases.iter().map(|phase| phase.epochs).sum();
        let ending = match progress.finished {
            true => Ending::NoImprovement,
            false if progress.epoch >= epochs => Ending::Done,
            false => return Ok(None),
        };
        let summary =
            Summary { ending, progress, findings: Default::default(), skipped: 0, programs: Default::default() };
        let outcome = RunOutcome::new(&self.path, &recipe, summary, &self.data)?;
        Ok(Some(RunOutcome { was_finished: true, ignored, ..outcome }))
    }

    /// Trains to the end, or until it is stopped.
    pub fn train(mut self, backend: &Arc<dyn Backend>, observer: &mut dyn Observer) -> Result<RunOutcome> {
        if let Some(outcome) = self.finished()? {
            observer.event(&RunEvent::Ended(&outcome));
            return Ok(outcome);
        }
        let claimed = self.claim.as_mut().and_then(|claim| claim.note.take());
        let mut notes: Vec<String> = claimed.into_iter().chain(self.restored.take()).collect();
        notes.extend(self.choose(&**backend)?);
        let mut warnings = lints::check(&self.job.recipe, &self.data)?;
        if let Some(first) = warnings.first().filter(|_| self.job.strict) {
            return Err(RunError::Refused(format!("{first} (warnings are errors here)")));
        }
        let gallery = self.job.recipe.run.gallery.filter(|_| self.leads());
        let gallery = gallery.map(|_| self.gallery(backend)).transpose()?;
        let plan = self.plan(backend, &mut notes)?;
        if self.job.stop.is_stopped() {
            return Err(RunError::Stopped);
        }
        let (Opened { mut directory, checkpoint, warning }, difference) = self.open(&plan)?;
        warnings.splice(0..0, warning);
        let step = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.progress.step);
        warnings.extend(difference.warnings(step));
        notes.extend(difference.settings_text(step));
        notes.extend(introduction::sentences(&self.job.recipe, &self.data)?);
        notes.extend(octant_recipe::ineffective(&self.job.recipe, plan.mesh.devices(), |recipe| {
            octant_recipe::phases(recipe, &self.data)
        })?);
        announce(&notes, &warnings, &mut directory, observer)?;
        let start = self.start(&**backend, &plan, checkpoint.as_ref(), difference)?;
        self.introduce(&start, &plan, &mut directory)?;
        observer.event(&RunEvent::Started(&start));
        let mirrors =
            self.leads().then(|| Mirrors::start(&self.path, &self.job.recipe, checkpoint.is_some())).flatten();
        let address = self.job.recipe.checkpoint_store.as_deref().filter(|_| self.leads());
        let claim = match (self.claim.take(), address) {
            (None, Some(address)) => Some(Claim::take(address, &self.path)?),
            (claim, _) => claim,
        };
        let uploads = claim.map(|claim| Uploads::start(claim, &self.path)).transpose()?;
        let mut driver =
            Driver { observer, stop: self.job.stop.clone(), gallery, mirrors, uploads, run: self.path.clone() };
        let summary =
            run(&plan, directory, checkpoint, &mut driver).map_err(|error| with_way_back(error, &self.path))?;
        let outcome = self.finish(summary, backend, &mut driver)?;
        driver.observer.event(&RunEvent::Ended(&outcome));
        Ok(outcome)
    }

    /// Settles what the recipe leaves to the data and the device, and returns a sentence for each choice.
    fn choose(&mut self, backend: &dyn Backend) -> Result<Vec<String>> {
        let (job, data) = (&mut self.job, &self.data);
        let mut notes = Vec::new();
        if let Some(share) = job.fits_batch {
            // A resumed run keeps the batch size that was found for it.
            match batch_size(&self.path).filter(|_| !job.fresh) {
                Some(batch) => job.recipe.step.scale_batch(batch),
                None => notes.push(batch::fit(&mut job.recipe, data, backend, share, &job.stop)?),
            }
        }
        notes.extend(octant_recipe::resolve_auto(&mut job.recipe, data.train.len(), data.outputs));
        Ok(notes)
    }

    pub(super) fn gallery(&self, backend: &Arc<dyn Backend>) -> Result<Gallery> {
        Gallery::new(&self.job.recipe, &self.data, backend)
    }

    fn plan(&self, backend: &Arc<dyn Backend>, notes: &mut Vec<String>) -> Result<RunPlan> {
        let recipe = &self.job.recipe;
        let known = match &self.weights {
            Some(path) => {
                let (values, matching) = octant_recipe::weights(path, recipe, &self.data)?;
                notes.push(format!("weights from {}: {matching}", path.display()));
                values
            }
            None => Values::new(),
        };
        let mut plan = RunPlan {
            compile: CompileOptions { dump: self.job.dump.clone(), profile: self.job.profile },
            record: self.job.profile.then_some(RECORDED_STEPS),
            cluster: self.job.cluster.clone(),
            deadline: self.deadline,
            ..octant_recipe::plan(recipe, &self.data, backend, known)?
        };
        notes.extend(batch::limit_to_data(&mut plan)?);
        notes.extend(octant_recipe::archives_text(&plan));
        Ok(plan)
    }

    fn start(
        &self,
        backend: &dyn Backend,
        plan: &RunPlan,
        checkpoint: Option<&Checkpoint>,
        difference: Difference,
    ) -> Result<RunStart> {
        Ok(RunStart {
            run: self.path.clone(),
            recipe: self.job.recipe.clone(),
            images: [self.data.train.len(), self.data.valid.len()],
            best: octant_recipe::best(&self.job.recipe, self.data.outputs)?,
            device: DeviceFacts::of(backend, &plan.mesh, plan.step.batch_size),
            resumed: checkpoint.map(|checkpoint| Resumed {
                step: checkpoint.progress.step,
                checkpoint: checkpoint.path.clone(),
                changes: difference.settings,
            }),
        })
    }

    /// The first lines of the log, the settings in the event file, and `network.json`.
    fn introduce(&self, start: &RunStart, plan: &RunPlan, directory: &mut RunDirectory) -> Result<()> {
        directory.log(&start.to_string())?;
        directory.log(&start.device.to_string())?;
        if start.resumed.is_none() {
            introduction::write_settings(&self.job.recipe, self.data.outputs, directory)?;
        }
        directory.write("network.json", network::described(&self.job.recipe, plan)?)?;
        if let Some(files) = self.data.held_out_files() {
            directory.write("held_out.txt", files)?;
        }
        Ok(())
    }
}

/// Reports and logs what was chosen automatically, and what is likely to be a mistake.
fn announce(
    notes: &[String],
    warnings: &[String],
    directory: &mut RunDirectory,
    observer: &mut dyn Observer,
) -> Result<()> {
    for note in notes {
        observer.event(&RunEvent::Message(note));
        directory.log(note)?;
    }
    for warning in warnings {
        observer.event(&RunEvent::Warning(warning));
        directory.log(warning)?;
    }
    Ok(())
}

/// The batch size of the run that is there, if there is one.
fn batch_size(run: &Path) -> Option<usize> {
    let size = octant_recipe::config(run).ok()?.get("batch_size")?.as_integer()?;
    usize::try_from(size).ok()
}
