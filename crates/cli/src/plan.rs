//! The `plan` command: a recipe compiled ahead of time for machines that are not attached, and estimated for GPUs.

mod table;

use crate::flags::{Programs, RecipeFlags};
use crate::{Ending, device, launch, prepare};
use anyhow::{Context, Result, bail};
use octant_cluster::signals;
use octant_device::cache_folder;
use octant_plan::{PlanRequest, Price};
use octant_recipe::Recipe;
use octant_recipe::flags::{PhaseLengths, apply_lengths};
use std::path::PathBuf;
use std::process::Command;
use table::PlanTable;

/// Compile a recipe for machines that are not attached, or estimate it for GPUs: memory, speed and cost
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A recipe, or a model of the zoo
    name: String,
    /// Machines, separated by commas: TPU boards (v2-8, v3-8, v4-8, v5e-8, v6e-8 and others) and pod slices (v4-32, v5e-64,
    /// v5p-128, v6e-256 and others), GPUs (t4, v100, l4, a100, a100-80, h100, h200) and several of them (8xh100, 4x8xh100), all
    /// boards or kinds of GPUs (tpus, gpus), or cuda for the GPU of this machine
    #[arg(long, value_delimiter = ',', default_value = "v3-8,v5e-8,v6e-8")]
    on: Vec<String>,
    /// TPU slices that work together over the data center's network
    #[arg(long, value_name = "N")]
    slices: Option<usize>,
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
    /// Epochs of all phases but the burn-in, for the time and cost of a run; the recipe's if not given
    #[arg(long)]
    epochs: Option<u64>,
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
    /// Print JSON: an object per machine with `"estimate": true` at once, then one with what its compiler reports
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: RecipeFlags<Programs>,
    /// Plan for this one board in this process: what the command starts for every board
    #[arg(long, hide = true)]
    here: Option<String>,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let recipe = resolved(&arguments)?;
    let request = PlanRequest {
        batch: (arguments.batch_size.as_deref() != Some("auto")).then_some(recipe.step.batch_size),
        images: arguments.images,
        prices: arguments.price.clone(),
        quick: arguments.quick,
        store: arguments.save.clone().map(|folder| folder.unwrap_or_else(cache_folder)),
        recipe,
    };
    if let Some(machine) = &arguments.here {
        octant_plan::plan_here(&request, machine, &prepare::Terminal, &device::options(None)?);
        return Ok(Ending::Done);
    }
    // Unknown names are refused before anything is compiled.
    let mut machines = octant_plan::machines(&arguments.on).context("--on")?;
    if let Some(slices) = arguments.slices {
        machines = octant_plan::machines(&octant_plan::in_slices(machines, slices)?).context("--on")?;
    }
    let stop = signals::stop_flag();
    signals::stop_at().context("cannot watch for signals")?;
    let names: Vec<String> = machines.iter().map(|(name, _)| name.clone()).collect();
    let train = |batch: usize| train_command(&arguments, &request.recipe, batch);
    let mut table = PlanTable::new(&request, arguments.json, &names, &train);
    let finished = octant_plan::plan(&request, &machines, &prepare::Terminal, &this_command, &stop, &mut table)?;
    table.close(finished);
    let failed = table.failed();
    match (finished, failed.is_empty()) {
        (false, _) => Ok(Ending::Interrupted(signals::last())),
        (true, true) => Ok(Ending::Done),
        (true, false) => bail!("there is no plan for {}; the rows above name the reason", failed.join(", ")),
    }
}

/// This command again, for one machine.
fn this_command(machine: &str) -> std::io::Result<Command> {
    let mut command = launch::command();
    command.args(launch::words().skip(1)).args(["--here", machine]);
    Ok(command)
}

/// The recipe with the flags of the command line. Boards compute in bf16 by default.
fn resolved(arguments: &Arguments) -> Result<Recipe> {
    let mut table = octant_recipe::table_or_model(&arguments.name)?;
    octant_recipe::set(&mut table, "precision", "bf16".into())?;
    arguments.flags.apply(&mut table)?;
    // Accumulated batches, rates and schedules follow from it.
    if let Some(batch) = fixed_batch(arguments)? {
        octant_recipe::set(&mut table, "batch_size", i64::try_from(batch)?.into())?;
    }
    apply_lengths(&mut table, &PhaseLengths { epochs: arguments.epochs, ..PhaseLengths::default() })?;
    let mut recipe = octant_recipe::check(table)?;
    if arguments.size.is_some() {
        recipe.image_size = arguments.size;
        // Where images are scaled and cropped, one size stands for both.
        recipe.base_size = recipe.base_size.and(arguments.size);
        recipe.crop_size = recipe.crop_size.and(arguments.size);
    }
    Ok(recipe)
}

/// The batch size that was given, where it is a number.
fn fixed_batch(arguments: &Arguments) -> Result<Option<usize>> {
    let Some(text) = arguments.batch_size.as_deref().filter(|text| *text != "auto") else { return Ok(None) };
    let batch = text.parse().ok().filter(|&batch: &usize| batch > 0);
    batch.map(Some).with_context(|| format!("--batch-size {text} is neither a number nor auto"))
}

/// The command that finds stored programs.
fn train_command(arguments: &Arguments, recipe: &Recipe, batch: usize) -> String {
    let folder = arguments.save.as_ref().and_then(|folder| folder.as_deref());
    let mut command = folder.map(|folder| format!("OCTANT_CACHE={} ", folder.display())).unwrap_or_default();
    command += &format!("octant train {} --device tpu --cores all", recipe.name);
    command += &format!(" --batch-size {batch} --precision {}", recipe.step.precision.dtype());
    if let Some(size) = arguments.size {
        command += &format!(" --image-size {size}");
    }
    if let Some(epochs) = arguments.epochs {
        command += &format!(" --epochs {epochs}");
    }
    if let Some(data) = &recipe.data.dir {
        command += &format!(" --data {}", data.display());
    }
    command
}
