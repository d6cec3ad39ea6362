//! What a recipe needs on machines that are not attached: memory, time and cost.
//!
//! [`plan`] estimates every machine at once. Compilers then refine the estimates: each TPU board is planned by a process of its
//! own, so that a compiler that aborts costs one row instead of the whole plan. The processes compile in turns, so that every
//! board has its first compiled row before any searches for its largest batch. What is known is a [`PlanRow`], reported to a
//! [`PlanObserver`], for which [`PlanProgress`] collects them and [`text`] has a table; nothing is printed. The process that compiles for one board calls [`plan_here`].

mod communication;
mod compiled;
mod epoch;
mod error;
mod estimates;
mod machine;
mod processes;
mod progress;
mod row;
mod shardings;
mod steps;
pub mod text;
mod turns;

pub use communication::Exchanged;
pub use compiled::plan_here;
pub use epoch::ImageCount;
pub use error::{PlanError, Result};
pub use machine::{Machine, Price, accelerators, in_slices, machines};
pub use progress::{MachineProgress, PlanProgress};
pub use row::{PlanRow, fastest_and_cheapest};
pub use shardings::PlannedSharding;
pub use turns::Turn;

use octant_recipe::{Recipe, Surroundings};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// How much longer steps take on a board than its compiler estimates: measured with a ResNet-50 on a v2-8.
pub const BOARD_FACTOR: f64 = 1.4;

/// What is planned, for whichever machine.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// The recipe as it would be trained.
    pub recipe: Recipe,
    /// Images per step over all cores; none for the largest batch that fits.
    pub batch: Option<usize>,
    /// Images of an epoch, where neither the data nor the recipe's data set is meant.
    pub images: Option<usize>,
    /// Prices per hour.
    pub prices: Vec<Price>,
    /// The largest batch is read off a straight line through one compilation, which is quick unless it is stored.
    pub quick: bool,
    /// Where compiled programs are stored for training on such a board; nowhere if none.
    pub store: Option<PathBuf>,
}

impl PlanRequest {
    /// The program is compiled but never run, so only its size and its estimates count.
    pub fn compiles_quickly(&self) -> bool {
        self.quick && self.store.is_none()
    }
}

/// What a plan reports while it is made, in the order of events of each machine.
pub trait PlanObserver {
    /// A key of the recipe that changes nothing, before any row.
    fn noted(&mut self, note: String);
    /// Our own estimate, before any compiler.
    fn estimated(&mut self, row: PlanRow);
    /// The compiler for a machine is at work on this.
    fn began(&mut self, machine: &str, what: String);
    /// One compilation has ended.
    fn compiled(&mut self, turn: Turn);
    /// Called several times a second while compilers are at work.
    fn tick(&mut self);
}

/// Makes the command whose process calls [`plan_here`] for the machine of that name.
pub type Launch<'a> = dyn Fn(&str) -> std::io::Result<Command> + Sync + 'a;

/// Plans a recipe for all machines; false if `stop` ended it.
pub fn plan(
    request: &PlanRequest,
    machines: &[(String, Machine)],
    surroundings: &dyn Surroundings,
    launch: &Launch<'_>,
    stop: &AtomicBool,
    observer: &mut dyn PlanObserver,
) -> Result<bool> {
    machine::check_prices(&request.prices, machines)?;
    if request.store.is_some() && !machines.iter().any(|(_, machine)| machine.is_compiled()) {
        error::refuse!("compiled programs can be stored, and GPUs that are not here are only estimated");
    }
    if request.quick && !machines.iter().any(|(_, machine)| machine.is_compiled()) {
        observer.noted("--quick has no effect: GPUs that are not here are only estimated, at once".into());
    }
    let devices = machines.iter().map(|(_, machine)| machine.devices()).max().unwrap_or(1);
    steps::ineffective(&request.recipe, devices, surroundings)?.into_iter().for_each(|note| observer.noted(note));
    for (name, machine) in machines {
        let row = match machine {
            Machine::Board(board) => estimates::on_board(request, name, board, surroundings)?,
            Machine::Gpu(gpu) => estimates::on_gpus(request, name, (gpu, 1, 1), surroundings)?,
            Machine::Cluster { gpu, nodes, per_node } => {
                estimates::on_gpus(request, name, (gpu, *nodes, *per_node), surroundings)?
            }
            Machine::Here => continue,
        };
        observer.estimated(row);
    }
    let compiled = machines.iter().filter(|(_, machine)| machine.is_compiled());
    let compiled: Vec<String> = compiled.map(|(name, _)| name.clone()).collect();
    Ok(compiled.is_empty() || processes::plan(&compiled, launch, stop, observer))
}
