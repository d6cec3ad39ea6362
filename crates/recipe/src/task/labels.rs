//! Tasks that label whole images: a class, any number of labels, numbers.

use super::{Parts, TaskEntry, TaskOutput};
use crate::error::refuse;
use crate::{ClassWeights, Recipe, Result};
use octant_train::{Classify, LabelLoss, MultiLabel, Regress, ValueLoss};
use std::sync::Arc;

pub(super) const CLASSIFY: TaskEntry = TaskEntry {
    name: "classify",
    about: "one class per image",
    best: "val_accuracy",
    losses: &[],
    keys: &["classes", "label_smoothing", "mix", "class_weights", "sampling"],
    output: TaskOutput::Classes,
    unpaired: false,
    build: |Parts { recipe, model, image, normalize, mixed, weights, .. }| {
        Arc::new(Classify { model, image, normalize, smoothing: recipe.label_smoothing, weights, mixed })
    },
};

pub(super) const MULTILABEL: TaskEntry = TaskEntry {
    name: "multilabel",
    about: "any number of labels per image",
    best: "val_mAP",
    losses: LabelLoss::NAMES,
    keys: &["class_weights", "sampling", "thresholds"],
    output: TaskOutput::Labels,
    unpaired: false,
    build: |Parts { recipe, model, image, normalize, loss, weights, .. }| {
        let (loss, thresholds) = (LabelLoss::ALL[loss], recipe.thresholds.clone());
        Arc::new(MultiLabel { model, image, normalize, loss, weights, thresholds })
    },
};

pub(super) const REGRESS: TaskEntry = TaskEntry {
    name: "regress",
    about: "numbers per image",
    best: "val_loss",
    losses: ValueLoss::NAMES,
    keys: &[],
    output: TaskOutput::Values,
    unpaired: false,
    build: |Parts { model, image, normalize, loss, .. }| {
        Arc::new(Regress { model, image, normalize, loss: ValueLoss::ALL[loss] })
    },
};

/// What the classes of images count in training; none: all alike. Before the data is known, balanced ones count alike.
pub(super) fn image_weights(recipe: &Recipe, outputs: usize) -> Result<Vec<f64>> {
    let task = TaskEntry::named(&recipe.task)?;
    if !matches!(task.output, TaskOutput::Classes | TaskOutput::Labels) {
        return Ok(Vec::new());
    }
    let thresholds = recipe.thresholds.len();
    if thresholds > 1 && thresholds != outputs {
        refuse!("`thresholds` has {thresholds} numbers for {outputs} labels; give one per label, or one for all");
    }
    let loss = recipe.loss.as_deref().unwrap_or(LabelLoss::NAMES[0]);
    if task.output == TaskOutput::Labels && recipe.class_weights != ClassWeights::Alike && loss != LabelLoss::NAMES[0] {
        refuse!("`class_weights` has no effect on `loss = \"{loss}\"`; remove it, or choose {}", LabelLoss::NAMES[0]);
    }
    match &recipe.class_weights {
        ClassWeights::Alike => Ok(Vec::new()),
        ClassWeights::Balanced => Ok(vec![1.0; outputs]),
        ClassWeights::Given(weights) if weights.len() != outputs => {
            refuse!("`class_weights` has {} numbers for {outputs} classes; give one per class", weights.len())
        }
        ClassWeights::Given(weights) => Ok(weights.clone()),
    }
}
