//! Tasks that recipes name, with the network that learns them.

use crate::error::{refusal, refuse};
use crate::{Recipe, Result};
use octant_archive::Archive;
use octant_nn::VariableSpec;
use octant_train::{Classify, MaskLoss, Regress, Segment, Task, ValueLoss, normalize_of};
use octant_zoo::{Entry, Model};
use std::path::Path;

fn named<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| refusal!("there is no {what} \"{name}\"; there are {}", names.join(", ")))
}

/// The network of a recipe with a head that fits the data.
pub fn model(recipe: &Recipe, outputs: usize) -> Result<(Box<dyn Model>, &'static Entry)> {
    let entry = octant_zoo::find(&recipe.model)?;
    Ok(((entry.build)(recipe.classes.unwrap_or(outputs)), entry))
}

/// The task of a recipe, as it is judged and asked.
pub fn task(recipe: &Recipe, outputs: usize, image: [usize; 3], warm_up: bool) -> Result<Box<dyn Task>> {
    build_task(recipe, outputs, image, warm_up, false)
}

pub(crate) fn build_task(
    recipe: &Recipe,
    outputs: usize,
    image: [usize; 3],
    warm_up: bool,
    mixed: bool,
) -> Result<Box<dyn Task>> {
    if mixed && recipe.task != "classify" {
        refuse!("only images of classes can be mixed; remove mix from the phases");
    }
    let (model, entry) = model(recipe, outputs)?;
    let normalize = match recipe.normalize.as_str() {
        "model" => normalize_of(&entry.preprocessing),
        "none" => None,
        other => refuse!("there is no normalize = \"{other}\"; use model or none"),
    };
    let loss = |default: &str| recipe.loss.clone().unwrap_or_else(|| default.to_string());
    Ok(match recipe.task.as_str() {
        "classify" => Box::new(Classify { model, image, normalize, smoothing: recipe.label_smoothing, mixed }),
        "segment" => {
            let loss = named("loss for masks", &loss("sls-iou"), &MaskLoss::NAMES)?;
            Box::new(Segment { model, image, normalize, loss, warm_up })
        }
        "regress" => {
            let loss = named("loss for values", &loss("mse"), &ValueLoss::NAMES)?;
            Box::new(Regress { model, image, normalize, loss, center: 0.0 })
        }
        other => refuse!("there is no task \"{other}\"; there are classify, segment, regress"),
    })
}

/// The metric that decides which epoch was best.
pub fn best(recipe: &Recipe) -> String {
    let usual = match recipe.task.as_str() {
        "segment" => "val_iou",
        "regress" => "val_loss",
        _ => "val_accuracy",
    };
    recipe.best.clone().unwrap_or_else(|| usual.into())
}

/// Whether smaller values of that metric are better.
pub fn smaller_is_better(recipe: &Recipe) -> bool {
    const ERRORS: [&str; 7] = ["loss", "mse", "mae", "rmse", "fa", "fa_exact", "error"];
    match recipe.best_mode.as_deref() {
        // `check` knows no third one.
        Some(mode) => mode == "min",
        None => ERRORS.contains(&best(recipe).trim_start_matches("val_")),
    }
}

/// Weights from a file as values to start from, and a line that says what matched.
pub fn weights(
    path: &Path,
    recipe: &Recipe,
    outputs: usize,
) -> Result<(Vec<VariableSpec>, octant_zoo::weights::Loaded)> {
    let (model, entry) = model(recipe, outputs)?;
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
    let archive = Archive::open(path)?;
    let loaded = octant_zoo::weights::load(&archive, &*model, &specs, recipe.seed);
    loaded.matching.require(false)?;
    Ok((specs, loaded))
}
