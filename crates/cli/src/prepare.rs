//! What the binary adds to the library of recipes and runs: downloads, progress bars, warnings and suggestions.

use crate::data::ticking;
use crate::fetching;
use anyhow::Result;
use octant_data::Dataset;
use octant_device::cache_folder;
use octant_recipe::{Data, EvaluationData, LocalCopy, Recipe, RecipeError, Surroundings};
use octant_zoo::ModelEntry;
use std::path::{Path, PathBuf};

/// Octant's cache, downloads with a line that shows them, bars on the terminal.
pub(crate) struct Terminal;

impl Surroundings for Terminal {
    fn cache(&self) -> PathBuf {
        cache_folder()
    }

    fn local(&self, location: &Path) -> octant_recipe::Result<LocalCopy> {
        fetching::local_copy(location).map_err(|error| RecipeError::Refused(format!("{error:#}")))
    }

    fn weights(&self, given: &Path, model: &ModelEntry) -> octant_recipe::Result<PathBuf> {
        fetching::weights(given, model).map_err(|error| RecipeError::Refused(format!("{error:#}")))
    }

    fn reading(&self, what: &str, dataset: &dyn Dataset, work: &mut dyn FnMut(&dyn Dataset)) {
        ticking(what, dataset, work);
    }
}

/// Opens the data that a recipe names, with the classes of a run where they are known.
pub(crate) fn data(recipe: &Recipe, classes: &[String]) -> Result<Data> {
    Ok(octant_recipe::data(recipe, classes, &Terminal)?)
}

/// Opens the data that a recipe names for an evaluation of what `run` holds.
pub(crate) fn evaluation_data(
    recipe: &Recipe,
    classes: &[String],
    run: &Path,
    on_train: bool,
) -> Result<EvaluationData> {
    let trained_on = octant_recipe::trained_on(run);
    Ok(octant_recipe::evaluation_data(recipe, classes, trained_on.as_deref(), on_train, &Terminal)?)
}

/// The weights of a checkpoint of a run; a damaged one is reported.
pub(crate) fn checkpoint_weights(run: &Path, wanted: Option<&str>) -> Result<PathBuf> {
    let (path, warning) = octant_recipe::checkpoint_weights(run, wanted)?;
    warning.iter().for_each(|warning| eprintln!("warning: {warning}"));
    Ok(path)
}
