//! Recipes to runs with what the binary adds to the library: downloads and progress bars.

use crate::data::Ticking;
use crate::{fetching, weights};
use anyhow::Result;
use octant_data::Dataset;
use octant_pjrt::discover::cache_folder;
use octant_recipe::{Recipe, RecipeError, Surroundings};
use std::path::{Path, PathBuf};

pub(crate) use octant_recipe::{
    Data, Facts, best, fix_paths, image, model, phases, phases_on, scaling, task, transform, weights as starting_values,
};

/// Octant's cache, downloads with a line that shows them, bars on the terminal.
struct Terminal;

impl Surroundings for Terminal {
    fn cache(&self) -> PathBuf {
        cache_folder()
    }

    fn local(&self, location: &Path) -> octant_recipe::Result<PathBuf> {
        fetching::localize_data(location).map_err(|error| RecipeError::Refused(format!("{error:#}")))
    }

    fn reading(&self, what: &str, dataset: &dyn Dataset, work: &mut dyn FnMut(&dyn Dataset)) {
        let ticking = Ticking::new(what, dataset);
        work(&ticking);
        ticking.end();
    }
}

/// Opens the data that a recipe names, with the classes of a run where they are known.
pub(crate) fn data(recipe: &Recipe, classes: &[String]) -> Result<Data> {
    Ok(octant_recipe::data(recipe, classes, &Terminal)?)
}

/// The weights that a recipe starts from, on this machine; its model in the form that they have.
pub(crate) fn local_weights(recipe: &mut Recipe) -> Result<Option<PathBuf>> {
    let Some(given) = &recipe.weights else { return Ok(None) };
    let path = weights::resolve(given, octant_zoo::find(&recipe.model)?)?;
    octant_recipe::follow_weights(recipe, &path)?;
    Ok(Some(path))
}
