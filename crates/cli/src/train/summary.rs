//! The last words of a run.

use crate::output::{Json, count, line};
use crate::style;
use octant_events::units::{self, number};
use octant_run::{NextStep, RunOutcome};
use octant_train::Metric;
use serde_json::json;
use std::path::Path;

/// Prints what a run came to.
pub(crate) fn show(outcome: &RunOutcome, as_json_lines: bool) {
    match as_json_lines {
        true => show_json(outcome),
        false => show_text(outcome),
    }
}

/// The library's object, with commands for what makes sense now.
fn show_json(outcome: &RunOutcome) {
    let next = |step: &NextStep| json!({ "command": command(step, &outcome.run), "why": step.reason() });
    let mut object = outcome.json();
    object["next"] = outcome.next.iter().map(next).collect();
    Json::line(object);
}

fn show_text(outcome: &RunOutcome) {
    let progress = &outcome.summary.progress;
    match outcome.was_finished {
        true => {
            let (epochs, longer) = (count(progress.epoch, "epoch"), 2 * progress.epoch.max(1));
            line(format_args!(
                "{} is already finished, after {epochs}; --epochs {longer} continues it, --fresh starts over",
                outcome.run.display()
            ));
            if !outcome.ignored.is_empty() {
                let ignored: Vec<String> = outcome.ignored.iter().map(ToString::to_string).collect();
                line(format_args!("  without effect: {}", ignored.join(", ")));
            }
        }
        false => line(format_args!(
            "\n{} after {}, {}",
            style::bold(outcome.ending()),
            count(progress.step, "step"),
            count(progress.epoch, "epoch")
        )),
    }
    let row = |name: &str, text: &str| line(format_args!("  {name:<10} {text}"));
    // Metrics and mistakes are those of one checkpoint, the one that is proposed for use.
    let metrics = match &outcome.best {
        Some(best) => {
            row("best", &format!("{} {} in epoch {}", best.metric, style::good(number(best.value)), best.epoch));
            &best.metrics
        }
        None => &progress.metrics,
    };
    let (validated, learned): (Vec<Metric>, Vec<Metric>) =
        metrics.iter().cloned().partition(|(name, _)| name.starts_with("val_"));
    for (name, metrics) in [("training", learned), ("validation", validated)] {
        if !metrics.is_empty() {
            row(name, &units::metrics(&metrics));
        }
    }
    if let Some(most) = outcome.mistakes(3) {
        row("mistakes", &mistakes(&most));
    }
    let programs = outcome.program_lines();
    programs.iter().enumerate().for_each(|(index, text)| row(if index == 0 { "programs" } else { "" }, text));
    row("weights", &outcome.weights.display().to_string());
    row("plots", &outcome.plots.display().to_string());
    if let Some(best) = &outcome.best {
        let lines = octant_events::block_plot(&outcome.curve, Some(best.epoch), number, style::good);
        if !lines.is_empty() {
            line(format_args!("\n{} by epoch", best.metric));
            lines.iter().for_each(line);
        }
    }
    line("\nnext:");
    let next: Vec<(String, String)> =
        outcome.next.iter().map(|step| (command(step, &outcome.run), step.reason())).collect();
    let longest = next.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    for (command, why) in next {
        let gap = longest - command.chars().count();
        line(format_args!("  {}{:gap$}   {}", style::command(&command), "", style::dim(why)));
    }
}

/// The command that does what makes sense now.
fn command(step: &NextStep, path: &Path) -> String {
    let run = shell(path);
    match step {
        NextStep::Resume => format!("octant train {run}"),
        NextStep::Evaluate => format!("octant eval {run}"),
        NextStep::Predict => format!("octant predict {run} IMAGES"),
        NextStep::Board => format!("octant board {run}"),
        NextStep::OwnData { recipe } => format!("octant train {recipe} --data DIR"),
        NextStep::Recipes => "octant recipes".into(),
        NextStep::TrainLonger { epochs } => format!("octant train {run} --epochs {epochs}"),
        NextStep::BurnInLonger { epochs } => format!("octant train {run} --burn-epochs {epochs}"),
        NextStep::Regularize { weight_decay, patience, .. } => {
            // The recipe as it was used, with everything that was typed.
            let used = shell(&path.join("config.toml"));
            format!("octant train {used} --weight-decay {weight_decay} --patience {patience} --fresh")
        }
    }
}

/// The classes that are mistaken for each other most.
fn mistakes(most: &[(String, String, f64)]) -> String {
    let sentence = |(label, taken, count): &(String, String, f64)| format!("{label} taken for {taken} ({count})");
    let sentences: Vec<String> = most.iter().map(sentence).collect();
    if sentences.is_empty() { "none".into() } else { sentences.join(", ") }
}

/// A path as a shell takes it.
fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-:".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_regularization_is_the_run_s_own_recipe_started_over() {
        let step = NextStep::Regularize { weight_decay: 0.1, before: 0.05, patience: 3 };
        let text = "octant train idle/config.toml --weight-decay 0.1 --patience 3 --fresh";
        assert_eq!(command(&step, Path::new("idle")), text);
    }
}
