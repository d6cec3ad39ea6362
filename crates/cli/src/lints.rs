//! What looks wrong before a run has begun. Each sentence says what to do about it.

use crate::prepare::{self, Data};
use crate::recipes::{Learns, Recipe};
use anyhow::Result;
use octant_data::{Dataset, Target};
use octant_train::{Phase, Trainable};

/// How many samples are compared when looking for the same picture in both halves.
const COMPARED: usize = 64;

/// All warnings about a recipe and its data.
pub(crate) fn check(recipe: &Recipe, data: &Data) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if let Some(classes) = recipe.classes.filter(|&classes| classes != data.outputs) {
        warnings.push(format!(
            "the head has {classes} outputs, the data has {}; leave --classes away and it will fit",
            data.outputs
        ));
    }
    if !recipe.batch_size.is_multiple_of(recipe.cores) {
        warnings.push(format!(
            "a batch of {} does not divide over {} cores; use a multiple of {0}",
            recipe.batch_size, recipe.cores
        ));
    }
    if let Some(reference) = recipe.reference_batch.filter(|&batch| batch != recipe.batch_size && !recipe.scale_lr) {
        warnings.push(format!(
            "the learning rate is meant for batches of {reference}, not of {}; give --scale-lr or choose --lr",
            recipe.batch_size
        ));
    }
    warnings.extend(frozen(recipe, data)?);
    warnings.extend(preprocessing(recipe)?);
    warnings.extend(shared_pictures(&*data.train, &*data.valid));
    warnings.extend(metric_range(recipe, &*data.train));
    Ok(warnings)
}

/// Phases in which nothing learns, and a head-only phase that in truth frees everything.
fn frozen(recipe: &Recipe, data: &Data) -> Result<Vec<String>> {
    let (model, entry) = prepare::model(recipe, data.outputs)?;
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
    let head = model.head_paths();
    let mut warnings = Vec::new();
    for phase in &recipe.phases {
        let trainable = match &phase.train {
            Learns::Named(name) if name == "head" => Trainable::Head,
            Learns::Named(_) => continue,
            Learns::Paths(paths) => Trainable::Under(paths.clone()),
        };
        let parameters = specs.iter().filter(|spec| spec.kind == octant_nn::Kind::Parameter);
        let (learning, all) = parameters
            .fold((0, 0), |(learning, all), spec| (learning + usize::from(trainable.includes(spec, &head)), all + 1));
        if learning == 0 {
            warnings.push(format!("in phase {} nothing learns; check train = {:?}", phase.name, phase.train));
        } else if learning == all && all > 2 {
            warnings.push(format!("in phase {} nothing is frozen although train = {:?}", phase.name, phase.train));
        }
    }
    Ok(warnings)
}

/// Pretrained weights with other preprocessing than they were made with.
fn preprocessing(recipe: &Recipe) -> Result<Vec<String>> {
    let entry = octant_zoo::find(&recipe.model)?;
    let expected = octant_train::normalise_of(&entry.preprocessing);
    let differs = recipe.weights.is_some() && recipe.normalise == "none" && expected.is_some();
    Ok(differs
        .then(|| format!("the weights of {} expect normalised pictures; remove normalise = \"none\"", recipe.model))
        .into_iter()
        .collect())
}

/// Validation pictures that are also trained on make every metric a lie.
fn shared_pictures(train: &dyn Dataset, valid: &dyn Dataset) -> Option<String> {
    let first = |dataset: &dyn Dataset| -> Vec<String> {
        (0..dataset.len().min(100_000))
            .map(|index| dataset.location(index))
            .filter(|place| place.contains(['/', '\\']))
            .collect()
    };
    let trained: std::collections::HashSet<String> = first(train).into_iter().collect();
    let shared = first(valid).into_iter().find(|place| trained.contains(place));
    if let Some(place) = shared {
        return Some(format!("{place} is in the training and in the validation data; split them anew"));
    }
    let picture =
        |dataset: &dyn Dataset, index: usize| dataset.get(index).ok().map(|sample| sample.picture.bytes().to_vec());
    let seen: std::collections::HashSet<Vec<u8>> =
        (0..train.len().min(COMPARED)).filter_map(|index| picture(train, index)).collect();
    let again = (0..valid.len().min(COMPARED)).find(|&index| picture(valid, index).is_some_and(|p| seen.contains(&p)));
    again.map(|index| format!("{} of the validation data is also trained on; split them anew", valid.location(index)))
}

/// Targets within 0 and 1 make squared errors look better than they are.
fn metric_range(recipe: &Recipe, train: &dyn Dataset) -> Option<String> {
    if recipe.task != "regress" {
        return None;
    }
    let targets = (0..train.len().min(COMPARED)).filter_map(|index| match train.get(index).ok()?.target {
        Target::Values(values) => Some(values),
        _ => None,
    });
    let values: Vec<f32> = targets.flatten().collect();
    let unit = !values.is_empty() && values.iter().all(|value| (0.0..=1.0).contains(value));
    unit.then(|| {
        "all targets lie within 0 and 1: MSE will be far below MAE and cannot be compared with figures on another scale"
            .into()
    })
}

/// How many parameters learn in a phase, of how many.
pub(crate) fn learning(phase: &Phase, specs: &[octant_nn::VariableSpec]) -> (usize, usize) {
    let head = phase.task.head_paths();
    let parameters = specs.iter().filter(|spec| spec.kind == octant_nn::Kind::Parameter);
    parameters.fold((0, 0), |(learning, all), spec| {
        let count = spec.shape.elements();
        (learning + if phase.trainable.includes(spec, &head) { count } else { 0 }, all + count)
    })
}
