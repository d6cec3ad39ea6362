//! The first and the last words of a run.

use super::Arguments;
use crate::output::{Json, count, duration, line};
use crate::show::{Display, as_json, number, show};
use crate::{Ending, compiling, plots};
use anyhow::{Result, anyhow};
use octant_data::DataError;
use octant_events::Setting;
use octant_metrics::classes::Confusion;
use octant_recipe::flags::BURN_IN;
use octant_recipe::{PhaseRecipe, Recipe};
use octant_train::checkpoint::Checkpoint;
use octant_train::run::{self, ProgramReport, Summary};
use octant_train::{Metric, TrainError};
use serde_json::json;
use std::path::Path;

/// What the linear scaling rule changes, in one line.
fn scaled(recipe: &Recipe, phase: &PhaseRecipe, factor: f64, warmup: u64) -> String {
    let mut text = format!(
        "linear scaling in phase {}: × {factor} for {} images per update instead of {}: learning rate {:e} → {:e}",
        phase.name,
        octant_recipe::images_per_update(recipe, phase),
        recipe.reference_batch.unwrap_or(recipe.step.batch_size),
        phase.schedule.lr,
        phase.schedule.lr * factor,
    );
    if phase.options.weight_decay > 0.0 {
        text += &format!(", weight decay {:e} → {:e}", phase.options.weight_decay, phase.options.weight_decay * factor);
    }
    if let Some(before) = phase.schedule.warmup.filter(|&before| before > 0 && before < warmup) {
        text += &format!(", warm-up {before} → {warmup}");
    }
    let in_epochs = phase.options.warmup.as_ref().and_then(|warmup| warmup.epochs).filter(|epochs| *epochs > 0.0);
    if let Some(epochs) = in_epochs.filter(|_| factor > 1.0) {
        text += &format!(", warm-up {epochs} → {:.1} epochs", epochs * factor.sqrt());
    }
    text
}

pub(super) fn introduce(
    recipe: &Recipe,
    data: &octant_recipe::Data,
    directory: &mut octant_events::RunDirectory,
    checkpoint: Option<&Checkpoint>,
    display: &mut Display,
) -> Result<()> {
    for phase in &recipe.phases {
        if let Some(scaling) = octant_recipe::scaling(recipe, phase)? {
            let text = scaled(recipe, phase, scaling.factor, scaling.warmup(phase.schedule.warmup.unwrap_or(0)));
            display.say(&text);
            directory.log(&text)?;
        }
    }
    if recipe.task == "detect" {
        for phase in &recipe.phases {
            let text = shapes(recipe, &octant_recipe::slots_of(recipe, &*data.train, phase), &phase.name);
            display.say(&text);
            directory.log(&text)?;
        }
    }
    let text = match checkpoint {
        Some(checkpoint) => format!(
            "going on with {} from step {} of {}; --fresh would start over",
            recipe.name,
            checkpoint.progress.step,
            checkpoint.path.display()
        ),
        None => {
            format!("{} on {} training and {} validation images", recipe.model, data.train.len(), data.valid.len())
        }
    };
    directory.log(&text)?;
    if checkpoint.is_none() {
        let config = recipe.to_text();
        let number = |value: f64| Setting::Number(value);
        let phase = recipe.phases.last().expect("a recipe has phases");
        let settings = [
            ("recipe", Setting::Text(recipe.name.clone())),
            ("model", Setting::Text(recipe.model.clone())),
            ("optimizer", Setting::Text(phase.options.optimizer.name().into())),
            ("lr", number(phase.schedule.lr)),
            ("weight_decay", number(phase.options.weight_decay)),
            ("batch_size", number(recipe.step.batch_size as f64)),
            ("seed", number(recipe.run.seed as f64)),
        ];
        let settings: Vec<(String, Setting)> = settings.map(|(name, setting)| (name.to_string(), setting)).to_vec();
        directory.events.settings(&settings, &[octant_recipe::best(recipe)?])?;
        directory.events.text("config", &format!("```toml\n{config}```\n"))?;
    }
    display.start(recipe, &text, directory.path(), checkpoint.map(|checkpoint| checkpoint.progress.step));
    Ok(())
}

/// A failure of the device, with what is left of the run; a sample that cannot be read, with how to go on without it.
pub(super) fn way_back(error: TrainError, path: &Path) -> anyhow::Error {
    if let TrainError::Sample(DataError::Sample { .. }) = error {
        return anyhow!("{error}; --on-corrupt skip leaves such files out, `octant data verify` lists all of them");
    }
    let is_device = matches!(error, TrainError::Device(_) | TrainError::OutOfMemory(_));
    let kept = Checkpoint::newest(&path.join("checkpoints"), "last").ok().flatten().filter(|_| is_device);
    match kept {
        Some((kept, _)) => anyhow!(
            "{error}; nothing up to step {} is lost: `octant train {}` goes on from there",
            kept.progress.step,
            path.display()
        ),
        None => error.into(),
    }
}

pub(super) fn finish(
    recipe: &Recipe,
    data: &octant_recipe::Data,
    path: &Path,
    summary: &Summary,
    arguments: &Arguments,
) -> Result<Ending> {
    let progress = &summary.progress;
    let (event, ending) = match summary.ending {
        run::Ending::Done | run::Ending::NoImprovement => ("done", Ending::Done),
        run::Ending::TimeUp => ("time-up", Ending::Done),
        run::Ending::Stopped => ("interrupted", Ending::Interrupted(compiling::signal())),
    };
    let best = octant_recipe::best(recipe)?;
    let kept = if progress.best.is_some() { "best" } else { "last" };
    let weights = path.join("checkpoints").join(kept).join("model.safetensors");
    let charts = plots::write(path, summary, &*data.valid, &best)?;
    let next = next(recipe, path, summary);
    if arguments.json {
        Json::line(json!({
            "event": event, "metrics": as_json(&progress.metrics), "run": path, "weights": weights,
            "steps": progress.step, "epochs": progress.epoch, "plots": charts,
            "best": progress.best.as_ref().map(|found| json!({ "metric": best, "value": found.value, "epoch": found.epoch })),
            "programs": summary.programs.iter().map(program_json).collect::<Vec<_>>(),
            "next": next.iter().map(|(command, why)| json!({ "command": command, "why": why })).collect::<Vec<_>>(),
        }));
        return Ok(ending);
    }
    line(format_args!("\n{event} after {}, {}", count(progress.step, "step"), count(progress.epoch, "epoch")));
    let row = |name: &str, text: &str| line(format_args!("  {name:<10} {text}"));
    if let Some(found) = &progress.best {
        row("best", &format!("{best} {} in epoch {}", number(found.value), found.epoch));
    }
    let (validated, learned): (Vec<Metric>, Vec<Metric>) =
        progress.metrics.iter().cloned().partition(|(name, _)| name.starts_with("val_"));
    row("training", &show(&learned));
    row("validation", &show(&validated));
    if let Some(confusion) = &summary.findings.confusion {
        row("mistakes", &mistakes(confusion, data.valid.class_names()));
    }
    let used = summary.programs.iter().filter(|program| program.runs > 0);
    used.enumerate().for_each(|(index, program)| row(if index == 0 { "programs" } else { "" }, &program_line(program)));
    row("weights", &weights.display().to_string());
    row("plots", &charts.display().to_string());
    line("\nnext:");
    let longest = next.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    next.iter().for_each(|(command, why)| line(format_args!("  {command:<longest$}   {why}")));
    Ok(ending)
}

/// The classes that are mistaken for each other most.
fn mistakes(confusion: &Confusion, names: &[String]) -> String {
    let names = plots::confused_names(confusion, names);
    let most = confusion.mistakes(3).into_iter();
    let sentences: Vec<String> =
        most.map(|(label, taken, count)| format!("{} taken for {} ({count})", names[label], names[taken])).collect();
    if sentences.is_empty() { "none".into() } else { sentences.join(", ") }
}

/// Commands that make sense now, each with its reason.
fn next(recipe: &Recipe, path: &Path, summary: &Summary) -> Vec<(String, String)> {
    let run = shell(path);
    let progress = &summary.progress;
    let mut next = Vec::new();
    let mut add = |command: String, why: &str| next.push((command, why.to_string()));
    if matches!(summary.ending, run::Ending::TimeUp | run::Ending::Stopped) {
        add(format!("octant train {run}"), "goes on from here");
        return next;
    }
    add(format!("octant eval {run}"), "judges the best checkpoint");
    add(format!("octant predict {run} IMAGES"), "asks it about images of yours");
    add(format!("octant board {run}"), "shows curves, images and settings in a browser");
    // As `--epochs` counts them.
    let ran: u64 = recipe.phases.iter().filter(|phase| phase.name != BURN_IN).map(|phase| phase.epochs).sum();
    let burned: u64 = recipe.phases.iter().map(|phase| phase.epochs).sum::<u64>() - ran;
    match &progress.best {
        Some(best) if best.epoch == progress.epoch && ran > 0 => {
            add(
                format!("octant train {run} --epochs {}", 2 * ran),
                "the last epoch was the best: it is still improving",
            );
        }
        Some(best) if best.epoch == progress.epoch => {
            let longer = format!("octant train {run} --burn-epochs {}", 2 * burned);
            add(longer, "the last epoch was the best: it is still improving");
        }
        // A few epochs say nothing about learning by heart.
        Some(best) if best.epoch * 3 < progress.epoch * 2 && ran > 5 => {
            // The recipe as it was used, with everything that was typed.
            let used = shell(&path.join("config.toml"));
            add(
                format!("octant train {used} --weight-decay 1e-4 --patience {} --fresh", (ran / 5).max(3)),
                "it was best long before the end: decay, more augmentation or an early stop may help",
            );
        }
        _ => {}
    }
    next
}

/// A path as a shell takes it.
fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-:".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn program_json(program: &ProgramReport) -> serde_json::Value {
    json!({
        "name": program.name, "compiled": program.compiled, "loaded_from_cache": program.loaded,
        "compile_seconds": program.compile_time.as_secs_f64(), "runs": program.runs,
        "seconds": program.time.as_secs_f64(),
    })
}

/// What a program cost, in one line.
fn program_line(program: &ProgramReport) -> String {
    let made = match (program.compiled, program.loaded) {
        (compiled, 0) => format!("compiled {}", times(compiled)),
        (0, loaded) => format!("loaded from the cache {}", times(loaded)),
        (compiled, loaded) => format!("compiled {}, loaded from the cache {}", times(compiled), times(loaded)),
    };
    let each = program.time / u32::try_from(program.runs.max(1)).unwrap_or(u32::MAX);
    let (compile, all, each) = (duration(program.compile_time), duration(program.time), duration(each));
    format!("{} {made} in {compile}, run {} in {all} ({each} each)", program.name, times(program.runs))
}

fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

/// What a detector's training steps are compiled for, before the first one.
fn shapes(recipe: &Recipe, slots: &[usize], phase: &str) -> String {
    let sides = recipe.augment.as_ref().zip(recipe.image_size).map(|(augment, side)| augment.sides(side));
    let sides = sides.filter(|sides| sides.len() > 1);
    let mut text = format!("phase {phase}: up to {} boxes per training image; of more the largest stay", slots[0]);
    if let Some(usual) = slots.get(1) {
        text += &format!("; batches with at most {usual} take a smaller step");
    }
    let steps = slots.len() * sides.as_ref().map_or(1, Vec::len);
    if let Some(sides) = sides {
        let sides: Vec<String> = sides.iter().map(usize::to_string).collect();
        text += &format!("; sizes {}, one per batch", sides.join(", "));
    }
    if steps > 1 {
        text += &format!("; {steps} training steps are compiled now, none later");
    }
    text
}
