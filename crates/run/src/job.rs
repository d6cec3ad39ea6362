//! From a recipe to a run that is over: the job, and everything of it that needs no device.

mod ending;
mod opening;
mod prepared;

pub use prepared::PreparedRun;

use crate::stored::{self, Claim};
use crate::together::Together;
use crate::{Observer, Result, RunError, RunOutcome, Stop, batch};
use octant_cluster::Cluster;
use octant_events::RunDirectory;
use octant_recipe::{Recipe, RecipeError, Surroundings};
use octant_runtime::Backend;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toml::{Table, Value};

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
        let (mut claim, mut restored) = (None, None);
        let address = self.recipe.checkpoint_store.as_deref();
        // A directory in which another process is at work is refused below.
        let is_free = !RunDirectory::is_in_use(&path);
        if let Some(address) = address.filter(|_| is_free && together.as_ref().is_none_or(Together::leads)) {
            claim = Some(Claim::take(address, &path)?);
            restored = if self.fresh { None } else { stored::restore(address, &path)? };
        }
        let classes = if self.fresh { Vec::new() } else { octant_recipe::class_names(&path) };
        let data = octant_recipe::data(&self.recipe, &classes, surroundings)?;
        octant_recipe::settle_keypoints(&mut self.recipe, &*data.train);
        let prepared = PreparedRun { job: self, path, data, weights, claim, restored, deadline };
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

/// The weights that a recipe starts from are not here: the ways to continue, then the reason.
fn without_weights(recipe: &Recipe, error: RecipeError) -> RunError {
    RunError::Refused(format!(
        "{} starts from weights that are not here: give a file with --weights FILE, fetch them beforehand with `octant \
         weights get {} --mirror FOLDER`, or start from random ones with --weights none: {error}",
        recipe.name, recipe.model
    ))
}
