//! Buffers on the devices of a mesh.

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
