//! Buffers on the devices of a mesh.

use crate::{HostTensor, Result, Shape};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A tensor on the devices of a mesh. Clones are handles to the same memory. It may not be computed yet: only reading it
/// waits.
#[derive(Clone)]
pub struct Buffer(Arc<dyn DeviceBuffer>);

/// A part of a tensor, as one device has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    /// The device, by its number in the mesh.
    pub device: usize,
    /// Where it begins in the whole, in each dimension.
    pub starts: Vec<usize>,
    /// Its values.
    pub tensor: HostTensor,
}

/// What a backend provides behind a [`Buffer`].
pub trait DeviceBuffer: Send + Sync + Any {
    /// The shape of the whole tensor, all shards together.
    fn shape(&self) -> &Shape;

    /// Waits until the tensor is there and copies it to the host. An error where parts of it are on devices of other processes
    /// only.
    fn to_host(&self) -> Result<HostTensor>;

    /// Waits, and copies the parts that this process is to keep: over all processes, every part of the tensor once.
    fn shards(&self) -> Result<Vec<Shard>> {
        Ok(vec![Shard { device: 0, starts: vec![0; self.shape().rank()], tensor: self.to_host()? }])
    }

    /// Whether every part of the tensor is on some device of this process.
    fn is_addressable(&self) -> bool {
        true
    }

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

    /// Waits, and copies the parts that this process is to keep: over all processes, every part of the tensor once.
    pub fn shards(&self) -> Result<Vec<Shard>> {
        self.0.shards()
    }

    /// Whether every part of the tensor is on some device of this process.
    pub fn is_addressable(&self) -> bool {
        self.0.is_addressable()
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
