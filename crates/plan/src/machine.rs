//! Machines and prices by name.

use crate::{PlanError, Result, error::refuse};
use octant_pjrt::boards::{BOARDS, Board};
use octant_pjrt::gpus::{GPUS, Gpu};
use std::str::FromStr;

/// A machine to plan for.
#[derive(Debug, Clone, Copy)]
pub enum Machine {
    /// Compiled ahead of time for a TPU board.
    Board(Board),
    /// Estimated only: XLA chooses a GPU's kernels by measuring them.
    Gpu(Gpu),
    /// Estimated only: GPUs of several machines, or several of one.
    Cluster {
        /// Each of them.
        gpu: Gpu,
        /// Machines.
        nodes: usize,
        /// GPUs of each machine.
        per_node: usize,
    },
    /// Compiled for the GPU of this machine.
    Here,
}

impl Machine {
    /// How many devices work together.
    pub(crate) fn devices(&self) -> usize {
        match self {
            Machine::Board(board) => board.devices,
            Machine::Cluster { nodes, per_node, .. } => nodes * per_node,
            Machine::Gpu(_) | Machine::Here => 1,
        }
    }

    /// The machine of that name.
    pub fn named(name: &str) -> Result<Machine> {
        if is_here(name) {
            return Ok(Machine::Here);
        }
        if let Ok(gpu) = Gpu::named(name) {
            return Ok(Machine::Gpu(gpu));
        }
        if let Some(cluster) = cluster(name) {
            return Ok(cluster);
        }
        let gpus = || format!("GPUs are {}; cuda is the GPU of this machine", GPUS.map(|gpu| gpu.name).join(", "));
        Board::named(name).map(Machine::Board).map_err(|error| PlanError::Refused(format!("{error}; {}", gpus())))
    }

    /// Whether a compiler refines its estimate.
    pub fn is_compiled(&self) -> bool {
        !matches!(self, Machine::Gpu(_) | Machine::Cluster { .. })
    }
}

/// `8xh100` or `4x8xh100`.
fn cluster(name: &str) -> Option<Machine> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|&number| number > 0);
    let parts: Vec<&str> = name.split('x').collect();
    let (nodes, per_node, kind) = match parts[..] {
        [per_node, kind] => (1, number(per_node)?, kind),
        [nodes, per_node, kind] => (number(nodes)?, number(per_node)?, kind),
        _ => return None,
    };
    Some(Machine::Cluster { gpu: Gpu::named(kind).ok()?, nodes, per_node })
}

/// The machines of these names, each once: `gpus` and `tpus` are all of them.
pub fn machines(on: &[String]) -> Result<Vec<(String, Machine)>> {
    let mut machines: Vec<(String, Machine)> = Vec::new();
    for name in on {
        let names: Vec<String> = match name.as_str() {
            "gpus" => GPUS.iter().map(|gpu| gpu.name.to_string()).collect(),
            "tpus" => BOARDS.iter().map(|board| board.name.to_string()).collect(),
            name => vec![name.to_string()],
        };
        for name in names {
            let machine = Machine::named(&name)?;
            if machines.iter().all(|(known, _)| *known != name) {
                machines.push((name, machine));
            }
        }
    }
    match machines.is_empty() {
        true => refuse!("no machine is named"),
        false => Ok(machines),
    }
}

/// A price per hour: of every machine, or of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    machine: Option<String>,
    per_hour: f64,
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Price, String> {
        let problem = || format!("{text:?} is no price; write 2.5 for all machines, or h200=3.99,t4=0.35");
        let (machine, number) = match text.split_once('=') {
            Some((machine, number)) => (Some(machine.trim().to_string()), number),
            None => (None, text),
        };
        let per_hour = number.trim().parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
        Ok(Price { machine, per_hour: per_hour.ok_or_else(problem)? })
    }
}

/// The price of a machine: its own before that of all.
pub(crate) fn price_of(prices: &[Price], machine: &str) -> Option<f64> {
    let of = |wanted: Option<&str>| prices.iter().find(|price| price.machine.as_deref() == wanted);
    of(Some(machine)).or_else(|| of(None)).map(|price| price.per_hour)
}

/// A price of a machine that is not planned for would change nothing.
pub(crate) fn check_prices(prices: &[Price], machines: &[(String, Machine)]) -> Result<()> {
    let mut named = prices.iter().filter_map(|price| price.machine.as_deref());
    let unknown = named.find(|name| machines.iter().all(|(known, _)| known != name));
    let names: Vec<&str> = machines.iter().map(|(name, _)| name.as_str()).collect();
    match unknown {
        Some(name) => refuse!("{name} has a price but is not among the planned machines: {}", names.join(", ")),
        None => Ok(()),
    }
}

/// Whether a target is a device of this machine.
pub(crate) fn is_here(name: &str) -> bool {
    matches!(name, "cuda" | "gpu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_for_all_or_for_one() {
        let prices: Vec<Price> = ["2", "h200=3.5"].map(|text| text.parse().unwrap()).to_vec();
        assert_eq!((price_of(&prices, "t4"), price_of(&prices, "h200")), (Some(2.0), Some(3.5)));
        assert_eq!(price_of(&prices[1..], "t4"), None);
        assert!(check_prices(&prices, &machines(&["t4".into()]).unwrap()).is_err());
        assert!("t4=cheap".parse::<Price>().is_err());
    }

    #[test]
    fn groups_of_machines_are_all_of_them_once() {
        let gpus = machines(&["h200".into(), "gpus".into()]).unwrap();
        assert_eq!((gpus.len(), gpus[0].0.as_str()), (GPUS.len(), "h200"));
        let names = ["4x8xh100", "8xh200", "2xv5e-256"].map(String::from);
        let devices = machines(&names).unwrap().iter().map(|(_, machine)| machine.devices()).collect::<Vec<_>>();
        assert_eq!(devices, [32, 8, 512]);
        assert!(machines(&["0x8xh100".into()]).is_err() && machines(&["4x8x2xh100".into()]).is_err());
        let error = machines(&["v9-8".into()]).unwrap_err().to_string();
        assert!(
            error.contains("there is no board called v9-8; Octant knows v2-8") && error.contains("GPUs are v100"),
            "{error}"
        );
    }
}
