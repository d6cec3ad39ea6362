//! The `plan` command: a recipe compiled for boards that are not here.
//!
//! Every board is planned by a process of its own, two or more at a time. A compiler that aborts then costs one row of
//! the table and says why, instead of ending the command.

mod board;
mod kept;
mod search;
mod steps;

use crate::Ending;
use crate::flags::RecipeFlags;
use crate::output::{Json, bytes, duration};
use crate::recipes::{self, Recipe};
use anyhow::{Context, Result};
use board::Verdict;
use octant_train::options::Options;
use octant_zoo::Entry;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use toml::Table;

/// Compile a recipe for boards that are not here: does it fit, how fast, how much
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A recipe, or a model of the zoo
    name: String,
    /// Boards, separated by commas: v2-8, v3-8, v4-8, v5e-8, v6e-8 and others; cuda for the GPU of this machine
    #[arg(long, value_delimiter = ',', default_value = "v3-8,v5e-8,v6e-8")]
    on: Vec<String>,
    /// Images per step over all cores; `auto` takes the largest that fits
    #[arg(long)]
    batch_size: Option<String>,
    /// Height and width of the images
    #[arg(long)]
    size: Option<usize>,
    /// Images per epoch, for the time of an epoch; those of the data set where it is at hand, 50000 otherwise
    #[arg(long)]
    images: Option<usize>,
    /// The price of the board per hour, for the cost of the recipe
    #[arg(long)]
    price: Option<f64>,
    /// Take the largest batch from a straight line through one compilation instead of searching for it
    #[arg(long)]
    quick: bool,
    /// Keep the compiled programs where `octant train` on such a board looks for them: in this cache folder, or in that of
    /// this machine
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    save: Option<Option<PathBuf>>,
    /// Print one JSON object per board
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: RecipeFlags,
    /// Plan for this one board in this process: what the command starts for every board
    #[arg(long, hide = true)]
    here: Option<String>,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let recipe = resolved(&arguments)?;
    if let Some(target) = &arguments.here {
        Json::line(board::verdict(&arguments, &recipe, target).to_json(&arguments, &recipe));
        return Ok(Ending::Done);
    }
    if !arguments.json {
        println!(
            "{} in {}: estimates of compilers, for boards that are not here",
            recipe.name,
            recipe.step.precision.dtype()
        );
        println!(
            "{:<6} {:>6} {:>10} {:>10} {:>8} {:>9} {:>10} {:>10} {:>9}",
            "board", "batch", "per core", "limit", "largest", "step", "epoch", "all", "compiled"
        );
    }
    in_processes_of_their_own(&arguments.on, |target, row| match arguments.json {
        true => Json::line(row),
        false => print(target, &row),
    });
    if !arguments.json {
        println!(
            "The time of a step is the compiler's own estimate, or what arithmetic and memory allow at best, times {}: \
             that is how much longer a ResNet-50 took on a v2-8 than its compiler had thought.",
            board::OPTIMISM
        );
    }
    Ok(Ending::Done)
}

/// The recipe with what the command line says. Boards compute in bf16 unless told otherwise.
fn resolved(arguments: &Arguments) -> Result<Recipe> {
    let mut table = table(&arguments.name)?;
    recipes::set(&mut table, "precision", "bf16".into())?;
    arguments.flags.apply(&mut table)?;
    let mut recipe = recipes::check(table)?;
    if arguments.size.is_some() {
        recipe.image_size = arguments.size;
        // Where images are scaled and cropped, one size stands for both.
        recipe.base_size = recipe.base_size.and(arguments.size);
        recipe.crop_size = recipe.crop_size.and(arguments.size);
    }
    Ok(recipe)
}

/// The recipe of that name, or one for the model of that name.
fn table(name: &str) -> Result<Table> {
    match recipes::table(name) {
        Ok(table) => Ok(table),
        Err(error) if name.ends_with(".toml") => Err(error.into()),
        Err(_) => {
            let entry =
                octant_zoo::find(name).with_context(|| format!("\"{name}\" is neither a recipe nor a model"))?;
            Ok(recipe_for(entry)?.to_table())
        }
    }
}

/// A recipe that trains a model of the zoo on what it is made for.
pub(crate) fn recipe_for(entry: &Entry) -> Result<Recipe> {
    let base = match entry.task {
        octant_zoo::Task::Classify => "imagenet-resnet50",
        octant_zoo::Task::Segment => "mshnet-irstd",
        octant_zoo::Task::Detect => "detect",
    };
    let recipe = recipes::check(recipes::table(base)?)?;
    let name = entry.name.to_string();
    Ok(Recipe { name: name.clone(), model: name, classes: Some(entry.classes), ..recipe })
}

/// Plans all targets, several at a time, and hands over the rows in the order of the targets.
fn in_processes_of_their_own(targets: &[String], mut take: impl FnMut(&str, serde_json::Value)) {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get()).min(targets.len());
    std::thread::scope(|scope| {
        let (send, rows) = mpsc::channel();
        for _ in 0..workers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    eprintln!("{target}: compiling …");
                    let row = child(target).unwrap_or_else(|error| Verdict::failed(target, format!("{error:#}")));
                    let _ = send.send((target.as_str(), row));
                }
            });
        }
        drop(send);
        let mut waiting: Vec<(&str, serde_json::Value)> = Vec::new();
        let mut shown = 0;
        for row in rows {
            waiting.push(row);
            while let Some(place) = targets.get(shown).and_then(|due| waiting.iter().position(|(name, _)| name == due))
            {
                let (target, row) = waiting.remove(place);
                take(target, row);
                shown += 1;
            }
        }
    });
}

/// This command again, for one target.
fn child(target: &str) -> Result<serde_json::Value> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).args(["--here", target]);
    let output = command.stdin(Stdio::null()).output().context("cannot start a process for the compiler")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(row) = text.lines().rev().find_map(|line| serde_json::from_str(line).ok()) {
        return Ok(row);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let reason = complaint.lines().find(|line| line.contains("Check failed") || line.starts_with("octant: "));
    anyhow::bail!("the compiler ended with {}: {}", output.status, reason.unwrap_or("it did not say why"))
}

fn print(target: &str, row: &serde_json::Value) {
    if let Some(error) = row["error"].as_str() {
        println!("{target:<6} no: {error}");
        return;
    }
    let memory = |key: &str| row[key].as_u64().map_or_else(|| "unknown".into(), bytes);
    let time = |key: &str| {
        row[key].as_f64().map_or_else(|| "unknown".into(), |seconds| duration(Duration::from_secs_f64(seconds)))
    };
    println!(
        "{target:<6} {:>6} {:>10} {:>10} {:>8} {:>9} {:>10} {:>10} {:>9}{}",
        row["batch_size"],
        memory("hbm_bytes_per_core"),
        memory("hbm_limit_bytes"),
        row["largest_batch"],
        time("step_seconds_estimate"),
        time("epoch_seconds_estimate"),
        time("recipe_seconds_estimate"),
        time("compile_seconds"),
        if row["fits"] == true { "" } else { "  does not fit" },
    );
    println!(
        "       evaluation needs {}; {:.1} TFLOP and {} per step",
        memory("evaluation_hbm_bytes_per_core"),
        row["flops_per_step"].as_f64().unwrap_or(0.0) / 1e12,
        row["bytes_per_step"].as_f64().map_or_else(|| "an unknown traffic".into(), |count| bytes(count as u64)),
    );
    if let Some(price) = row["price_estimate"].as_f64() {
        println!("       the whole recipe would cost {price:.2}");
    }
    if let (Some(count), Some(command)) = (row["saved"].as_u64(), row["train"].as_str()) {
        println!("       {count} programs are kept; on the board, this starts at once: {command}");
    }
}
