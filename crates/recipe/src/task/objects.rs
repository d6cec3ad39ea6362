//! Tasks that find objects: boxes, with masks, with keypoints, rotated.

use super::{Parts, TaskEntry, TaskOutput};
use crate::error::refuse;
use crate::recipe::MOST_BOXES;
use crate::{Recipe, Result};
use octant_train::{Detect, Task};
use octant_zoo::{BoxCode, DetectorHead, Model, ModelEntry};
use std::sync::Arc;

pub(super) const DETECT: TaskEntry =
    objects("detect", "boxes with classes", "val_mAP50-95", &["classes", "augment", "gains"], TaskOutput::Boxes);

pub(super) const INSTANCE: TaskEntry = objects(
    "instance",
    "boxes with classes, and a mask for each",
    "val_mask_mAP50-95",
    &["classes", "augment", "gains"],
    TaskOutput::Instances,
);

pub(super) const POSE: TaskEntry = objects(
    "pose",
    "boxes with classes, and keypoints for each",
    "val_keypoint_mAP50-95",
    &["classes", "augment", "gains", "keypoints"],
    TaskOutput::Keypoints,
);

pub(super) const OBB: TaskEntry = objects(
    "obb",
    "rotated boxes with classes",
    "val_rotated_mAP50-95",
    &["classes", "augment", "gains"],
    TaskOutput::Rotated,
);

/// A task that finds objects.
const fn objects(
    name: &'static str,
    about: &'static str,
    best: &'static str,
    keys: &'static [&'static str],
    output: TaskOutput,
) -> TaskEntry {
    TaskEntry { name, about, best, losses: &[], keys, output, unpaired: false, build: detect }
}

fn detect(Parts { recipe, model, image, normalize, slots, epochs, .. }: Parts) -> Arc<dyn Task> {
    let sides = recipe.augment.as_ref().map(|augment| augment.sides(image[0])).unwrap_or_default();
    let mut detect = Detect::new(model, image, normalize, slots.first().copied().unwrap_or(1), epochs);
    if let Some(gains) = &recipe.gains {
        detect.gains = [gains.boxes, gains.classes, gains.distances];
        detect.detail_gains = [gains.masks.unwrap_or(gains.boxes), gains.keypoints, gains.visibility, gains.angles];
    }
    Arc::new(detect.with_forms(&sides, &slots))
}

/// Refuses gains of losses that this task does not have.
pub(super) fn check_gains(task: &TaskEntry, recipe: &Recipe) -> Result<()> {
    let Some(gains) = &recipe.gains else { return Ok(()) };
    let [_, keypoints, visibility, angles] = Detect::DETAIL_GAINS;
    let given = [
        ("masks", gains.masks.is_some(), TaskOutput::Instances),
        ("keypoints", gains.keypoints != keypoints, TaskOutput::Keypoints),
        ("visibility", gains.visibility != visibility, TaskOutput::Keypoints),
        ("angles", gains.angles != angles, TaskOutput::Rotated),
    ];
    match given.iter().find(|(_, is_given, output)| *is_given && task.output != *output) {
        Some((key, ..)) => refuse!("unknown key `gains.{key}` for task {}; remove it", task.name),
        None => Ok(()),
    }
}

/// How many objects of an image of that height and width a network can find, where that is limited: no more than it has queries,
/// which are pixels of its maps.
pub(crate) fn most_found(model: &dyn Model, [height, width, _]: [usize; 3]) -> Option<usize> {
    let DetectorHead { code: BoxCode::Shares { queries }, strides, .. } = model.detector()? else { return None };
    let pixels: usize = strides.iter().map(|stride| (height / stride) * (width / stride)).sum();
    Some(queries.min(pixels))
}

/// Slots for objects, no more than the network can find.
pub(super) fn within_queries(
    recipe: &Recipe,
    entry: &ModelEntry,
    found: Option<usize>,
    slots: Vec<usize>,
) -> Result<Vec<usize>> {
    let Some(found) = found else { return Ok(slots) };
    // The largest number there may be stands for all that there are.
    if recipe.max_boxes > found && recipe.max_boxes != MOST_BOXES {
        refuse!(
            "`max_boxes = {}` is more than {} can find; `max_boxes = {found}` would do",
            recipe.max_boxes,
            entry.name
        );
    }
    let mut slots: Vec<usize> = slots.into_iter().map(|count| count.min(found)).collect();
    slots.dedup();
    Ok(slots)
}
