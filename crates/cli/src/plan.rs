//! The `plan` command: a recipe compiled for boards that are not attached.
//!
//! An estimate of our own is printed for every board at once. Compilers then refine it: every board is planned by a process
//! of its own, so that a compiler that aborts costs one row of the table and says why, instead of ending the command. The
//! processes compile in turns (`turns`), so that every board has its first compiled row before any searches for the
//! largest batch. One thread prints (`table`).

mod board;
mod processes;
pub(crate) mod steps;
mod table;
mod turns;

use crate::flags::{Programs, RecipeFlags};
use crate::{Ending, compiling};
use anyhow::{Context, Result, bail};
use board::{OPTIMISM, Outcome, asked};
use octant_pjrt::boards::Board;
use octant_pjrt::estimate::estimate;
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

/// Compile a recipe for boards that are not attached: memory, speed and cost
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
    /// Take the largest batch from a straight line through one compilation instead of searching for it, and compile code
    /// that is quick to make instead of quick to run, unless it is kept
    #[arg(long)]
    quick: bool,
    /// Keep the compiled programs where `octant train` on such a board looks for them: in this cache folder, or in that of
    /// this machine
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    save: Option<Option<PathBuf>>,
    /// Print JSON: an object per board with `"estimate": true` at once, then one with what its compiler says
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
    for target in arguments.on.iter().filter(|target| !board::is_here(target)) {
        Board::named(target)?;
    }
    let stop = compiling::stop_flag();
    compiling::stop_at(&[libc::SIGINT, libc::SIGTERM]).context("cannot watch for signals")?;
    let mut table = PlanTable::new(&arguments, &recipe);
    for target in arguments.on.iter().filter(|target| !board::is_here(target)) {
        table.estimated(target, estimated_row(&arguments, &recipe, target)?);
    }
    let finished = processes::plan(&arguments.on, &stop, &mut table);
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
fn estimated_row(arguments: &Arguments, recipe: &Recipe, target: &str) -> Result<Value> {
    let board = Board::named(target)?;
    let devices = board.devices;
    // Devices do the same work on their shares of the batch.
    let steps = Steps::new(arguments, recipe, devices)?.of_one_device(devices);
    let most = steps.images.next_multiple_of(devices);
    let of = |batch: usize| Ok::<_, anyhow::Error>(estimate(&steps.training(batch.div_ceil(devices))?, &board));
    let first_batch = asked(arguments, recipe)?.unwrap_or(8 * devices).next_multiple_of(devices);
    let first = of(first_batch)?;
    // Memory is a straight line over the batch only where activations decide: small batches of large networks have their peak
    // in the update, so the line is tried out where it meets the limit.
    let second_batch = 2 * first_batch;
    let size = |bytes: u64| Size { bytes: Some(bytes), fits: bytes <= board.memory };
    let measured = vec![(first_batch, size(first.bytes)), (second_batch, size(of(second_batch)?.bytes))];
    let mut search = Search { step: devices, most, limit: board.memory, fixed: 0, tries: 5, measured };
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
    let outcome = Outcome {
        batch,
        fits: chosen.bytes <= board.memory,
        memory: Some(chosen.bytes),
        limit: board.memory,
        largest,
        cost: Some(cost),
        step: Some(chosen.seconds * OPTIMISM),
        evaluation: None,
        images: steps.images,
        saved: None,
        estimate: true,
        complete: false,
    };
    Ok(outcome.to_json(target, arguments, recipe))
}
