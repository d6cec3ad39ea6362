//! What a recipe says.

use octant_data::{Corrupt, LastBatch, Mix, Pipeline};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;

/// A recipe with everything filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    pub name: String,
    #[serde(default)]
    pub about: String,
    /// classify, segment or regress.
    pub task: String,
    pub model: String,
    /// The size of the head; what the data says if not given.
    pub classes: Option<usize>,
    /// A file of weights to start from.
    pub weights: Option<PathBuf>,
    /// Weights of which only a part fits the network will do.
    #[serde(default)]
    pub partial_weights: bool,
    pub batch_size: usize,
    pub steps_per_epoch: Option<u64>,
    #[serde(default)]
    pub seed: u64,
    #[serde(default = "auto")]
    pub device: String,
    #[serde(default = "f32_name")]
    pub precision: String,
    #[serde(default)]
    pub cores: Cores,
    /// Every core keeps only its part of what the optimizer remembers.
    #[serde(default)]
    pub shard_optimizer: bool,
    /// Blocks of the network are computed again in the backward pass instead of being kept.
    #[serde(default)]
    pub recompute: bool,
    /// Parts of a batch that batch norms look at separately; 1 is synchronized.
    #[serde(default = "one")]
    pub batch_groups: usize,
    /// Threads that prepare batches; 0 for one per core.
    #[serde(default)]
    pub workers: usize,
    /// off, ram (decoded samples stay in memory) or packed (they are written to a file once).
    #[serde(default = "off")]
    pub cache: String,
    /// Megabytes of decoded samples that `cache = "ram"` keeps per split.
    #[serde(default = "cache_mb")]
    pub cache_mb: usize,
    /// sls-iou, soft-iou, dice, bce, focal; mse, mae, huber.
    pub loss: Option<String>,
    #[serde(default)]
    pub label_smoothing: f64,
    pub image_size: Option<usize>,
    pub base_size: Option<usize>,
    pub crop_size: Option<usize>,
    /// model or none.
    #[serde(default = "model_name")]
    pub normalize: String,
    #[serde(default)]
    pub eval_transform: Transforms,
    #[serde(default = "one_epoch")]
    pub validate_every: u64,
    /// The metric that decides which epoch was best.
    pub best: Option<String>,
    /// min or max; what suits the metric if not given.
    pub best_mode: Option<String>,
    /// Epochs without a better one after which the run ends.
    pub patience: Option<u64>,
    /// Steps between checkpoints within an epoch.
    pub checkpoint_every: Option<u64>,
    /// Epochs between histograms of all weights and gradients in the event file; none if not given.
    pub histograms: Option<u64>,
    /// stop or skip.
    #[serde(default = "stop")]
    pub on_nan: String,
    /// drop, or pad (with rows that do not count): the samples that do not fill an epoch's last batch.
    #[serde(default = "drop_last")]
    pub last_batch: LastBatch,
    /// fatal or skip: a sample that cannot be read.
    #[serde(default = "fatal")]
    pub on_corrupt: Corrupt,
    /// The batch size that the learning rates are meant for.
    pub reference_batch: Option<usize>,
    /// Scale learning rate, weight decay and warm-up with the batch size.
    #[serde(default)]
    pub scale_lr: bool,
    pub data: DataSource,
    pub phases: Vec<PhaseRecipe>,
}

/// How many devices work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cores {
    Count(usize),
    All(AllCores),
}

/// The word for as many as there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AllCores {
    All,
}

impl Default for Cores {
    fn default() -> Cores {
        Cores::Count(1)
    }
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Cores, String> {
        match text.parse() {
            Ok(0) => Err("a program needs one core at least".into()),
            Ok(count) => Ok(Cores::Count(count)),
            Err(_) if text == "all" => Ok(Cores::All(AllCores::All)),
            Err(_) => Err(format!("\"{text}\" is neither a number nor all")),
        }
    }
}

/// Where samples come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataSource {
    /// glyphs, infrared, shapes, discs (made up); idx, cifar, folder, irstd, table (files).
    pub kind: String,
    pub dir: Option<PathBuf>,
    /// How many samples are made up.
    pub train: Option<usize>,
    pub test: Option<usize>,
    pub side: Option<usize>,
    /// The columns of a table that are predicted; all if empty.
    #[serde(default)]
    pub columns: Vec<String>,
}

impl DataSource {
    /// Samples are made up on the fly and take no files.
    pub fn is_made_up(&self) -> bool {
        ["glyphs", "infrared", "shapes", "discs"].contains(&self.kind.as_str())
    }
}

/// A stretch of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PhaseRecipe {
    pub name: String,
    pub epochs: u64,
    /// all, head, or paths.
    #[serde(default)]
    pub train: Learns,
    /// Batch norms keep their running statistics.
    #[serde(default)]
    pub frozen_statistics: bool,
    pub optimizer: String,
    pub momentum: Option<f64>,
    pub nesterov: Option<bool>,
    pub betas: Option<[f64; 2]>,
    pub epsilon: Option<f64>,
    #[serde(default)]
    pub weight_decay: f64,
    /// Norms and biases decay too.
    #[serde(default)]
    pub decay_all: bool,
    pub layer_decay: Option<f64>,
    /// Parameters with a learning rate or weight decay of their own.
    #[serde(default)]
    pub groups: Vec<GroupRecipe>,
    pub clip_norm: Option<f64>,
    pub clip_value: Option<f64>,
    pub ema: Option<f64>,
    #[serde(default = "one_epoch")]
    pub accumulate: u64,
    #[serde(default)]
    pub keep_optimizer: bool,
    /// The warm-up of networks and losses that have one.
    #[serde(default)]
    pub warm_up: bool,
    #[serde(default)]
    pub transform: Transforms,
    /// Mixup and cutmix, such as { mixup = 0.2, cutmix = 1.0, p = 1.0 }.
    pub mix: Option<Mix>,
    pub schedule: ScheduleRecipe,
}

/// Which parameters learn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Learns {
    Named(String),
    Paths(Vec<String>),
}

impl Default for Learns {
    fn default() -> Learns {
        Learns::Named("all".into())
    }
}

/// Parameters with settings of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupRecipe {
    /// The paths below which they lie.
    pub under: Vec<String>,
    /// What the learning rate is multiplied by.
    pub lr_scale: Option<f64>,
    /// A weight decay other than the phase's.
    pub weight_decay: Option<f64>,
}

/// The learning rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleRecipe {
    /// constant, step, multi-step, polynomial, cosine, one-cycle, warmup-cosine, timm-cosine or plateau.
    pub kind: String,
    pub lr: f64,
    pub min_lr: Option<f64>,
    pub warmup: Option<u64>,
    pub warmup_lr: Option<f64>,
    /// The length; the phase's if not given.
    pub total: Option<u64>,
    pub every: Option<u64>,
    pub milestones: Option<Vec<u64>>,
    pub factor: Option<f64>,
    pub power: Option<f64>,
    pub patience: Option<u64>,
    pub threshold: Option<f64>,
    pub cooldown: Option<u64>,
    pub stretch: Option<f64>,
    pub decay: Option<f64>,
    /// epoch or step.
    pub per: Option<String>,
}

/// A named list of steps, or the steps themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Transforms {
    /// none, model, imagenet, cifar-finetune, cifar-eval or irstd.
    Named(String),
    Steps(Pipeline),
}

impl Default for Transforms {
    fn default() -> Transforms {
        Transforms::Named("none".into())
    }
}

fn auto() -> String {
    "auto".into()
}

fn f32_name() -> String {
    "f32".into()
}

fn model_name() -> String {
    "model".into()
}

fn stop() -> String {
    "stop".into()
}

fn drop_last() -> LastBatch {
    LastBatch::Drop
}

fn fatal() -> Corrupt {
    Corrupt::Fatal
}

fn off() -> String {
    "off".into()
}

fn cache_mb() -> usize {
    4096
}

fn one() -> usize {
    1
}

fn one_epoch() -> u64 {
    1
}
