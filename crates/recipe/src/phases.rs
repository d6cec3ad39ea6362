//! Phases with their optimizers, learning rates and transforms.

use crate::Result;
use crate::error::{refusal, refuse};
use crate::task::build_task;
use crate::{Data, GroupRecipe, Learns, PhaseRecipe, Recipe, ScheduleRecipe, image, smaller_is_better, transform};
use octant_data::{LastBatch, Pipeline};
use octant_nn::schedule::{LinearScaling, Plateau, Schedule};
use octant_nn::{Optimizer, Precision};
use octant_runtime::Mesh;
use octant_train::run::OnBad;
use octant_train::step::Clip;
use octant_train::{Group, Pace, Phase, Rate, Rules, Trainable};
use std::sync::Arc;

/// What phases must know of the data.
pub struct Facts<'a> {
    /// How many samples are learned from.
    pub samples: usize,
    /// How large a head the data asks for.
    pub outputs: usize,
    /// The size of images after a transform.
    pub image: &'a dyn Fn(&Pipeline) -> Result<[usize; 3]>,
}

/// All phases of a recipe that last at least one epoch.
pub fn phases(recipe: &Recipe, data: &Data, steps: Option<u64>) -> Result<Vec<Phase>> {
    let image = |transform: &Pipeline| image(&*data.train, transform);
    phases_on(recipe, &Facts { samples: data.train.len(), outputs: data.outputs, image: &image }, steps)
}

/// The same for data that need not be here.
pub fn phases_on(recipe: &Recipe, data: &Facts, steps: Option<u64>) -> Result<Vec<Phase>> {
    let batch = recipe.batch_size.max(1);
    let batches = if recipe.last_batch == LastBatch::Pad { data.samples.div_ceil(batch) } else { data.samples / batch };
    let steps = steps.unwrap_or(batches as u64).max(1);
    let lasting = recipe.phases.iter().filter(|phase| phase.epochs > 0);
    lasting.map(|phase| one_phase(recipe, data, phase, steps)).collect()
}

/// What is the same in the steps of all phases.
pub fn rules(recipe: &Recipe, mesh: Mesh) -> Result<Rules> {
    Ok(Rules {
        batch_size: recipe.batch_size,
        mesh,
        precision: precision(&recipe.precision)?,
        batch_groups: recipe.batch_groups,
        skip_bad: on_bad(recipe)? == OnBad::Skip,
        recompute: recipe.recompute,
        shard_optimizer: recipe.shard_optimizer,
    })
}

/// The precision of that name.
pub fn precision(name: &str) -> Result<Precision> {
    match name {
        "f32" => Ok(Precision::F32),
        "bf16" => Ok(Precision::Bf16),
        other => refuse!("there is no precision \"{other}\"; use f32 or bf16"),
    }
}

/// What happens at a step whose loss is not finite.
pub fn on_bad(recipe: &Recipe) -> Result<OnBad> {
    match recipe.on_nan.as_str() {
        "stop" => Ok(OnBad::Stop),
        "skip" => Ok(OnBad::Skip),
        other => refuse!("`on_nan = \"{other}\"` is not known; use stop or skip"),
    }
}

/// What the linear scaling rule makes of a phase, where it was asked for and changes anything.
pub fn scaling(recipe: &Recipe, phase: &PhaseRecipe) -> Result<Option<LinearScaling>> {
    let reference = match (recipe.scale_lr, recipe.reference_batch) {
        (false, _) => return Ok(None),
        (true, Some(reference)) => reference,
        (true, None) => refuse!("`scale_lr` needs `reference_batch`: the batch size that the rates are meant for"),
    };
    let scaling = LinearScaling::new(reference, recipe.batch_size * phase.accumulate.max(1) as usize);
    Ok((scaling.factor != 1.0).then_some(scaling))
}

fn one_phase(recipe: &Recipe, data: &Facts, phase: &PhaseRecipe, steps: u64) -> Result<Phase> {
    let scaling = scaling(recipe, phase)?;
    let entry = octant_zoo::find(&recipe.model)?;
    let transform = transform(recipe, &phase.transform, true, entry)?;
    let image = (data.image)(&transform)?;
    Ok(Phase {
        name: phase.name.clone(),
        epochs: phase.epochs,
        task: build_task(recipe, data.outputs, image, phase.warm_up, phase.mix.is_some())?,
        trainable: match &phase.train {
            Learns::Named(name) if name == "all" => Trainable::All,
            Learns::Named(name) if name == "head" => Trainable::Head,
            Learns::Named(other) => refuse!("train = \"{other}\" is not known; use all, head, or a list of paths"),
            Learns::Paths(paths) => Trainable::Under(paths.clone()),
        },
        frozen_statistics: phase.frozen_statistics,
        optimizer: optimizer(phase)?,
        weight_decay: phase.weight_decay * scaling.map_or(1.0, |scaling| scaling.factor),
        decay_all: phase.decay_all,
        layer_decay: phase.layer_decay,
        groups: phase.groups.iter().map(group).collect(),
        clip: match (phase.clip_norm, phase.clip_value) {
            (Some(_), Some(_)) => refuse!("clip_norm and clip_value exclude each other"),
            (Some(norm), None) => Clip::Norm(norm),
            (None, Some(value)) => Clip::Value(value),
            (None, None) => Clip::Off,
        },
        average: phase.ema,
        accumulate: phase.accumulate.max(1),
        rate: rate(&phase.schedule, phase.epochs, steps, scaling, recipe)?,
        transform: Arc::new(transform),
        mix: phase.mix,
        keeps_optimizer: phase.keep_optimizer,
    })
}

fn group(recipe: &GroupRecipe) -> Group {
    Group { under: recipe.under.clone(), rate_scale: recipe.lr_scale.unwrap_or(1.0), weight_decay: recipe.weight_decay }
}

/// The optimizer with the settings that the phase names. One that the optimizer does not have is a mistake, not a wish.
fn optimizer(phase: &PhaseRecipe) -> Result<Optimizer> {
    let found = Optimizer::named(&phase.optimizer);
    let names = Optimizer::NAMES.join(", ");
    let mut optimizer =
        found.ok_or_else(|| refusal!("there is no optimizer \"{}\"; there are {names}", phase.optimizer))?;
    let (mut momentum, mut nesterov, mut betas, mut epsilon) =
        (phase.momentum, phase.nesterov, phase.betas, phase.epsilon);
    let take = |setting: &mut f64, wanted: &mut Option<f64>| *setting = wanted.take().unwrap_or(*setting);
    match &mut optimizer {
        Optimizer::Sgd(sgd) => {
            take(&mut sgd.momentum, &mut momentum);
            sgd.nesterov = nesterov.take().unwrap_or(sgd.nesterov);
        }
        Optimizer::Adam(adam) | Optimizer::AdamW(adam) => {
            adam.betas = betas.take().unwrap_or(adam.betas);
            take(&mut adam.epsilon, &mut epsilon);
        }
        Optimizer::Adagrad(adagrad) => take(&mut adagrad.epsilon, &mut epsilon),
        Optimizer::RmsProp(rms) => {
            take(&mut rms.momentum, &mut momentum);
            take(&mut rms.epsilon, &mut epsilon);
        }
        Optimizer::Lamb(lamb) => {
            lamb.betas = betas.take().unwrap_or(lamb.betas);
            take(&mut lamb.epsilon, &mut epsilon);
        }
        Optimizer::Lion(lion) => lion.betas = betas.take().unwrap_or(lion.betas),
    }
    let left = [
        ("momentum", momentum.is_some()),
        ("nesterov", nesterov.is_some()),
        ("betas", betas.is_some()),
        ("epsilon", epsilon.is_some()),
    ];
    match left.iter().find(|(_, is_left)| *is_left) {
        Some((name, _)) => refuse!("{} has no {name}; remove it from phase {}", phase.optimizer, phase.name),
        None => Ok(optimizer),
    }
}

fn rate(
    schedule: &ScheduleRecipe,
    epochs: u64,
    steps: u64,
    scaling: Option<LinearScaling>,
    recipe: &Recipe,
) -> Result<Rate> {
    let per_step = match schedule.per.as_deref() {
        None => schedule.kind == "one-cycle",
        Some("step") => true,
        Some("epoch") => false,
        Some(other) => refuse!("per = \"{other}\" is not known; use epoch or step"),
    };
    let (pace, length) = if per_step { (Pace::Step, epochs * steps) } else { (Pace::Epoch, epochs) };
    let total = schedule.total.unwrap_or(length);
    let (rate, least) = (schedule.lr, schedule.min_lr.unwrap_or(0.0));
    let (warmup, factor) = (schedule.warmup.unwrap_or(0), schedule.factor.unwrap_or(0.1));
    // A warm-up that took the whole phase would leave nothing to warm up for.
    let warmup = scaling.map_or(warmup, |scaling| scaling.warmup(warmup).min(total / 2).max(warmup));
    let scaling = scaling.map_or(1.0, |scaling| scaling.factor);
    let scheduled = match schedule.kind.as_str() {
        "constant" => Schedule::Constant { rate },
        "step" => Schedule::Step {
            rate,
            every: schedule.every.ok_or_else(|| refusal!("a step schedule needs every"))?,
            factor,
        },
        "multi-step" => {
            let milestones =
                schedule.milestones.clone().ok_or_else(|| refusal!("a multi-step schedule needs milestones"))?;
            Schedule::MultiStep { rate, milestones, factor }
        }
        "polynomial" => Schedule::Polynomial { rate, total, power: schedule.power.unwrap_or(1.0) },
        "cosine" => Schedule::Cosine { rate, least, total },
        "one-cycle" => Schedule::OneCycle { greatest: rate, total, rising: 0.3, divisor: 25.0, final_divisor: 1e4 },
        "warmup-cosine" => {
            let (stretch, decay) = (schedule.stretch.unwrap_or(1.0), schedule.decay.unwrap_or(1.0));
            Schedule::WarmupCosine { greatest: rate, least, cycle: total, warmup, stretch, decay }
        }
        "timm-cosine" => {
            let start = schedule.warmup_lr.unwrap_or(least);
            Schedule::TimmCosine { rate, least, total, warmup, start, prefix: false }
        }
        "plateau" => {
            let mut plateau = Plateau::new(rate * scaling, factor, schedule.patience.unwrap_or(10), least);
            plateau.smaller_is_better = smaller_is_better(recipe);
            plateau.threshold = schedule.threshold.unwrap_or(plateau.threshold);
            plateau.cooldown = schedule.cooldown.unwrap_or(0);
            return Ok(Rate::Plateau(plateau));
        }
        other => {
            const KINDS: [&str; 9] = [
                "constant",
                "step",
                "multi-step",
                "polynomial",
                "cosine",
                "one-cycle",
                "warmup-cosine",
                "timm-cosine",
                "plateau",
            ];
            refuse!("there is no schedule \"{other}\"; there are {}", KINDS.join(", "))
        }
    };
    Ok(Rate::Scheduled(if scaling == 1.0 { scheduled } else { scheduled.scaled(scaling) }, pace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, set_text, table};

    #[test]
    fn settings_that_an_optimizer_does_not_have_are_refused() {
        let mut table = table("cifar100-efficientnetv2").unwrap();
        set_text(&mut table, "phases.1.optimizer=\"lion\"").unwrap();
        let recipe = check(table).unwrap();
        let message = optimizer(&recipe.phases[1]).unwrap_err().to_string();
        assert_eq!(message, "lion has no momentum; remove it from phase train");
        assert!(matches!(optimizer(&recipe.phases[0]).unwrap(), Optimizer::Sgd(sgd) if sgd.momentum == 0.9));
    }

    #[test]
    fn the_recipe_for_cifar_has_the_rates_that_its_source_logged() {
        let recipe = check(table("cifar100-efficientnetv2").unwrap()).unwrap();
        let [burn_in, train] = &recipe.phases[..] else { panic!("two phases") };
        let at = |phase: &PhaseRecipe, epoch: u64| match rate(&phase.schedule, phase.epochs, 98, None, &recipe).unwrap()
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
}
