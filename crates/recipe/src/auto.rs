//! Optimizers that follow from the length of a run, by the rule that users of YOLO know as `optimizer=auto`: AdamW with a
//! rate for the number of classes where there are few updates, SGD where there are many.
//!
//! A recipe sets `auto`; an explicit optimizer or rate has precedence. The choice is written into the recipe
//! before the first step, so that a run that is extended keeps it.

use crate::{Auto, Recipe};
use octant_nn::Optimizer;
use octant_nn::optimizer::{Adam, Sgd};
use toml::{Table, Value};

/// Settings of optimizers that lie beside their name.
const SETTINGS: [&str; 4] = ["momentum", "nesterov", "betas", "epsilon"];

/// Writes an optimizer into the table of a phase. Settings that were written for another one and that this one lacks go;
/// `auto` leaves the choice to [`resolve_auto`].
pub(crate) fn choose_optimizer(phase: &mut Table, value: Value) {
    if value.as_str() == Some("auto") {
        phase.insert("auto".into(), Value::String(Auto::Rate.name().into()));
        return;
    }
    if phase.contains_key("auto") {
        phase.insert("auto".into(), Value::String(Auto::Off.name().into()));
    }
    let kept = value.as_str().and_then(Optimizer::named).map(|mut optimizer| optimizer.settings().names());
    // The error of an unknown name is reported when the recipe is checked.
    let kept = kept.unwrap_or(SETTINGS.to_vec());
    SETTINGS.iter().filter(|setting| !kept.contains(setting)).for_each(|setting| drop(phase.remove(*setting)));
    phase.insert("optimizer".into(), value);
}

/// A rate that was given is not chosen.
pub(crate) fn keep_rate(table: &mut Table, phase: &str) {
    let number = phase.strip_prefix("phases.").and_then(|number| number.parse::<usize>().ok());
    let phases = table.get_mut("phases").and_then(Value::as_array_mut);
    let phase = number.zip(phases).and_then(|(number, phases)| phases.get_mut(number)?.as_table_mut());
    if let Some(auto) = phase.and_then(|phase| phase.get_mut("auto"))
        && auto.as_str() == Some(Auto::Rate.name())
    {
        *auto = Value::String(Auto::Optimizer.name().into());
    }
}

/// More updates than this are many.
const MANY: u64 = 10_000;

/// Writes what is to be chosen into the recipe, for so many samples and classes, and returns a sentence per phase.
pub fn resolve_auto(recipe: &mut Recipe, samples: usize, classes: usize) -> Vec<String> {
    let batch = recipe.step.batch_size;
    let mut sentences = Vec::new();
    for phase in recipe.phases.iter_mut().filter(|phase| phase.auto != Auto::Off) {
        let images = phase.options.update_images.unwrap_or(batch).max(batch);
        let updates = samples.div_ceil(images.max(1)) as u64 * phase.epochs;
        let (name, rate) = match updates > MANY {
            true => {
                phase.options.optimizer = Optimizer::Sgd(Sgd { momentum: 0.9, nesterov: true, ..Sgd::default() });
                ("SGD", 0.01)
            }
            false => {
                phase.options.optimizer = Optimizer::AdamW(Adam { betas: [0.9, 0.999], ..Adam::default() });
                // Biases need no start of their own where steps do not grow with gradients.
                if let Some(warmup) = &mut phase.options.warmup {
                    warmup.bias_lr = 0.0;
                }
                ("AdamW", (0.01 / (4 + classes) as f64 * 1e6).round() / 1e6)
            }
        };
        let whose = match phase.auto {
            Auto::Optimizer => "your",
            Auto::Off | Auto::Rate => {
                phase.schedule.lr = rate;
                "a"
            }
        };
        let few = if updates > MANY { "more than" } else { "at most" };
        sentences.push(format!(
            "phase {}: {updates} updates are {few} {MANY}: {name} with {whose} learning rate of {}",
            phase.name, phase.schedule.lr
        ));
        phase.auto = Auto::Off;
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, set_text, table};

    fn settled(changes: &[&str], samples: usize) -> (Recipe, Vec<String>) {
        let mut table = table("detect").unwrap();
        changes.iter().for_each(|change| set_text(&mut table, change).unwrap());
        let mut recipe = check(table).unwrap();
        let sentences = resolve_auto(&mut recipe, samples, 80);
        (recipe, sentences)
    }

    #[test]
    fn short_runs_get_adamw_and_long_ones_sgd() {
        let (short, notes) = settled(&[], 128);
        assert_eq!((short.phases[0].options.optimizer.name(), short.phases[0].schedule.lr), ("adamw", 0.000119));
        assert!(notes[0].contains("AdamW") && notes[0].contains("200 updates"), "{notes:?}");
        let (long, notes) = settled(&[], 118_287);
        assert_eq!((long.phases[0].options.optimizer.name(), long.phases[0].schedule.lr), ("sgd", 0.01));
        assert!(notes[0].contains("SGD"), "{notes:?}");
        assert!(resolve_auto(&mut short.clone(), 1 << 20, 80).is_empty(), "what was chosen stays");
    }

    #[test]
    fn what_was_given_is_never_ignored() {
        let (rate, notes) = settled(&["phases.0.schedule.lr=0.005"], 128);
        assert_eq!((rate.phases[0].options.optimizer.name(), rate.phases[0].schedule.lr), ("adamw", 0.005));
        assert!(notes[0].contains("your learning rate of 0.005"), "{notes:?}");
        let (both, notes) = settled(&["phases.0.optimizer=adamw", "phases.0.schedule.lr=0.005"], 128);
        assert_eq!((both.phases[0].options.optimizer.name(), notes.len()), ("adamw", 0));
        let (again, _) = settled(&["phases.0.optimizer=sgd", "phases.0.optimizer=auto"], 128);
        assert_eq!(again.phases[0].options.optimizer.name(), "adamw");
    }

    #[test]
    fn another_optimizer_was_refused_because_of_the_momentum_of_the_one_before() {
        let (recipe, _) = settled(&["phases.0.optimizer=lion"], 128);
        assert_eq!(recipe.phases[0].options.optimizer.name(), "lion");
        let (recipe, _) = settled(&["phases.0.optimizer=sgd"], 128);
        let Optimizer::Sgd(sgd) = recipe.phases[0].options.optimizer else { panic!("sgd") };
        assert_eq!((sgd.momentum, sgd.nesterov), (0.937, true));
    }
}
