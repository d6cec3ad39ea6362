//! The `plan` command: a recipe compiled for boards that are not attached, and estimated for GPUs.
//!
//! An estimate of our own is printed for every machine at once. Compilers then refine it: every board is planned by a process
//! of its own, so that a compiler that aborts costs one row of the table and says why, instead of ending the command. The
//! processes compile in turns (`turns`), so that every board has its first compiled row before any searches for the
//! largest batch. One thread prints (`table`).

mod board;
mod epoch;
mod machine;
mod processes;
pub(crate) mod steps;
mod table;
mod turns;

use crate::flags::{Programs, RecipeFlags};
use crate::{Ending, compiling};
use anyhow::{Context, Result, bail};
use board::{OPTIMISM, Outcome, asked};
use machine::{Machine, Price};
use octant_pjrt::boards::Board;
use octant_pjrt::estimate::{Estimate, estimate, estimate_gpu};
use octant_pjrt::gpus::Gpu;
use octant_recipe::Recipe;
use octant_run::search::{Search, Size};
use octant_runtime::Cost;
use octant_train::options::OptionTable;
use octant_zoo::ModelEntry;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use steps::Steps;
use table::PlanTable;
use toml::Table;

/// Compile a recipe for boards that are not attached, or estimate it for GPUs: memory, speed and cost
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A recipe, or a model of the zoo
    name: String,
    /// Machines, separated by commas: TPU boards (v2-8, v3-8, v4-8, v5e-8, v6e-8 and others), GPUs (t4, v100, l4, a100, a100-80,
    /// h100, h200), all of either (tpus, gpus), or cuda for the GPU of this machine
    #[arg(long, value_delimiter = ',', default_value = "v3-8,v5e-8,v6e-8")]
    on: Vec<String>,
    /// Images per step over all cores; `auto` takes the largest that fits
    #[arg(long)]
    batch_size: Option<String>,
    /// Height and width of the images
    #[arg(long)]
    size: Option<usize>,
    /// Images per epoch, for the time of an epoch; those of the data where it is at hand, or of the data set that the recipe is
    /// made for
    #[arg(long)]
    images: Option<usize>,
    /// The price per hour, for the cost of a run: one for all machines, or one for each (h200=3.99,t4=0.35)
    #[arg(long, value_delimiter = ',')]
    price: Vec<Price>,
    /// Take the largest batch from a straight line through one compilation instead of searching for it, and compile code
    /// that is quick to make instead of quick to run, unless it is kept
    #[arg(long)]
    quick: bool,
    /// Keep the compiled programs where `octant train` on such a board looks for them: in this cache folder, or in that of
    /// this machine
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    save: Option<Option<PathBuf>>,
    /// Print JSON: an object per machine with `"estimate": true` at once, then one with what its compiler says
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: RecipeFlags<Programs>,
    /// Plan for this one board in this process: what the command starts for every board
    #[arg(long, hide = true)]
    here: Option<String>,
}

impl Arguments {
    /// Whether nobody will run what is compiled, so that only its size and its estimates count.
    fn only_estimates(&self) -> bool {
        self.quick && self.save.is_none()
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let recipe = resolved(&arguments)?;
    if let Some(target) = &arguments.here {
        board::plan_in_turns(&arguments, &recipe, target);
        return Ok(Ending::Done);
    }
    // Unknown names are refused before anything is compiled.
    let machines = machine::named(&arguments.on)?;
    machine::check_prices(&arguments.price, &machines)?;
    if arguments.save.is_some() && !machines.iter().any(|(_, machine)| machine.is_compiled()) {
        bail!("--save keeps compiled programs, and GPUs that are not here are only estimated");
    }
    let stop = compiling::stop_flag();
    compiling::stop_at(&[libc::SIGINT, libc::SIGTERM]).context("cannot watch for signals")?;
    let names: Vec<String> = machines.iter().map(|(name, _)| name.clone()).collect();
    let mut table = PlanTable::new(&arguments, &recipe, &names);
    for (target, machine) in &machines {
        match machine {
            Machine::Board(board) => table.estimated(target, estimated_on_board(&arguments, &recipe, board)?),
            Machine::Gpu(gpu) => table.estimated(target, estimated_on_gpu(&arguments, &recipe, gpu)?),
            Machine::Here => {}
        }
    }
    let compiled = machines.iter().filter(|(_, machine)| machine.is_compiled());
    let compiled: Vec<String> = compiled.map(|(name, _)| name.clone()).collect();
    let finished = compiled.is_empty() || processes::plan(&compiled, &stop, &mut table);
    table.close(finished);
    let failed = table.failed();
    match (finished, failed.is_empty()) {
        (false, _) => Ok(Ending::Interrupted(compiling::signal())),
        (true, true) => Ok(Ending::Done),
        (true, false) => bail!("there is no plan for {}; the rows above say why", failed.join(", ")),
    }
}

/// The recipe with what the command line says. Boards compute in bf16 by default.
fn resolved(arguments: &Arguments) -> Result<Recipe> {
    let mut table = table(&arguments.name)?;
    octant_recipe::set(&mut table, "precision", "bf16".into())?;
    arguments.flags.apply(&mut table)?;
    let mut recipe = octant_recipe::check(table)?;
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
    match octant_recipe::table(name) {
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
pub(crate) fn recipe_for(entry: &ModelEntry) -> Result<Recipe> {
    Ok(octant_recipe::of_model(entry)?)
}

/// The estimate for one board, as a row.
fn estimated_on_board(arguments: &Arguments, recipe: &Recipe, board: &Board) -> Result<Value> {
    let devices = board.devices;
    // Devices do the same work on their shares of the batch.
    let steps = Steps::new(arguments, recipe, devices)?.of_one_device(devices);
    let of = |batch: usize| Ok(estimate(&steps.training(batch.div_ceil(devices))?, board));
    let rates = Estimated { devices, memory: board.memory, slower: OPTIMISM, complete: false };
    let outcome = estimated(arguments, recipe, &steps, &rates, of)?;
    Ok(outcome.to_json(board.name, arguments, recipe))
}

/// The estimate for one GPU, which is all that there is without it.
fn estimated_on_gpu(arguments: &Arguments, recipe: &Recipe, gpu: &Gpu) -> Result<Value> {
    let steps = Steps::new(arguments, recipe, 1)?;
    let of = |batch: usize| Ok(estimate_gpu(&steps.training(batch)?, gpu));
    let rates = Estimated { devices: 1, memory: gpu.memory, slower: 1.0, complete: true };
    let outcome = estimated(arguments, recipe, &steps, &rates, of)?;
    let evaluation = estimate_gpu(&steps.evaluation(outcome.batch)?, gpu).bytes;
    Ok(Outcome { evaluation: Some(evaluation), ..outcome }.to_json(gpu.name, arguments, recipe))
}

/// What an estimate is made for.
struct Estimated {
    devices: usize,
    /// Bytes of every device.
    memory: u64,
    /// How much longer a step takes than its estimate.
    slower: f64,
    /// Nothing will be compiled.
    complete: bool,
}

/// The estimate of the batch that is wanted, and the largest that fits.
fn estimated(
    arguments: &Arguments,
    recipe: &Recipe,
    steps: &Steps,
    on: &Estimated,
    of: impl Fn(usize) -> Result<Estimate>,
) -> Result<Outcome> {
    let Estimated { devices, memory, slower, complete } = *on;
    let most = steps.images.count.next_multiple_of(devices);
    let first_batch = asked(arguments, recipe)?.unwrap_or(8 * devices).next_multiple_of(devices);
    let first = of(first_batch)?;
    // Memory is a straight line over the batch only where activations decide: small batches of large networks have their peak
    // in the update, so the line is tried out where it meets the limit.
    let second_batch = 2 * first_batch;
    let size = |bytes: u64| Size { bytes: Some(bytes), fits: bytes <= memory };
    let measured = vec![(first_batch, size(first.bytes)), (second_batch, size(of(second_batch)?.bytes))];
    let mut search = Search { step: devices, most, limit: memory, fixed: 0, tries: 5, measured };
    while let Some(batch) = search.next().filter(|batch| *batch > 0) {
        search.measured.push((batch, size(of(batch)?.bytes)));
    }
    let largest = search.largest().min(most) / devices * devices;
    let batch = asked(arguments, recipe)?.unwrap_or(largest.max(devices));
    let chosen = if batch.next_multiple_of(devices) == first_batch { first } else { of(batch)? };
    let cost = Cost {
        flops: chosen.flops * devices as f64,
        bytes: Some(chosen.traffic * devices as f64),
        seconds: Some(chosen.seconds),
        compile_time: Duration::ZERO,
        from_cache: false,
    };
    Ok(Outcome {
        batch,
        fits: chosen.bytes <= memory,
        memory: Some(chosen.bytes),
        limit: memory,
        largest,
        cost: Some(cost),
        step: Some(chosen.seconds * slower),
        evaluation: None,
        images: steps.images.clone(),
        saved: None,
        estimate: true,
        complete,
    })
}
