//! Several devices as one: where the parts of a tensor lie.

/// Devices side by side along one axis. One program runs on all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mesh {
    devices: usize,
}

impl Mesh {
    /// A mesh of that many devices, the backend's first ones.
    pub fn new(devices: usize) -> Mesh {
        Mesh { devices: devices.max(1) }
    }

    /// One device.
    pub fn single() -> Mesh {
        Mesh::new(1)
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.devices
    }
}

/// How one tensor is spread over a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sharding {
    /// A full copy on every device.
    Replicated,
    /// Cut into equal parts along an axis, whose length the number of devices must divide.
    Split {
        /// The axis.
        axis: usize,
    },
}
