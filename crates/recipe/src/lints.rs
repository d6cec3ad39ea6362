//! Warnings about likely mistakes before a run. Each sentence says what to do.

use crate::{Data, NormalizationMode, Recipe, Result, TaskEntry, TaskOutput, image, model, table, transform};
use octant_data::{Dataset, Target};
use octant_train::options::OptionValue;
use octant_train::{Phase, PhaseOptions, Trainable};
use std::collections::{HashMap, HashSet};

/// How many samples are compared when looking for the same image in both halves.
const COMPARED: usize = 64;

/// All warnings about a recipe and its data.
pub fn check(recipe: &Recipe, data: &Data) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if let Some(classes) = recipe.classes.filter(|&classes| classes != data.outputs) {
        warnings.push(format!(
            "the head has {classes} outputs, the data has {}; leave `classes` away and it will fit",
            data.outputs
        ));
    }
    warnings.extend(unscaled(recipe));
    warnings.extend(foreign(recipe)?);
    warnings.extend(data.remarks.iter().cloned());
    warnings.extend(frozen(recipe, data)?);
    warnings.extend(preprocessing(recipe, data)?);
    warnings.extend(single_pixels(recipe, data)?);
    warnings.extend(shared_images(&*data.train, &*data.valid));
    warnings.extend(metric_range(recipe, &*data.train));
    Ok(warnings)
}

/// A detector that predicts sets with the settings of those that do not.
fn foreign(recipe: &Recipe) -> Result<Option<String>> {
    let entry = octant_zoo::find(&recipe.model)?;
    let own = ["rtdetrv2", "dfine"].into_iter().find(|name| entry.family == *name);
    let own = own.filter(|_| recipe.name == "detect");
    Ok(own.map(|own| {
        format!(
            "the settings of recipe detect are for YOLO; `octant train {own} --model {}` has those of its authors",
            entry.name
        )
    }))
}

/// A batch of another size with the learning rates of the recipe.
fn unscaled(recipe: &Recipe) -> Option<String> {
    let reference = recipe.reference_batch.filter(|_| !recipe.scale_lr)?;
    let phase = recipe.phases.last()?;
    let batch = crate::images_per_update(recipe, phase) as u64;
    // A rate that was set is kept.
    let written = table(&recipe.name).and_then(crate::check);
    let rates = |recipe: &Recipe| recipe.phases.iter().map(|phase| phase.schedule.lr).collect::<Vec<_>>();
    let is_own = written.is_ok_and(|written| rates(&written) != rates(recipe));
    (batch != reference as u64 && !is_own).then(|| {
        format!(
            "the learning rate is meant for {reference} images per update, not for {batch}; give `scale_lr` or `lr`"
        )
    })
}

/// Phases without trainable parameters, and a head-only phase in which everything is trainable.
fn frozen(recipe: &Recipe, data: &Data) -> Result<Vec<String>> {
    let (network, entry) = model(recipe, data.outputs)?;
    let (specs, _) = octant_zoo::describe(&*network, entry.preprocessing.input)?;
    let head = network.head_paths();
    let mut warnings = Vec::new();
    let mut is_random = recipe.weights.is_none();
    for phase in recipe.phases.iter().filter(|phase| phase.epochs > 0) {
        let options = PhaseOptions { train: crate::phases::trainable(recipe, phase), ..phase.options.clone() };
        let trainable = &options.train;
        if *trainable == Trainable::All && options.freeze.is_empty() {
            is_random = false;
            continue;
        }
        let written = trainable.write().map(|value| value.to_string()).unwrap_or_default();
        let parameters = specs.iter().filter(|spec| spec.kind == octant_nn::VariableKind::Parameter);
        let (learning, all) = parameters
            .fold((0, 0), |(learning, all), spec| (learning + usize::from(options.trains(spec, &head)), all + 1));
        if learning == 0 {
            warnings.push(format!("phase {} has no trainable parameters; check `train = {written}`", phase.name));
        } else if learning == all && all > 2 {
            warnings.push(format!("in phase {} nothing is frozen although `train = {written}`", phase.name));
        } else if is_random && learning < all {
            warnings.push(format!(
                "phase {} trains a part of {} while the frozen rest has random weights, which teaches little; give `weights`, \
                 such as `weights = \"pretrained\"`, or leave the phase out",
                phase.name, recipe.model
            ));
        }
    }
    Ok(warnings)
}

/// Pretrained weights with other preprocessing than they were made with.
fn preprocessing(recipe: &Recipe, data: &Data) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if recipe.weights.is_none() {
        return Ok(warnings);
    }
    let entry = octant_zoo::find(&recipe.model)?;
    if recipe.normalize == NormalizationMode::None && octant_train::normalize_of(&entry.preprocessing).is_some() {
        warnings.push(format!("the weights of {} expect normalized images; remove normalize = \"none\"", recipe.model));
    }
    let transform = transform(recipe, &recipe.eval_transform, false, entry)?;
    let [height, width, _] = image(&*data.valid, &transform)?;
    let [expected, ..] = entry.preprocessing.input;
    // Detectors are fully convolutional: any size works.
    if height.max(width) != expected && !TaskEntry::named(&recipe.task)?.has_boxes() {
        warnings.push(format!(
            "the weights of {} are made for images of {expected}×{expected}, these are {height}×{width}; give \
             `image_size = {expected}` and a transform that resizes",
            recipe.model
        ));
    }
    Ok(warnings)
}

/// Images that the network reduces to less than a pixel: what follows sees one value per channel, as PyTorch's would.
fn single_pixels(recipe: &Recipe, data: &Data) -> Result<Option<String>> {
    let (network, entry) = model(recipe, data.outputs)?;
    let [height, width, _] = image(&*data.valid, &transform(recipe, &recipe.eval_transform, false, entry)?)?;
    let Some(stride) = octant_zoo::total_stride(&*network, entry.preprocessing.input) else { return Ok(None) };
    Ok((height.min(width) < stride).then(|| {
        format!(
            "{} reduces {stride}×{stride} pixels to one, and images are {height}×{width}: its last layers see single pixels; give \
             `image_size = {stride}` or more",
            entry.name
        )
    }))
}

/// Validation images that are also trained on make every metric a lie.
fn shared_images(train: &dyn Dataset, valid: &dyn Dataset) -> Option<String> {
    let [trained, evaluated] = [train, valid].map(files);
    let known: HashSet<&String> = trained.iter().collect();
    if let Some(file) = evaluated.iter().find(|file| known.contains(file)) {
        return Some(format!("{file} is in the training and in the validation data; split them anew"));
    }
    if let Some((copy, original)) = copied_file(&trained, &evaluated) {
        return Some(format!(
            "{copy} of the validation data is a copy of {original}, which is trained on; split them anew"
        ));
    }
    let image =
        |dataset: &dyn Dataset, index: usize| dataset.get(index).ok().map(|sample| sample.image.bytes().to_vec());
    let seen: HashSet<Vec<u8>> = (0..train.len().min(COMPARED)).filter_map(|index| image(train, index)).collect();
    let again = (0..valid.len().min(COMPARED)).find(|&index| image(valid, index).is_some_and(|p| seen.contains(&p)));
    again.map(|index| format!("{} of the validation data is also trained on; split them anew", valid.location(index)))
}

/// The files that samples come from, where they come from files.
fn files(dataset: &dyn Dataset) -> Vec<String> {
    let locations = (0..dataset.len().min(100_000)).map(|index| dataset.location(index));
    locations.filter(|location| location.contains(['/', '\\'])).collect()
}

/// A validation file with the content of a training file, and that training file. Only files of the same length are read,
/// and not too many.
fn copied_file(trained: &[String], evaluated: &[String]) -> Option<(String, String)> {
    const MOST_COMPARISONS: usize = 2000;
    let length = |file: &String| std::fs::metadata(file).ok().filter(|facts| facts.is_file()).map(|facts| facts.len());
    let mut by_length: HashMap<u64, Vec<&String>> = HashMap::new();
    for file in trained {
        if let Some(length) = length(file) {
            by_length.entry(length).or_default().push(file);
        }
    }
    let mut comparisons = 0;
    for copy in evaluated {
        let originals = length(copy).and_then(|length| by_length.get(&length)).into_iter().flatten();
        for &original in originals {
            if comparisons == MOST_COMPARISONS {
                return None;
            }
            comparisons += 1;
            if let (Ok(left), Ok(right)) = (std::fs::read(copy), std::fs::read(original))
                && left == right
            {
                return Some((copy.clone(), original.clone()));
            }
        }
    }
    None
}

/// Targets within 0 and 1 make squared errors look better than they are.
fn metric_range(recipe: &Recipe, train: &dyn Dataset) -> Option<String> {
    if TaskEntry::named(&recipe.task).ok()?.output != TaskOutput::Values {
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
pub fn learning(phase: &Phase, specs: &[octant_nn::VariableSpec]) -> (usize, usize) {
    let head = phase.task.head_paths();
    let parameters = specs.iter().filter(|spec| spec.kind == octant_nn::VariableKind::Parameter);
    parameters.fold((0, 0), |(learning, all), spec| {
        let count = spec.shape.elements();
        (learning + if phase.options.trains(spec, &head) { count } else { 0 }, all + count)
    })
}

/// How many parameters learn in a phase, what is frozen, and how many batch norms keep their statistics, as the rest of a
/// sentence.
pub fn share(phase: &Phase, specs: &[octant_nn::VariableSpec]) -> String {
    let (learning, all) = learning(phase, specs);
    let head = phase.task.head_paths();
    let options = &phase.options;
    let rest = match &options.train {
        Trainable::All => None,
        Trainable::Head => Some(format!("all but the head ({})", head.join(", "))),
        Trainable::Adapters => Some("all but the adapters and the head".into()),
        Trainable::Under(scopes) => Some(format!("all but {}", scopes.join(", "))),
    };
    let frozen: Vec<String> = rest.into_iter().chain(options.freeze.iter().cloned()).collect();
    let mut text = if learning == all { "all learn".to_string() } else { format!("{learning} of them learn") };
    if learning < all {
        text += &format!("; frozen: {}", frozen.join(", "));
    }
    let norms = options.norms(specs, &head);
    match norms.iter().filter(|(_, keeps)| *keeps).count() {
        0 if learning < all && !norms.is_empty() => text += "; all batch norms update their statistics",
        0 => {}
        kept => text += &format!("; {kept} of {} batch norms keep their statistics", norms.len()),
    }
    text
}

#[cfg(test)]
mod tests;
