//! The task of masks, and its loss.

use super::{Parts, TaskEntry, TaskOutput};
use crate::error::refuse;
use crate::{ClassWeights, Recipe, Result};
use octant_train::options::{OptionError, one_of};
use octant_train::{MaskLoss, Segment, SegmentLoss};
use std::sync::Arc;

pub(super) const SEGMENT: TaskEntry = TaskEntry {
    name: "segment",
    about: "a mask per image: one class that is marked, or a class per pixel",
    best: "val_iou",
    losses: MaskLoss::NAMES,
    keys: &["warm_up", "label_smoothing", "class_weights"],
    output: TaskOutput::Mask,
    unpaired: false,
    build: |Parts { model, image, normalize, masks, warm_up, .. }| {
        Arc::new(Segment { model, image, normalize, loss: masks, warm_up })
    },
};

/// The loss over masks of so many classes; without effect for other tasks.
pub(super) fn mask_loss(recipe: &Recipe, outputs: usize) -> Result<SegmentLoss> {
    let is_masks = TaskEntry::named(&recipe.task)?.output == TaskOutput::Mask;
    let parts = match recipe.loss.as_ref().filter(|_| is_masks) {
        Some(text) => SegmentLoss::parse(text).map_err(|problem| OptionError::value("loss", problem))?,
        None => SegmentLoss::usual(outputs).parts,
    };
    let has_several = outputs > 1;
    if let Some((wrong, _)) = parts.iter().find(|(loss, _)| !loss.suits(outputs)) {
        let suited: Vec<&str> = MaskLoss::NAMES
            .iter()
            .zip(MaskLoss::ALL)
            .filter(|(_, loss)| loss.suits(outputs))
            .map(|(name, _)| *name)
            .collect();
        let what = if has_several { format!("of {outputs} classes") } else { "of a single class".into() };
        refuse!("`loss = \"{wrong}\"` is not for masks {what}; choose {}", one_of(&suited));
    }
    let has_cross_entropy = parts.iter().any(|(loss, _)| *loss == MaskLoss::CrossEntropy);
    let given = [
        ("class_weights", !recipe.class_weights.given().is_empty()),
        ("label_smoothing", recipe.label_smoothing != 0.0),
    ];
    if let Some((key, _)) = given.iter().find(|(_, is_given)| is_masks && *is_given && !has_cross_entropy) {
        refuse!("`{key}` has no effect without cross-entropy in the `loss` of masks; remove it");
    }
    if is_masks && recipe.class_weights == ClassWeights::Balanced {
        refuse!("`class_weights = \"balanced\"` is for classes of images; give numbers for those of masks");
    }
    let weights = recipe.class_weights.given().len();
    if is_masks && weights > 0 && weights != outputs {
        refuse!("`class_weights` has {weights} numbers, the masks have {outputs} classes; give one per class");
    }
    Ok(SegmentLoss { parts, class_weights: recipe.class_weights.given().to_vec(), smoothing: recipe.label_smoothing })
}
