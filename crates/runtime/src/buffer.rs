//! Buffers on the devices of a mesh, and shardings.

use crate::{HostTensor, Result, Shape};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A tensor on the devices of a mesh. Clones are handles to the same memory. It may not be computed yet: only reading it
/// waits.
#[derive(Clone)]
pub struct Buffer(Arc<dyn DeviceBuffer>);

/// What a backend provides behind a [`Buffer`].
pub trait DeviceBuffer: Send + Sync + Any {
    /// The shape of the whole tensor, all shards together.
    fn shape(&self) -> &Shape;

    /// Waits until the tensor is there and copies it to the host.
    fn to_host(&self) -> Result<HostTensor>;

    /// Waits until the tensor is there; returns the error that kept it from being computed.
    fn wait(&self) -> Result<()>;
}

impl Buffer {
    /// Wraps a backend's buffer.
    pub fn new(buffer: impl DeviceBuffer) -> Buffer {
        Buffer(Arc::new(buffer))
    }

    /// The shape of the whole tensor.
    pub fn shape(&self) -> &Shape {
        self.0.shape()
    }

    /// Waits until the tensor is there and copies it to the host.
    pub fn to_host(&self) -> Result<HostTensor> {
        self.0.to_host()
    }

    /// Waits until the tensor is there; returns the error that kept it from being computed.
    pub fn wait(&self) -> Result<()> {
        self.0.wait()
    }

    /// The backend's own type, if this buffer is of that backend.
    pub fn downcast<T: DeviceBuffer>(&self) -> Option<&T> {
        (self.0.as_ref() as &dyn Any).downcast_ref()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Buffer({})", self.shape())
    }
}

/// A one-dimensional mesh of devices. One program runs on all of them (SPMD).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mesh {
    devices: usize,
    is_remote: bool,
}

impl Mesh {
    /// A mesh of that many devices, the backend's first ones.
    pub fn new(devices: usize) -> Mesh {
        Mesh { devices: devices.max(1), is_remote: false }
    }

    /// The same devices with memory of their own: what they return is copied to the host, so less of it is better.
    pub fn remote(self) -> Mesh {
        Mesh { is_remote: true, ..self }
    }

    /// Whether the devices have memory of their own.
    pub fn is_remote(&self) -> bool {
        self.is_remote
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

/// How one tensor is sharded over a mesh.
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
