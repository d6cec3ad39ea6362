//! Phases with their options, learning rates and transforms.

use crate::error::refuse;
use crate::rate::{Length, rate};
use crate::task::build_task;
use crate::{AugmentOptions, Data, Per, PhaseRecipe, Recipe, Result, ScheduleKind, image, transform};
use octant_data::detection::{self, AugmentSettings, BoxAugment, RecentImages};
use octant_data::{Dataset, Pipeline, Unpaired};
use octant_nn::schedule::LinearScaling;
use octant_train::{Phase, PhaseOptions, Trainable, WarmupOptions};
use std::sync::Arc;

/// What phases must know of the data.
pub struct Facts<'a> {
    /// How many samples are learned from.
    pub samples: usize,
    /// How large a head the data asks for.
    pub outputs: usize,
    /// The size of images after a transform.
    pub image: &'a dyn Fn(&Pipeline) -> Result<[usize; 3]>,
    /// The samples themselves, where they are here: some transforms draw partners from them.
    pub train: Option<Arc<dyn Dataset>>,
}

/// All phases of a recipe that last at least one epoch.
pub fn phases(recipe: &Recipe, data: &Data) -> Result<Vec<Phase>> {
    let image = |transform: &Pipeline| image(&*data.train, transform);
    phases_on(
        recipe,
        &Facts { samples: data.train.len(), outputs: data.outputs, image: &image, train: Some(data.train.clone()) },
    )
}

/// The same for data that need not be here.
pub fn phases_on(recipe: &Recipe, data: &Facts) -> Result<Vec<Phase>> {
    refuse_several_sizes(recipe)?;
    let mut begun = 0;
    let mut phases = Vec::new();
    for phase in recipe.phases.iter().filter(|phase| phase.epochs > 0) {
        let length = Length::of(recipe, data.samples, begun, phase.epochs);
        phases.push(one_phase(recipe, data, phase, length)?);
        begun += phase.epochs;
    }
    Ok(phases)
}

/// Refuses keys whose meaning is one batch size.
fn refuse_several_sizes(recipe: &Recipe) -> Result<()> {
    let accumulates = recipe.phases.iter().any(|phase| phase.options.update_images.is_some());
    match (recipe.step.batch_schedule.is_empty(), recipe.scale_lr, accumulates) {
        (false, true, _) => refuse!("`scale_lr` is for one batch size; give the rates that suit `batch_schedule`"),
        (false, _, true) => refuse!("`update_images` is for one batch size; remove it or `batch_schedule`"),
        _ => Ok(()),
    }
}

/// What the linear scaling rule makes of a phase, where it was asked for and changes anything.
pub fn scaling(recipe: &Recipe, phase: &PhaseRecipe) -> Result<Option<LinearScaling>> {
    let reference = match (recipe.scale_lr, recipe.reference_batch) {
        (false, _) => return Ok(None),
        (true, Some(reference)) => reference,
        (true, None) => refuse!("`scale_lr` needs `reference_batch`: the batch size that the rates are meant for"),
    };
    let scaling = LinearScaling::new(reference, recipe.step.batch_size * phase.options.accumulate as usize);
    Ok((scaling.factor != 1.0).then_some(scaling))
}

fn one_phase(recipe: &Recipe, data: &Facts, phase: &PhaseRecipe, length: Length) -> Result<Phase> {
    let scaling = scaling(recipe, phase)?;
    let entry = octant_zoo::find(&recipe.model)?;
    let transform = transform(recipe, &phase.transform, true, entry)?;
    let image = (data.image)(&transform)?;
    let steps = length.per_epoch;
    let options = phase_options(recipe, phase, scaling, steps);
    // A schedule that warms up does so as long as momentum and biases do.
    let mut schedule = phase.schedule.clone();
    if let (None, Some(warmup)) = (schedule.warmup, &options.warmup)
        && matches!(schedule.kind, ScheduleKind::Linear | ScheduleKind::TimmCosine)
    {
        let per_step = schedule.per == Some(Per::Step);
        schedule.warmup = warmup.steps.map(|length| if per_step { length } else { length.div_ceil(steps) });
    }
    let slots = box_slots(recipe, data, phase);
    Ok(Phase {
        name: phase.name.clone(),
        epochs: phase.epochs,
        task: build_task(recipe, data.outputs, image, phase, slots.clone())?,
        options,
        rate: rate(&schedule, length, scaling, recipe)?,
        transform: match (&data.train, recipe.task.as_str()) {
            (Some(train), "detect") => Arc::new(augment(recipe, phase, train.clone(), image, slots[0])),
            (Some(train), "cyclegan") => Arc::new(Unpaired { dataset: train.clone(), pipeline: transform }),
            _ => Arc::new(transform),
        },
    })
}

/// The options of a phase with everything settled that depends on the batch size and the number of steps.
fn phase_options(
    recipe: &Recipe,
    phase: &PhaseRecipe,
    scaling: Option<LinearScaling>,
    steps_per_epoch: u64,
) -> PhaseOptions {
    let mut options = phase.options.clone();
    options.weight_decay *= scaling.map_or(1.0, |scaling| scaling.factor);
    // Beside adapters, the weights of the network stay as they are.
    if recipe.step.adapters.is_some() && options.train == Trainable::All {
        options.train = Trainable::Adapters;
    }
    if let Some(images) = options.update_images {
        let batch = recipe.step.batch_size;
        options.accumulate = ((images as f64 / batch as f64).round_ties_even() as u64).max(1);
        options.weight_decay *= (batch as u64 * options.accumulate) as f64 / images as f64;
    }
    options.warmup = options.warmup.and_then(|warmup| settled_warmup(warmup, steps_per_epoch));
    options
}

/// The length of a warm-up in steps; nothing where it lasts no time.
fn settled_warmup(warmup: WarmupOptions, steps_per_epoch: u64) -> Option<WarmupOptions> {
    let steps = match (warmup.steps, warmup.epochs) {
        (Some(steps), _) => steps,
        (None, Some(epochs)) if epochs > 0.0 => ((epochs * steps_per_epoch as f64).round_ties_even() as u64).max(1),
        (None, _) => return None,
    };
    Some(WarmupOptions { steps: Some(steps), ..warmup })
}

/// How many objects a training image may have, the most first: steps are compiled for these, and none is compiled later.
fn box_slots(recipe: &Recipe, data: &Facts, phase: &PhaseRecipe) -> Vec<usize> {
    match &data.train {
        Some(train) if recipe.task == "detect" => slots_of(recipe, &**train, phase),
        _ => vec![DEFAULT_SLOTS.min(recipe.max_boxes)],
    }
}

/// The same for a data set of boxes.
pub fn slots_of(recipe: &Recipe, train: &dyn Dataset, phase: &PhaseRecipe) -> Vec<usize> {
    let settings = augmentation(recipe);
    let mosaics = settings.mosaic > 0.0 && phase.epochs > settings.close_mosaic;
    detection::box_slots(train, &settings, mosaics, recipe.max_boxes)
}

/// Slots for objects where the labels are not known.
pub const DEFAULT_SLOTS: usize = 128;

fn augmentation(recipe: &Recipe) -> AugmentSettings {
    recipe.augment.as_ref().map(AugmentOptions::settings).unwrap_or_default()
}

fn augment(
    recipe: &Recipe,
    phase: &PhaseRecipe,
    dataset: Arc<dyn Dataset>,
    image: [usize; 3],
    most_boxes: usize,
) -> BoxAugment {
    let settings = augmentation(recipe);
    let mosaic_until = phase.epochs.saturating_sub(settings.close_mosaic);
    BoxAugment { images: RecentImages::new(dataset, image[0]), side: image[0], most_boxes, mosaic_until, settings }
}

/// Refuses sizes that no transform of the recipe reads: they would have no effect.
pub fn refuse_ignored_sizes(recipe: &Recipe) -> Result<()> {
    let entry = octant_zoo::find(&recipe.model)?;
    let pipelines = |recipe: &Recipe| -> Result<Vec<Pipeline>> {
        let learned = recipe.phases.iter().map(|phase| transform(recipe, &phase.transform, true, entry));
        learned.chain([transform(recipe, &recipe.eval_transform, false, entry)]).collect()
    };
    let now = pipelines(recipe)?;
    type SizeKey = fn(&mut Recipe) -> &mut Option<usize>;
    let keys: [(&str, SizeKey); 3] = [
        ("image_size", |recipe| &mut recipe.image_size),
        ("base_size", |recipe| &mut recipe.base_size),
        ("crop_size", |recipe| &mut recipe.crop_size),
    ];
    for (key, size) in keys {
        let mut other = recipe.clone();
        let Some(size) = size(&mut other) else { continue };
        *size += 1;
        if pipelines(&other)? == now {
            refuse!("`{key}` changes nothing: no transform of this recipe resizes or crops by it; name one that does");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ScheduleRecipe, check, set_text, table};
    use octant_train::{Pace, Rate};

    #[test]
    fn steps_of_a_phase_are_counted_by_the_batch_size_of_every_epoch() {
        let recipe = |changes: &[&str]| {
            let mut table = table("glyphs").unwrap();
            changes.iter().for_each(|change| set_text(&mut table, change).unwrap());
            check(table).unwrap()
        };
        let scheduled = recipe(&["batch_size=10", "batch_schedule=[[2, 20], [4, 50]]"]);
        assert_eq!(scheduled.step.batch_size, 50, "what memory is planned for");
        let length = Length::of(&scheduled, 100, 1, 4);
        assert_eq!((length.per_epoch, length.steps), (10, 10 + 5 + 5 + 2));
        assert!(refuse_several_sizes(&scheduled).is_ok());
        let scaled = recipe(&["batch_schedule=[[1, 20]]", "scale_lr=true", "reference_batch=8"]);
        assert!(refuse_several_sizes(&scaled).unwrap_err().to_string().contains("`batch_schedule`"));
    }

    /// Ultralytics 8.4.190 logged 0.003, 0.00633333 and 0.00966667 at the ends of the first epochs of ten steps each, with
    /// lr0=0.01, lrf=1 and three epochs of warm-up; the rate of biases was 0.073, 0.043 and 0.013.
    #[test]
    fn a_warm_up_in_epochs_has_the_rates_that_the_reference_logged() {
        let recipe = check(table("detect").unwrap()).unwrap();
        let phase = &recipe.phases[0];
        let warmup = settled_warmup(phase.options.warmup.clone().unwrap(), 10).unwrap();
        assert_eq!(warmup.steps, Some(30));
        let schedule = ScheduleRecipe { warmup: warmup.steps, min_share: Some(1.0), ..phase.schedule.clone() };
        let Rate::Scheduled(rate, Pace::Step) =
            rate(&schedule, Length { epochs: 12, steps: 120, per_epoch: 10 }, None, &recipe).unwrap()
        else {
            panic!("a rate per step")
        };
        for (step, logged, of_biases) in [(9, 0.003, 0.073), (19, 0.00633333, 0.043), (29, 0.00966667, 0.013)] {
            assert!((rate.rate(step) - logged).abs() < 1e-8, "{step}");
            let biases = rate.rate(step) + (1.0 - step as f64 / 30.0) * warmup.bias_lr;
            assert!((biases - of_biases).abs() < 1e-6, "{step}");
        }
        let none = WarmupOptions { epochs: Some(0.0), ..warmup.clone() };
        assert_eq!(settled_warmup(WarmupOptions { steps: None, ..none }, 10), None);
    }
}
