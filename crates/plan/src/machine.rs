//! Machines and prices by name, and what schedulers are to provide.

use crate::{PlanError, Result, error::refuse};
use octant_cluster::launch::Accelerators;
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

/// The names of these TPU slices with a number of slices before each, which work together over the data center's network.
pub fn in_slices(machines: Vec<(String, Machine)>, slices: usize) -> Result<Vec<String>> {
    let name = |(name, machine): (String, Machine)| match machine {
        Machine::Board(board) if slices > 0 && board.slices == 1 => Ok(format!("{slices}x{name}")),
        Machine::Board(_) => {
            refuse!("--slices {slices} of {name}: give a number of at least 1 and the name of one slice")
        }
        _ => refuse!("--slices is for TPUs, and {name} is none; GPUs of several machines are named like 4x8xh100"),
    };
    machines.into_iter().map(name).collect()
}

/// How many machines, and the accelerators of each, that `4x8xh100`, `8xh100`, the name of a TPU slice, or a number of machines
/// stands for.
pub fn accelerators(text: &str) -> Result<(usize, Accelerators)> {
    if let Ok(nodes) = text.parse() {
        return Ok((nodes, Accelerators::None));
    }
    if let Ok(board) = Board::named(text) {
        let Some(label) = board.label() else { refuse!("{text} is no slice that Kubernetes schedules") };
        let topology = board.topology.split_once(':').map_or("", |(_, shape)| shape).to_string();
        let count = board.chips() / board.hosts;
        return Ok((board.hosts, Accelerators::Tpus { label: label.into(), topology, count }));
    }
    let parts: Vec<&str> = text.split('x').collect();
    let number = |text: &str| text.parse::<usize>().ok().filter(|&number| number > 0);
    let found = match parts[..] {
        [count, kind] => number(count).map(|count| (1, count, kind)),
        [nodes, count, kind] => number(nodes).zip(number(count)).map(|(nodes, count)| (nodes, count, kind)),
        _ => None,
    };
    let Some((nodes, count, kind)) = found else {
        refuse!("--on {text}: write 4x8xh100, a TPU slice such as v5e-64, or a number of machines");
    };
    Gpu::named(kind).map_err(|error| PlanError::Refused(format!("--on: {error}")))?;
    Ok((nodes, Accelerators::Gpus { kind: Some(kind.to_string()), count }))
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
        let sliced = |name: &str, slices| in_slices(machines(&[name.to_string()]).unwrap(), slices);
        assert_eq!(sliced("v5e-256", 2).unwrap(), ["2xv5e-256"]);
        assert!(sliced("h100", 2).is_err() && sliced("v5e-256", 0).is_err() && sliced("2xv5e-256", 2).is_err());
        assert!(machines(&["0x8xh100".into()]).is_err() && machines(&["4x8x2xh100".into()]).is_err());
        let error = machines(&["v9-8".into()]).unwrap_err().to_string();
        assert!(
            error.contains("there is no board called v9-8; Octant knows v2-8") && error.contains("GPUs are v100"),
            "{error}"
        );
    }

    #[test]
    fn machines_are_named_by_number_by_gpus_and_by_slices() {
        let gpus = |count| Accelerators::Gpus { kind: Some("h100".into()), count };
        assert_eq!(accelerators("4").unwrap(), (4, Accelerators::None));
        assert_eq!(accelerators("8xh100").unwrap(), (1, gpus(8)));
        assert_eq!(accelerators("4x8xh100").unwrap(), (4, gpus(8)));
        let (hosts, slice) = accelerators("v5e-64").unwrap();
        let Accelerators::Tpus { topology, count, .. } = slice else { panic!("it is a slice") };
        assert_eq!((hosts * count, topology.as_str()), (64, "8x8"));
    }

    #[test]
    fn what_is_no_machine_is_refused_with_what_is_one() {
        for text in ["0x8xh100", "h100", "4x8x2xh100"] {
            assert!(accelerators(text).unwrap_err().to_string().contains("write 4x8xh100"), "{text}");
        }
        assert!(accelerators("8xz9").unwrap_err().to_string().starts_with("--on: "));
    }
}
