//! A tensor on all devices of a mesh.

use super::{failed, shards};
use crate::buffer::{PendingHostTensor, PjrtBuffer};
use crate::client::PjrtDevice;
use octant_runtime::{DeviceBuffer, HostTensor, Result, RuntimeError, Shape, Sharding};
use std::sync::atomic::{AtomicBool, Ordering};

/// One buffer per device, and how they make up the whole.
pub(super) struct ShardedBuffer {
    shape: Shape,
    sharding: Sharding,
    parts: Vec<PjrtBuffer>,
    donated: AtomicBool,
}

impl ShardedBuffer {
    pub(super) fn new(shape: Shape, sharding: Sharding, parts: Vec<PjrtBuffer>) -> ShardedBuffer {
        ShardedBuffer { shape, sharding, parts, donated: AtomicBool::new(false) }
    }

    /// Starts the copies to `devices`.
    pub(super) fn upload(tensor: &HostTensor, devices: &[PjrtDevice], sharding: Sharding) -> Result<ShardedBuffer> {
        let tensors = match sharding {
            Sharding::Replicated => vec![tensor.clone(); devices.len()],
            Sharding::Split { axis } => shards::split(tensor, axis, devices.len())?,
        };
        let copy = |(device, tensor): (&PjrtDevice, &HostTensor)| PjrtBuffer::from_host(device, tensor).map_err(failed);
        let parts = devices.iter().zip(&tensors).map(copy).collect::<Result<_>>()?;
        Ok(ShardedBuffer::new(tensor.shape().clone(), sharding, parts))
    }

    pub(super) fn sharding(&self) -> Sharding {
        self.sharding
    }

    /// The parts of the devices, in the order of the mesh; an error after donation.
    pub(super) fn parts(&self) -> Result<&[PjrtBuffer]> {
        match self.donated.load(Ordering::Acquire) {
            true => Err(RuntimeError::Donated),
            false => Ok(&self.parts),
        }
    }

    /// Marks the memory as donated to a program.
    pub(super) fn mark_donated(&self) {
        self.donated.store(true, Ordering::Release);
    }
}

impl DeviceBuffer for ShardedBuffer {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn to_host(&self) -> Result<HostTensor> {
        let parts = self.parts()?;
        let wait = |pending: PendingHostTensor| pending.wait().map_err(failed);
        match self.sharding {
            Sharding::Split { axis } if parts.len() > 1 => {
                // All copies are started before the first is waited for.
                let pending: Vec<_> = parts.iter().map(|part| part.to_host().map_err(failed)).collect::<Result<_>>()?;
                let tensors: Vec<_> = pending.into_iter().map(wait).collect::<Result<_>>()?;
                shards::join(&tensors, &self.shape, axis)
            }
            Sharding::Split { .. } | Sharding::Replicated => wait(parts[0].to_host().map_err(failed)?),
        }
    }

    fn wait(&self) -> Result<()> {
        self.parts()?.iter().try_for_each(|part| part.ready().and_then(|ready| ready.wait()).map_err(failed))
    }
}
