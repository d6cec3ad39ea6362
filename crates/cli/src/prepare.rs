//! The library's way from recipes to runs, with what the binary adds: places that are fetched, and bars.

use crate::data::Ticking;
use crate::{fetching, weights};
use anyhow::Result;
use octant_data::Dataset;
use octant_nn::VariableSpec;
use octant_pjrt::discover::cache_folder;
use octant_recipe::{Recipe, RecipeError, Surroundings};
use std::path::{Path, PathBuf};

pub(crate) use octant_recipe::{
    Data, Facts, best, image, model, phases, phases_on, scaling, smaller_is_better, task, transform,
};

/// Octant's cache, downloads with a line that shows them, bars on the terminal.
struct Terminal;

impl Surroundings for Terminal {
    fn cache(&self) -> PathBuf {
        cache_folder()
    }

    fn local(&self, place: &Path) -> octant_recipe::Result<PathBuf> {
        fetching::localise(place, "data").map_err(|error| RecipeError::Refused(format!("{error:#}")))
    }

    fn reading(&self, what: &str, dataset: &dyn Dataset, work: &mut dyn FnMut(&dyn Dataset)) {
        let ticking = Ticking::new(what, dataset);
        work(&ticking);
        ticking.end();
    }
}

/// Opens the data that a recipe names.
pub(crate) fn data(recipe: &Recipe) -> Result<Data> {
    Ok(octant_recipe::data(recipe, &Terminal)?)
}

/// Weights from a file, an address or a published name as values to start from, and what matched.
pub(crate) fn weights(
    path: &Path,
    recipe: &Recipe,
    outputs: usize,
) -> Result<(Vec<VariableSpec>, octant_zoo::weights::Loaded)> {
    let path = weights::resolve(path, octant_zoo::find(&recipe.model)?)?;
    Ok(octant_recipe::weights(&path, recipe, outputs)?)
}
