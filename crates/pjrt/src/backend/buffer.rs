//! A tensor on all devices of a mesh.

use super::failed;
use super::shards::Shards;
use crate::buffer::{PendingHostTensor, PjrtBuffer};
use crate::client::PjrtDevice;
use octant_runtime::{DeviceBuffer, HostTensor, Mesh, Result, RuntimeError, Shape, Sharding};
use std::sync::atomic::{AtomicBool, Ordering};

/// One buffer per device, and how they make up the whole.
pub(super) struct ShardedBuffer {
    shape: Shape,
    mesh: Mesh,
    sharding: Sharding,
    parts: Vec<PjrtBuffer>,
    donated: AtomicBool,
}

impl ShardedBuffer {
    pub(super) fn new(shape: Shape, mesh: Mesh, sharding: Sharding, parts: Vec<PjrtBuffer>) -> ShardedBuffer {
        ShardedBuffer { shape, mesh, sharding, parts, donated: AtomicBool::new(false) }
    }

    /// Starts the copies to `devices`, those of the mesh.
    pub(super) fn upload(
        tensor: &HostTensor,
        devices: &[PjrtDevice],
        mesh: &Mesh,
        sharding: &Sharding,
    ) -> Result<ShardedBuffer> {
        let shards = Shards::new(tensor.shape(), mesh, sharding)?;
        let copy = |(number, device): (usize, &PjrtDevice)| {
            PjrtBuffer::from_host(device, &shards.cut(tensor, number)?).map_err(failed)
        };
        let parts = devices.iter().enumerate().map(copy).collect::<Result<_>>()?;
        Ok(ShardedBuffer::new(tensor.shape().clone(), mesh.clone(), sharding.clone(), parts))
    }

    pub(super) fn sharding(&self) -> &Sharding {
        &self.sharding
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
        let shards = Shards::new(&self.shape, &self.mesh, &self.sharding)?;
        if self.sharding.is_replicated() {
            return wait(parts[0].to_host().map_err(failed)?);
        }
        // All copies are started before the first is waited for.
        let start = |device: usize| Ok((device, parts[device].to_host().map_err(failed)?));
        let pending = shards.distinct().into_iter().map(start).collect::<Result<Vec<_>>>()?;
        let tensors = pending.into_iter().map(|(device, pending)| Ok((device, wait(pending)?)));
        shards.join(&tensors.collect::<Result<Vec<_>>>()?)
    }

    fn wait(&self) -> Result<()> {
        self.parts()?.iter().try_for_each(|part| part.ready().and_then(|ready| ready.wait()).map_err(failed))
    }
}
