//! What the devices of a machine exchange in a step, and how long that takes.

use octant_pjrt::boards::Board;
use octant_pjrt::gpus::Gpu;
use octant_runtime::{Axis, Program};
use std::collections::BTreeMap;

/// The part of a step that gradients are computed in: what is exchanged then costs no time of its own.
const HIDDEN: f64 = 2.0 / 3.0;
/// What a host of TPUs can exchange with others in another slice, in bytes per second: 200 Gbit/s.
const BETWEEN_SLICES: f64 = 25e9;
/// What a GPU can exchange with GPUs of other machines, in bytes per second: 400 Gbit/s each, as clusters of H100s are sold.
const BETWEEN_NODES: f64 = 50e9;

/// Bytes of results on each device, by XLA's names of operations.
pub type Exchanged = BTreeMap<String, u64>;

/// How devices are connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    devices: usize,
    /// Groups of devices with fast links inside.
    groups: usize,
    /// Bytes per second of a device inside of its group, in one direction.
    inside: f64,
    /// Bytes per second of a device to those of other groups.
    between: f64,
}

impl Network {
    pub fn of_board(board: &Board) -> Network {
        let per_host = board.devices as f64 / board.hosts as f64;
        // Published figures count both directions, and are those of a chip.
        let per_device = board.links / 2.0 * board.chips() as f64 / board.devices as f64;
        Network { devices: board.devices, groups: board.slices, inside: per_device, between: BETWEEN_SLICES / per_host }
    }

    pub fn of_gpus(gpu: &Gpu, nodes: usize, per_node: usize) -> Network {
        Network { devices: nodes * per_node, groups: nodes, inside: gpu.links / 2.0, between: BETWEEN_NODES }
    }

    /// Seconds in which all devices have exchanged that much: a part in each group, then the parts between groups.
    pub fn seconds(&self, exchanged: &Exchanged) -> f64 {
        let of = |(kind, &bytes): (&String, &u64)| {
            let (bytes, times) = match kind.as_str() {
                // A reduction is a scatter and a gather.
                "all-reduce" => (bytes as f64, 2.0),
                // The result is one part of what was exchanged.
                "reduce-scatter" => (bytes as f64 * self.devices as f64, 1.0),
                _ => (bytes as f64, 1.0),
            };
            let inner = self.devices as f64 / self.groups as f64;
            let share = |parts: f64| (parts - 1.0) / parts;
            times * bytes * (share(inner) / self.inside + share(self.groups as f64) / inner / self.between)
        };
        exchanged.iter().map(of).sum()
    }
}

/// What a data-parallel step has to exchange, before a compiler has seen it: gradients of whole parameters are added up, and
/// parameters in parts are gathered for both passes and their gradients scattered.
pub(crate) fn estimated(program: &Program) -> Exchanged {
    let mut exchanged = Exchanged::new();
    if program.mesh.devices() == 1 {
        return exchanged;
    }
    let (shapes, names) = (program.graph.input_shapes(), program.graph.input_names());
    let mut add = |kind: &str, bytes: usize| *exchanged.entry(kind.to_string()).or_default() += bytes as u64;
    for (input, _) in &program.donated {
        // Slots, averages and sums have names of their own.
        let (shape, sharding) = (&shapes[*input], &program.inputs[*input]);
        if names[*input].contains('#') || !shape.dtype().is_float() {
            continue;
        }
        match sharding.is_replicated() {
            true => add("all-reduce", shape.bytes()),
            false => {
                let part = sharding.shard_shape(shape, &program.mesh).map_or(shape.bytes(), |shard| shard.bytes());
                add("all-gather", 2 * shape.bytes());
                add("reduce-scatter", part);
                if program.mesh.length(Axis::Data) > 1 {
                    add("all-reduce", part);
                }
            }
        }
    }
    exchanged
}

/// How much longer a step takes because of what is exchanged.
pub(crate) fn added(step: f64, exchange: f64) -> f64 {
    (exchange - HIDDEN * step).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_links_between_groups_take_a_part_of_what_is_exchanged() {
        let h100 = Gpu::named("h100").unwrap();
        let reduced = Exchanged::from([("all-reduce".to_string(), 100_000_000)]);
        let one = Network::of_gpus(&h100, 1, 8).seconds(&reduced);
        assert!((one - 2.0 * 1e8 * 7.0 / 8.0 / 450e9).abs() < 1e-9, "{one}");
        let four = Network::of_gpus(&h100, 4, 8).seconds(&reduced);
        assert!((four - one - 2.0 * 1e8 * 0.75 / 8.0 / 50e9).abs() < 1e-9, "{four}");
        let slice = Board::named("v5e-256").unwrap();
        let four = Board::named("4xv5e-256").unwrap();
        assert!(Network::of_board(&four).seconds(&reduced) > Network::of_board(&slice).seconds(&reduced));
        // Behind a long step, nothing of it shows.
        assert_eq!((added(1.0, 0.5), added(1.0, 1.0)), (0.0, 1.0 - HIDDEN));
    }
}
