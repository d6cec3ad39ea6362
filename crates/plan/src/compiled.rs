//! What the compiler of one machine reports, one compilation per turn.

use crate::communication::{self, Exchanged, Network};
use crate::epoch::EpochImages;
use crate::machine::is_here;
use crate::row::{Outcome, row_of};
use crate::steps::{Steps, keep_programs};
use crate::turns::{Turn, Turns};
use crate::{BOARD_FACTOR, PlanError, PlanRequest, Result};
use octant_device::Options;
use octant_pjrt::backend::Planned;
use octant_pjrt::boards::Board;
use octant_pjrt::cache::Key;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Plugin, Topology, backend};
use octant_recipe::Surroundings;
use octant_run::search::{Search, Size};
use octant_runtime::{Backend, CompileOptions, Cost, MemoryPlan, Program, RuntimeError};
use std::sync::Arc;

/// Who compiles, and for what.
enum Target {
    Board {
        topology: Topology,
        board: Board,
        /// Compiles a program that is never run.
        quickly: bool,
    },
    /// The GPU of this machine: XLA chooses kernels by measuring them, so it cannot plan for one elsewhere.
    Here(Arc<dyn Backend>),
}

/// A program that was compiled.
struct Compiled {
    memory: MemoryPlan,
    cost: Cost,
    /// The program itself, compiled ahead of time.
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

/// Plans for one machine in this process, which [`plan`](crate::plan) started: turns come by standard input, rows are written to
/// standard output.
pub fn plan_here(request: &PlanRequest, name: &str, surroundings: &dyn Surroundings, options: &Options) {
    let outcome = outcome(request, name, surroundings, options, &Turns);
    Turns::write(&Turn { row: row_of(name, request, outcome), next: None, left: 0 });
}

/// Batches that are measured at most to find the largest.
const TRIES: usize = 2;

fn outcome(
    request: &PlanRequest,
    name: &str,
    surroundings: &dyn Surroundings,
    options: &Options,
    turns: &Turns,
) -> Result<Outcome> {
    turns.first();
    let target = Target::named(name, request.compiles_quickly(), options)?;
    let (devices, limit) = (target.devices(), target.limit()?);
    let steps = Steps::new(request, devices, surroundings)?;
    let first_batch = request.batch.unwrap_or(8 * devices);
    let program = steps.training(first_batch)?;
    let (fixed, tries) = (state_bytes(&program), if request.quick { 0 } else { TRIES });
    let most = steps.images.count.next_multiple_of(devices);
    let mut attempts = vec![(first_batch, target.attempt(&program, limit)?)];
    let measured = vec![(first_batch, attempts[0].1.size())];
    let mut search = Search { step: devices, most, limit, fixed, tries, measured };
    let known = |attempts: &[(usize, Attempt)], search: &Search| {
        let largest = search.largest();
        // The batch that was requested, or the largest that was seen to fit.
        let measured = |batch: usize| attempts.iter().find(|(of, _)| *of == batch);
        let chosen = request.batch.and_then(measured).or_else(|| measured(largest)).unwrap_or(&attempts[0]);
        target.outcome(chosen, limit, largest, steps.images.clone())
    };
    while let Some(batch) = search.next() {
        let row = known(&attempts, &search).to_row(name, request);
        turns.wait(Turn { row, next: Some(format!("largest batch, {batch}?")), left: search.tries_left() + 1 });
        let attempt = target.attempt(&steps.training(batch)?, limit)?;
        search.measured.push((batch, attempt.size()));
        attempts.push((batch, attempt));
    }
    let largest = search.largest();
    if request.batch.is_none() && largest > 0 && attempts.iter().all(|(batch, _)| *batch != largest) {
        let row = known(&attempts, &search).to_row(name, request);
        turns.wait(Turn { row, next: Some(format!("training step, batch {largest}")), left: 2 });
        attempts.push((largest, target.attempt(&steps.training(largest)?, limit)?));
    }
    let mut outcome = known(&attempts, &search);
    turns.wait(Turn { row: outcome.to_row(name, request), next: Some("evaluation".into()), left: 1 });
    let evaluation = target.attempt(&steps.evaluation(outcome.batch)?, limit)?;
    outcome.evaluation = evaluation.size().bytes;
    outcome.complete = true;
    // The backend of a device that is here stores its programs by itself.
    if let (Some(folder), Target::Board { topology, .. }, true) = (&request.store, &target, outcome.fits) {
        let training = steps.training(outcome.batch)?;
        let chosen =
            attempts.into_iter().find(|(batch, _)| *batch == outcome.batch).map(|(_, attempt)| (training, attempt));
        let programs = chosen.into_iter().chain([(steps.evaluation(outcome.batch)?, evaluation)]);
        let made = programs.filter_map(|(program, attempt)| attempt.made(topology, &program));
        let made = made.collect::<Result<Vec<_>>>()?;
        outcome.saved = Some(keep_programs(folder, &steps, outcome.batch, topology, &made)?);
    }
    Ok(outcome)
}

impl Target {
    fn named(name: &str, quickly: bool, options: &Options) -> Result<Target> {
        if is_here(name) {
            return octant_device::open("cuda", options).map(Target::Here).map_err(PlanError::NoGpu);
        }
        let board = Board::named(name)?;
        let found = discover::plugin(&[PluginKind::Tpu]).map_err(PlanError::NoCompiler)?;
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
                limit.ok_or_else(|| PlanError::Refused("the device does not report how much memory it has".into()))
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
            Err(RuntimeError::OutOfMemory { requested, .. }) => Ok(Attempt::TooLarge { needed: requested }),
            Err(error) => Err(error.into()),
        }
    }

    fn outcome(&self, (batch, attempt): &(usize, Attempt), limit: u64, largest: usize, images: EpochImages) -> Outcome {
        let size = attempt.size();
        let (cost, inputs) = match attempt {
            Attempt::Fits(compiled) => (Some(compiled.cost), Some(compiled.memory.inputs)),
            Attempt::TooLarge { .. } => (None, None),
        };
        let exchanged = match attempt {
            Attempt::Fits(Compiled { planned: Some(planned), .. }) => exchanged(planned),
            _ => Exchanged::new(),
        };
        let exchange = match self {
            Target::Board { board, .. } if board.devices > 1 => Some(Network::of_board(board).seconds(&exchanged)),
            _ => None,
        };
        let step = cost.and_then(|cost| self.step_seconds(&cost));
        let step = step.map(|step| step + communication::added(step, exchange.unwrap_or(0.0)));
        let (memory, evaluation, saved) = (size.bytes, None, None);
        let (batch, fits, estimate, complete) = (*batch, size.fits, false, false);
        Outcome {
            batch,
            fits,
            memory,
            inputs,
            limit,
            largest,
            cost,
            step,
            evaluation,
            exchanged,
            exchange,
            shardings: Vec::new(),
            images,
            saved,
            estimate,
            complete,
        }
    }

    /// The compiler's estimate where it has one, otherwise what arithmetic and memory allow at best; both are optimistic.
    fn step_seconds(&self, cost: &Cost) -> Option<f64> {
        let Target::Board { board, .. } = self else { return cost.seconds };
        let devices = board.devices as f64;
        let bound = (cost.flops / devices / board.flops).max(cost.bytes.unwrap_or(0.0) / devices / board.bandwidth);
        Some(cost.seconds.unwrap_or(bound) * BOARD_FACTOR)
    }
}

/// What the compiler's program exchanges.
fn exchanged(planned: &Planned) -> Exchanged {
    let found = planned.executable.collectives().unwrap_or_default();
    found.into_iter().map(|(kind, bytes)| (kind.to_string(), bytes)).collect()
}

/// What a step needs whatever the batch: everything that it updates in place.
fn state_bytes(program: &Program) -> u64 {
    let shapes = program.graph.input_shapes();
    program.donated.iter().map(|(input, _)| shapes[*input].bytes() as u64).sum()
}
