//! From a recipe to the parts of the run that it describes: devices, paths, weights to start from, and the plan.

use crate::error::{refusal, refuse};
use crate::{
    Cores, Data, Recipe, Result, best, model, order, phases, refuse_ignored_sizes, smaller_is_better, transform,
};
use octant_archive::{Archive, Fit};
use octant_data::listed;
use octant_nn::{Adapters, Precision};
use octant_runtime::{Axis, Backend, Mesh};
use octant_train::options::OptionValue;
use octant_train::run::{RunPlan, Watched};
use octant_train::step::StepOptions;
use octant_train::{Trainable, Values};
use octant_zoo::identity::{Card, identify};
use octant_zoo::{ModelEntry, Preprocessing};
use std::path::Path;
use std::sync::Arc;

/// The precision of that name: `f32` or `bf16`.
pub fn precision(name: &str) -> Result<Precision> {
    Ok(OptionValue::read(&toml::Value::String(name.into()), "precision")?)
}

/// Devices that divide batches among themselves, in groups of `fsdp` that also divide the parameters, each of them a group of
/// `spatial` that divides images.
pub fn mesh_of(devices: usize, step: &StepOptions) -> Result<Mesh> {
    let (fsdp, spatial) = (step.fsdp, step.spatial);
    if !devices.is_multiple_of(fsdp) {
        refuse!("`fsdp = {fsdp}` does not divide the number of devices, {devices}");
    }
    if !devices.is_multiple_of(fsdp * spatial) {
        refuse!("`spatial = {spatial}` does not divide the number of devices, {devices}, in groups of `fsdp = {fsdp}`");
    }
    Ok(Mesh::along([(Axis::Data, devices / fsdp / spatial), (Axis::Fsdp, fsdp), (Axis::Spatial, spatial)]))
}

/// The devices that work together.
pub fn mesh(cores: Cores, step: &StepOptions, backend: &dyn Backend) -> Result<Mesh> {
    let process = backend.process();
    let there = backend.devices().len() * process.ranks;
    let is_here = backend.name() == "cpu";
    let mesh = |count: usize| -> Result<Mesh> {
        if !count.is_multiple_of(process.ranks) {
            refuse!(
                "`cores = {count}` cannot be divided evenly among {} processes; use `cores = \"all\"`, which is {there}",
                process.ranks
            );
        }
        let mesh = mesh_of(count, step)?.across(process);
        Ok(if is_here { mesh } else { mesh.remote() })
    };
    match cores {
        Cores::All => mesh(there),
        Cores::Count(0) => refuse!("`cores` must be at least 1"),
        Cores::Count(count) if count <= there => mesh(count),
        Cores::Count(count) if is_here => {
            refuse!("`cores = {count}` is too many: the processor is one device that uses all its cores")
        }
        Cores::Count(count) => {
            refuse!("`cores = {count}` is too many: {} has {there} here; use `cores = \"all\"`", backend.name())
        }
    }
}

/// All parts of a run, built from the recipe. Variables in `initial` start from those values.
pub fn plan(recipe: &Recipe, data: &Data, backend: &Arc<dyn Backend>, initial: Values) -> Result<RunPlan> {
    refuse_ignored_sizes(recipe)?;
    let phases = phases(recipe, data)?;
    if phases.is_empty() {
        refuse!("there is nothing to do: no phase lasts an epoch; give `epochs`");
    }
    if recipe.step.fsdp == 1 && recipe.step.fsdp_from != StepOptions::default().fsdp_from {
        refuse!("`fsdp_from` has no effect without `fsdp`");
    }
    let entry = octant_zoo::find(&recipe.model)?;
    Ok(RunPlan {
        backend: backend.clone(),
        mesh: mesh(recipe.cores, &recipe.step, &**backend)?,
        compile: Default::default(),
        record: None,
        step: recipe.step.clone(),
        run: recipe.run.clone(),
        phases,
        train: data.train.clone(),
        fetched: data.fetched.clone(),
        order: order::of(recipe, data)?,
        valid: data.valid.clone(),
        valid_transform: Arc::new(transform(recipe, &recipe.eval_transform, false, entry)?),
        watched: Watched { metric: best(recipe, data.outputs)?, smaller: smaller_is_better(recipe)? },
        cluster: None,
        deadline: None,
        weights: initial,
        config: recipe.to_text(),
        metadata: metadata(recipe, entry, data)?,
    })
}

/// Metadata for files of the run's weights.
fn metadata(recipe: &Recipe, entry: &ModelEntry, data: &Data) -> Result<Vec<(String, String)>> {
    let classes = recipe.classes.unwrap_or(data.outputs);
    let seen = crate::image(&*data.valid, &transform(recipe, &recipe.eval_transform, false, entry)?)?;
    let seen = Preprocessing { input: seen, ..entry.preprocessing };
    let mut metadata = octant_zoo::identity::metadata(entry, &seen, classes, &data.classes);
    metadata.push(Card::settings_metadata(crate::prediction_settings(recipe, entry, seen.input)?));
    if let Some(options) = &recipe.step.adapters {
        let except = model(recipe, data.outputs)?.0.head_paths();
        metadata.push(octant_zoo::adapted::metadata(&Adapters { except, ..options.adapters() }));
    }
    Ok(metadata)
}

/// Makes paths absolute: a run may be resumed from another folder.
pub fn fix_paths(recipe: &mut Recipe) -> Result<()> {
    for path in recipe.data.dir.iter_mut().chain(&mut recipe.weights).filter(|path| path.exists()) {
        *path = std::path::absolute(&*path).map_err(|error| refusal!("cannot find {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Chooses the model of the recipe in the form that its weights have: the keys of a file show whose network it is.
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
    let named = Card::of(&archive).entry().filter(|named| named.name != entry.name);
    let hint = match named {
        Some(named) => format!("the file holds {}; `model = \"{}\"` is the network for it", named.name, named.name),
        None => "`partial_weights = true` would use what fits".into(),
    };
    loaded.matching.require(fit).map_err(|error| refusal!("{error}\n{hint}"))?;
    let mut text = loaded.matching.to_string();
    text.extend(loaded.license.iter().map(|license| format!("\n  the file states its license: {license}")));
    let mut values = Values::of(&specs, loaded.values);
    let names = Card::of(&archive).names;
    let others = !names.is_empty() && !data.classes.is_empty() && names != data.classes;
    if others && loaded.matching.other_head.is_empty() {
        text += &format!("\n  head for other classes ({}) starts afresh", listed(&names));
        let head = model.head_paths();
        let of_head = specs.iter().filter(|spec| Trainable::Head.includes(spec, &head));
        of_head.for_each(|spec| values.reset(spec, seed));
    }
    Ok((values, text))
}
