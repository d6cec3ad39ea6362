//! The first and the last words of a run.

use super::Arguments;
use crate::output::{Json, bytes, duration};
use crate::recipes::{PhaseRecipe, Recipe};
use crate::show::Display;
use crate::{Ending, plots, prepare};
use anyhow::Result;
use octant_events::Setting;
use octant_train::run::{self, Summary};
use serde_json::json;
use std::path::Path;

/// What the linear scaling rule changes, in one line.
fn scaled(recipe: &Recipe, phase: &PhaseRecipe, factor: f64, warmup: u64) -> String {
    let mut text = format!(
        "linear scaling in phase {}: × {factor} for {} pictures per update instead of {}: learning rate {:e} → {:e}",
        phase.name,
        recipe.batch_size as u64 * phase.accumulate.max(1),
        recipe.reference_batch.unwrap_or(recipe.batch_size),
        phase.schedule.lr,
        phase.schedule.lr * factor,
    );
    if phase.weight_decay > 0.0 {
        text += &format!(", weight decay {:e} → {:e}", phase.weight_decay, phase.weight_decay * factor);
    }
    if let Some(before) = phase.schedule.warmup.filter(|&before| before > 0 && before < warmup) {
        text += &format!(", warm-up {before} → {warmup}");
    }
    text
}

pub(super) fn introduce(
    recipe: &Recipe,
    data: &prepare::Data,
    directory: &mut octant_events::RunDirectory,
    checkpoint: Option<&octant_train::checkpoint::Checkpoint>,
    display: &mut Display,
) -> Result<()> {
    for phase in &recipe.phases {
        if let Some(scaling) = prepare::scaling(recipe, phase)? {
            let text = scaled(recipe, phase, scaling.factor, scaling.warmup(phase.schedule.warmup.unwrap_or(0)));
            display.say(&text);
            directory.log(&text)?;
        }
    }
    let text = match checkpoint {
        Some(checkpoint) => format!(
            "going on with {} from step {} of {}",
            recipe.name,
            checkpoint.progress.step,
            checkpoint.path.display()
        ),
        None => {
            format!("{} on {} training and {} validation pictures", recipe.model, data.train.len(), data.valid.len())
        }
    };
    directory.log(&text)?;
    if checkpoint.is_none() {
        let config = toml::to_string(recipe)?;
        let number = |value: f64| Setting::Number(value);
        let phase = recipe.phases.last().expect("a recipe has phases");
        let settings = [
            ("recipe", Setting::Text(recipe.name.clone())),
            ("model", Setting::Text(recipe.model.clone())),
            ("optimizer", Setting::Text(phase.optimizer.clone())),
            ("lr", number(phase.schedule.lr)),
            ("weight_decay", number(phase.weight_decay)),
            ("batch_size", number(recipe.batch_size as f64)),
            ("seed", number(recipe.seed as f64)),
        ];
        let settings: Vec<(String, Setting)> = settings.map(|(name, setting)| (name.to_string(), setting)).to_vec();
        directory.events.settings(&settings, &[prepare::best(recipe)])?;
        directory.events.text("config", &format!("```toml\n{config}```\n"))?;
    }
    display.start(recipe, &text, directory.path(), checkpoint.map(|checkpoint| checkpoint.progress.step));
    Ok(())
}

pub(super) fn finish(
    recipe: &Recipe,
    data: &prepare::Data,
    path: &Path,
    summary: &Summary,
    arguments: &Arguments,
) -> Result<Ending> {
    let progress = &summary.progress;
    let weights = path.join("checkpoints/last/model.safetensors");
    let charts = plots::write(path, summary, data.valid.class_names())?;
    let (event, ending) = match summary.ending {
        run::Ending::Done | run::Ending::NoImprovement => ("done", Ending::Done),
        run::Ending::TimeUp => ("time-up", Ending::Done),
        run::Ending::Stopped => ("interrupted", Ending::Interrupted),
    };
    let best = prepare::best(recipe);
    if arguments.json {
        Json::line(json!({
            "event": event, "metrics": crate::show::as_json(&progress.metrics), "run": path, "weights": weights,
            "steps": progress.step, "epochs": progress.epoch,
            "best": progress.best.as_ref().map(|found| json!({ "metric": best, "value": found.value, "epoch": found.epoch })),
        }));
        return Ok(ending);
    }
    println!("\n{event} after {} steps, {} epochs", progress.step, progress.epoch);
    progress.metrics.iter().for_each(|(name, value)| println!("  {name:<14} {value:.4}"));
    if let Some(found) = &progress.best {
        println!("  {:<14} {best} {:.4} in epoch {} (checkpoints/best)", "best", found.value, found.epoch);
    }
    if let Some(confusion) = &summary.findings.confusion {
        let name = |class: usize| data.valid.class_names().get(class).cloned().unwrap_or_else(|| class.to_string());
        let mistakes: Vec<String> = confusion
            .mistakes(3)
            .into_iter()
            .map(|(label, predicted, count)| format!("{} taken for {} ({count})", name(label), name(predicted)))
            .collect();
        println!("  {:<14} {}", "mistakes", mistakes.join(", "));
    }
    println!("  {:<14} {}", "run", path.display());
    println!("  {:<14} {}", "weights", weights.display());
    println!("  {:<14} {}", "plots", charts.display());
    match summary.ending {
        run::Ending::Done | run::Ending::NoImprovement => {
            println!("\nnext: octant eval {0}, or tensorboard --logdir {0}", path.display())
        }
        run::Ending::TimeUp | run::Ending::Stopped => {
            println!("\nnext: octant train {} goes on from here", path.display())
        }
    }
    Ok(ending)
}

/// A line about what was compiled.
pub(crate) fn compiled(name: &str, session: &octant_train::Session) -> String {
    let parameters: usize = session.variables().iter().map(|spec| spec.shape.elements()).sum();
    let (memory, cost) = session.cost();
    let seconds = duration(cost.compile_time);
    format!("{name}: {parameters} variables, step compiled in {seconds}, {} at the peak", bytes(memory.peak()))
}
