//! Recipes: everything a run needs to know, as TOML, and the `recipes` command.
//!
//! A recipe is a table first and a struct later: flags write into the table, then the whole is checked at once, so that a
//! misspelled key is found wherever it comes from.

use crate::Ending;
use crate::output::Json;
use anyhow::{Context, Result, anyhow, bail};
use octant_data::Pipeline;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use toml::{Table, Value};

/// The built-in recipes, the first run's first.
const BUILT_IN: [&str; 9] = [
    include_str!("../recipes/glyphs.toml"),
    include_str!("../recipes/fashion-mnist.toml"),
    include_str!("../recipes/mshnet-irstd.toml"),
    include_str!("../recipes/cifar100-efficientnetv2.toml"),
    include_str!("../recipes/regression-efficientnetv2.toml"),
    include_str!("../recipes/imagenet-resnet50.toml"),
    include_str!("../recipes/demo-segment.toml"),
    include_str!("../recipes/demo-finetune.toml"),
    include_str!("../recipes/demo-regression.toml"),
];

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
    pub batch_size: usize,
    pub steps_per_epoch: Option<u64>,
    #[serde(default)]
    pub seed: u64,
    #[serde(default = "auto")]
    pub device: String,
    #[serde(default = "f32_name")]
    pub precision: String,
    #[serde(default = "one")]
    pub cores: usize,
    /// Parts of a batch that batch norms look at separately; 1 is synchronised.
    #[serde(default = "one")]
    pub batch_groups: usize,
    /// Threads that prepare batches; 0 for one per core.
    #[serde(default)]
    pub workers: usize,
    /// Megabytes of decoded samples kept in memory.
    #[serde(default)]
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
    pub normalise: String,
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
    /// stop or skip.
    #[serde(default = "stop")]
    pub on_nan: String,
    /// The batch size that the learning rates are meant for.
    pub reference_batch: Option<usize>,
    /// Scale learning rates in proportion to the batch size.
    #[serde(default)]
    pub scale_lr: bool,
    pub data: DataSource,
    pub phases: Vec<PhaseRecipe>,
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

fn one() -> usize {
    1
}

fn one_epoch() -> u64 {
    1
}

/// The table of a built-in recipe, or of a file that ends in `.toml`.
pub(crate) fn table(name: &str) -> Result<Table> {
    if name.ends_with(".toml") {
        let text = std::fs::read_to_string(name).with_context(|| format!("cannot read the recipe {name}"))?;
        return text.parse().map_err(|error| anyhow!("{name} is no TOML: {error}"));
    }
    let tables = BUILT_IN.iter().map(|text| text.parse::<Table>().expect("built-in recipes are TOML"));
    let mut names = Vec::new();
    for table in tables {
        let own = table["name"].as_str().unwrap_or_default().to_string();
        if own == name {
            return Ok(table);
        }
        names.push(own);
    }
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => bail!("there is no recipe \"{name}\"; did you mean {near}? `octant recipes` lists all"),
        None => bail!("there is no recipe \"{name}\"; there are {}", names.join(", ")),
    }
}

/// The text of a built-in recipe, comments and all.
fn text(name: &str) -> Option<&'static str> {
    BUILT_IN.into_iter().find(|text| text.lines().any(|line| line == format!("name = {name:?}")))
}

/// Writes a value at a dotted place, such as `phases.0.schedule.lr`.
pub(crate) fn set(table: &mut Table, place: &str, value: Value) -> Result<()> {
    let (last, path) = place
        .split('.')
        .collect::<Vec<_>>()
        .split_last()
        .map(|(l, p)| (l.to_string(), p.to_vec()))
        .expect("a split has a last part");
    let mut root = Value::Table(std::mem::take(table));
    let mut inside = &mut root;
    for part in path {
        inside = match (inside, part.parse::<usize>()) {
            (Value::Array(items), Ok(index)) => {
                let count = items.len();
                items.get_mut(index).with_context(|| format!("{place}: there are only {count}, counted from 0"))?
            }
            (Value::Table(inner), _) => inner.entry(part).or_insert_with(|| Value::Table(Table::new())),
            _ => bail!("{place}: {part} has nothing inside"),
        };
    }
    match inside {
        Value::Table(inner) => drop(inner.insert(last, value)),
        _ => bail!("{place} is not a place in a recipe"),
    }
    *table = match root {
        Value::Table(table) => table,
        _ => unreachable!("the root stays a table"),
    };
    Ok(())
}

/// `KEY=VALUE` from the command line; the value is TOML, or text when it is not.
pub(crate) fn set_text(table: &mut Table, assignment: &str) -> Result<()> {
    let (place, text) = assignment.split_once('=').with_context(|| format!("--set {assignment}: write KEY=VALUE"))?;
    let parsed = format!("v = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    set(table, place.trim(), parsed.unwrap_or_else(|| Value::String(text.into())))
}

/// Checks a table and makes a recipe of it.
pub(crate) fn check(table: Table) -> Result<Recipe> {
    let recipe: Recipe =
        Value::Table(table).try_into().map_err(|error: toml::de::Error| anyhow!(explain(error.message())))?;
    if recipe.phases.is_empty() {
        bail!("the recipe has no [[phases]]");
    }
    Ok(recipe)
}

/// Adds "did you mean" to serde's list of fields.
fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match (message.contains("unknown field"), quoted.split_first()) {
        (true, Some((wrong, known))) => match nearest(wrong, known.iter().copied()) {
            Some(near) => format!("a recipe has no key \"{wrong}\"; did you mean \"{near}\"?"),
            None => format!("a recipe has no key \"{wrong}\" there; known are {}", known.join(", ")),
        },
        _ => format!("the recipe is not complete: {message}"),
    }
}

/// The name that is spelled most alike, if any is.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let ranked = names.map(|name| (octant_zoo::registry::edits(wanted, name), name)).min();
    ranked.filter(|(distance, name)| *distance <= 2 + wanted.len() / 4 || name.contains(wanted)).map(|(_, name)| name)
}

/// List the recipes, or show one
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// `show NAME` prints the recipe; without it, all are listed
    #[arg(num_args = 0..=2, value_names = ["show", "NAME"])]
    words: Vec<String>,
    /// Print one JSON object per recipe
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            for text in BUILT_IN {
                let recipe = check(text.parse()?)?;
                match arguments.json {
                    true => Json::line(
                        json!({ "event": "recipe", "name": recipe.name, "about": recipe.about, "task": recipe.task, "model": recipe.model }),
                    ),
                    false => println!("{:<28} {}", recipe.name, recipe.about),
                }
            }
        }
        ["show", name] => {
            let table = table(name)?;
            match arguments.json {
                true => Json::line(serde_json::to_value(check(table)?)?),
                false => print!("{}", text(name).map_or_else(|| table.to_string(), str::to_string)),
            }
        }
        _ => bail!("use `octant recipes` or `octant recipes show NAME`"),
    }
    Ok(Ending::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_recipe_is_sound_and_stays_the_same_when_written_down() {
        for text in BUILT_IN {
            let recipe = check(text.parse().unwrap()).unwrap();
            let again = check(toml::to_string(&recipe).unwrap().parse().unwrap()).unwrap();
            assert_eq!(again, recipe);
            assert!(octant_zoo::find(&recipe.model).is_ok(), "{}", recipe.model);
        }
    }

    #[test]
    fn misspelled_keys_and_names_are_answered_with_a_suggestion() {
        let mut wrong = table("glyphs").unwrap();
        set_text(&mut wrong, "batchsize=3").unwrap();
        assert!(check(wrong).unwrap_err().to_string().contains("did you mean \"batch_size\""));
        let mut wrong = table("glyphs").unwrap();
        set_text(&mut wrong, "phases.0.schedule.min_rl=3").unwrap();
        assert!(check(wrong).unwrap_err().to_string().contains("did you mean \"min_lr\""));
        assert!(table("fashion-mnst").unwrap_err().to_string().contains("did you mean fashion-mnist"));
    }

    #[test]
    fn flags_reach_every_depth() {
        let mut recipe = table("cifar100-efficientnetv2").unwrap();
        set_text(&mut recipe, "phases.1.schedule.lr=0.5").unwrap();
        set_text(&mut recipe, "device=cpu").unwrap();
        set_text(&mut recipe, "phases.0.train=[\"head.fc\"]").unwrap();
        let recipe = check(recipe).unwrap();
        assert_eq!((recipe.phases[1].schedule.lr, recipe.device.as_str()), (0.5, "cpu"));
        assert_eq!(recipe.phases[0].train, Learns::Paths(vec!["head.fc".into()]));
    }
}
