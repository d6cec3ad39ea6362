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

const fn board(
    name: &'static str,
    topology: &'static str,
    devices: usize,
    gib: u64,
    [teraflops, gigabytes]: [f64; 2],
    description: &'static str,
) -> Board {
    let (flops, bandwidth) = (teraflops * 1e12, gigabytes * 1e9);
    Board { name, topology, megacore: false, devices, memory: gib * GIB, flops, bandwidth, description }
}

impl Board {
    /// The board of that name; older and longer forms (`v5litepod-8`) are understood too.
    pub fn named(name: &str) -> Result<Board> {
        let short = name.to_ascii_lowercase().replace("v5litepod", "v5e").replace("tpu7x", "v7x");
        BOARDS.into_iter().find(|board| board.name == short).ok_or_else(|| {
            let known = BOARDS.map(|board| board.name).join(", ");
            PjrtError::Misuse(format!("there is no board called {name}; Octant knows {known}"))
        })
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
        for (index, board) in BOARDS.iter().enumerate() {
            assert!(BOARDS[index + 1..].iter().all(|other| other.name != board.name), "{}", board.name);
        }
    }
}
