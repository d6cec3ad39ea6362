//! The `plan` command: a recipe compiled for boards that are not here.

use crate::output::{Json, bytes, duration};
use crate::recipes::{self, Recipe};
use crate::{Ending, prepare, train};
use anyhow::{Context, Result, bail};
use octant_pjrt::boards::Board;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Plugin, Topology, backend};
use octant_runtime::{Mesh, Program};
use octant_train::step::{self, StepPlan};
use octant_zoo::Entry;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Compile a recipe for boards that are not here: does it fit, how fast, how much
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A recipe, or a model of the zoo
    name: String,
    /// Boards, separated by commas: v2-8, v3-8, v4-8, v5e-8, v6e-8 and others
    #[arg(long, value_delimiter = ',', default_value = "v3-8,v5e-8,v6e-8")]
    on: Vec<String>,
    /// Pictures per step over all cores; `auto` takes the largest that fits
    #[arg(long)]
    batch_size: Option<String>,
    /// Height and width of the pictures
    #[arg(long)]
    size: Option<usize>,
    /// What layers compute in: f32 or bf16
    #[arg(long, default_value = "bf16")]
    precision: String,
    /// Pictures per epoch, for the time of an epoch
    #[arg(long, default_value_t = 50_000)]
    pictures: usize,
    /// The price of the board per hour, for the cost of the recipe
    #[arg(long)]
    price: Option<f64>,
    /// Keep the compiled programs in this folder
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Print one JSON object per board
    #[arg(long)]
    json: bool,
}

/// What one board would do.
struct Verdict {
    batch: usize,
    memory: u64,
    limit: u64,
    step: Option<f64>,
    flops: f64,
    bytes: Option<f64>,
    compile: Duration,
    largest: usize,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let recipe = recipe(&arguments)?;
    let found = discover::plugin(&[PluginKind::Tpu])
        .context("plans need the TPU's compiler; `octant plugin install tpu` fetches it")?;
    let plugin = Plugin::load(&found.path)?;
    if !arguments.json {
        println!("{} in {}: estimates of the compiler, for boards that are not here", recipe.name, arguments.precision);
        println!(
            "{:<7} {:>7} {:>11} {:>11} {:>9} {:>11} {:>12} {:>9}",
            "board", "batch", "per core", "limit", "largest", "step", "epoch", "compiled"
        );
    }
    for name in &arguments.on {
        let verdict = on_board(&arguments, &recipe, &plugin, name);
        match (&verdict, arguments.json) {
            (Ok(verdict), false) => print(&arguments, &recipe, name, verdict),
            (Err(error), false) => println!("{name:<7} no: {error:#}"),
            (verdict, true) => print_json(name, verdict),
        }
    }
    Ok(Ending::Done)
}

/// The recipe of that name, or the first classification recipe with a model of that name in it.
fn recipe(arguments: &Arguments) -> Result<Recipe> {
    if let Ok(table) = recipes::table(&arguments.name) {
        return recipes::check(table);
    }
    let unknown = || format!("\"{}\" is neither a recipe nor a model", arguments.name);
    recipe_for(octant_zoo::find(&arguments.name).with_context(unknown)?)
}

/// A recipe that trains a model of the zoo on what it is made for.
pub(crate) fn recipe_for(entry: &Entry) -> Result<Recipe> {
    let base = match entry.task {
        octant_zoo::Task::Classify => "imagenet-resnet50",
        octant_zoo::Task::Segment => "mshnet-irstd",
    };
    let recipe = recipes::check(recipes::table(base)?)?;
    let name = entry.name.to_string();
    Ok(Recipe { name: name.clone(), model: name, classes: Some(entry.classes), ..recipe })
}

fn on_board(arguments: &Arguments, recipe: &Recipe, plugin: &Plugin, name: &str) -> Result<Verdict> {
    let board = Board::named(name)?;
    let topology = Topology::for_board(plugin, &board)?;
    let limit = topology.memory_limit()?.unwrap_or(board.memory);
    let compile = |batch: usize| -> Result<backend::Planned> {
        let program = program(arguments, recipe, batch, board.devices)?;
        Ok(backend::plan(&topology, &program, octant_stablehlo::Options::default())?)
    };
    let asked = match arguments.batch_size.as_deref() {
        None => recipe.batch_size.next_multiple_of(board.devices),
        Some("auto") => 0,
        Some(number) => number
            .parse()
            .ok()
            .filter(|&batch| batch > 0)
            .with_context(|| format!("--batch-size {number} is neither a number nor auto"))?,
    };
    if asked % board.devices != 0 {
        bail!(
            "a batch of {asked} does not fall into {} equal parts; take {}",
            board.devices,
            asked.next_multiple_of(board.devices)
        );
    }
    // Memory grows in a straight line with the batch: two compilations show where it meets the limit.
    let [small, double] = [board.devices, board.devices * 2];
    let (first, second) = (compile(small)?, compile(double)?);
    let per_step = second.memory.peak().saturating_sub(first.memory.peak()).max(1);
    let room = limit.saturating_sub(first.memory.peak());
    let mut largest = if first.memory.peak() > limit { 0 } else { small + (room / per_step) as usize * board.devices };
    let batch = if asked == 0 { largest.max(small) } else { asked };
    let mut planned = compile(batch);
    while asked == 0 && largest > small && planned.as_ref().map_or(true, |planned| planned.memory.peak() > limit) {
        // The line was too steep somewhere: step back until it fits.
        largest = (largest * 9 / 10 / board.devices * board.devices).max(small);
        planned = compile(largest);
    }
    let (batch, planned) = (if asked == 0 { largest } else { batch }, planned?);
    save(arguments, recipe, name, &planned)?;
    Ok(Verdict {
        batch,
        memory: planned.memory.peak(),
        limit,
        step: planned.cost.seconds,
        flops: planned.cost.flops,
        bytes: planned.cost.bytes,
        compile: planned.cost.compile_time,
        largest,
    })
}

fn program(arguments: &Arguments, recipe: &Recipe, batch: usize, devices: usize) -> Result<Program> {
    let entry = octant_zoo::find(&recipe.model)?;
    let [height, width, channels] = entry.preprocessing.input;
    let wanted = arguments.size.or(recipe.crop_size).or(recipe.image_size);
    let picture = wanted.map_or([height, width, channels], |side| [side, side, channels]);
    let task = prepare::task(recipe, entry.classes, picture, false)?;
    let precision = train::precision(&arguments.precision)?;
    let plan = StepPlan { precision, mesh: Mesh::new(devices), ..StepPlan::new(&*task, batch) };
    Ok(step::training(&plan)?.program)
}

fn save(arguments: &Arguments, recipe: &Recipe, board: &str, planned: &backend::Planned) -> Result<()> {
    let Some(folder) = &arguments.save else { return Ok(()) };
    let path = folder.join(format!("{}-{board}.executable", recipe.name));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::write(&path, planned.executable.serialize()?).with_context(|| format!("cannot write {}", path.display()))
}

fn print(arguments: &Arguments, recipe: &Recipe, name: &str, verdict: &Verdict) {
    let fits = if verdict.memory <= verdict.limit { "" } else { "  does not fit" };
    let seconds = |seconds: f64| duration(Duration::from_secs_f64(seconds));
    let epoch = verdict.step.map(|step| step * arguments.pictures.div_ceil(verdict.batch) as f64);
    println!(
        "{name:<7} {:>7} {:>11} {:>11} {:>9} {:>11} {:>12} {:>9}{fits}",
        verdict.batch,
        bytes(verdict.memory),
        bytes(verdict.limit),
        verdict.largest,
        verdict.step.map_or_else(|| "unknown".into(), seconds),
        epoch.map_or_else(|| "unknown".into(), seconds),
        duration(verdict.compile),
    );
    if let (Some(epoch), Some(price)) = (epoch, arguments.price) {
        let epochs: u64 = recipe.phases.iter().map(|phase| phase.epochs).sum();
        let hours = epoch * epochs as f64 / 3600.0;
        println!("        {epochs} epochs: {hours:.1} h, {:.2} at {price} per hour", hours * price);
    }
}

fn print_json(name: &str, verdict: &Result<Verdict>) {
    Json::line(match verdict {
        Ok(verdict) => json!({
            "target": name, "fits": verdict.memory <= verdict.limit, "batch_size": verdict.batch,
            "hbm_bytes_per_core": verdict.memory, "hbm_limit_bytes": verdict.limit, "largest_batch": verdict.largest,
            "step_seconds_estimate": verdict.step, "flops_per_step": verdict.flops, "bytes_per_step": verdict.bytes,
            "compile_seconds": verdict.compile.as_secs_f64(), "error": null,
        }),
        Err(error) => json!({
            "target": name, "fits": false, "hbm_bytes_per_core": null, "hbm_limit_bytes": null, "largest_batch": null,
            "step_seconds_estimate": null, "compile_seconds": null, "error": format!("{error:#}"),
        }),
    });
}
