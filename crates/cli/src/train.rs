//! The `train` command.

use crate::output::{Json, bytes, duration};
use crate::recipes::{self, Recipe};
use crate::rundir::{self, Opened};
use crate::show::Display;
use crate::{Ending, device, gallery, lints, plots, prepare};
use anyhow::{Context, Result, bail};
use octant_events::Setting;
use octant_nn::Precision;
use octant_runtime::{CompileOptions, Mesh};
use octant_train::run::{self, OnBad, Plan, Summary, Watched};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use toml::{Table, Value};

/// Train a network, or go on with a run that was stopped
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// A recipe (`octant recipes` lists them), a recipe's .toml file, or a run directory to go on with
    #[arg(default_value = "glyphs")]
    recipe: String,
    /// The folder with the data set
    #[arg(long, visible_alias = "dataset-dir", value_name = "DIR")]
    data: Option<PathBuf>,
    /// The device: auto or cpu
    #[arg(long)]
    device: Option<String>,
    /// Devices to use together
    #[arg(long, visible_alias = "num-cores")]
    cores: Option<i64>,
    /// Threads of the CPU engine; all cores if not given
    #[arg(long)]
    threads: Option<usize>,
    /// Threads that prepare batches; one per core if not given
    #[arg(long)]
    workers: Option<i64>,
    /// The model; `octant models` lists them
    #[arg(long)]
    model: Option<String>,
    /// A file of weights to start from
    #[arg(long, visible_alias = "weight-path", value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The size of the head; what the data says if not given
    #[arg(long)]
    classes: Option<i64>,
    /// Pictures per step
    #[arg(long)]
    batch_size: Option<i64>,
    /// Passes over the data, burn-in not counted
    #[arg(long)]
    epochs: Option<u64>,
    /// Passes of the burn-in phase
    #[arg(long)]
    burn_epochs: Option<i64>,
    /// Steps of one epoch; a whole pass if not given
    #[arg(long)]
    steps_per_epoch: Option<i64>,
    /// Learning rate of the last phase (and of its warm-up)
    #[arg(long)]
    lr: Option<f64>,
    /// Learning rate of the burn-in phase
    #[arg(long)]
    burn_lr: Option<f64>,
    /// The least learning rate of all phases
    #[arg(long)]
    min_lr: Option<f64>,
    /// The last warm-up epoch of segmentation's loss, counted from 0
    #[arg(long)]
    warm_epoch: Option<u64>,
    /// The optimizer of all phases: sgd, adam, adamw, adagrad, rmsprop, lamb or lion
    #[arg(long)]
    optimizer: Option<String>,
    /// The weight decay of all phases
    #[arg(long)]
    weight_decay: Option<f64>,
    /// The greatest norm of all gradients together
    #[arg(long)]
    clip_norm: Option<f64>,
    /// How much of the moving average of weights is kept at every step
    #[arg(long)]
    ema: Option<f64>,
    /// Batches per update
    #[arg(long)]
    accumulate: Option<i64>,
    /// Scale learning rate and weight decay with the batch size
    #[arg(long)]
    scale_lr: bool,
    /// Height and width of pictures
    #[arg(long)]
    image_size: Option<i64>,
    /// Segmentation: the size that pictures are scaled to
    #[arg(long)]
    base_size: Option<i64>,
    /// Segmentation: the size of training crops
    #[arg(long)]
    crop_size: Option<i64>,
    /// The seed of weights, order and augmentation
    #[arg(long)]
    seed: Option<i64>,
    /// What layers compute in: f32 or bf16
    #[arg(long)]
    precision: Option<String>,
    /// Validate after every this many epochs
    #[arg(long)]
    validate_every: Option<i64>,
    /// Stop after this many epochs without a better one
    #[arg(long)]
    patience: Option<i64>,
    /// Steps between checkpoints within an epoch
    #[arg(long)]
    checkpoint_every: Option<i64>,
    /// What happens when the loss is not finite: stop or skip
    #[arg(long)]
    on_nan: Option<String>,
    /// End cleanly after this time, such as 9h, 30m or 90s; the same command goes on
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Any field of the recipe, such as phases.0.schedule.lr=0.1
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run directory; runs/RECIPE-N if not given. A run that is there goes on
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Start over even if the run directory holds a run
    #[arg(long)]
    fresh: bool,
    /// Warnings before the run are errors
    #[arg(long)]
    strict: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn precision(name: &str) -> Result<Precision> {
    match name {
        "f32" => Ok(Precision::F32),
        "bf16" => Ok(Precision::Bf16),
        other => bail!("there is no precision \"{other}\"; use f32 or bf16"),
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let begun = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .context("cannot watch for signals")?;
        signal_hook::flag::register(signal, stop.clone()).context("cannot watch for signals")?;
    }
    let (recipe, out) = resolve(&arguments)?;
    let deadline = arguments.time.as_deref().map(time).transpose()?.map(|time| begun + time);
    let data = prepare::data(&recipe)?;
    let warnings = lints::check(&recipe, &data)?;
    if arguments.strict
        && let Some(first) = warnings.first()
    {
        bail!("{first} (--strict makes this an error)");
    }
    let backend = device::open(&recipe.device, arguments.threads)?;
    let phases = prepare::phases(&recipe, &data, recipe.steps_per_epoch)?;
    if phases.is_empty() {
        bail!("there is nothing to do: no phase lasts an epoch; give --epochs");
    }
    let entry = octant_zoo::find(&recipe.model)?;
    let mut display = Display::new(stop, arguments.json);
    let mut known = Default::default();
    if let Some(path) = &recipe.weights {
        let (specs, loaded) = prepare::weights(path, &recipe, data.outputs)?;
        display.say(&format!("weights from {}: {}", path.display(), loaded.matching));
        known = specs.into_iter().map(|spec| spec.path).zip(loaded.values).collect();
    }
    let plan = Plan {
        backend: &*backend,
        mesh: Mesh::new(recipe.cores),
        options: CompileOptions::default(),
        precision: precision(&recipe.precision)?,
        seed: recipe.seed,
        batch_size: recipe.batch_size,
        batch_groups: recipe.batch_groups,
        workers: recipe.workers,
        steps_per_epoch: recipe.steps_per_epoch,
        phases,
        train: data.train.clone(),
        valid: data.valid.clone(),
        valid_transform: Arc::new(prepare::transform(&recipe, &recipe.eval_transform, false, entry)?),
        validate_every: recipe.validate_every,
        watched: Watched { metric: prepare::best(&recipe), smaller: prepare::smaller_is_better(&recipe) },
        patience: recipe.patience,
        checkpoint_every: recipe.checkpoint_every,
        on_bad: match recipe.on_nan.as_str() {
            "stop" => OnBad::Stop,
            "skip" => OnBad::Skip,
            other => bail!("--on-nan {other} is not known; use stop or skip"),
        },
        deadline,
        weights: known,
        config: toml::to_string(&recipe)?,
        metadata: vec![("model".into(), recipe.model.clone()), ("task".into(), recipe.task.clone())],
    };
    let path = rundir::choose(out.as_deref(), &recipe.name);
    let Opened { mut directory, checkpoint, warning } = rundir::open(&path, &recipe, arguments.fresh)?;
    warning.iter().chain(&warnings).try_for_each(|warning| -> Result<()> {
        display.say(&format!("warning: {warning}"));
        Ok(directory.log(warning)?)
    })?;
    introduce(&recipe, &data, &mut directory, checkpoint.as_ref(), &mut display)?;
    let summary = run::run(&plan, directory, checkpoint, &mut display)?;
    let is_over = matches!(summary.ending, run::Ending::Done | run::Ending::NoImprovement);
    // A picture is worth having, but not worth failing for after hours of training.
    if is_over && let Err(error) = gallery::write(&path, &recipe, &data, &*backend, summary.progress.epoch) {
        display.say(&format!("the picture of predictions could not be made: {error:#}"));
    }
    finish(&recipe, &data, &path, &summary, &arguments)
}

/// The recipe with all flags written into it, and the directory that was asked for.
fn resolve(arguments: &Arguments) -> Result<(Recipe, Option<PathBuf>)> {
    let named = Path::new(&arguments.recipe);
    let (mut table, out) = match named.join("config.toml").is_file() {
        true => (rundir::config(named)?, Some(named.to_path_buf())),
        false => (recipes::table(&arguments.recipe)?, arguments.out.clone()),
    };
    overrides(arguments, &mut table)?;
    for assignment in &arguments.set {
        recipes::set_text(&mut table, assignment)?;
    }
    let recipe = recipes::check(table)?;
    if recipe.batch_size == 0 || recipe.cores == 0 {
        bail!("--batch-size and --cores must be at least 1");
    }
    Ok((recipe, out))
}

fn overrides(arguments: &Arguments, table: &mut Table) -> Result<()> {
    let path = |path: &PathBuf| Value::String(path.display().to_string());
    let text = |text: &String| Value::String(text.clone());
    let direct = [
        ("data.dir", arguments.data.as_ref().map(path)),
        ("weights", arguments.weights.as_ref().map(path)),
        ("device", arguments.device.as_ref().map(text)),
        ("model", arguments.model.as_ref().map(text)),
        ("precision", arguments.precision.as_ref().map(text)),
        ("on_nan", arguments.on_nan.as_ref().map(text)),
        ("cores", arguments.cores.map(Value::Integer)),
        ("workers", arguments.workers.map(Value::Integer)),
        ("classes", arguments.classes.map(Value::Integer)),
        ("batch_size", arguments.batch_size.map(Value::Integer)),
        ("steps_per_epoch", arguments.steps_per_epoch.map(Value::Integer)),
        ("image_size", arguments.image_size.map(Value::Integer)),
        ("base_size", arguments.base_size.map(Value::Integer)),
        ("crop_size", arguments.crop_size.map(Value::Integer)),
        ("seed", arguments.seed.map(Value::Integer)),
        ("validate_every", arguments.validate_every.map(Value::Integer)),
        ("patience", arguments.patience.map(Value::Integer)),
        ("checkpoint_every", arguments.checkpoint_every.map(Value::Integer)),
        ("scale_lr", arguments.scale_lr.then_some(Value::Boolean(true))),
    ];
    for (key, value) in direct {
        if let Some(value) = value {
            recipes::set(table, key, value)?;
        }
    }
    phase_overrides(arguments, table)
}

/// Flags that reach into the phases.
fn phase_overrides(arguments: &Arguments, table: &mut Table) -> Result<()> {
    let Some(phases) = table.get("phases").and_then(Value::as_array).cloned() else { return Ok(()) };
    let is = |phase: &Value, key: &str| phase.get(key).and_then(Value::as_bool).unwrap_or(false);
    let is_burn_in = |phase: &Value| phase.get("name").and_then(Value::as_str) == Some("burn-in");
    let mut left = arguments.epochs;
    let last = phases.len().saturating_sub(1);
    for (index, phase) in phases.iter().enumerate() {
        let mut own: Vec<(&str, Value)> = Vec::new();
        let mut epochs = phase.get("epochs").and_then(Value::as_integer).unwrap_or(0) as u64;
        if is(phase, "warm_up")
            && let Some(warm) = arguments.warm_epoch
        {
            epochs = warm + 1;
        }
        // What warm-up takes away is missing in the last phase; burn-in is counted apart.
        match (&mut left, is_burn_in(phase)) {
            (_, true) => epochs = arguments.burn_epochs.map_or(epochs, |burn| burn as u64),
            (Some(left), false) if index == last => epochs = *left,
            (Some(left), false) => {
                epochs = epochs.min(*left);
                *left -= epochs;
            }
            (None, false) => {}
        }
        own.push(("epochs", Value::Integer(epochs as i64)));
        let rate = if is_burn_in(phase) { arguments.burn_lr } else { arguments.lr };
        own.extend(rate.map(|rate| ("schedule.lr", Value::Float(rate))));
        own.extend(arguments.min_lr.map(|rate| ("schedule.min_lr", Value::Float(rate))));
        own.extend(arguments.optimizer.clone().map(|name| ("optimizer", Value::String(name))));
        own.extend(arguments.weight_decay.map(|decay| ("weight_decay", Value::Float(decay))));
        own.extend(arguments.clip_norm.map(|norm| ("clip_norm", Value::Float(norm))));
        own.extend(arguments.ema.map(|decay| ("ema", Value::Float(decay))));
        own.extend(arguments.accumulate.map(|batches| ("accumulate", Value::Integer(batches))));
        for (key, value) in own {
            recipes::set(table, &format!("phases.{index}.{key}"), value)?;
        }
    }
    Ok(())
}

/// `9h`, `30m`, `90s`.
fn time(text: &str) -> Result<Duration> {
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let scale = match unit {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        _ => bail!("--time {text}: write hours, minutes or seconds, such as 9h, 30m or 90s"),
    };
    let number: Option<f64> = number.parse().ok().filter(|number: &f64| *number >= 0.0 && number.is_finite());
    let number = number.with_context(|| format!("--time {text}: {number:?} is not a number"))?;
    Ok(Duration::from_secs_f64(number * scale))
}

fn introduce(
    recipe: &Recipe,
    data: &prepare::Data,
    directory: &mut octant_events::RunDirectory,
    checkpoint: Option<&octant_train::checkpoint::Checkpoint>,
    display: &mut Display,
) -> Result<()> {
    if recipe.scale_lr
        && let Some(reference) = recipe.reference_batch
    {
        let factor = recipe.batch_size as f64 / reference as f64;
        display.say(&format!(
            "linear scaling: learning rate and weight decay × {factor} for batches of {} instead of {reference}",
            recipe.batch_size
        ));
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

fn finish(
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
    if let Some(confusion) = &summary.confusion {
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
