//! Keys that a recipe has and that change nothing in it: each is reported with its reason before the run.

use crate::recipe::DEFAULT_CACHE_MB;
use crate::tables;
use crate::transform::NamedTransform;
use crate::{
    AugmentOptions, Cache, GanOptions, PhaseRecipe, Recipe, RecipeError, Result, ScheduleKind, TaskEntry, Transforms,
};
use octant_nn::Optimizer;
use octant_runtime::{Mesh, Sharding};
use octant_train::options::{OptionTable, defaults};
use octant_train::step::StepOptions;
use octant_train::{Phase, step};

/// A sentence for every key without effect. `devices` is how many work together; `phases` makes a recipe's phases.
pub fn ineffective<E: From<RecipeError>>(
    recipe: &Recipe,
    devices: usize,
    phases: impl Fn(&Recipe) -> Result<Vec<Phase>, E>,
) -> Result<Vec<String>, E> {
    let mut found = of_run(recipe, devices)?;
    found.extend(of_task(recipe));
    for (number, phase) in recipe.phases.iter().enumerate() {
        found.extend(of_phase(phase, number).into_iter().map(|(key, why)| (format!("phases.{number}.{key}"), why)));
    }
    found.extend(of_steps(recipe, &phases)?);
    found.extend(of_state(recipe, devices, &phases)?);
    // What the built-in recipe has anyway was not given: a shorter run or another optimizer need no word about it.
    let built_in = crate::table_or_model(&recipe.name).and_then(crate::check).map(|recipe| recipe.to_table()).ok();
    let now = recipe.to_table();
    let was_there = |key: &str| {
        let before = built_in.as_ref().and_then(|table| tables::get(table, key));
        before.is_some() && before == tables::get(&now, key)
    };
    found.retain(|(key, _)| !was_there(key));
    Ok(found.into_iter().map(|(key, why)| format!("`{key}` has no effect: {why}")).collect())
}

/// A key and why it changes nothing.
type Ineffective = (String, String);

fn listed<const N: usize>(keys: [(&str, bool, &str); N]) -> Vec<Ineffective> {
    let given = keys.into_iter().filter(|(_, is_ineffective, _)| *is_ineffective);
    given.map(|(key, _, why)| (key.to_string(), why.to_string())).collect()
}

fn of_run(recipe: &Recipe, devices: usize) -> Result<Vec<Ineffective>> {
    let task = TaskEntry::named(&recipe.task)?;
    let epochs: u64 = recipe.phases.iter().map(|phase| phase.epochs).sum();
    let run = &recipe.run;
    // The last epoch is validated and drawn anyway.
    let never = |every: Option<u64>| every.is_some_and(|every| every >= epochs && every > 1);
    let short = format!("the run has {epochs} epochs");
    let short = if epochs == 1 { "the run has one epoch" } else { &short };
    Ok(listed([
        ("validate_every", never(Some(run.validate_every)), short),
        ("gallery", never(run.gallery.filter(|&every| every > epochs)), short),
        ("histograms", never(run.histograms.filter(|&every| every > epochs)), short),
        ("patience", never(run.patience), short),
        (
            "cache_mb",
            recipe.cache_mb != DEFAULT_CACHE_MB && recipe.cache != Cache::Ram,
            "it is the size of `cache = \"ram\"`",
        ),
        ("partial_weights", recipe.partial_weights && recipe.weights.is_none(), "no `weights` are given"),
        (
            "shard_optimizer",
            recipe.step.shard_optimizer && devices == 1,
            "the optimizer's state is split over devices, and there is one",
        ),
        ("max_boxes", recipe.max_boxes != 1024 && !task.has_boxes(), "it is for data with boxes"),
        ("samples", recipe.run.samples != 3 && !task.makes_images(), "it is for tasks that make images"),
    ]))
}

fn of_task(recipe: &Recipe) -> Vec<Ineffective> {
    let named = |transforms: &Transforms, name: NamedTransform| *transforms == Transforms::Named(name);
    let is_restored = |phase: &PhaseRecipe| named(&phase.transform, NamedTransform::Restore);
    let degrades = recipe.phases.iter().any(is_restored) || named(&recipe.eval_transform, NamedTransform::Restore);
    let changes = |phase: &PhaseRecipe| {
        !named(&phase.transform, NamedTransform::None) && !named(&phase.transform, NamedTransform::Detect)
    };
    let transforms = recipe.task == "detect" && recipe.phases.iter().any(changes);
    let mut found = listed([
        ("degrade", recipe.degrade.is_some() && !degrades, "only the transform \"restore\" degrades images"),
        ("phases.transform", transforms, "`augment` changes the training images of detectors"),
    ]);
    if let Some(augment) = &recipe.augment {
        found.extend(of_augment(recipe, augment));
    }
    let GanOptions { l1, image_statistics, cycle, identity, pool, .. } = defaults();
    if let Some(gan) = &recipe.gan {
        let (is_cycle, is_pairs) = (recipe.task == "cyclegan", recipe.task == "pix2pix");
        found.extend(listed([
            ("gan.l1", is_cycle && gan.l1 != l1, "it is for pix2pix"),
            ("gan.image_statistics", is_cycle && gan.image_statistics != image_statistics, "it is for pix2pix"),
            ("gan.cycle", is_pairs && gan.cycle != cycle, "it is for cyclegan"),
            ("gan.identity", is_pairs && gan.identity != identity, "it is for cyclegan"),
            ("gan.pool", is_pairs && gan.pool != pool, "it is for cyclegan"),
        ]));
    }
    found
}

fn of_augment(recipe: &Recipe, augment: &AugmentOptions) -> Vec<Ineffective> {
    let usual: AugmentOptions = defaults();
    let has_mosaics = recipe.phases.iter().any(|phase| phase.epochs > augment.close_mosaic);
    let close = ("augment.close_mosaic", augment.mosaic == 0.0 && augment.close_mosaic != usual.close_mosaic);
    listed([
        ("augment.mosaic", !has_mosaics, "no phase lasts longer than the epochs of `augment.close_mosaic`"),
        (close.0, close.1, "there are no mosaics"),
    ])
}

fn of_phase(phase: &PhaseRecipe, number: usize) -> Vec<Ineffective> {
    let PhaseRecipe { options, schedule, .. } = phase;
    let sgd = match options.optimizer {
        Optimizer::Sgd(sgd) => Some(sgd),
        _ => None,
    };
    let warmup = options.warmup.clone().unwrap_or_else(defaults);
    let has_length = warmup.steps.is_some() || warmup.epochs.is_some_and(|epochs| epochs > 0.0);
    let is_empty = options.warmup.is_some() && warmup.epochs.is_none() && !has_length;
    let warms_up = schedule.warmup.is_some_and(|length| length > 0) || has_length;
    let decays = options.weight_decay > 0.0 || options.groups.iter().any(|group| group.weight_decay.is_some());
    let of_group = |group: &octant_train::Group| group.lr_scale == 1.0 && group.weight_decay.is_none();
    let is_timeless = matches!(schedule.kind, ScheduleKind::Constant | ScheduleKind::Plateau);
    listed([
        ("decay_all", options.decay_all && !decays, "`weight_decay` is 0"),
        ("ema_ramp", options.ema_ramp.is_some() && options.ema.is_none(), "there is no `ema`"),
        ("keep_optimizer", options.keep_optimizer && number == 0, "there is no phase before the first one"),
        ("groups", options.groups.iter().any(of_group), "a group has neither `lr_scale` nor `weight_decay`"),
        ("nesterov", sgd.is_some_and(|sgd| sgd.nesterov && sgd.momentum == 0.0), "`momentum` is 0"),
        ("warmup", is_empty, "it has neither `steps` nor `epochs`"),
        ("warmup.epochs", warmup.steps.is_some() && warmup.epochs.is_some(), "`warmup.steps` is given"),
        ("warmup.momentum", warmup.momentum.is_some() && sgd.is_none(), "it is for sgd"),
        ("schedule.warmup_lr", schedule.warmup_lr.is_some() && !warms_up, "there is no warm-up"),
        ("schedule.per", schedule.per.is_some() && is_timeless, "the schedule does not follow the time"),
    ])
}

/// A key whose effect depends on the network: whether a recipe has it, and how to take it away.
type StepKey = (&'static str, fn(&Recipe) -> bool, fn(&mut Recipe));

const STEP_KEYS: [StepKey; 6] = [
    ("dropout", |recipe| recipe.dropout.is_some_and(|rate| rate > 0.0), |recipe| recipe.dropout = Some(0.0)),
    (
        "stochastic_depth",
        |recipe| recipe.stochastic_depth.is_some_and(|rate| rate > 0.0),
        |recipe| recipe.stochastic_depth = Some(0.0),
    ),
    ("recompute", |recipe| recipe.step.recompute, |recipe| recipe.step.recompute = false),
    ("batch_groups", |recipe| recipe.step.batch_groups > 1, |recipe| recipe.step.batch_groups = 1),
    (
        "frozen_statistics",
        |recipe| recipe.phases.iter().any(|phase| phase.options.frozen_statistics.is_some()),
        |recipe| recipe.phases.iter_mut().for_each(|phase| phase.options.frozen_statistics = None),
    ),
    (
        "layer_decay",
        |recipe| recipe.phases.iter().any(|phase| phase.options.layer_decay.is_some_and(|decay| decay != 1.0)),
        |recipe| recipe.phases.iter_mut().for_each(|phase| phase.options.layer_decay = None),
    ),
];

/// Keys without which the training steps are the same, as they are traced.
fn of_steps<E: From<RecipeError>>(
    recipe: &Recipe,
    phases: &impl Fn(&Recipe) -> Result<Vec<Phase>, E>,
) -> Result<Vec<Ineffective>, E> {
    let given: Vec<&StepKey> = STEP_KEYS.iter().filter(|(_, is_given, _)| is_given(recipe)).collect();
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let now = traced(recipe, &phases(recipe)?)?;
    let mut found = Vec::new();
    for (key, _, reset) in given {
        let mut without = recipe.clone();
        reset(&mut without);
        if traced(&without, &phases(&without)?)? == now {
            found.push((key.to_string(), format!("the training steps of {} are the same without it", recipe.model)));
        }
    }
    Ok(found)
}

/// Keys that split the state of training over devices, where none of it is split.
fn of_state<E: From<RecipeError>>(
    recipe: &Recipe,
    devices: usize,
    phases: &impl Fn(&Recipe) -> Result<Vec<Phase>, E>,
) -> Result<Vec<Ineffective>, E> {
    let StepOptions { shard_optimizer, fsdp, .. } = recipe.step;
    if devices == 1 || !(shard_optimizer || fsdp > 1) {
        return Ok(Vec::new());
    }
    let mesh = crate::mesh_of(devices, &recipe.step)?;
    for phase in phases(recipe)? {
        let traced = step::training(&phase.step(&recipe.step, &mesh)).map_err(RecipeError::from)?;
        if traced.program.inputs[..traced.entries.len()].iter().any(|sharding| *sharding != Sharding::REPLICATED) {
            return Ok(Vec::new());
        }
    }
    let why = format!("nothing that {} keeps between steps is large enough, or divides over the devices", recipe.model);
    Ok(vec![(if shard_optimizer { "shard_optimizer" } else { "fsdp" }.to_string(), why)])
}

/// The training steps of all phases as text.
fn traced(recipe: &Recipe, phases: &[Phase]) -> Result<Vec<String>> {
    let text = |phase: &Phase| -> Result<String> {
        Ok(step::training(&phase.step(&recipe.step, &Mesh::single()))?.program.graph.to_string())
    };
    phases.iter().map(text).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn notes(settings: &[&str]) -> Vec<String> {
        let mut table = crate::table("detect").unwrap();
        settings.iter().for_each(|setting| crate::set_text(&mut table, setting).unwrap());
        ineffective::<RecipeError>(&crate::check(table).unwrap(), 1, |_| Ok(Vec::new())).unwrap()
    }

    #[test]
    fn a_short_run_was_warned_of_a_patience_that_nobody_gave() {
        let short = ["phases.0.epochs=20", "augment.close_mosaic=2"];
        assert_eq!(notes(&short), [] as [&str; 0]);
        let patient = notes(&[short[0], short[1], "patience=50"]);
        assert_eq!(patient, ["`patience` has no effect: the run has 20 epochs"]);
    }
}
