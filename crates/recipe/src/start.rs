//! What a run starts from: paths that hold wherever it is resumed, and weights from a file.

use crate::error::refusal;
use crate::{Data, Recipe, Result, model};
use octant_archive::{Archive, Fit};
use octant_data::listed;
use octant_train::{Trainable, Values};
use octant_zoo::identity::{Card, identify};
use std::path::Path;

/// Makes paths absolute: a run may be resumed from another folder.
pub fn fix_paths(recipe: &mut Recipe) -> Result<()> {
    for path in recipe.data.dir.iter_mut().chain(&mut recipe.weights).filter(|path| path.exists()) {
        *path = std::path::absolute(&*path).map_err(|error| refusal!("cannot find {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Chooses the model of the recipe in the form that its weights have: the keys of a file tell whose network it is.
pub fn follow_weights(recipe: &mut Recipe, path: &Path) -> Result<()> {
    let entry = octant_zoo::find(&recipe.model)?;
    let found = identify(&Archive::open(path)?, entry)?.entry;
    if found.name != entry.name {
        recipe.model = found.name.into();
    }
    Ok(())
}

/// Weights from a file as values to start from, and a line that says what matched. The head starts afresh where it was
/// learned for other classes, by number or by name.
pub fn weights(path: &Path, recipe: &Recipe, data: &Data) -> Result<(Values, String)> {
    let (model, entry) = model(recipe, data.outputs)?;
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
    let archive = Archive::open(path)?;
    let seed = recipe.run.seed;
    let loaded = octant_zoo::weights::load(&archive, &*model, &specs, seed);
    let fit = if recipe.partial_weights { Fit::Partial } else { Fit::AnyHead };
    let hint = "`partial_weights = true` would use what fits";
    loaded.matching.require(fit).map_err(|error| refusal!("{error}\n{hint}"))?;
    let mut text = loaded.matching.to_string();
    text.extend(loaded.license.iter().map(|license| format!("\n  the file states its license: {license}")));
    let mut values: Values = specs.iter().map(|spec| spec.path.clone()).zip(loaded.values).collect();
    let names = Card::of(&archive).names;
    let others = !names.is_empty() && !data.classes.is_empty() && names != data.classes;
    if others && loaded.matching.other_head.is_empty() {
        text += &format!("\n  head for other classes ({}) starts afresh", listed(&names));
        let head = model.head_paths();
        let of_head = specs.iter().filter(|spec| Trainable::Head.includes(spec, &head));
        of_head.for_each(|spec| drop(values.insert(spec.path.clone(), spec.initial(seed))));
    }
    Ok((values, text))
}
