//! A network with its weights, as commands that evaluate or predict need it.

use crate::prepare;
use anyhow::{Result, bail};
use octant_archive::{Archive, Fit};
use octant_recipe::Recipe;
use octant_train::{Task, Values};
use octant_zoo::identity::{Card, identify};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A network that is judged or asked: its recipe, its weights, and what they say about themselves.
pub(crate) struct Judged {
    pub recipe: Recipe,
    pub weights: PathBuf,
    pub archive: Archive,
    pub card: Card,
}

/// What a run directory, or a file with the name of a recipe, stands for.
pub(crate) fn resolve(
    run: &Path,
    recipe: Option<&str>,
    checkpoint: Option<&str>,
    data: Option<&Path>,
    set: &[String],
) -> Result<Judged> {
    let (mut table, weights) = match (run.join("config.toml").is_file(), recipe) {
        (true, _) => (octant_recipe::config(run)?, prepare::checkpoint_weights(run, checkpoint)?),
        (false, Some(recipe)) => (octant_recipe::table(recipe)?, run.to_path_buf()),
        (false, None) if run.is_dir() => bail!("{} holds no run (it has no config.toml)", run.display()),
        (false, None) if !run.exists() => bail!("there is no {}{}", run.display(), prepare::nearest_run(run)),
        (false, None) => {
            bail!("{} is not a run directory; say what its weights are for with --recipe NAME", run.display())
        }
    };
    if let Some(data) = data {
        octant_recipe::set(&mut table, "data.dir", toml::Value::String(data.display().to_string()))?;
    }
    set.iter().try_for_each(|assignment| octant_recipe::set_text(&mut table, assignment))?;
    let mut recipe = octant_recipe::check(table)?;
    let entry = octant_zoo::find(&recipe.model)?;
    let weights = crate::weights::resolve(&weights, entry)?;
    let archive = Archive::open(&weights)?;
    recipe.model = identify(&archive, entry)?.entry.name.into();
    let card = Card::of(&archive);
    Ok(Judged { recipe, weights, archive, card })
}

impl Judged {
    /// The variables by path; all of them must fit.
    pub fn values(&self, outputs: usize) -> Result<Values> {
        let (model, entry) = octant_recipe::model(&self.recipe, outputs)?;
        let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
        let loaded = octant_zoo::weights::load(&self.archive, &*model, &specs, self.recipe.run.seed);
        loaded.matching.require(Fit::Exact)?;
        Ok(specs.into_iter().map(|spec| spec.path).zip(loaded.values).collect())
    }

    /// The task, with the network that the weights were learned with.
    pub fn task(&self, outputs: usize, image: [usize; 3]) -> Result<Arc<dyn Task>> {
        Ok(octant_recipe::task(&self.recipe, outputs, image, self.card.warm_up)?)
    }
}
