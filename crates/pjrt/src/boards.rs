//! TPU boards, by the names of cloud providers.

use crate::error::{PjrtError, Result};
use crate::named_value::{AttributeValue, NamedValues};

/// A board of TPUs to compile for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Board {
    /// The usual name: `v3-8`.
    pub name: &'static str,
    /// The name that libtpu uses: `v3:2x2x1`. It counts chips.
    pub topology: &'static str,
    /// Whether the two cores of a chip act as one device, as they do on a v4 by default.
    pub megacore: bool,
    /// How many devices a program sees.
    pub devices: usize,
    /// Memory of every device in bytes, as sold. What a program may use is a little less, and libtpu reports how much.
    pub memory: u64,
    /// What every device can multiply and add in bf16, in operations per second, as published.
    pub flops: f64,
    /// Bytes that every device can move to and from its memory per second, as published.
    pub bandwidth: f64,
    /// Machines, each with its share of the devices.
    pub hosts: usize,
    /// Copies of the topology that the data center's network connects.
    pub slices: usize,
    /// Bytes per second that every chip can exchange with its neighbors, both directions of all links together, as published.
    pub links: f64,
    /// In words.
    pub description: &'static str,
}

const GIB: u64 = 1 << 30;
/// The chips of one host with eight of them.
const EIGHT_CHIPS: [i64; 3] = [2, 4, 1];

/// The boards, oldest first. The names of v2 to v5p and of 7x count cores (two per chip), those of v5e and v6e chips.
pub const BOARDS: [Board; 12] = [
    board("v2-8", "v2:2x2x1", 8, 8, [22.5, 350.0], "4 chips of 2 cores, 8 GiB per core"),
    board("v3-8", "v3:2x2x1", 8, 16, [61.5, 450.0], "4 chips of 2 cores, 16 GiB per core"),
    Board { megacore: true, ..board("v4-8", "v4:2x2x1", 4, 32, [275.0, 1228.0], "4 chips, 32 GiB each") },
    board("v5e-1", "v5e:1x1", 1, 16, [197.0, 819.0], "1 chip, 16 GiB"),
    board("v5e-4", "v5e:2x2", 4, 16, [197.0, 819.0], "4 chips, 16 GiB each"),
    board("v5e-8", "v5e:2x4", 8, 16, [197.0, 819.0], "8 chips, 16 GiB each"),
    board("v5p-8", "v5p:2x2x1", 4, 95, [459.0, 2765.0], "4 chips, 95 GiB each"),
    board("v6e-1", "v6e:1x1", 1, 32, [918.0, 1640.0], "1 chip, 32 GiB"),
    board("v6e-4", "v6e:2x2", 4, 32, [918.0, 1640.0], "4 chips, 32 GiB each"),
    board("v6e-8", "v6e:2x4", 8, 32, [918.0, 1640.0], "8 chips, 32 GiB each"),
    board("v7x-2", "tpu7x:1x1x1", 2, 96, [1153.0, 3690.0], "1 chip of 2 cores, 192 GiB"),
    board("v7x-8", "tpu7x:2x2x1", 8, 96, [1153.0, 3690.0], "4 chips of 2 cores, 192 GiB each"),
];

/// Parts of pods: slices of several hosts, whose processes train together.
pub const PODS: [Board; 12] = [
    pod(board("v3-32", "v3:4x4x1", 32, 16, [61.5, 450.0], "16 chips of 2 cores on 4 hosts"), 4),
    pod(Board { megacore: true, ..board("v4-32", "v4:2x2x4", 16, 32, [275.0, 1228.0], "16 chips on 4 hosts") }, 4),
    pod(board("v5e-16", "v5e:4x4", 16, 16, [197.0, 819.0], "16 chips on 4 hosts"), 4),
    pod(board("v5e-64", "v5e:8x8", 64, 16, [197.0, 819.0], "64 chips on 16 hosts"), 16),
    pod(board("v5e-256", "v5e:16x16", 256, 16, [197.0, 819.0], "256 chips on 64 hosts, a whole pod"), 64),
    pod(board("v5p-32", "v5p:2x2x4", 16, 95, [459.0, 2765.0], "16 chips on 4 hosts"), 4),
    pod(board("v5p-128", "v5p:4x4x4", 64, 95, [459.0, 2765.0], "64 chips on 16 hosts"), 16),
    pod(board("v6e-16", "v6e:4x4", 16, 32, [918.0, 1640.0], "16 chips on 4 hosts"), 4),
    pod(board("v6e-64", "v6e:8x8", 64, 32, [918.0, 1640.0], "64 chips on 16 hosts"), 16),
    pod(board("v6e-256", "v6e:16x16", 256, 32, [918.0, 1640.0], "256 chips on 64 hosts, a whole pod"), 64),
    pod(board("v7x-32", "tpu7x:2x2x4", 32, 96, [1153.0, 3690.0], "16 chips of 2 cores on 4 hosts"), 4),
    pod(board("v7x-128", "tpu7x:4x4x4", 128, 96, [1153.0, 3690.0], "64 chips of 2 cores on 16 hosts"), 16),
];

const fn pod(board: Board, hosts: usize) -> Board {
    Board { hosts, ..board }
}

/// Gigabytes per second of a chip's links, by generation.
const LINKS: [(&str, f64); 7] =
    [("v2", 62.0), ("v3", 82.0), ("v4", 300.0), ("v5e", 200.0), ("v5p", 600.0), ("v6e", 448.0), ("v7x", 1200.0)];

/// What Google's Kubernetes engine calls the slices of a generation.
const LABELS: [(&str, &str); 5] = [
    ("v4", "tpu-v4-podslice"),
    ("v5e", "tpu-v5-lite-podslice"),
    ("v5p", "tpu-v5p-slice"),
    ("v6e", "tpu-v6e-slice"),
    ("v7x", "tpu7x"),
];

const fn board(
    name: &'static str,
    topology: &'static str,
    devices: usize,
    gib: u64,
    [teraflops, gigabytes]: [f64; 2],
    description: &'static str,
) -> Board {
    let (flops, bandwidth) = (teraflops * 1e12, gigabytes * 1e9);
    let (megacore, hosts, slices, links) = (false, 1, 1, 0.0);
    let memory = gib * GIB;
    Board { name, topology, megacore, devices, memory, flops, bandwidth, hosts, slices, links, description }
}

/// The generation in a board's name.
fn generation(name: &str) -> &str {
    name.split_once('-').map_or(name, |(generation, _)| generation)
}

impl Board {
    /// The board or pod slice of that name; older and longer forms (`v5litepod-8`) are understood too. `4xv5e-256` are four
    /// slices that the data center's network connects.
    pub fn named(name: &str) -> Result<Board> {
        let short = name.to_ascii_lowercase().replace("v5litepod", "v5e").replace("tpu7x", "v7x");
        let (slices, of_one) = match short.split_once('x') {
            Some((count, rest)) if count.parse::<usize>().is_ok_and(|count| count > 0) => {
                (count.parse().unwrap_or(1), rest)
            }
            _ => (1, short.as_str()),
        };
        let found = BOARDS.into_iter().chain(PODS).find(|board| board.name == of_one).ok_or_else(|| {
            let known = BOARDS.iter().chain(&PODS).map(|board| board.name).collect::<Vec<_>>().join(", ");
            PjrtError::Misuse(format!("there is no board called {name}; Octant knows {known}"))
        })?;
        let links = LINKS.iter().find(|(of, _)| *of == generation(found.name)).map_or(0.0, |(_, links)| links * 1e9);
        let (devices, hosts) = (found.devices * slices, found.hosts * slices);
        Ok(Board { slices, devices, hosts, links, ..found })
    }

    /// How many chips there are.
    pub fn chips(&self) -> usize {
        let shape = self.topology.split_once(':').map_or("", |(_, shape)| shape);
        self.slices * shape.split('x').filter_map(|side| side.parse::<usize>().ok()).product::<usize>()
    }

    /// What Google's Kubernetes engine calls such slices, where it has them.
    pub fn label(&self) -> Option<&'static str> {
        LABELS.iter().find(|(of, _)| *of == generation(self.name)).map(|(_, label)| *label)
    }

    /// What [`Topology::new`](crate::Topology::new) needs besides the name.
    pub fn options(&self) -> NamedValues {
        let mut options = NamedValues::new();
        if self.megacore {
            options.insert("chip_config_name".to_string(), AttributeValue::Text("megacore".to_string()));
        }
        // By default libtpu takes eight chips for two hosts of four.
        if self.topology.ends_with(":2x4") {
            options.insert("chips_per_host_bounds".to_string(), AttributeValue::Ints(EIGHT_CHIPS.to_vec()));
        }
        if self.slices > 1 {
            options.insert("num_slices".to_string(), AttributeValue::Int(self.slices as i64));
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_found_by_the_names_that_people_use() {
        assert_eq!(Board::named("v3-8").unwrap().topology, "v3:2x2x1");
        assert_eq!(Board::named("V5LitePod-8").unwrap().topology, "v5e:2x4");
        let slices = Board::named("4xv5e-256").unwrap();
        assert_eq!((slices.devices, slices.hosts, slices.chips(), slices.slices), (1024, 256, 1024, 4));
        assert_eq!(slices.options().get("num_slices"), Some(&AttributeValue::Int(4)));
        assert_eq!(Board::named("tpu7x-128").unwrap().chips(), 64);
        assert!(Board::named("0xv5e-8").is_err() && Board::named("xv5e-8").is_err());
        let error = Board::named("v9-8").unwrap_err().to_string();
        assert!(error.contains("no board called v9-8; Octant knows v2-8, v3-8"), "{error}");
    }

    #[test]
    fn boards_of_eight_chips_are_one_host() {
        let hosts = |name: &str| Board::named(name).unwrap().options().get("chips_per_host_bounds").cloned();
        for name in ["v5e-8", "v6e-8"] {
            assert_eq!(hosts(name), Some(AttributeValue::Ints(vec![2, 4, 1])), "{name}");
        }
        assert_eq!((hosts("v3-8"), hosts("v5e-4")), (None, None));
    }

    #[test]
    fn names_are_unique() {
        let all: Vec<Board> = BOARDS.into_iter().chain(PODS).collect();
        for (index, board) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other.name != board.name), "{}", board.name);
            let named = Board::named(board.name).unwrap();
            assert!(named.links > 0.0 && named.chips().is_multiple_of(named.hosts), "{}", board.name);
        }
    }
}
