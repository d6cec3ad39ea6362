//! What makes sense after a run.

use octant_nn::Optimizer;
use octant_recipe::flags::BURN_IN;
use octant_recipe::{Recipe, SourceEntry, TaskEntry};
use octant_train::RunProgress;
use octant_train::run::Ending;

/// Something that makes sense now.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Resume the run: it was stopped.
    Resume,
    /// Evaluate the best checkpoint.
    Evaluate,
    /// Predict with it for images of one's own.
    Predict,
    /// Look at curves, images and settings.
    Board,
    /// Train on data of one's own: this run's was generated, so there are no other images like it.
    OwnData {
        /// The recipe for that.
        recipe: &'static str,
    },
    /// See what else can be trained.
    Recipes,
    /// Train for more epochs in all; burn-in is not counted.
    TrainLonger {
        /// As many.
        epochs: u64,
    },
    /// The same for a run that has burn-in alone.
    BurnInLonger {
        /// As many.
        epochs: u64,
    },
    /// Train anew with more regularization and an early end.
    Regularize {
        /// A larger decay than the run had.
        weight_decay: f64,
        /// The decay that the run had.
        before: f64,
        /// Epochs without a better one after which the run ends.
        patience: u64,
    },
}

impl NextStep {
    /// Why.
    pub fn reason(&self) -> String {
        match self {
            NextStep::Resume => "resumes from here".into(),
            NextStep::Evaluate => "evaluates the best checkpoint".into(),
            NextStep::Predict => "predicts for images of yours".into(),
            NextStep::Board => "curves, images and settings in a browser".into(),
            NextStep::OwnData { .. } => "the same on images of yours".into(),
            NextStep::Recipes => "what else can be trained".into(),
            NextStep::TrainLonger { .. } | NextStep::BurnInLonger { .. } => {
                "the last epoch was the best: it is still improving".into()
            }
            NextStep::Regularize { before, .. } => format!(
                "it overfits (the training loss falls while the validation loss rises): more decay than its {before}, more \
                 augmentation or an early end may help"
            ),
        }
    }
}

/// Everything that makes sense after a run with these curves: a row of `(epoch, loss, validation loss)` per validated epoch.
pub fn next_steps(recipe: &Recipe, progress: &RunProgress, ending: Ending, losses: &[[f64; 3]]) -> Vec<NextStep> {
    if matches!(ending, Ending::TimeUp | Ending::Stopped) {
        return vec![NextStep::Resume];
    }
    let is_synthetic = SourceEntry::named(&recipe.data.kind).is_ok_and(SourceEntry::is_synthetic);
    let mut next = match TaskEntry::named(&recipe.task) {
        Ok(task) if is_synthetic => vec![NextStep::Board, NextStep::OwnData { recipe: task.name }, NextStep::Recipes],
        _ => vec![NextStep::Evaluate, NextStep::Predict, NextStep::Board],
    };
    // As `epochs` counts them.
    let ran: u64 = recipe.phases.iter().filter(|phase| phase.name != BURN_IN).map(|phase| phase.epochs).sum();
    let burned: u64 = recipe.phases.iter().map(|phase| phase.epochs).sum::<u64>() - ran;
    let is_improving = progress.best.as_ref().is_some_and(|best| best.epoch == progress.epoch) && still_falls(losses);
    match (is_improving, ran) {
        (true, 0) => next.push(NextStep::BurnInLonger { epochs: 2 * burned }),
        (true, ran) => next.push(NextStep::TrainLonger { epochs: 2 * ran }),
        (false, ran) if overfits(losses) => {
            let before = recipe.phases.last().map_or(0.0, |phase| phase.options.weight_decay);
            let weight_decay = match recipe.phases.last().map(|phase| &phase.options.optimizer) {
                _ if before > 0.0 => 2.0 * before,
                // Decoupled decay is multiplied by the rate, so that it takes a larger number to do as much.
                Some(Optimizer::AdamW(_) | Optimizer::Lion(_) | Optimizer::Lamb(_)) => 0.05,
                _ => 1e-4,
            };
            next.push(NextStep::Regularize { weight_decay, before, patience: (ran / 5).max(3) });
        }
        (false, _) => {}
    }
    next
}

/// Whether the last epoch lowered the validation loss by so much that more epochs are worth their time. Unknown where there are no
/// two of them, and then taken to be so.
fn still_falls(losses: &[[f64; 3]]) -> bool {
    /// A share of the loss.
    const WORTH: f64 = 0.03;
    let Some((last, before)) = losses.split_last().filter(|(_, before)| !before.is_empty()) else { return true };
    let least = before.iter().map(|row| row[2]).fold(f64::INFINITY, f64::min);
    last[2] < least * (1.0 - WORTH)
}

/// Whether the network learned by heart: since its least validation loss, well before the end, the training loss has fallen
/// and the validation loss risen.
fn overfits(losses: &[[f64; 3]]) -> bool {
    /// A few epochs mean nothing.
    const FEWEST: usize = 6;
    /// Less than this is noise.
    const RISE: f64 = 1.02;
    let least = losses.iter().enumerate().min_by(|(_, left), (_, right)| left[2].total_cmp(&right[2]));
    let (Some((position, least)), Some(last)) = (least, losses.last()) else { return false };
    let after = &losses[position..];
    let mean = after[after.len() / 2..].iter().map(|row| row[2]).sum::<f64>() / after[after.len() / 2..].len() as f64;
    losses.len() >= FEWEST && position * 3 < losses.len() * 2 && last[1] < least[1] && mean > least[2] * RISE
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
mod tests {
    use super::*;
    use octant_recipe::{check, set_text, table};
    use octant_train::Best;

    fn proposed(changes: &[&str], losses: &[[f64; 3]], best: u64) -> Option<NextStep> {
        let mut table = table("glyphs").unwrap();
        changes.iter().for_each(|change| set_text(&mut table, change).unwrap());
        let recipe = check(table).unwrap();
        let best = Some(Best { value: 0.9, epoch: best });
        let progress = RunProgress { epoch: losses.len() as u64, best, ..RunProgress::default() };
        let next = next_steps(&recipe, &progress, Ending::Done, losses);
        next.into_iter().find(|step| matches!(step, NextStep::Regularize { .. }))
    }

    /// Training falls throughout; validation falls until epoch 4 and then rises.
    fn learned_by_heart() -> Vec<[f64; 3]> {
        (1..=12).map(f64::from).map(|epoch| [epoch, 1.0 / epoch, 0.5 + (epoch - 4.0).abs() * 0.1]).collect()
    }

    #[test]
    fn a_tenth_of_the_recipes_own_decay_was_proposed() {
        let decay = |changes: &[&str]| match proposed(changes, &learned_by_heart(), 4) {
            Some(NextStep::Regularize { weight_decay, before, .. }) => (before, weight_decay),
            other => panic!("{other:?}"),
        };
        assert_eq!(decay(&["phases.0.optimizer=adamw", "phases.0.weight_decay=0.05"]), (0.05, 0.1));
        assert_eq!(decay(&["phases.0.optimizer=sgd", "phases.0.weight_decay=0.0"]), (0.0, 1e-4));
    }

    #[test]
    fn commands_for_images_that_nobody_has_were_proposed() {
        let next = |changes: &[&str], losses: &[[f64; 3]]| {
            let mut table = table("glyphs").unwrap();
            changes.iter().for_each(|change| set_text(&mut table, change).unwrap());
            let epoch = losses.len() as u64;
            let best = Some(Best { value: 0.9, epoch });
            next_steps(
                &check(table).unwrap(),
                &RunProgress { epoch, best, ..RunProgress::default() },
                Ending::Done,
                losses,
            )
        };
        let falling = [[1.0, 0.9, 0.9], [2.0, 0.5, 0.5]];
        let steps = next(&[], &falling);
        assert!(steps.contains(&NextStep::OwnData { recipe: "classify" }) && !steps.contains(&NextStep::Predict));
        assert!(matches!(steps.last(), Some(NextStep::TrainLonger { .. })), "{steps:?}");
        let settled = next(&[], &[[1.0, 0.9, 0.5], [2.0, 0.8, 0.499]]);
        assert!(!settled.iter().any(|step| matches!(step, NextStep::TrainLonger { .. })), "{settled:?}");
        let own = next(&["data.kind=folder", "data.dir=images"], &falling);
        assert!(own.contains(&NextStep::Predict) && own.contains(&NextStep::Evaluate), "{own:?}");
    }

    #[test]
    fn decay_was_proposed_where_nothing_overfits() {
        let flat: Vec<[f64; 3]> = (1..=12).map(|epoch| [f64::from(epoch), 0.5, 0.5]).collect();
        assert_eq!(proposed(&[], &flat, 3), None);
        let still_falling: Vec<[f64; 3]> =
            (1..=12).map(f64::from).map(|epoch| [epoch, 1.0 / epoch, 1.0 / epoch]).collect();
        assert_eq!(proposed(&[], &still_falling, 3), None, "the best accuracy came early, but nothing rises");
        // Both rise: the rate is too high, which decay does not mend.
        let diverging: Vec<[f64; 3]> = (1..=12).map(f64::from).map(|epoch| [epoch, epoch, epoch]).collect();
        assert_eq!(proposed(&[], &diverging, 1), None);
    }
}
