//! How far a plan is: what is known of every machine, and what is being compiled.

use crate::{PlanRequest, PlanRow, Turn};
use std::fmt;
use std::time::{Duration, Instant};

/// Turns of a board that has had none: the step, two to find the largest batch, the evaluation.
const TURNS: usize = 4;

/// What is known of all machines, collected from what a plan reports.
#[derive(Debug, Clone)]
pub struct PlanProgress {
    machines: Vec<MachineProgress>,
    begun: Instant,
}

/// What is known of one machine.
#[derive(Debug, Clone)]
pub struct MachineProgress {
    /// Its name.
    pub name: String,
    /// The newest row.
    pub row: Option<PlanRow>,
    /// Our own estimate, before any compiler.
    pub estimate: Option<PlanRow>,
    /// The row is that of a compiler.
    pub compiled: bool,
    /// Nothing is left to be known.
    pub finished: bool,
    /// What is being compiled, and since when.
    current: Option<(String, Instant)>,
    left: usize,
}

impl fmt::Display for MachineProgress {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = &self.name;
        match self {
            MachineProgress { finished: true, .. } => write!(f, "{name} is complete"),
            MachineProgress { compiled: true, .. } => write!(f, "the largest batch of {name} is an estimate"),
            MachineProgress { row: None, .. } => write!(f, "nothing is known of {name}"),
            MachineProgress { .. } => write!(f, "{name} is an estimate"),
        }
    }
}

impl PlanProgress {
    /// Nothing is known of these machines yet.
    pub fn new(request: &PlanRequest, machines: &[String]) -> PlanProgress {
        let machine = |name: &String| MachineProgress {
            name: name.clone(),
            row: None,
            estimate: None,
            compiled: false,
            finished: false,
            current: None,
            left: if request.quick { 2 } else { TURNS },
        };
        PlanProgress { machines: machines.iter().map(machine).collect(), begun: Instant::now() }
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut MachineProgress)) {
        if let Some(machine) = self.machines.iter_mut().find(|machine| machine.name == name) {
            change(machine);
        }
    }

    /// An estimate is known.
    pub fn estimated(&mut self, row: &PlanRow) {
        self.change(&row.target, |machine| {
            (machine.estimate, machine.row, machine.finished) = (Some(row.clone()), Some(row.clone()), row.complete);
            machine.left = if row.complete { 0 } else { machine.left };
        });
    }

    /// A compiler is at work.
    pub fn began(&mut self, name: &str, what: String) {
        self.change(name, |machine| machine.current = Some((what, Instant::now())));
    }

    /// A compilation has ended.
    pub fn compiled(&mut self, turn: &Turn) {
        self.change(&turn.row.target, |machine| {
            (machine.row, machine.compiled, machine.current) = (Some(turn.row.clone()), true, None);
            (machine.finished, machine.left) = (turn.next.is_none(), turn.left);
        });
    }

    /// All machines, in the order in which they were named.
    pub fn machines(&self) -> &[MachineProgress] {
        &self.machines
    }

    /// The newest rows of all machines that have one.
    pub fn rows(&self) -> Vec<&PlanRow> {
        self.machines.iter().filter_map(|machine| machine.row.as_ref()).collect()
    }

    /// Machines that could not be planned.
    pub fn failed(&self) -> Vec<&str> {
        self.rows().into_iter().filter(|row| row.error.is_some()).map(|row| row.target.as_str()).collect()
    }

    /// A machine has both an estimate and a compiler's row, which differ.
    pub fn has_both(&self) -> bool {
        self.machines.iter().any(|machine| machine.compiled && machine.estimate.is_some())
    }

    /// How long the plan has taken so far.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How many compilations are left at most.
    pub fn left(&self) -> usize {
        self.machines.iter().map(|machine| machine.left).sum()
    }

    /// What is being compiled, for which machine and for how long.
    pub fn under_way(&self) -> Vec<String> {
        let current = self.machines.iter().filter_map(|machine| {
            let (what, since) = machine.current.as_ref()?;
            Some(format!("{}: {what} for {} s", machine.name, since.elapsed().as_secs()))
        });
        current.collect()
    }

    /// How far every machine came.
    pub fn summary(&self) -> String {
        self.machines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}
