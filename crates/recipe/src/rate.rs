//! Learning rates of phases.

use crate::error::{refusal, refuse};
use crate::{Per, Recipe, Result, ScheduleKind, ScheduleRecipe, smaller_is_better};
use octant_data::LastBatch;
use octant_nn::schedule::{LinearScaling, Plateau, Schedule};
use octant_train::options::one_of;
use octant_train::{Pace, Rate};

/// How long a phase is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    pub epochs: u64,
    /// Of all its epochs.
    pub steps: u64,
    /// Of its first epoch.
    pub per_epoch: u64,
}

impl Length {
    /// A phase that begins after so many epochs of the run.
    pub fn of(recipe: &Recipe, samples: usize, begun: u64, epochs: u64) -> Length {
        let steps = |epoch: u64| recipe.steps_of_epoch(samples, recipe.step.batch_at(epoch));
        Length { epochs, steps: (begun..begun + epochs).map(steps).sum(), per_epoch: steps(begun) }
    }
}

impl Recipe {
    /// Steps of an epoch over so many samples.
    pub fn steps_of_epoch(&self, samples: usize, batch: usize) -> u64 {
        let batches = match self.run.last_batch {
            LastBatch::Pad => samples.div_ceil(batch),
            LastBatch::Drop => samples / batch,
        };
        self.run.steps_per_epoch.unwrap_or(batches as u64).max(1)
    }
}

/// The learning rate of a phase.
pub(crate) fn rate(
    schedule: &ScheduleRecipe,
    Length { epochs, steps, per_epoch }: Length,
    scaling: Option<LinearScaling>,
    recipe: &Recipe,
) -> Result<Rate> {
    refuse_ignored(schedule)?;
    let per_step = match schedule.per {
        None => schedule.kind == ScheduleKind::OneCycle,
        Some(per) => per == Per::Step,
    };
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
        ScheduleKind::Step => {
            let missing = || refusal!("`schedule.every` is missing: a step schedule falls at equal distances");
            Schedule::Step { rate, every: schedule.every.ok_or_else(missing)?, factor }
        }
        ScheduleKind::MultiStep => {
            let missing = || refusal!("`schedule.milestones` is missing: when a multi-step schedule falls");
            Schedule::MultiStep { rate, milestones: schedule.milestones.clone().ok_or_else(missing)?, factor }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PhaseRecipe, check, table};

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
}
