//! What is evaluated, as people name it: a run or a file of weights, with changes to its recipe.

use crate::error::{Result, refuse};
use crate::{Downloads, NetworkFile, Progress};
use octant_recipe::RecipeReader;
use octant_train::options::OptionTable;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Weights to evaluate, and what their recipe is changed to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EvalSource {
    /// A run, a file of weights that names its network, or with `recipe` any weights, which are fetched if they lie elsewhere.
    pub run: PathBuf,
    /// What the weights are for, where there is no run.
    pub recipe: Option<String>,
    /// Which checkpoint of the run; the best one if not given.
    pub checkpoint: Option<String>,
    /// The data set, instead of that of the recipe.
    pub data: Option<PathBuf>,
    /// Other changes, as `KEY=VALUE`. Keys that no evaluation reads are refused.
    pub set: Vec<String>,
}

impl EvalSource {
    /// Opens the weights, with the changed recipe.
    pub fn open(&self, downloads: &Downloads, progress: Progress) -> Result<NetworkFile> {
        let (run, checkpoint) = (&self.run, self.checkpoint.as_deref());
        match (run.join("config.toml").is_file(), &self.recipe) {
            (true, Some(_)) => {
                refuse!("{} is a run, which has its recipe; remove --recipe, or change it by --set", run.display())
            }
            (true, None) => NetworkFile::of_changed_run(run, checkpoint, |table| self.change(table)),
            (false, Some(recipe)) => {
                let mut table = octant_recipe::table(recipe)?;
                self.change(&mut table)?;
                let recipe = octant_recipe::check(table)?;
                let weights = downloads.weights(run, octant_zoo::find(&recipe.model)?, progress)?;
                NetworkFile::with_recipe(recipe, &weights)
            }
            (false, None) => {
                let mut file = NetworkFile::named(run, checkpoint)?;
                let mut table = file.recipe.to_table();
                self.change(&mut table)?;
                file.recipe = octant_recipe::check(table)?;
                Ok(file)
            }
        }
    }

    fn change(&self, table: &mut Table) -> Result<()> {
        if let Some(data) = &self.data {
            octant_recipe::set(table, "data.dir", Value::String(data.display().to_string()))?;
        }
        for assignment in &self.set {
            RecipeReader::Evaluation.refuse_unread(assignment.split('=').next().unwrap_or_default().trim())?;
            octant_recipe::set_text(table, assignment)?;
        }
        Ok(())
    }

    /// A source as it is.
    pub fn of(run: impl AsRef<Path>) -> EvalSource {
        EvalSource { run: run.as_ref().to_path_buf(), ..EvalSource::default() }
    }
}
