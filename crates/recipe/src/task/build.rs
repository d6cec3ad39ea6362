//! From a recipe to its task: which keys, losses, networks and images belong together.

use super::labels::image_weights;
use super::masks::mask_loss;
use super::network::{check_images, model};
use super::objects::{check_gains, most_found, within_queries};
use super::{Parts, TaskEntry, TaskOutput};
use crate::error::refuse;
use crate::phases::DEFAULT_SLOTS;
use crate::recipe::MOST_BOXES;
use crate::{ClassWeights, NormalizationMode, PhaseRecipe, Recipe, Result, Sampling};
use octant_train::options::{OptionError, one_of};
use octant_train::{Task, normalize_of};
use octant_zoo::BoxCode;
use std::sync::Arc;

/// What a task must know of the phase that it is built for.
struct PhaseFacts {
    warm_up: bool,
    mixed: bool,
    /// See [`Parts::slots`].
    slots: Vec<usize>,
    epochs: u64,
}

/// The task of a recipe for evaluation and prediction.
pub fn task(recipe: &Recipe, outputs: usize, image: [usize; 3], warm_up: bool) -> Result<Arc<dyn Task>> {
    // Metrics count every object. The loss of masks is computed for every slot, so that it counts the first ones alone.
    let most = if TaskEntry::named(&recipe.task)?.output == TaskOutput::Instances { DEFAULT_SLOTS } else { MOST_BOXES };
    let slots = vec![most.min(recipe.max_boxes)];
    built(recipe, outputs, image, PhaseFacts { warm_up, mixed: false, slots, epochs: 1 })
}

/// The task of a recipe for training in a phase.
pub(crate) fn build_task(
    recipe: &Recipe,
    outputs: usize,
    image: [usize; 3],
    phase: &PhaseRecipe,
    slots: Vec<usize>,
) -> Result<Arc<dyn Task>> {
    let (warm_up, mixed) = (phase.warm_up, phase.options.mix.is_some());
    built(recipe, outputs, image, PhaseFacts { warm_up, mixed, slots, epochs: phase.epochs })
}

fn built(recipe: &Recipe, outputs: usize, image: [usize; 3], phase: PhaseFacts) -> Result<Arc<dyn Task>> {
    let task = TaskEntry::named(&recipe.task)?;
    task.check(recipe)?;
    let loss = task.loss(recipe)?;
    if let Some(classes) = recipe.classes.filter(|&classes| classes != outputs && !task.keys.contains(&"classes")) {
        refuse!(
            "`classes = {classes}` does not fit: to {} this data, the network has {outputs} output(s); remove `classes`",
            task.name
        );
    }
    let (model, entry) = model(recipe, outputs)?;
    if task.output.network() != entry.task {
        refuse!("{} is no model to {}; `octant models` lists what each one is for", entry.name, task.name);
    }
    check_images(recipe, entry, &*model, image)?;
    if recipe.gains.is_some() && model.detector().is_some_and(|head| !matches!(head.code, BoxCode::Distances { .. })) {
        refuse!("`gains` are fixed in {}; remove them", entry.name);
    }
    let slots = within_queries(recipe, entry, most_found(&*model, image), phase.slots)?;
    let normalize = match recipe.normalize {
        NormalizationMode::Model => normalize_of(&entry.preprocessing),
        NormalizationMode::None => None,
    };
    let masks = mask_loss(recipe, outputs)?;
    let weights = image_weights(recipe, model.classes())?;
    let PhaseFacts { warm_up, mixed, epochs, .. } = phase;
    Ok((task.build)(Parts {
        recipe,
        model,
        image,
        normalize,
        loss,
        masks,
        weights,
        warm_up,
        mixed,
        slots,
        epochs,
        outputs,
    }))
}

impl TaskEntry {
    /// Refuses keys of the recipe that this task would ignore.
    fn check(&self, recipe: &Recipe) -> Result<()> {
        let phase = |is: fn(&PhaseRecipe) -> bool| recipe.phases.iter().any(is);
        let given = [
            ("label_smoothing", recipe.label_smoothing != 0.0),
            ("class_weights", recipe.class_weights != ClassWeights::Alike),
            ("sampling", recipe.sampling == Sampling::Balanced),
            ("thresholds", !recipe.thresholds.is_empty()),
            ("mix", phase(|phase| phase.options.mix.is_some())),
            ("warm_up", phase(|phase| phase.warm_up)),
            ("augment", recipe.augment.is_some()),
            ("gains", recipe.gains.is_some()),
            ("keypoints", !recipe.keypoints.is_empty()),
            ("gan", recipe.gan.is_some()),
            ("degrade", recipe.degrade.is_some()),
        ];
        if let Some((key, _)) = given.iter().find(|(key, is_given)| *is_given && !self.keys.contains(key)) {
            refuse!("unknown key `{key}` for task {}; remove it", self.name);
        }
        check_gains(self, recipe)
    }

    /// The index of the recipe's loss in the list.
    fn loss(&self, recipe: &Recipe) -> Result<usize> {
        let Some(wanted) = recipe.loss.as_ref().filter(|_| self.output != TaskOutput::Mask) else { return Ok(0) };
        let found = self.losses.iter().position(|name| name == wanted);
        let problem = || match self.losses {
            [] => format!("cannot be chosen where the task is to {}; remove it", self.name),
            losses => format!("must be {} to {}, not \"{wanted}\"", one_of(losses), self.name),
        };
        Ok(found.ok_or_else(|| OptionError::value("loss", problem()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, set_text, table};

    /// Why the built-in recipe with this change is refused; empty if it is not.
    fn refusal(recipe: &str, change: &str) -> String {
        let mut table = table(recipe).unwrap();
        set_text(&mut table, change).unwrap();
        let built = task(&check(table).unwrap(), 1, [32, 32, 3], false);
        built.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_loss_of_another_task_is_refused() {
        let sentence = "`loss` must be mse, mae or huber to regress, not \"dice\"";
        assert_eq!(refusal("demo-regression", "loss=dice"), sentence);
        assert_eq!(refusal("glyphs", "loss=mse"), "`loss` cannot be chosen where the task is to classify; remove it");
        assert_eq!(refusal("demo-regression", "loss=huber"), "");
    }

    #[test]
    fn keys_that_a_task_would_ignore_are_refused() {
        assert!(
            refusal("demo-regression", "label_smoothing=0.1").starts_with("unknown key `label_smoothing` for task")
        );
        assert!(refusal("demo-segment", "phases.0.mix={mixup=0.2}").starts_with("unknown key `mix` for task"));
        assert!(refusal("glyphs", "phases.0.warm_up=true").starts_with("unknown key `warm_up` for task"));
        assert!(refusal("glyphs", "task=clasify").ends_with("did you mean classify?"));
    }

    #[test]
    fn masks_of_four_classes_were_learned_as_one_when_the_head_was_given_four_outputs() {
        assert!(refusal("demo-segment", "classes=4").starts_with("`classes = 4` does not fit"));
        assert!(refusal("demo-regression", "classes=4").contains("the network has 1 output"));
        assert_eq!(refusal("demo-segment", "classes=1"), "");
        assert_eq!(refusal("glyphs", "classes=12"), "");
    }
}
