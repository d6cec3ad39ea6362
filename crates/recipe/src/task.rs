//! The tasks that recipes name, with their networks.
//!
//! Every task is an entry of [`TASKS`]; entries stand with what only they need, by what is predicted: `labels` of whole images, `masks`,
//! `objects`, `images`. `build` makes the task of a recipe, `network` its network.

mod build;
mod images;
mod labels;
mod masks;
mod network;
mod objects;

pub(crate) use build::build_task;
pub use build::task;
pub use network::model;
pub(crate) use objects::most_found;

use crate::error::refuse;
use crate::{BestMode, Recipe, Result};
use octant_data::LabelKind;
use octant_train::options::{nearest, one_of};
use octant_train::{Normalize, SegmentLoss, Task};
use octant_zoo::{Model, ModelTask};
use std::sync::Arc;

/// A task of recipes.
pub struct TaskEntry {
    /// The value of `task`.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The default metric that decides the best epoch.
    pub best: &'static str,
    /// The names of its losses, the usual one first; none if it has only one.
    pub losses: &'static [&'static str],
    /// Keys that only some tasks read, and this one does: `label_smoothing`, `phases.mix`, `phases.warm_up`; `classes`
    /// where the head may be larger than the data needs.
    pub keys: &'static [&'static str],
    /// What is predicted.
    pub output: TaskOutput,
    /// Samples are drawn from two domains that have no pairs.
    pub unpaired: bool,
    build: fn(Parts) -> Arc<dyn Task>,
}

/// What is predicted for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOutput {
    /// Classes with their probabilities.
    Classes,
    /// Any number of labels, each with its probability.
    Labels,
    /// Numbers.
    Values,
    /// A mask.
    Mask,
    /// Boxes with classes.
    Boxes,
    /// The same with a mask each.
    Instances,
    /// The same with keypoints each.
    Keypoints,
    /// Rotated boxes with classes.
    Rotated,
    /// An image.
    Image,
}

impl TaskOutput {
    /// What labels must say of every object, where objects are predicted.
    pub fn labels(self) -> Option<LabelKind> {
        match self {
            TaskOutput::Boxes => Some(LabelKind::Boxes),
            TaskOutput::Instances => Some(LabelKind::Outlines),
            TaskOutput::Keypoints => Some(LabelKind::Keypoints),
            TaskOutput::Rotated => Some(LabelKind::Corners),
            TaskOutput::Classes | TaskOutput::Labels | TaskOutput::Values | TaskOutput::Mask | TaskOutput::Image => {
                None
            }
        }
    }

    /// Whether objects are predicted.
    pub fn is_objects(self) -> bool {
        self.labels().is_some()
    }

    /// The kind of network that predicts it.
    fn network(self) -> ModelTask {
        match self {
            TaskOutput::Classes | TaskOutput::Labels | TaskOutput::Values => ModelTask::Classify,
            TaskOutput::Mask => ModelTask::Segment,
            TaskOutput::Boxes => ModelTask::Detect,
            TaskOutput::Instances => ModelTask::Instances,
            TaskOutput::Keypoints => ModelTask::Pose,
            TaskOutput::Rotated => ModelTask::Rotated,
            TaskOutput::Image => ModelTask::Translate,
        }
    }
}

/// What a task is built from.
struct Parts<'a> {
    recipe: &'a Recipe,
    model: Box<dyn Model>,
    image: [usize; 3],
    normalize: Option<Normalize>,
    /// The index of the loss in the task's list.
    loss: usize,
    /// The loss over masks.
    masks: SegmentLoss,
    /// What the classes of images count.
    weights: Vec<f64>,
    warm_up: bool,
    mixed: bool,
    /// Box slots per image, and a smaller number that suffices for nearly all batches.
    slots: Vec<usize>,
    epochs: u64,
    /// The number of classes, values or channels of the data.
    outputs: usize,
}

/// Every task.
pub const TASKS: [TaskEntry; 12] = [
    labels::CLASSIFY,
    labels::MULTILABEL,
    masks::SEGMENT,
    objects::DETECT,
    objects::INSTANCE,
    objects::POSE,
    objects::OBB,
    labels::REGRESS,
    images::PIX2PIX,
    images::CYCLEGAN,
    images::RESTORE,
    images::AUTOENCODE,
];

impl TaskEntry {
    /// The task of that name.
    pub fn named(name: &str) -> Result<&'static TaskEntry> {
        if let Some(found) = TASKS.iter().find(|task| task.name == name) {
            return Ok(found);
        }
        let names = TASKS.map(|task| task.name);
        let hint = nearest(name, names.into_iter()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        refuse!("`task` must be {}, not \"{name}\"{hint}", one_of(&names))
    }

    /// Whether its targets are boxes, for which steps have slots.
    pub fn has_boxes(&self) -> bool {
        self.output.is_objects()
    }

    /// Whether its networks make images.
    pub fn makes_images(&self) -> bool {
        self.output == TaskOutput::Image
    }
}

/// The metric that decides which epoch of a network with so many outputs was best.
pub fn best(recipe: &Recipe, outputs: usize) -> Result<String> {
    let task = TaskEntry::named(&recipe.task)?;
    let usual = if task.output == TaskOutput::Mask && outputs > 1 { "val_miou" } else { task.best };
    Ok(recipe.best.clone().unwrap_or_else(|| usual.into()))
}

/// Whether smaller values of that metric are better.
pub fn smaller_is_better(recipe: &Recipe) -> Result<bool> {
    const ERRORS: [&str; 7] = ["loss", "mse", "mae", "rmse", "fa", "fa_exact", "error"];
    Ok(match recipe.best_mode {
        Some(mode) => mode == BestMode::Min,
        None => ERRORS.contains(&best(recipe, 1)?.trim_start_matches("val_")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_names_are_unique() {
        TASKS.iter().enumerate().for_each(|(number, task)| {
            assert!(TASKS[..number].iter().all(|other| other.name != task.name), "{} is there twice", task.name);
        });
    }
}
