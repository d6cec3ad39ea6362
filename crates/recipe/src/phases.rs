//! Phases with their options, learning rates and transforms.

use crate::error::{refusal, refuse};
use crate::task::build_task;
use crate::{
    AugmentOptions, Data, Per, PhaseRecipe, Recipe, Result, ScheduleKind, ScheduleRecipe, image, smaller_is_better,
    transform,
};
use octant_data::detection::{self, AugmentSettings, BoxAugment, RecentImages};
use octant_data::{Dataset, LastBatch, Pipeline, Unpaired};
use octant_nn::schedule::{LinearScaling, Plateau, Schedule};
use octant_train::options::one_of;
use octant_train::{Pace, Phase, Rate, Trainable, WarmupOptions};
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

/// How long a phase is.
#[derive(Debug, Clone, Copy)]
struct Length {
    epochs: u64,
    /// Of all its epochs.
    steps: u64,
    /// Of its first epoch.
    per_epoch: u64,
}

impl Length {
    /// A phase that begins after so many epochs of the run.
    fn of(recipe: &Recipe, samples: usize, begun: u64, epochs: u64) -> Length {
        let steps = |epoch: u64| {
            let batch = recipe.step.batch_at(epoch);
            let batches =
                if recipe.run.last_batch == LastBatch::Pad { samples.div_ceil(batch) } else { samples / batch };
            recipe.run.steps_per_epoch.unwrap_or(batches as u64).max(1)
        };
        Length { epochs, steps: (begun..begun + epochs).map(steps).sum(), per_epoch: steps(begun) }
    }
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
    let steps = length.per_epoch;
    options.warmup = options.warmup.and_then(|warmup| settled_warmup(warmup, steps));
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

/// Refuses keys that a schedule of this kind does not read.
fn refuse_ignored(schedule: &ScheduleRecipe) -> Result<()> {
    use ScheduleKind::*;
    let given: [(&str, bool, &[ScheduleKind]); 13] = [
        ("min_lr", schedule.min_lr.is_some(), &[Linear, Cosine, WarmupCosine, TimmCosine, Plateau]),
        ("min_share", schedule.min_share.is_some(), &[Linear, Cosine, WarmupCosine, TimmCosine, Plateau]),
        ("warmup", schedule.warmup.is_some(), &[Linear, WarmupCosine, TimmCosine]),
        ("warmup_lr", schedule.warmup_lr.is_some(), &[TimmCosine]),
        ("total", schedule.total.is_some(), &[Linear, Polynomial, Cosine, OneCycle, WarmupCosine, TimmCosine]),
        ("every", schedule.every.is_some(), &[Step]),
        ("milestones", schedule.milestones.is_some(), &[MultiStep]),
        ("factor", schedule.factor.is_some(), &[Step, MultiStep, Plateau]),
        ("power", schedule.power.is_some(), &[Polynomial]),
        ("patience", schedule.patience.is_some(), &[Plateau]),
        ("threshold", schedule.threshold.is_some(), &[Plateau]),
        ("cooldown", schedule.cooldown.is_some(), &[Plateau]),
        ("stretch", schedule.stretch.is_some() || schedule.decay.is_some(), &[WarmupCosine]),
    ];
    match given.iter().find(|(_, is_given, kinds)| *is_given && !kinds.contains(&schedule.kind)) {
        Some((key, _, kinds)) => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            refuse!("`schedule.{key}` is for {}, not for a {} schedule; remove it", one_of(&kinds), schedule.kind)
        }
        None => Ok(()),
    }
}

/// Refuses sizes that no transform of the recipe reads: they would have no effect.
pub fn refuse_ignored_sizes(recipe: &Recipe) -> Result<()> {
    let entry = octant_zoo::find(&recipe.model)?;
    let pipelines = |recipe: &Recipe| -> Result<Vec<Pipeline>> {
        let learned = recipe.phases.iter().map(|phase| transform(recipe, &phase.transform, true, entry));
        learned.chain([transform(recipe, &recipe.eval_transform, false, entry)]).collect()
    };
    let now = pipelines(recipe)?;
    for (key, is_given) in [
        ("image_size", recipe.image_size.is_some()),
        ("base_size", recipe.base_size.is_some()),
        ("crop_size", recipe.crop_size.is_some()),
    ] {
        let mut other = recipe.clone();
        let size = match key {
            "image_size" => &mut other.image_size,
            "base_size" => &mut other.base_size,
            _ => &mut other.crop_size,
        };
        *size = size.map(|size| size + 1);
        if is_given && pipelines(&other)? == now {
            refuse!("`{key}` changes nothing: no transform of this recipe resizes or crops by it; name one that does");
        }
    }
    Ok(())
}

fn rate(
    schedule: &ScheduleRecipe,
    Length { epochs, steps, per_epoch }: Length,
    scaling: Option<LinearScaling>,
    recipe: &Recipe,
) -> Result<Rate> {
    let per_step = match schedule.per {
        None => schedule.kind == ScheduleKind::OneCycle,
        Some(per) => per == Per::Step,
    };
    refuse_ignored(schedule)?;
    let (pace, length) = if per_step { (Pace::Step, steps) } else { (Pace::Epoch, epochs) };
    let total = schedule.total.unwrap_or(length);
    let share = schedule.min_share.map(|share| share * schedule.lr);
    let (rate, min) = (schedule.lr, schedule.min_lr.or(share).unwrap_or(0.0));
    let (warmup, factor) = (schedule.warmup.unwrap_or(0), schedule.factor.unwrap_or(0.1));
    // A warm-up that took the whole phase would leave nothing to warm up for.
    let warmup = scaling.map_or(warmup, |scaling| scaling.warmup(warmup).min(total / 2).max(warmup));
    let scaling = scaling.map_or(1.0, |scaling| scaling.factor);
    let scheduled = match schedule.kind {
        ScheduleKind::Constant => Schedule::Constant { rate },
        ScheduleKind::Step => Schedule::Step {
            rate,
            every: schedule
                .every
                .ok_or_else(|| refusal!("`schedule.every` is missing: a step schedule falls at equal distances"))?,
            factor,
        },
        ScheduleKind::MultiStep => {
            let milestones = schedule
                .milestones
                .clone()
                .ok_or_else(|| refusal!("`schedule.milestones` is missing: when a multi-step schedule falls"))?;
            Schedule::MultiStep { rate, milestones, factor }
        }
        ScheduleKind::Polynomial => Schedule::Polynomial { rate, total, power: schedule.power.unwrap_or(1.0) },
        ScheduleKind::Linear => {
            let hold = if per_step { per_epoch } else { 1 };
            Schedule::Linear { rate, min, total, warmup, hold }
        }
        ScheduleKind::Cosine => Schedule::Cosine { rate, min, total },
        ScheduleKind::OneCycle => {
            Schedule::OneCycle { largest: rate, total, rising: 0.3, divisor: 25.0, final_divisor: 1e4 }
        }
        ScheduleKind::WarmupCosine => {
            let (stretch, decay) = (schedule.stretch.unwrap_or(1.0), schedule.decay.unwrap_or(1.0));
            Schedule::WarmupCosine { max: rate, min, cycle: total, warmup, stretch, decay }
        }
        ScheduleKind::TimmCosine => {
            let start = schedule.warmup_lr.unwrap_or(min);
            Schedule::TimmCosine { rate, min, total, warmup, start, prefix: false }
        }
        ScheduleKind::Plateau => {
            let mut plateau = Plateau::new(rate * scaling, factor, schedule.patience.unwrap_or(10), min);
            plateau.smaller_is_better = smaller_is_better(recipe)?;
            plateau.threshold = schedule.threshold.unwrap_or(plateau.threshold);
            plateau.cooldown = schedule.cooldown.unwrap_or(0);
            return Ok(Rate::Plateau(plateau));
        }
    };
    Ok(Rate::Scheduled(if scaling == 1.0 { scheduled } else { scheduled.scaled(scaling) }, pace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, set_text, table};

    #[test]
    fn the_recipe_for_cifar_has_the_rates_that_its_source_logged() {
        let recipe = check(table("cifar100-efficientnetv2").unwrap()).unwrap();
        let [burn_in, train] = &recipe.phases[..] else { panic!("two phases") };
        let length = |epochs: u64| Length { epochs, steps: 98 * epochs, per_epoch: 98 };
        let at = |phase: &PhaseRecipe, epoch: u64| match rate(&phase.schedule, length(phase.epochs), None, &recipe)
            .unwrap()
        {
            Rate::Scheduled(schedule, Pace::Epoch) => schedule.rate(epoch),
            other => panic!("{other:?}"),
        };
        assert_eq!(at(burn_in, 0), 0.1);
        assert_eq!(
            format!("{:.5} {:.5} {:.6}", at(train, 73), at(train, 99), at(train, 100)),
            "0.00236 0.00051 0.000503"
        );
    }

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
