//! From a recipe to a run that is over.

use crate::driver::Driver;
use crate::gallery::Gallery;
use crate::history::{self, Difference, SampleLists};
use crate::mirror::{Mirrors, RunEnd};
use crate::outcome::{finished_epochs, is_complete, unfinish};
use crate::stored::{self, Uploads};
use crate::together::Together;
use crate::{
    DeviceFacts, Observer, Result, Resumed, RunError, RunEvent, RunOutcome, RunStart, Stop, batch, introduction,
    network, plots,
};
use octant_cluster::Cluster;
use octant_data::DataError;
use octant_events::RunDirectory;
use octant_recipe::{Data, Opened, Recipe, RecipeError, Surroundings, lints};
use octant_runtime::{Backend, CompileOptions};
use octant_train::checkpoint::Checkpoint;
use octant_train::run::{Ending, RunPlan, Summary, check_checkpoint, run};
use octant_train::{TrainError, Values};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use toml::{Table, Value};

/// Enough steps to see what repeats, few enough for a trace that opens at once.
const RECORDED_STEPS: u64 = 10;

/// The requested run.
#[derive(Debug, Clone)]
pub struct TrainJob {
    /// What is trained, on what, and how.
    pub recipe: Recipe,
    /// The run directory; a run that is there resumes. Without one it is an unfinished run of the same recipe below
    /// [`folder`](TrainJob::folder), or the next free directory there.
    pub directory: Option<PathBuf>,
    /// Where runs without a directory of their own lie.
    pub folder: PathBuf,
    /// Start over even if the directory holds a run.
    pub fresh: bool,
    /// Choose the largest batch size that fits into this share of the free memory; the recipe has its usual one.
    pub fits_batch: Option<f64>,
    /// Resume even if settings or data changed so that images are trained on twice or not at all.
    pub allow_changed: bool,
    /// Warnings before the run are errors.
    pub strict: bool,
    /// End cleanly after this time.
    pub time: Option<Duration>,
    /// Record what the devices do in a few steps, as `trace.json`.
    pub profile: bool,
    /// Write the programs of all steps into this folder.
    pub dump: Option<PathBuf>,
    /// The processes that train together, where there are several; each of them makes this job.
    pub cluster: Option<Arc<Cluster>>,
    /// Ends the run cleanly.
    pub stop: Stop,
}

impl TrainJob {
    /// The run of a recipe, in a directory of its own below `runs`.
    pub fn new(recipe: Recipe) -> TrainJob {
        TrainJob {
            recipe,
            directory: None,
            folder: "runs".into(),
            fresh: false,
            fits_batch: None,
            allow_changed: false,
            strict: false,
            time: None,
            profile: false,
            dump: None,
            cluster: None,
            stop: Stop::default(),
        }
    }

    /// The run of a table, whose `batch_size` may be `auto` or a share of the free memory such as `70%`; then `usual` is
    /// where the search begins.
    pub fn from_table(mut table: Table, usual: Option<usize>) -> Result<TrainJob> {
        let fits_batch = table.get("batch_size").and_then(Value::as_str).map(batch::memory_share).transpose()?;
        if fits_batch.is_some() {
            table.remove("batch_size");
            let usual = usual.and_then(|usual| i64::try_from(usual).ok());
            usual.into_iter().for_each(|usual| drop(table.insert("batch_size".into(), Value::Integer(usual))));
        }
        Ok(TrainJob { fits_batch, ..TrainJob::new(octant_recipe::check(table)?) })
    }

    /// The same in this directory.
    pub fn in_directory(self, directory: impl Into<PathBuf>) -> TrainJob {
        TrainJob { directory: Some(directory.into()), ..self }
    }

    /// Trains to the end, or until it is stopped.
    pub fn train(
        self,
        backend: &Arc<dyn Backend>,
        surroundings: &dyn Surroundings,
        observer: &mut dyn Observer,
    ) -> Result<RunOutcome> {
        self.prepare(surroundings)?.train(backend, observer)
    }

    /// Everything that needs no device: finds the directory, the weights to start from and the data.
    pub fn prepare(mut self, surroundings: &dyn Surroundings) -> Result<PreparedRun> {
        let deadline = self.time.map(|time| Instant::now() + time);
        let cluster = self.cluster.clone();
        let together = cluster.as_deref().map(Together);
        if together.is_some() && self.fits_batch.is_some() {
            return Err(RunError::Refused(
                "`batch_size` must be a number where several processes train together".into(),
            ));
        }
        if let Some(together) = together.as_ref().filter(|together| !together.leads()) {
            self.directory = Some(together.directory()?);
        }
        octant_recipe::fix_paths(&mut self.recipe)?;
        let mut weights = None;
        if let Some(given) = &self.recipe.weights {
            let path = surroundings
                .weights(given, octant_zoo::find(&self.recipe.model)?)
                .map_err(|error| without_weights(&self.recipe, error))?;
            octant_recipe::follow_weights(&mut self.recipe, &path)?;
            weights = Some(path);
        }
        let path = octant_recipe::choose(self.directory.as_deref(), &self.folder, &self.recipe, self.fresh);
        let restored = match &self.recipe.checkpoint_store {
            Some(address) if !self.fresh && together.as_ref().is_none_or(Together::leads) => {
                stored::restore(address, &path)?
            }
            _ => None,
        };
        let classes = if self.fresh { Vec::new() } else { octant_recipe::class_names(&path) };
        let data = octant_recipe::data(&self.recipe, &classes, surroundings)?;
        octant_recipe::settle_keypoints(&mut self.recipe, &*data.train);
        let prepared = PreparedRun { job: self, path, data, weights, restored, deadline };
        if let Some(together) = together {
            if together.leads() {
                let path = std::path::absolute(&prepared.path);
                let path = path.map_err(|source| RunError::File { path: prepared.path.clone(), source })?;
                together.publish_directory(&path, prepared.is_finished()?.is_some())?;
            }
            together.agree(&prepared.job.recipe, &prepared.data)?;
        }
        Ok(prepared)
    }
}

/// A run whose directory, weights and data are found; a device is all that it lacks.
pub struct PreparedRun {
    job: TrainJob,
    path: PathBuf,
    data: Data,
    weights: Option<PathBuf>,
    /// Where its checkpoint was fetched from, in a sentence.
    restored: Option<String>,
    deadline: Option<Instant>,
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

    fn together(&self) -> Option<Together<'_>> {
        self.job.cluster.as_deref().map(Together)
    }

    /// Whether this process writes the run directory.
    fn leads(&self) -> bool {
        self.together().is_none_or(|together| together.leads())
    }

    fn is_finished(&self) -> Result<Option<RunOutcome>> {
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
        let mut notes: Vec<String> = self.restored.take().into_iter().collect();
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
        let start = self.start(&**backend, &plan, checkpoint.as_ref(), difference);
        self.introduce(&start, &plan, &mut directory)?;
        observer.event(&RunEvent::Started(&start));
        let mirrors =
            self.leads().then(|| Mirrors::start(&self.path, &self.job.recipe, checkpoint.is_some())).flatten();
        let address = self.job.recipe.checkpoint_store.as_deref().filter(|_| self.leads());
        let uploads = address.map(|address| Uploads::start(address, &self.path)).transpose()?;
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

    fn gallery(&self, backend: &Arc<dyn Backend>) -> Result<Gallery> {
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

    /// Begins or resumes the run directory, or follows the process that does.
    fn open(&self, plan: &RunPlan) -> Result<(Opened, Difference)> {
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
            let opened = Opened { warning: opened.warning.or(warning), ..opened };
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
        history::keep(&opened.directory, &samples, Some((step, &difference)))?;
        Ok((opened, difference))
    }

    fn start(
        &self,
        backend: &dyn Backend,
        plan: &RunPlan,
        checkpoint: Option<&Checkpoint>,
        difference: Difference,
    ) -> RunStart {
        RunStart {
            run: self.path.clone(),
            recipe: self.job.recipe.clone(),
            images: [self.data.train.len(), self.data.valid.len()],
            best: octant_recipe::best(&self.job.recipe, self.data.outputs).unwrap_or_default(),
            device: DeviceFacts::of(backend, &plan.mesh, plan.step.batch_size),
            resumed: checkpoint.map(|checkpoint| Resumed {
                step: checkpoint.progress.step,
                checkpoint: checkpoint.path.clone(),
                changes: difference.settings,
            }),
        }
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

    /// What a run leaves behind after its last step.
    fn finish(&self, summary: Summary, backend: &Arc<dyn Backend>, driver: &mut Driver) -> Result<RunOutcome> {
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

/// The weights that a recipe starts from are not here: the ways to continue, then the reason.
fn without_weights(recipe: &Recipe, error: RecipeError) -> RunError {
    RunError::Refused(format!(
        "{} starts from weights that are not here: give a file with --weights FILE, fetch them beforehand with `octant \
         weights get {} --mirror FOLDER`, or start from random ones with --weights none: {error}",
        recipe.name, recipe.model
    ))
}

/// The batch size of the run that is there, if there is one.
fn batch_size(run: &Path) -> Option<usize> {
    let size = octant_recipe::config(run).ok()?.get("batch_size")?.as_integer()?;
    usize::try_from(size).ok()
}

/// A failure with what is left of the run; one of a sample that cannot be read, with how to go without it.
fn with_way_back(error: TrainError, run: &Path) -> RunError {
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
