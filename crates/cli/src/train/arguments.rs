//! The flags of `train`, and how they are written into the recipe.

use crate::flags::RecipeFlags;
use anyhow::{Context, Result, bail};
use octant_recipe::Recipe;
use octant_recipe::flags::{PhaseLengths, apply_lengths};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// Threads of the CPU engine; all cores if not given
    #[arg(long)]
    pub threads: Option<usize>,
    /// Passes over the data, burn-in not counted
    #[arg(long)]
    epochs: Option<u64>,
    /// Passes of the burn-in phase
    #[arg(long)]
    burn_epochs: Option<u64>,
    /// Learning rate of the burn-in phase
    #[arg(long)]
    burn_lr: Option<f64>,
    /// The last warm-up epoch of segmentation's loss, counted from 0
    #[arg(long)]
    warm_epoch: Option<u64>,
    #[command(flatten)]
    flags: RecipeFlags,
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
    /// Show the run in a browser while it trains; prints the address
    #[arg(long)]
    pub board: bool,
    /// Record what the device does in a few steps: a table, and trace.json in the run directory
    #[arg(long)]
    pub profile: bool,
    /// Warnings before the run are errors
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// The flag of the MSHNet scripts: the same as --device tpu
    #[arg(long, hide = true)]
    use_tpu: bool,
    /// Of the same scripts: `train`; `test` is `octant eval`
    #[arg(long, hide = true)]
    mode: Option<String>,
    /// Of the same scripts: runs always resume from their checkpoint
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    if_checkpoint: Option<String>,
}

/// Flags of the MSHNet scripts that mean another command here, with that command.
fn refuse_other_scripts(arguments: &Arguments) -> Result<()> {
    let recipe = &arguments.recipe;
    match arguments.mode.as_deref() {
        None | Some("train") => {}
        Some("test") => bail!("--mode test is `octant eval RUN`, or `octant eval FILE --recipe {recipe} --data DIR`"),
        Some(other) => bail!("--mode {other}: there is train, and test is `octant eval RUN`"),
    }
    if arguments.if_checkpoint.as_deref().is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        eprintln!(
            "note: --if-checkpoint has no effect: the same command resumes its run, and so does `octant train RUN`"
        );
    }
    Ok(())
}

/// What was asked for.
pub(super) struct Resolved {
    /// The recipe with all flags written into it.
    pub recipe: Recipe,
    /// The run directory, if one was named.
    pub out: Option<PathBuf>,
    /// The batch size is to be the largest that fits into this share of the free memory; the recipe has its usual one.
    pub fits_batch: Option<f64>,
}

/// The share of the free memory that `auto` uses.
const USUAL_SHARE: f64 = 0.6;

pub(super) fn resolve(arguments: &Arguments) -> Result<Resolved> {
    refuse_other_scripts(arguments)?;
    let named = Path::new(&arguments.recipe);
    let (mut table, out) = match named.join("config.toml").is_file() {
        true => (octant_recipe::config(named)?, Some(named.to_path_buf())),
        false => (octant_recipe::table(&arguments.recipe)?, arguments.out.clone()),
    };
    let usual = table.get("batch_size").filter(|size| size.is_integer()).cloned();
    arguments.flags.apply(&mut table)?;
    if arguments.use_tpu {
        octant_recipe::set(&mut table, "device", "tpu".into())?;
    }
    let Arguments { epochs, burn_epochs, burn_lr, warm_epoch, .. } = *arguments;
    apply_lengths(&mut table, &PhaseLengths { epochs, burn_epochs, burn_lr, warm_epoch })?;
    for assignment in &arguments.set {
        octant_recipe::set_text(&mut table, assignment)?;
    }
    let fits_batch = table.get("batch_size").and_then(|size| size.as_str()).map(memory_share).transpose()?;
    if fits_batch.is_some() {
        table.remove("batch_size");
        usual.into_iter().for_each(|usual| drop(table.insert("batch_size".into(), usual)));
    }
    Ok(Resolved { recipe: octant_recipe::check(table)?, out, fits_batch })
}

/// The share of the free memory that a batch size in words stands for: `auto`, or `70%`.
fn memory_share(text: &str) -> Result<f64> {
    if text == "auto" {
        return Ok(USUAL_SHARE);
    }
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = percent.map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share < 1.0);
    share.with_context(|| {
        format!("--batch-size {text}: write a number, auto, or a share of the free memory such as 70%")
    })
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
