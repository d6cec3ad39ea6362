//! The flags of `train`, and how they are written into the recipe.

use super::processes::ProcessFlags;
use crate::flags::RecipeFlags;
use anyhow::{Context, Result, bail};
use octant_cluster::signals;
use octant_events::units;
use octant_recipe::flags::{PhaseLengths, apply_lengths};
use octant_run::TrainJob;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Train a network, or resume a run that was stopped
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Examples:\n  octant train                                         a first run, in about a minute\n  \
                  octant train fashion-mnist --data DIR --epochs 5     a recipe on data of yours\n  \
                  octant train runs/fashion-mnist-1                    resumes that run where it stopped\n  \
                  octant train my.toml --set phases.0.schedule.lr=0.1  a recipe of your own, see docs/recipes.md\n  \
                  octant train imagenet-resnet50 --data s3://bucket/imagenet --time 9h --out runs/long"
)]
pub(crate) struct Arguments {
    /// A recipe (`octant recipes` lists them), a recipe's .toml file, or a run directory or the address of its stored checkpoints to
    /// resume
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
    #[command(flatten)]
    pub processes: ProcessFlags,
    /// Start again from the last checkpoint, at most so often, when a process or a device was lost or stuck
    #[arg(long, value_name = "N")]
    pub restarts: Option<u32>,
    /// End cleanly after this time, such as 9h, 1h30m or 90s; the same command resumes
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Any field of the recipe, such as phases.0.schedule.lr=0.1
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run directory; runs/RECIPE-N if not given. A run that is there resumes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Start over even if the run directory holds a run
    #[arg(long)]
    fresh: bool,
    /// Resume although settings or data changed so that images are trained on twice or not at all
    #[arg(long)]
    allow_changed: bool,
    /// Write the graph, what it is lowered to, and the optimized program of every step into this folder
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// Show the run in a browser while it trains; prints the address
    #[arg(long)]
    pub board: bool,
    /// Record what the device does in a few steps: a table, and trace.json in the run directory
    #[arg(long)]
    profile: bool,
    /// Warnings before the run are errors
    #[arg(long)]
    strict: bool,
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
    if arguments.if_checkpoint.is_some() {
        eprintln!(
            "note: --if-checkpoint has no effect: the same command resumes its run, and so does `octant train RUN`; --fresh \
             starts over"
        );
    }
    Ok(())
}

impl Arguments {
    /// The requested run.
    pub(super) fn job(&self) -> Result<TrainJob> {
        refuse_other_scripts(self)?;
        let (mut table, directory) = self.table()?;
        let usual = table.get("batch_size").and_then(|size| usize::try_from(size.as_integer()?).ok());
        self.flags.apply(&mut table)?;
        if self.use_tpu {
            octant_recipe::set(&mut table, "device", "tpu".into())?;
        }
        let Arguments { epochs, burn_epochs, burn_lr, warm_epoch, .. } = *self;
        apply_lengths(&mut table, &PhaseLengths { epochs, burn_epochs, burn_lr, warm_epoch })?;
        for assignment in &self.set {
            octant_recipe::set_text(&mut table, assignment)?;
        }
        Ok(TrainJob {
            directory,
            fresh: self.fresh,
            allow_changed: self.allow_changed,
            strict: self.strict,
            time: self.time.as_deref().map(|text| time("time", text)).transpose()?,
            profile: self.profile,
            dump: self.dump.clone(),
            stop: signals::stop_flag().into(),
            ..TrainJob::from_table(table, usual)?
        })
    }

    /// The directory of the run that is stored under the address, with its newest checkpoint.
    fn restored(&self) -> Result<PathBuf> {
        let address = self.recipe.trim_end_matches('/');
        if self.processes.are_several()? {
            bail!(
                "{address} is fetched by one process alone: give the recipe with `--checkpoint-store {address}` to several, and \
                 an --out that they share"
            );
        }
        let name = address.rsplit('/').next().unwrap_or_default();
        let run = self.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
        match octant_run::restore(address, &run)? {
            Some(text) => eprintln!("{text}"),
            None if run.join("config.toml").is_file() => {}
            None => bail!("there is no checkpoint in {address}"),
        }
        Ok(run)
    }

    /// The table of the recipe or run that was named, and the run directory, if one was.
    fn table(&self) -> Result<(toml::Table, Option<PathBuf>)> {
        if ["s3://", "gs://"].iter().any(|scheme| self.recipe.starts_with(scheme)) {
            let run = self.restored()?;
            return Ok((octant_recipe::config(&run)?, Some(run)));
        }
        let (table, is_run) = octant_recipe::recipe_or_run(&self.recipe)?;
        match (&self.out, is_run) {
            (Some(out), true) => bail!(
                "{} is a run directory and resumes there, so --out {} has no effect; remove it",
                self.recipe,
                out.display()
            ),
            (None, true) => Ok((table, Some(PathBuf::from(&self.recipe)))),
            (out, false) => Ok((table, out.clone())),
        }
    }
}

/// `9h`, `30m`, `90s`, `1h30m`.
pub(crate) fn time(flag: &str, text: &str) -> Result<Duration> {
    units::parse_duration(text)
        .with_context(|| format!("--{flag} {text}: write hours, minutes or seconds, such as 9h, 1h30m or 90s"))
}
