//! The flags of `train`, and how they are written into the recipe.

use crate::recipes::{self, Cores, Recipe};
use crate::rundir;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Table, Value};

/// Train a network, or go on with a run that was stopped
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Examples:\n  octant train                                         a first run, in about a minute\n  \
                  octant train fashion-mnist --data DIR --epochs 5     a recipe on data of yours\n  \
                  octant train runs/fashion-mnist-1                    goes on where that run stopped\n  \
                  octant train my.toml --set phases.0.schedule.lr=0.1  a recipe of your own, see docs/recipes.md\n  \
                  octant train imagenet-resnet50 --data s3://bucket/imagenet --time 9h --out runs/long"
)]
pub(crate) struct Arguments {
    /// A recipe (`octant recipes` lists them), a recipe's .toml file, or a run directory to go on with
    #[arg(default_value = "glyphs")]
    pub recipe: String,
    /// The data set: a folder, packed data, or either of them at s3://…, gs://… or https://…
    #[arg(long, visible_alias = "dataset-dir", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The device: auto, cpu, cuda, tpu or the path of a PJRT plugin
    #[arg(long)]
    pub device: Option<String>,
    /// Devices that work on every batch together, or `all`; batches of any size are spread over them
    #[arg(long, visible_alias = "num-cores", value_name = "N|all")]
    cores: Option<Cores>,
    /// Every device keeps only its part of the optimizer's state
    #[arg(long)]
    shard_optimizer: bool,
    /// Compute blocks of the network again in the backward pass instead of keeping them: less memory, more time
    #[arg(long)]
    recompute: bool,
    /// Threads of the CPU engine; all cores if not given
    #[arg(long)]
    pub threads: Option<usize>,
    /// Threads that prepare batches; one per core if not given
    #[arg(long)]
    workers: Option<i64>,
    /// Decoded samples: off (decode every time), ram (keep in memory) or packed (write to a file once)
    #[arg(long)]
    cache: Option<String>,
    /// The model; `octant models` lists them
    #[arg(long)]
    model: Option<String>,
    /// Weights to start from: a file, an address, `pretrained`, or a name that `octant weights get` knows
    #[arg(long, visible_alias = "weight-path", value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The size of the head; what the data says if not given
    #[arg(long)]
    classes: Option<i64>,
    /// Images per step
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
    /// Scale learning rate, weight decay and warm-up with the batch size
    #[arg(long)]
    scale_lr: bool,
    /// Mix images with each other, with shares from Beta(ALPHA, ALPHA)
    #[arg(long, value_name = "ALPHA")]
    mixup: Option<f64>,
    /// Paste rectangles of images into each other, with areas from Beta(ALPHA, ALPHA)
    #[arg(long, value_name = "ALPHA")]
    cutmix: Option<f64>,
    /// Height and width of images
    #[arg(long)]
    image_size: Option<i64>,
    /// Segmentation: the size that images are scaled to
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
    /// Epochs between histograms of all weights and gradients in the event file
    #[arg(long, value_name = "EPOCHS")]
    histograms: Option<i64>,
    /// What happens when the loss is not finite: stop or skip
    #[arg(long)]
    on_nan: Option<String>,
    /// An image that cannot be read: fatal (the run ends), or skip (it is named and left out)
    #[arg(long)]
    on_corrupt: Option<String>,
    /// The images that do not fill the last batch: drop, or pad (rows are added that do not count)
    #[arg(long)]
    last_batch: Option<String>,
    /// End cleanly after this time, such as 9h, 30m or 90s; the same command goes on
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Any field of the recipe, such as phases.0.schedule.lr=0.1
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run directory; runs/RECIPE-N if not given. A run that is there goes on
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Start over even if the run directory holds a run
    #[arg(long)]
    pub fresh: bool,
    /// Write the graph, what it is lowered to, and the optimized program of every step into this folder
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
    /// Record what the device does in a few steps: a table, and trace.json in the run directory
    #[arg(long)]
    pub profile: bool,
    /// Warnings before the run are errors
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// The recipe with all flags written into it, and the directory that was asked for.
pub(super) fn resolve(arguments: &Arguments) -> Result<(Recipe, Option<PathBuf>)> {
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
    if recipe.batch_size == 0 {
        bail!("--batch-size must be at least 1");
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
        ("on_corrupt", arguments.on_corrupt.as_ref().map(text)),
        ("last_batch", arguments.last_batch.as_ref().map(text)),
        ("cache", arguments.cache.as_ref().map(text)),
        ("cores", arguments.cores.map(Value::try_from).transpose()?),
        ("shard_optimizer", arguments.shard_optimizer.then_some(Value::Boolean(true))),
        ("recompute", arguments.recompute.then_some(Value::Boolean(true))),
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
        ("histograms", arguments.histograms.map(Value::Integer)),
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
        own.extend(arguments.mixup.map(|alpha| ("mix.mixup", Value::Float(alpha))));
        own.extend(arguments.cutmix.map(|alpha| ("mix.cutmix", Value::Float(alpha))));
        own.extend(arguments.accumulate.map(|batches| ("accumulate", Value::Integer(batches))));
        for (key, value) in own {
            recipes::set(table, &format!("phases.{index}.{key}"), value)?;
        }
    }
    Ok(())
}

/// `9h`, `30m`, `90s`.
pub(super) fn time(text: &str) -> Result<Duration> {
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
