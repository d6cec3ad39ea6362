//! What one board would do.

use super::Arguments;
use super::epoch::EpochImages;
use super::machine::price_of;
use super::steps::{Steps, keep_programs, train_command};
use super::turns::{Answer, Turns};
use crate::device;
use anyhow::{Context, Result};
use octant_pjrt::backend::Planned;
use octant_pjrt::boards::Board;
use octant_pjrt::cache::Key;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Plugin, Topology, backend};
use octant_recipe::Recipe;
use octant_run::search::{Search, Size};
use octant_runtime::{Backend, CompileOptions, Cost, MemoryPlan, Program, RuntimeError};
use serde_json::{Value, json};
use std::sync::Arc;

/// How much longer steps take than compilers think.
pub(super) const OPTIMISM: f64 = 1.4;

/// Who compiles, and for what.
enum Target {
    Board {
        topology: Topology,
        board: Board,
        /// Compiles what nobody will run.
        quickly: bool,
    },
    /// The GPU of this machine: XLA chooses kernels by measuring them, so it cannot plan for one elsewhere.
    Here(Arc<dyn Backend>),
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
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub batch: usize,
    pub fits: bool,
    pub memory: Option<u64>,
    pub limit: u64,
    pub largest: usize,
    pub cost: Option<Cost>,
    pub step: Option<f64>,
    pub evaluation: Option<u64>,
    pub images: EpochImages,
    /// How many programs were kept, where that was asked for.
    pub saved: Option<usize>,
    /// No compiler was asked.
    pub estimate: bool,
    /// Nothing is left to compile.
    pub complete: bool,
}

/// Plans for one board in this process, one compilation per turn.
pub(super) fn plan_in_turns(arguments: &Arguments, recipe: &Recipe, name: &str) {
    let mut turns = Turns::new();
    let row = match outcome(arguments, recipe, name, &mut turns) {
        Ok(outcome) => outcome.to_json(name, arguments, recipe),
        Err(error) => failed_row(name, &format!("{error:#}")),
    };
    Turns::answer(&Answer { row, next: None, left: 0 });
}

/// Batches that are measured at most to find the largest.
const TRIES: usize = 2;

fn outcome(arguments: &Arguments, recipe: &Recipe, name: &str, turns: &mut Turns) -> Result<Outcome> {
    turns.wait(Answer { row: Value::Null, next: None, left: 0 });
    let target = Target::named(name, arguments.only_estimates())?;
    let (devices, limit) = (target.devices(), target.limit()?);
    let steps = Steps::new(arguments, recipe, devices)?;
    let asked = asked(arguments, recipe)?;
    let first_batch = asked.unwrap_or(8 * devices);
    let program = steps.training(first_batch)?;
    let (fixed, tries) = (state_bytes(&program), if arguments.quick { 0 } else { TRIES });
    let most = steps.images.count.next_multiple_of(devices);
    let mut attempts = vec![(first_batch, target.attempt(&program, limit)?)];
    let measured = vec![(first_batch, attempts[0].1.size())];
    let mut search = Search { step: devices, most, limit, fixed, tries, measured };
    let known = |attempts: &[(usize, Attempt)], search: &Search| {
        let largest = search.largest();
        // The batch that was asked for, or the largest that was seen to fit.
        let measured = |batch: usize| attempts.iter().find(|(of, _)| *of == batch);
        let chosen = asked.and_then(measured).or_else(|| measured(largest)).unwrap_or(&attempts[0]);
        target.outcome(chosen, limit, largest, steps.images.clone())
    };
    while let Some(batch) = search.next() {
        let row = known(&attempts, &search).to_json(name, arguments, recipe);
        turns.wait(Answer { row, next: Some(format!("largest batch, {batch}?")), left: search.tries_left() + 1 });
        let attempt = target.attempt(&steps.training(batch)?, limit)?;
        search.measured.push((batch, attempt.size()));
        attempts.push((batch, attempt));
    }
    let largest = search.largest();
    if asked.is_none() && largest > 0 && attempts.iter().all(|(batch, _)| *batch != largest) {
        let row = known(&attempts, &search).to_json(name, arguments, recipe);
        turns.wait(Answer { row, next: Some(format!("training step, batch {largest}")), left: 2 });
        attempts.push((largest, target.attempt(&steps.training(largest)?, limit)?));
    }
    let mut outcome = known(&attempts, &search);
    let row = outcome.to_json(name, arguments, recipe);
    turns.wait(Answer { row, next: Some("evaluation".into()), left: 1 });
    let evaluation = target.attempt(&steps.evaluation(outcome.batch)?, limit)?;
    outcome.evaluation = evaluation.size().bytes;
    outcome.complete = true;
    if let (Some(folder), Target::Board { topology, .. }, true) = (&arguments.save, &target, outcome.fits) {
        // The backend of a device that is here keeps its programs by itself.
        let position =
            attempts.iter().position(|(batch, _)| *batch == outcome.batch).context("a batch that was not tried")?;
        let chosen = attempts.swap_remove(position).1;
        let programs = [(steps.training(outcome.batch)?, chosen), (steps.evaluation(outcome.batch)?, evaluation)];
        let made = programs.into_iter().filter_map(|(program, attempt)| attempt.made(topology, &program));
        let made = made.collect::<Result<Vec<_>>>()?;
        outcome.saved = Some(keep_programs(folder.as_deref(), &steps, outcome.batch, topology, &made)?);
    }
    Ok(outcome)
}

/// Whether a target is a device of this machine.
pub(super) fn is_here(name: &str) -> bool {
    matches!(name, "cuda" | "gpu")
}

impl Target {
    fn named(name: &str, quickly: bool) -> Result<Target> {
        if is_here(name) {
            let backend = device::open("cuda", None)
                .context("XLA chooses a GPU's kernels by measuring them, so this target needs one in this machine")?;
            return Ok(Target::Here(backend));
        }
        let board = Board::named(name)?;
        let found = discover::plugin(&[PluginKind::Tpu])
            .context("plans need the TPU's compiler; `octant plugin install tpu` fetches it")?;
        let topology = Topology::for_board(&Plugin::load(&found.path)?, &board)?;
        Ok(Target::Board { topology, board, quickly })
    }

    fn devices(&self) -> usize {
        match self {
            Target::Board { board, .. } => board.devices,
            Target::Here(_) => 1,
        }
    }

    fn limit(&self) -> Result<u64> {
        match self {
            Target::Board { topology, board, .. } => Ok(topology.memory_limit()?.unwrap_or(board.memory)),
            Target::Here(backend) => {
                let limit = backend.memory()?.first().and_then(|memory| memory.limit);
                limit.context("the device does not say how much memory it has")
            }
        }
    }

    fn attempt(&self, program: &Program, limit: u64) -> Result<Attempt> {
        let compiled = match self {
            Target::Board { topology, quickly, .. } => {
                let plan = if *quickly { backend::plan_quickly } else { backend::plan };
                plan(topology, program).map(|planned| Compiled {
                    memory: planned.memory,
                    cost: planned.cost,
                    planned: Some(planned),
                })
            }
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

    fn outcome(&self, (batch, attempt): &(usize, Attempt), limit: u64, largest: usize, images: EpochImages) -> Outcome {
        let size = attempt.size();
        let cost = match attempt {
            Attempt::Fits(compiled) => Some(compiled.cost),
            Attempt::TooLarge { .. } => None,
        };
        let step = cost.and_then(|cost| self.step_seconds(&cost));
        let (memory, evaluation, saved) = (size.bytes, None, None);
        let (batch, fits, estimate, complete) = (*batch, size.fits, false, false);
        Outcome { batch, fits, memory, limit, largest, cost, step, evaluation, images, saved, estimate, complete }
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
pub(super) fn asked(arguments: &Arguments, recipe: &Recipe) -> Result<Option<usize>> {
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

/// The row of a target that could not be planned.
pub(super) fn failed_row(target: &str, error: &str) -> Value {
    json!({
        "target": target, "estimate": false, "complete": true, "fits": false, "hbm_bytes_per_core": null,
        "hbm_limit_bytes": null, "largest_batch": null, "step_seconds_estimate": null, "compile_seconds": null,
        "error": error,
    })
}

impl Outcome {
    pub fn to_json(&self, target: &str, arguments: &Arguments, recipe: &Recipe) -> Value {
        let epoch = self.step.map(|step| step * self.images.count.div_ceil(self.batch) as f64);
        let epochs: u64 = recipe.phases.iter().map(|phase| phase.epochs).sum();
        let all = epoch.map(|epoch| epoch * epochs as f64);
        let price = price_of(&arguments.price, target);
        let price = all.zip(price).map(|(seconds, price)| seconds / 3600.0 * price);
        let compiled = self.cost.filter(|_| !self.estimate);
        json!({
            "target": target, "estimate": self.estimate, "complete": self.complete, "fits": self.fits,
            "images_per_epoch": self.images.count, "images_from": self.images.to_string(),
            "batch_size": self.batch, "hbm_bytes_per_core": self.memory, "hbm_limit_bytes": self.limit,
            "largest_batch": self.largest, "evaluation_hbm_bytes_per_core": self.evaluation,
            "step_seconds_estimate": self.step, "epoch_seconds_estimate": epoch, "recipe_seconds_estimate": all,
            "price_estimate": price, "flops_per_step": self.cost.map(|cost| cost.flops),
            "bytes_per_step": self.cost.and_then(|cost| cost.bytes),
            "compile_seconds": compiled.map(|cost| cost.compile_time.as_secs_f64()),
            "compiled_quickly": compiled.map(|_| arguments.only_estimates()), "error": null,
            "saved": self.saved, "train": self.saved.map(|_| train_command(arguments, recipe, self.batch)),
        })
    }
}
