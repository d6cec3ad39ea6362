//! Recipes of networks without a run: what a model's published weights expect, or the metadata of a file of weights.
//!
//! A file that a run writes carries the settings that decide its predictions (task, size and transform of images), so that the
//! file alone predicts what the run predicts.

use crate::error::refusal;
use crate::transform::Transforms;
use crate::{Recipe, Result, check, table, transform};
use octant_data::TransformStep;
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
use octant_train::options::{OptionTable, OptionValue};
use octant_zoo::{ModelEntry, ModelTask};
use toml::{Table, Value};

/// The keys of a recipe that decide what its network predicts of an image, beside those that the weights decide.
const KEYS: [&str; 6] = ["task", "normalize", "degrade", "precision", "keypoints", "thresholds"];

/// The recipe that a model is measured and used with where none is given: that of its task, with the preprocessing of its
/// reference weights.
pub fn of_model(entry: &ModelEntry) -> Result<Recipe> {
    let base = match entry.task {
        ModelTask::Classify => "imagenet-resnet50",
        ModelTask::Segment if entry.family == "mshnet" => "mshnet-irstd",
        ModelTask::Segment => "segment",
        ModelTask::Detect => "detect",
        ModelTask::Instances => "instance",
        ModelTask::Pose => "pose",
        ModelTask::Rotated => "obb",
        ModelTask::Translate if entry.family.ends_with("generator") => "pix2pix",
        ModelTask::Translate => "restore",
    };
    based_on(base, entry)
}

fn based_on(base: &str, entry: &ModelEntry) -> Result<Recipe> {
    let mut recipe = check(table(base)?)?;
    let factor = (entry.build)(entry.classes).enlarges();
    if let Some(degrade) = recipe.degrade.as_mut().filter(|_| factor > 1) {
        degrade.shrink = Some(factor);
    }
    let name = entry.name.to_string();
    // Networks that come without a head are measured with one.
    let classes = if entry.classes == 0 { 1000 } else { entry.classes };
    Ok(Recipe { name: name.clone(), model: name, classes: Some(classes), ..recipe })
}

/// The settings that a file of a run's weights carries, as TOML. `image` is what the network sees.
pub fn prediction_settings(recipe: &Recipe, entry: &ModelEntry, image: [usize; 3]) -> Result<String> {
    let all = recipe.to_table();
    let mut settings: Table = all.into_iter().filter(|(key, _)| KEYS.contains(&key.as_str())).collect();
    let [height, width, _] = image;
    let mut pipeline = transform(recipe, &recipe.eval_transform, false, entry)?;
    if pipeline.steps.is_empty() {
        pipeline.steps.push(resized([height, width]));
    }
    settings.extend(Transforms::Steps(pipeline).write().map(|steps| ("eval_transform".to_string(), steps)));
    settings.insert("image_size".into(), Value::Integer(height as i64));
    toml::to_string(&settings).map_err(|error| refusal!("the settings cannot be written as TOML: {error}"))
}

/// The step that brings images of any size to the one that a network was trained with.
pub fn resized([height, width]: [usize; 2]) -> TransformStep {
    TransformStep::Resize { size: (height, width), method: Method::new(Filter::Bilinear, Semantics::Pil) }
}

/// The recipe of a file of weights that carries settings.
pub fn of_settings(entry: &ModelEntry, settings: &str) -> Result<Recipe> {
    let damaged = |error: &dyn std::fmt::Display| refusal!("the settings in the file of weights are damaged: {error}");
    let settings: Table = settings.parse().map_err(|error| damaged(&error))?;
    let usual = of_model(entry)?;
    let task = settings.get("task").and_then(Value::as_str).unwrap_or(&usual.task);
    // Every task has a recipe of its name; its other keys are those that the task knows.
    let recipe = if task == usual.task { usual } else { based_on(task, entry)? };
    let mut table = recipe.to_table();
    // Predictions do not depend on it, and the usual one may not suit the number of classes.
    table.remove("loss");
    settings.into_iter().for_each(|(key, value)| drop(table.insert(key, value)));
    check(table).map_err(|error| damaged(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set_text;

    #[test]
    fn a_file_of_weights_prepared_images_in_the_models_size_and_not_in_the_runs() {
        for (name, change) in [("regress", "image_size=48"), ("detect", "image_size=96"), ("restore", "image_size=40")]
        {
            let mut table = table(name).unwrap();
            set_text(&mut table, change).unwrap();
            let recipe = check(table).unwrap();
            let entry = octant_zoo::find(&recipe.model).unwrap();
            let side = recipe.image_size.unwrap();
            let text = prediction_settings(&recipe, entry, [side, side, 3]).unwrap();
            let read = of_settings(entry, &text).unwrap();
            assert_eq!(
                (&read.task, read.image_size, read.normalize),
                (&recipe.task, recipe.image_size, recipe.normalize)
            );
            let steps = |recipe: &Recipe| transform(recipe, &recipe.eval_transform, false, entry).unwrap();
            assert_eq!(steps(&read).steps, steps(&recipe).steps, "{name}");
        }
    }

    #[test]
    fn images_that_a_recipe_leaves_as_they_are_come_back_in_the_size_that_was_seen() {
        let recipe = check(table("glyphs").unwrap()).unwrap();
        let entry = octant_zoo::find(&recipe.model).unwrap();
        let read = of_settings(entry, &prediction_settings(&recipe, entry, [28, 28, 1]).unwrap()).unwrap();
        assert_eq!(transform(&read, &read.eval_transform, false, entry).unwrap().steps, [resized([28, 28])]);
    }
}
