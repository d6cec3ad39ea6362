//! What one board would do.

use super::search::{Size, largest};
use super::{Arguments, task};
use crate::recipes::Recipe;
use crate::{device, train};
use anyhow::{Context, Result, bail};
use octant_pjrt::boards::Board;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Plugin, Topology, backend};
use octant_runtime::{Backend, CompileOptions, Cost, MemoryPlan, Mesh, Program, RuntimeError};
use octant_train::Task;
use octant_train::step::{self, StepPlan};
use serde_json::{Value, json};

/// How much longer steps take than compilers think.
pub(super) const OPTIMISM: f64 = 1.4;

/// Who compiles, and for what.
enum Target {
    Board {
        topology: Topology,
        board: Board,
    },
    /// The GPU of this machine: XLA chooses kernels by measuring them, so it cannot plan for one elsewhere.
    Here(Box<dyn Backend>),
}

/// A program that was compiled.
struct Compiled {
    memory: MemoryPlan,
    cost: Cost,
    executable: Option<Vec<u8>>,
}

/// What became of one batch size.
enum Attempt {
    Fits(Compiled),
    TooLarge { needed: Option<u64> },
}

impl Attempt {
    fn size(&self) -> Size {
        match self {
            Attempt::Fits(compiled) => Size { bytes: Some(compiled.memory.peak()), fits: true },
            Attempt::TooLarge { needed } => Size { bytes: *needed, fits: false },
        }
    }
}

/// What one board would do with a recipe.
pub(super) struct Verdict {
    target: String,
    outcome: Result<Outcome>,
}

struct Outcome {
    batch: usize,
    fits: bool,
    memory: Option<u64>,
    limit: u64,
    largest: usize,
    cost: Option<Cost>,
    step: Option<f64>,
    evaluation: Option<u64>,
}

pub(super) fn verdict(arguments: &Arguments, recipe: &Recipe, name: &str) -> Verdict {
    Verdict { target: name.to_string(), outcome: outcome(arguments, recipe, name) }
}

fn outcome(arguments: &Arguments, recipe: &Recipe, name: &str) -> Result<Outcome> {
    let target = Target::named(name)?;
    let (devices, limit) = (target.devices(), target.limit()?);
    let task = task(arguments, recipe)?;
    let attempt = |batch: usize| target.attempt(&training(arguments, &*task, batch, devices)?, limit);
    let asked = asked(arguments, recipe, devices)?;
    let first_batch = asked.unwrap_or(8 * devices);
    let first = attempt(first_batch)?;
    let most = arguments.pictures.next_multiple_of(devices);
    let fixed = state_bytes(&training(arguments, &*task, first_batch, devices)?);
    let search = |batch: usize| Ok(attempt(batch)?.size());
    let tries = if arguments.quick { 0 } else { 3 };
    let largest = largest((first_batch, first.size()), devices, most, limit, fixed, tries, search)?;
    let (batch, chosen) = match asked {
        Some(batch) => (batch, first),
        None if largest == first_batch || largest == 0 => (first_batch, first),
        None => (largest, attempt(largest)?),
    };
    let evaluation = target.attempt(&evaluation(arguments, &*task, batch, devices)?, limit)?.size().bytes;
    let size = chosen.size();
    let compiled = match chosen {
        Attempt::Fits(compiled) => Some(compiled),
        Attempt::TooLarge { .. } => None,
    };
    if let Some(executable) = compiled.as_ref().and_then(|compiled| compiled.executable.as_ref()) {
        save(arguments, recipe, name, executable)?;
    }
    let cost = compiled.map(|compiled| compiled.cost);
    let step = cost.and_then(|cost| target.step_seconds(&cost));
    Ok(Outcome { batch, fits: size.fits, memory: size.bytes, limit, largest, cost, step, evaluation })
}

impl Target {
    fn named(name: &str) -> Result<Target> {
        if matches!(name, "cuda" | "gpu") {
            let backend = device::open("cuda", None)
                .context("XLA chooses a GPU's kernels by measuring them, so this target needs one in this machine")?;
            return Ok(Target::Here(backend));
        }
        let board = Board::named(name)?;
        let found = discover::plugin(&[PluginKind::Tpu])
            .context("plans need the TPU's compiler; `octant plugin install tpu` fetches it")?;
        let topology = Topology::for_board(&Plugin::load(&found.path)?, &board)?;
        Ok(Target::Board { topology, board })
    }

    fn devices(&self) -> usize {
        match self {
            Target::Board { board, .. } => board.devices,
            Target::Here(_) => 1,
        }
    }

    fn limit(&self) -> Result<u64> {
        match self {
            Target::Board { topology, board } => Ok(topology.memory_limit()?.unwrap_or(board.memory)),
            Target::Here(backend) => {
                let limit = backend.memory()?.first().and_then(|memory| memory.limit);
                limit.context("the device does not say how much memory it has")
            }
        }
    }

    fn attempt(&self, program: &Program, limit: u64) -> Result<Attempt> {
        let compiled = match self {
            Target::Board { topology, .. } => backend::plan(topology, program).map(|planned| {
                let executable = planned.executable.serialize().ok();
                Compiled { memory: planned.memory, cost: planned.cost, executable }
            }),
            Target::Here(backend) => {
                let compiled = backend.compile(program, &CompileOptions::default());
                compiled.map(|it| Compiled { memory: it.memory(), cost: it.cost(), executable: None })
            }
        };
        match compiled {
            Ok(compiled) if compiled.memory.peak() <= limit => Ok(Attempt::Fits(compiled)),
            Ok(compiled) => Ok(Attempt::TooLarge { needed: Some(compiled.memory.peak()) }),
            Err(RuntimeError::OutOfMemory { asked, .. }) => Ok(Attempt::TooLarge { needed: asked }),
            Err(error) => Err(error.into()),
        }
    }

    /// The compiler's estimate where it has one, otherwise what arithmetic and memory allow at best; both are optimistic.
    fn step_seconds(&self, cost: &Cost) -> Option<f64> {
        let Target::Board { board, .. } = self else { return cost.seconds };
        let devices = board.devices as f64;
        let bound = (cost.flops / devices / board.flops).max(cost.bytes.unwrap_or(0.0) / devices / board.bandwidth);
        Some(cost.seconds.unwrap_or(bound) * OPTIMISM)
    }
}

/// The batch size that is wanted; none for the largest that fits.
fn asked(arguments: &Arguments, recipe: &Recipe, devices: usize) -> Result<Option<usize>> {
    let batch: usize = match arguments.batch_size.as_deref() {
        None => return Ok(Some(recipe.batch_size.next_multiple_of(devices))),
        Some("auto") => return Ok(None),
        Some(text) => text
            .parse()
            .ok()
            .filter(|&batch| batch > 0)
            .with_context(|| format!("--batch-size {text} is neither a number nor auto"))?,
    };
    if !batch.is_multiple_of(devices) {
        let next = batch.next_multiple_of(devices);
        bail!("a batch of {batch} does not fall into {devices} equal parts; take {next}");
    }
    Ok(Some(batch))
}

fn step_plan<'a>(
    arguments: &Arguments,
    task: &'a dyn Task,
    batch: usize,
    devices: usize,
) -> Result<StepPlan<'a, 'static>> {
    let precision = train::precision(&arguments.precision)?;
    Ok(StepPlan { precision, mesh: Mesh::new(devices), batch_groups: devices, ..StepPlan::new(task, batch) })
}

fn training(arguments: &Arguments, task: &dyn Task, batch: usize, devices: usize) -> Result<Program> {
    Ok(step::training(&step_plan(arguments, task, batch, devices)?)?.program)
}

fn evaluation(arguments: &Arguments, task: &dyn Task, batch: usize, devices: usize) -> Result<Program> {
    Ok(step::evaluation(&step_plan(arguments, task, batch, devices)?)?.program)
}

/// What a step needs whatever the batch: everything that it updates in place.
fn state_bytes(program: &Program) -> u64 {
    let shapes = program.graph.input_shapes();
    program.donated.iter().map(|(input, _)| shapes[*input].bytes() as u64).sum()
}

fn save(arguments: &Arguments, recipe: &Recipe, board: &str, executable: &[u8]) -> Result<()> {
    let Some(folder) = &arguments.save else { return Ok(()) };
    let path = folder.join(format!("{}-{board}.executable", recipe.name));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::write(&path, executable).with_context(|| format!("cannot write {}", path.display()))
}

impl Verdict {
    /// The row of a target that could not be planned.
    pub(super) fn failed(target: &str, error: String) -> Value {
        json!({
            "target": target, "fits": false, "hbm_bytes_per_core": null, "hbm_limit_bytes": null, "largest_batch": null,
            "step_seconds_estimate": null, "compile_seconds": null, "error": error,
        })
    }

    pub(super) fn to_json(&self, arguments: &Arguments, recipe: &Recipe) -> Value {
        let outcome = match &self.outcome {
            Ok(outcome) => outcome,
            Err(error) => return Verdict::failed(&self.target, format!("{error:#}")),
        };
        let epoch = outcome.step.map(|step| step * arguments.pictures.div_ceil(outcome.batch) as f64);
        let epochs: u64 = recipe.phases.iter().map(|phase| phase.epochs).sum();
        let all = epoch.map(|epoch| epoch * epochs as f64);
        let price = all.zip(arguments.price).map(|(seconds, price)| seconds / 3600.0 * price);
        json!({
            "target": self.target, "fits": outcome.fits, "batch_size": outcome.batch,
            "hbm_bytes_per_core": outcome.memory, "hbm_limit_bytes": outcome.limit, "largest_batch": outcome.largest,
            "evaluation_hbm_bytes_per_core": outcome.evaluation,
            "step_seconds_estimate": outcome.step, "epoch_seconds_estimate": epoch, "recipe_seconds_estimate": all,
            "price_estimate": price, "flops_per_step": outcome.cost.map(|cost| cost.flops),
            "bytes_per_step": outcome.cost.and_then(|cost| cost.bytes),
            "compile_seconds": outcome.cost.map(|cost| cost.compile_time.as_secs_f64()), "error": null,
        })
    }
}
