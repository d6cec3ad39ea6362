//! A tensor on all devices of a mesh.

use super::failed;
use super::shards::{Rows, Shards};
use crate::buffer::{PendingHostTensor, PjrtBuffer};
use crate::client::PjrtDevice;
use octant_runtime::{DeviceBuffer, HostTensor, Mesh, Result, RuntimeError, Shape, Shard, Sharding};
use std::sync::atomic::{AtomicBool, Ordering};

/// One buffer per device of this process, and how those of all processes make up the whole.
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

    /// Starts the copies to `devices`, those of the mesh that this process addresses.
    pub(super) fn upload(
        rows: &Rows,
        devices: &[PjrtDevice],
        mesh: &Mesh,
        sharding: &Sharding,
    ) -> Result<ShardedBuffer> {
        let shards = Shards::new(rows.whole, mesh, sharding)?;
        let copy = |(number, device): (usize, &PjrtDevice)| {
            PjrtBuffer::from_host(device, &shards.cut(rows, number)?).map_err(failed)
        };
        let parts = mesh.addressable().zip(devices).map(copy).collect::<Result<_>>()?;
        Ok(ShardedBuffer::new(rows.whole.clone(), mesh.clone(), sharding.clone(), parts))
    }

    pub(super) fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    /// The parts of this process's devices, in the order of the mesh; an error after donation.
    pub(super) fn parts(&self) -> Result<&[PjrtBuffer]> {
        match self.donated.load(Ordering::Acquire) {
            true => Err(RuntimeError::Donated),
            false => Ok(&self.parts),
        }
    }

    /// The shards of some devices of this process. All copies are started before the first is waited for.
    fn copied(&self, parts: &[PjrtBuffer], devices: Vec<usize>) -> Result<Vec<(usize, HostTensor)>> {
        let first = self.mesh.addressable().start;
        let start = |device: usize| Ok((device, parts[device - first].to_host().map_err(failed)?));
        let pending = devices.into_iter().map(start).collect::<Result<Vec<_>>>()?;
        pending.into_iter().map(|(device, pending)| Ok((device, pending.wait().map_err(failed)?))).collect()
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
        let shards = Shards::new(&self.shape, &self.mesh, &self.sharding)?;
        if self.sharding.is_replicated() {
            return parts[0].to_host().and_then(PendingHostTensor::wait).map_err(failed);
        }
        let Some(here) = shards.here() else {
            let text = format!(
                "{} is divided among the devices of several processes: no one of them has all of it",
                self.shape
            );
            return Err(RuntimeError::Device(text));
        };
        shards.join(&self.copied(parts, here)?)
    }

    fn shards(&self) -> Result<Vec<Shard>> {
        let parts = self.parts()?;
        let shards = Shards::new(&self.shape, &self.mesh, &self.sharding)?;
        let kept = shards.distinct().into_iter().filter(|device| self.mesh.addressable().contains(device)).collect();
        let copied = self.copied(parts, kept)?.into_iter();
        Ok(copied.map(|(device, tensor)| Shard { device, starts: shards.starts(device), tensor }).collect())
    }

    fn is_addressable(&self) -> bool {
        Shards::new(&self.shape, &self.mesh, &self.sharding).is_ok_and(|shards| shards.here().is_some())
    }

    fn wait(&self) -> Result<()> {
        self.parts()?.iter().try_for_each(|part| part.ready().and_then(|ready| ready.wait()).map_err(failed))
    }
}
