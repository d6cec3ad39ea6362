//! Phases with their options, learning rates and transforms.

use crate::error::refuse;
use crate::rate::{Length, rate};
use crate::task::{build_task, most_found};
use crate::{
    AugmentOptions, ClassWeights, Data, Per, PhaseRecipe, Recipe, Result, ScheduleKind, TaskEntry, TaskOutput,
};
use crate::{image, model, transform};
use octant_data::detection::{self, AugmentSettings, BoxAugment, RecentImages};
use octant_data::{Dataset, Pipeline, Unpaired};
use octant_nn::schedule::LinearScaling;
use octant_runtime::Mesh;
use octant_train::{Phase, PhaseOptions, Task, Trainable, WarmupOptions};
use std::sync::Arc;

/// What phases must know of the data.
pub struct Facts<'a> {
    /// How many samples are learned from.
    pub samples: usize,
    /// How large a head the data needs.
    pub outputs: usize,
    /// The size of training images after a transform.
    pub image: &'a dyn Fn(&Pipeline) -> Result<[usize; 3]>,
    /// The size of validation images after a transform.
    pub evaluated: &'a dyn Fn(&Pipeline) -> Result<[usize; 3]>,
    /// The samples themselves, where they are here: some transforms draw partners from them.
    pub train: Option<Arc<dyn Dataset>>,
}

/// All phases of a recipe that last at least one epoch.
pub fn phases(recipe: &Recipe, data: &Data) -> Result<Vec<Phase>> {
    let trained = |transform: &Pipeline| image(&*data.train, transform);
    let evaluated = |transform: &Pipeline| image(&*data.valid, transform);
    let (samples, outputs, train) = (data.train.len(), data.outputs, Some(data.train.clone()));
    let recipe = &balanced(recipe, data)?;
    phases_on(recipe, &Facts { samples, outputs, image: &trained, evaluated: &evaluated, train })
}

/// The recipe with numbers for balanced classes. Of single classes they are such that all count alike over the data
/// (scikit-learn's `compute_class_weight`), of several labels as many times more as there are images without a label than with it.
fn balanced(recipe: &Recipe, data: &Data) -> Result<Recipe> {
    let output = TaskEntry::named(&recipe.task)?.output;
    let is_images = matches!(output, TaskOutput::Classes | TaskOutput::Labels);
    if recipe.class_weights != ClassWeights::Balanced || !is_images {
        return Ok(recipe.clone());
    }
    let mut counts = vec![0.0f64; recipe.classes.unwrap_or(data.outputs)];
    for index in 0..data.train.len() {
        for class in data.train.classes_of(index)? {
            counts.get_mut(class as usize).into_iter().for_each(|count| *count += 1.0);
        }
    }
    let (all, present) = (data.train.len() as f64, counts.iter().filter(|&&count| count > 0.0).count() as f64);
    let weight = |&count: &f64| match output {
        // What no image has counts as nothing else could tell.
        _ if count == 0.0 => 1.0,
        TaskOutput::Labels => (all - count) / count,
        _ => all / (present * count),
    };
    Ok(Recipe { class_weights: ClassWeights::Given(counts.iter().map(weight).collect()), ..recipe.clone() })
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

/// What the linear scaling rule makes of a phase, where it is set and changes anything.
pub fn scaling(recipe: &Recipe, phase: &PhaseRecipe) -> Result<Option<LinearScaling>> {
    let reference = match (recipe.scale_lr, recipe.reference_batch) {
        (false, _) => return Ok(None),
        (true, Some(reference)) => reference,
        (true, None) => refuse!("`scale_lr` needs `reference_batch`: the batch size that the rates are meant for"),
    };
    let scaling = LinearScaling::new(reference, images_per_update(recipe, phase));
    Ok((scaling.factor != 1.0).then_some(scaling))
}

/// How many images one update of a phase sees: its batches are accumulated as `accumulate` or `update_images` says.
pub fn images_per_update(recipe: &Recipe, phase: &PhaseRecipe) -> usize {
    let batch = recipe.step.batch_size;
    let batches = match phase.options.update_images {
        Some(images) => ((images as f64 / batch as f64).round_ties_even() as usize).max(1),
        None => phase.options.accumulate as usize,
    };
    batch * batches
}

fn one_phase(recipe: &Recipe, data: &Facts, phase: &PhaseRecipe, length: Length) -> Result<Phase> {
    let scaling = scaling(recipe, phase)?;
    let entry = octant_zoo::find(&recipe.model)?;
    let transform = transform(recipe, &phase.transform, true, entry)?;
    let image = (data.image)(&transform)?;
    let steps = length.per_epoch;
    let options = phase_options(recipe, phase, scaling, steps);
    refuse_endless_update(phase, &options, length.steps)?;
    // A schedule that warms up does so as long as momentum and biases do.
    let mut schedule = phase.schedule.clone();
    let warmup = phase.options.warmup.clone().and_then(|warmup| settled_warmup(warmup, steps));
    if let (None, Some(warmup)) = (schedule.warmup, warmup)
        && matches!(schedule.kind, ScheduleKind::Linear | ScheduleKind::TimmCosine)
    {
        let per_step = schedule.per == Some(Per::Step);
        schedule.warmup = warmup.steps.map(|length| if per_step { length } else { length.div_ceil(steps) });
    }
    let task = TaskEntry::named(&recipe.task)?;
    let slots = box_slots(task, recipe, data, phase);
    let found = most_found(&*(entry.build)(entry.classes.max(1)), image);
    let most = found.map_or(slots[0], |found| found.min(slots[0]));
    let built = Phase {
        name: phase.name.clone(),
        epochs: phase.epochs,
        task: build_task(recipe, data.outputs, image, phase, slots.clone())?,
        evaluation: evaluation(recipe, data, image, phase.warm_up)?,
        options,
        rate: rate(&schedule, length, scaling, recipe)?,
        transform: match &data.train {
            Some(train) if task.has_boxes() => Arc::new(augment(recipe, phase, train.clone(), image, most)),
            Some(train) if task.unpaired => Arc::new(Unpaired { dataset: train.clone(), pipeline: transform }),
            Some(_) | None => Arc::new(transform),
        },
    };
    refuse_unmatched(recipe, data.outputs, &built)?;
    Ok(built)
}

/// Refuses updates of more batches than the phase has: nothing would be learned. Groups that grow during a warm-up begin
/// with one batch, and a phase that keeps the optimizer continues with the batches of the one before.
fn refuse_endless_update(phase: &PhaseRecipe, options: &PhaseOptions, steps: u64) -> Result<()> {
    let grows = options.warmup.as_ref().is_some_and(|warmup| warmup.steps.is_some());
    if options.accumulate > steps && !grows && !options.keep_optimizer {
        refuse!(
            "phase {} has {steps} steps, and an update takes {} batches, so nothing would be learned; give a smaller \
             `accumulate` or `update_images`, or more epochs",
            phase.name,
            options.accumulate
        );
    }
    Ok(())
}

/// The task on validation images, where they have another size than training images and the network takes both.
fn evaluation(recipe: &Recipe, data: &Facts, trained: [usize; 3], warm_up: bool) -> Result<Option<Arc<dyn Task>>> {
    let (network, entry) = model(recipe, data.outputs)?;
    let image = (data.evaluated)(&crate::transform(recipe, &recipe.eval_transform, false, entry)?)?;
    if image == trained {
        return Ok(None);
    }
    let shapes = |image| -> Result<Vec<_>> {
        let (specs, _) = octant_zoo::describe(&*network, image)?;
        Ok(specs.into_iter().map(|spec| (spec.path, spec.shape)).collect())
    };
    // A network with a linear layer over all pixels has one size; the run refuses the other one.
    match shapes(image).is_ok_and(|evaluated| shapes(trained).is_ok_and(|trained| trained == evaluated)) {
        true => crate::task(recipe, data.outputs, image, warm_up).map(Some),
        false => Ok(None),
    }
}

/// Refuses names of parameters that the network does not have.
fn refuse_unmatched(recipe: &Recipe, outputs: usize, phase: &Phase) -> Result<()> {
    let names_nothing = phase.options.unmatched(&[]).is_none();
    if names_nothing {
        return Ok(());
    }
    let (network, entry) = model(recipe, outputs)?;
    let (specs, _) = octant_zoo::describe(&*network, entry.preprocessing.input)?;
    if phase.options.unmatched(&specs).is_none() {
        return Ok(());
    }
    // Companions, such as discriminators, are declared by the whole step alone.
    let step = octant_train::step::training(&phase.step(&recipe.step, &Mesh::single()))?;
    phase.options.unmatched(&step.variables).map_or(Ok(()), |error| Err(error.into()))
}

/// What learns in a phase. Beside adapters, the weights of the network stay as they are.
pub(crate) fn trainable(recipe: &Recipe, phase: &PhaseRecipe) -> Trainable {
    match &phase.options.train {
        Trainable::All if recipe.step.adapters.is_some() => Trainable::Adapters,
        train => train.clone(),
    }
}

/// The options of a phase with everything settled that depends on the batch size and the number of steps.
fn phase_options(
    recipe: &Recipe,
    phase: &PhaseRecipe,
    scaling: Option<LinearScaling>,
    steps_per_epoch: u64,
) -> PhaseOptions {
    let mut options = phase.options.clone();
    // Where updates have a number of images, the decay follows from it below.
    let scaled = scaling.filter(|_| options.update_images.is_none());
    options.weight_decay *= scaled.map_or(1.0, |scaling| scaling.factor);
    options.train = trainable(recipe, phase);
    if let Some(images) = options.update_images {
        let seen = images_per_update(recipe, phase);
        options.accumulate = (seen / recipe.step.batch_size) as u64;
        options.weight_decay *= seen as f64 / images as f64;
    }
    options.warmup = options.warmup.and_then(|warmup| settled_warmup(warmup, steps_per_epoch));
    // The rate of a larger batch rises for longer, and biases and momentum with it.
    if let (Some(warmup), Some(scaling)) = (&mut options.warmup, scaling) {
        warmup.steps = warmup.steps.map(|steps| scaling.warmup(steps));
    }
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
fn box_slots(task: &TaskEntry, recipe: &Recipe, data: &Facts, phase: &PhaseRecipe) -> Vec<usize> {
    match &data.train {
        Some(train) if task.has_boxes() => slots_of(recipe, &**train, phase),
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
    let mut settings = augmentation(recipe);
    if dataset.keypoints().is_some_and(|keypoints| keypoints.mirrored.is_none()) {
        (settings.fliplr, settings.copy_paste) = (0.0, 0.0);
    }
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
        let then = pipelines(&other)?;
        if then == now {
            refuse!("`{key}` changes nothing: no transform of this recipe resizes or crops by it; name one that does");
        }
        let differs = now.iter().zip(&then).position(|(now, then)| now == then && crate::transform::is_sized(now));
        if let Some(number) = differs.filter(|_| key == "image_size") {
            let whose = match recipe.phases.get(number) {
                Some(phase) => format!("the transform of phase {}", phase.name),
                None => "`eval_transform`".into(),
            };
            refuse!("`{key}` does not reach {whose}, whose steps have sizes of their own; leave their `size` out");
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
