//! What one board would do.

use super::Arguments;
use super::kept::{command, keep};
use super::search::{Size, largest};
use super::steps::Steps;
use crate::device;
use crate::recipes::Recipe;
use anyhow::{Context, Result};
use octant_pjrt::backend::Planned;
use octant_pjrt::boards::Board;
use octant_pjrt::cache::Key;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Plugin, Topology, backend};
use octant_runtime::{Backend, CompileOptions, Cost, MemoryPlan, Program, RuntimeError};
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
    /// The program itself, of a board that is not here.
    planned: Option<Planned>,
}

/// What became of one batch size.
enum Attempt {
    Fits(Compiled),
    TooLarge { needed: Option<u64> },
}

impl Attempt {
    /// The program that was made, with its key in the cache of the board.
    fn made(self, topology: &Topology, program: &Program) -> Option<Result<(Key, Planned)>> {
        let Attempt::Fits(Compiled { planned, .. }) = self else { return None };
        let planned = planned?;
        Some(backend::key_of(topology, program).map(|key| (key, planned)).map_err(Into::into))
    }

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
    images: usize,
    /// How many programs were kept, where that was asked for.
    saved: Option<usize>,
}

pub(super) fn verdict(arguments: &Arguments, recipe: &Recipe, name: &str) -> Verdict {
    Verdict { target: name.to_string(), outcome: outcome(arguments, recipe, name) }
}

fn outcome(arguments: &Arguments, recipe: &Recipe, name: &str) -> Result<Outcome> {
    let target = Target::named(name)?;
    let (devices, limit) = (target.devices(), target.limit()?);
    let steps = Steps::new(arguments, recipe, devices)?;
    let attempt = |batch: usize| target.attempt(&steps.training(batch)?, limit);
    let asked = asked(arguments, recipe)?;
    let first_batch = asked.unwrap_or(8 * devices);
    let first = attempt(first_batch)?;
    let most = steps.images.next_multiple_of(devices);
    let fixed = state_bytes(&steps.training(first_batch)?);
    let search = |batch: usize| Ok(attempt(batch)?.size());
    let tries = if arguments.quick { 0 } else { 3 };
    let largest = largest((first_batch, first.size()), devices, most, limit, fixed, tries, search)?;
    let (batch, chosen) = match asked {
        Some(batch) => (batch, first),
        None if largest == first_batch || largest == 0 => (first_batch, first),
        None => (largest, attempt(largest)?),
    };
    let evaluation = target.attempt(&steps.evaluation(batch)?, limit)?;
    let (size, evaluation_bytes) = (chosen.size(), evaluation.size().bytes);
    let cost = match &chosen {
        Attempt::Fits(compiled) => Some(compiled.cost),
        Attempt::TooLarge { .. } => None,
    };
    let saved = match (&arguments.save, &target) {
        (Some(folder), Target::Board { topology, .. }) if size.fits => {
            let programs = [(steps.training(batch)?, chosen), (steps.evaluation(batch)?, evaluation)];
            let made = programs.into_iter().filter_map(|(program, attempt)| attempt.made(topology, &program));
            Some(keep(folder.as_deref(), &steps, batch, topology, &made.collect::<Result<Vec<_>>>()?)?)
        }
        // The backend of a device that is here keeps its programs by itself.
        _ => None,
    };
    let step = cost.and_then(|cost| target.step_seconds(&cost));
    let images = steps.images;
    Ok(Outcome {
        batch,
        fits: size.fits,
        memory: size.bytes,
        limit,
        largest,
        cost,
        step,
        evaluation: evaluation_bytes,
        images,
        saved,
    })
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
            Target::Board { topology, .. } => backend::plan(topology, program).map(|planned| Compiled {
                memory: planned.memory,
                cost: planned.cost,
                planned: Some(planned),
            }),
            Target::Here(backend) => {
                let compiled = backend.compile(program, &CompileOptions::default());
                compiled.map(|it| Compiled { memory: it.memory(), cost: it.cost(), planned: None })
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
fn asked(arguments: &Arguments, recipe: &Recipe) -> Result<Option<usize>> {
    match arguments.batch_size.as_deref() {
        None => Ok(Some(recipe.step.batch_size)),
        Some("auto") => Ok(None),
        Some(text) => {
            let batch = text.parse().ok().filter(|&batch: &usize| batch > 0);
            batch.map(Some).with_context(|| format!("--batch-size {text} is neither a number nor auto"))
        }
    }
}

/// What a step needs whatever the batch: everything that it updates in place.
fn state_bytes(program: &Program) -> u64 {
    let shapes = program.graph.input_shapes();
    program.donated.iter().map(|(input, _)| shapes[*input].bytes() as u64).sum()
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
        let epoch = outcome.step.map(|step| step * outcome.images.div_ceil(outcome.batch) as f64);
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
            "saved": outcome.saved, "train": outcome.saved.map(|_| command(arguments, recipe, outcome.batch)),
        })
    }
}
