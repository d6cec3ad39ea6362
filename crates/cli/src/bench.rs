//! The `bench` command: steps of a model, single operations, and both beside a peer, on data in memory.

mod ops;
mod peers;
mod step;

use crate::Ending;
use crate::device::DeviceFlags;
use crate::flags::{RecipeFlags, Selection};
use anyhow::{Result, bail};
use octant_measure::{Subject, SubjectOptions};
use octant_recipe::Cores;
use octant_recipe::flags::FlaggedKey;
use std::path::PathBuf;
use std::time::Instant;

/// Measure the speed of training steps, predictions or single operations
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant bench resnet50 --batch-size 16\n  octant bench resnet50 --mode infer --precision \
                        bf16\n  octant bench vit_b_16 --mode infer --latency\n  octant bench --ops convolution\n  octant bench mshnet --batch-size 4 --peer pytorch\n  octant bench pix2pix --batch-size 2\n\nA \
                        share of the peak compares with the fastest matrix product that the same device reached in the \
                        same run. Machines are noisy: trust ratios of an interleaved run (--peer), not two figures of \
                        two days."
)]
pub(crate) struct Arguments {
    /// A model (`octant models` lists them) or a recipe. With --ops: only operations whose name contains this
    model: Option<String>,
    /// Measure single convolutions, matrix products, norms and poolings instead of a model
    #[arg(long, conflicts_with_all = ["batch_size", "size", "mode", "optimizer", "cores", "steps", "profile"])]
    ops: bool,
    /// Time predictions one by one, as a caller waits for them, and print percentiles; with --mode infer
    #[arg(long, conflicts_with_all = ["ops", "peer"])]
    latency: bool,
    /// Images per step; 32, or what the recipe says, if not given, and 1 with --latency
    #[arg(long)]
    batch_size: Option<usize>,
    /// Height and width of the images; the recipe's or the model's own size if not given
    #[arg(long)]
    size: Option<usize>,
    /// What is measured: train or infer
    #[arg(long, default_value = "train")]
    mode: String,
    /// The optimizer of training steps; the one of the model's recipe if not given
    #[arg(long)]
    optimizer: Option<String>,
    #[command(flatten)]
    device: DeviceFlags,
    /// What layers compute in: f32 or bf16; int8 for predictions, between the ranges of random weights on noise: speed alone
    #[arg(long, default_value = "f32")]
    precision: String,
    /// Devices that work on every batch together, or `all`; for training steps
    #[arg(long, visible_alias = "num-cores", value_name = "N|all", default_value = "1")]
    cores: Cores,
    /// Steps that are measured, after the first one; 30 if not given, and 200 with --latency
    #[arg(long)]
    steps: Option<usize>,
    /// Show where the time goes, and write trace.json
    #[arg(long)]
    profile: bool,
    /// Measure a peer in turn with us and print ratios: pytorch, jax, burn, or inference for runtimes
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ops", "profile"])]
    peer: Option<String>,
    /// With --peer: its variants, such as eager,channels-last,compile; all it has if not given
    #[arg(long, requires = "peer", value_delimiter = ',')]
    variants: Vec<String>,
    /// With --peer: how often each takes its turn
    #[arg(long, requires = "peer", default_value_t = 3)]
    rounds: usize,
    /// With --peer: seconds that one turn of a variant may take, compiling included; it is left out once it takes longer
    #[arg(long, requires = "peer", default_value_t = 900, value_name = "SECONDS")]
    patience: u64,
    /// With --peer: the folder of the peers' scripts
    #[arg(long, requires = "peer", default_value = "bench/peers", value_name = "DIR")]
    peers: PathBuf,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: RecipeFlags<StepKeys>,
}

/// Keys that change what a step computes.
struct StepKeys;

impl Selection for StepKeys {
    fn includes(key: &FlaggedKey) -> bool {
        const KEYS: [&str; 7] =
            ["recompute", "shard_optimizer", "fsdp", "accumulate", "ema", "clip_norm", "weight_decay"];
        KEYS.contains(&key.spec.key)
    }
}

impl Arguments {
    /// What replaces the usual settings of what is measured.
    fn options(&self) -> SubjectOptions {
        SubjectOptions {
            batch_size: self.batch_size.or(self.latency.then_some(1)),
            size: self.size,
            optimizer: self.optimizer.clone(),
            settings: self.flags.given().to_vec(),
        }
    }

    /// How many steps are measured. A hundredth of the calls needs a few of them to mean something.
    fn steps(&self) -> usize {
        self.steps.unwrap_or(if self.latency { 200 } else { 30 })
    }
}

pub(crate) fn run(arguments: Arguments, started: Instant) -> Result<Ending> {
    if arguments.batch_size == Some(0)
        || arguments.steps == Some(0)
        || arguments.size == Some(0)
        || arguments.rounds == 0
    {
        bail!("--batch-size, --size, --steps and --rounds must be at least 1");
    }
    let optimizer = arguments.optimizer.is_some().then_some("optimizer");
    let given = arguments.flags.given().first().map(|(position, _)| position.rsplit('.').next().unwrap_or(position));
    if let Some(key) = given.or(optimizer).filter(|_| arguments.ops || arguments.mode == "infer") {
        let what = if arguments.ops { "single operations" } else { "predictions" };
        bail!("`{key}` is for training steps and changes nothing in {what}; remove it");
    }
    let given = given.or((arguments.cores != Cores::Count(1)).then_some("cores"));
    if let (Some(peer), Some(key)) = (&arguments.peer, given) {
        bail!("`{key}` is nothing that {peer} is measured with, so both sides would do different work; remove it");
    }
    match (&arguments.model, &arguments.peer) {
        _ if arguments.ops => ops::run(&arguments)?,
        (None, _) => {
            bail!("name a model (`octant models` lists them) or a recipe, or measure single operations with --ops")
        }
        (Some(name), Some(peer)) => peers::run(&Subject::named(name, &arguments.options())?, peer, &arguments)?,
        (Some(name), None) => step::run(&Subject::named(name, &arguments.options())?, &arguments, started)?,
    }
    Ok(Ending::Done)
}
