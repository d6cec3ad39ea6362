//! Cutting a host tensor into the shards of the devices, and putting them together again.

use octant_runtime::{HostTensor, Mesh, RuntimeError, Shape, Sharding};
use octant_tensor::{AlignedBytes, Bytes};
use std::collections::HashSet;
use std::ops::Range;

/// A tensor, or those of its rows that this process has.
pub(super) struct Rows<'a> {
    pub tensor: &'a HostTensor,
    /// The first row that is here.
    pub first: usize,
    /// The shape of the whole.
    pub whole: &'a Shape,
}

impl<'a> Rows<'a> {
    /// All of them.
    pub fn whole(tensor: &'a HostTensor) -> Rows<'a> {
        Rows { tensor, first: 0, whole: tensor.shape() }
    }
}

/// Where the shards of a tensor lie in the whole.
pub(super) struct Shards<'a> {
    whole: &'a Shape,
    /// Of one shard.
    shape: Shape,
    mesh: &'a Mesh,
    sharding: &'a Sharding,
}

impl<'a> Shards<'a> {
    pub(super) fn new(whole: &'a Shape, mesh: &'a Mesh, sharding: &'a Sharding) -> Result<Shards<'a>, RuntimeError> {
        Ok(Shards { whole, shape: sharding.shard_shape(whole, mesh)?, mesh, sharding })
    }

    /// One device for each shard: the first that has it.
    pub(super) fn distinct(&self) -> Vec<usize> {
        self.distinct_of(0..self.mesh.devices())
    }

    /// The same among the devices of this process; none where some shard is on others only.
    pub(super) fn here(&self) -> Option<Vec<usize>> {
        let here = self.distinct_of(self.mesh.addressable());
        let all: usize = (0..self.whole.rank()).map(|dimension| self.sharding.parts(dimension, self.mesh)).product();
        (here.len() == all).then_some(here)
    }

    fn distinct_of(&self, devices: Range<usize>) -> Vec<usize> {
        let mut known = HashSet::new();
        devices.filter(|&device| known.insert(self.sharding.position(self.mesh, device))).collect()
    }

    /// Where the shard of a device begins, in each dimension.
    pub(super) fn starts(&self, device: usize) -> Vec<usize> {
        let position = self.sharding.position(self.mesh, device);
        let part = self.shape.dims().iter().enumerate();
        part.map(|(dimension, length)| position.get(dimension).copied().unwrap_or(0) * length).collect()
    }

    /// The shard of a device. One that is contiguous shares the tensor's bytes, others are copies.
    pub(super) fn cut(&self, rows: &Rows, device: usize) -> Result<HostTensor, RuntimeError> {
        let tensor = rows.tensor;
        if self.shape == *self.whole && tensor.shape() == self.whole {
            return Ok(tensor.clone());
        }
        let outside = || RuntimeError::Device("a shard lies outside of the rows that are here".into());
        let row = self.whole.bytes() / self.whole.dims().first().copied().unwrap_or(1).max(1);
        let skipped = rows.first * row;
        let runs = self.runs(device);
        let piece = |start: usize| {
            let start = start.checked_sub(skipped)?;
            Some(start..start + runs.length).filter(|piece| piece.end <= tensor.bytes().len())
        };
        let bytes = match runs.starts[..] {
            [start] => piece(start).and_then(|piece| tensor.bytes().slice(piece)),
            _ => {
                let mut bytes = AlignedBytes::zeroed(self.shape.bytes());
                for (to, &from) in bytes.chunks_exact_mut(runs.length.max(1)).zip(&runs.starts) {
                    to.copy_from_slice(&tensor.bytes()[piece(from).ok_or_else(outside)?]);
                }
                Some(Bytes::new(bytes))
            }
        };
        let bytes = bytes.ok_or_else(outside)?;
        HostTensor::from_bytes(self.shape.clone(), bytes).map_err(|error| RuntimeError::Device(error.to_string()))
    }

    /// The inverse of [`cut`](Shards::cut) for all shards, each with a device that has it.
    pub(super) fn join(&self, shards: &[(usize, HostTensor)]) -> Result<HostTensor, RuntimeError> {
        let mut whole = AlignedBytes::zeroed(self.whole.bytes());
        for (device, shard) in shards {
            let runs = self.runs(*device);
            for (from, &to) in shard.bytes().chunks_exact(runs.length.max(1)).zip(&runs.starts) {
                whole[to..to + runs.length].copy_from_slice(from);
            }
        }
        HostTensor::from_bytes(self.whole.clone(), Bytes::new(whole))
            .map_err(|error| RuntimeError::Device(error.to_string()))
    }

    /// The bytes of a device's shard in the whole, in the order of the shard.
    fn runs(&self, device: usize) -> Runs {
        let position = self.sharding.position(self.mesh, device);
        let (whole, part) = (self.whole.dims(), self.shape.dims());
        // What lies behind the last dimension that is split is contiguous.
        let split = (0..whole.len()).rev().find(|&dimension| whole[dimension] != part[dimension]).unwrap_or(0);
        let element = self.whole.bytes() / self.whole.elements().max(1);
        let inner = |dimension: usize| element * whole[dimension + 1..].iter().product::<usize>();
        let first = |dimension: usize| position.get(dimension).map_or(0, |&number| number * part[dimension]);
        let mut starts = vec![(0..=split).map(|dimension| first(dimension) * inner(dimension)).sum::<usize>()];
        for dimension in 0..split {
            let steps = |start: usize| (0..part[dimension]).map(move |step| (start, step));
            starts = starts.into_iter().flat_map(steps).map(|(start, step)| start + step * inner(dimension)).collect();
        }
        Runs { starts, length: part[split] * inner(split) }
    }
}

/// Pieces of equal length.
struct Runs {
    starts: Vec<usize>,
    length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_runtime::{Axis, Process};

    #[test]
    fn shards_over_every_combination_of_axes_join_to_the_whole() {
        let numbers: Vec<f32> = (0..96).map(|number| number as f32).collect();
        let tensor = HostTensor::new([4, 6, 4], &numbers).unwrap();
        let mesh = Mesh::along([(Axis::Data, 2), (Axis::Fsdp, 2)]);
        let both = vec![Axis::Data, Axis::Fsdp];
        let shardings = [
            (Sharding::REPLICATED, 1),
            (Sharding::split(0, both.clone()), 4),
            (Sharding::split(1, [Axis::Fsdp]), 2),
            (Sharding::split(2, both), 4),
            (Sharding::split(0, [Axis::Fsdp]).and(2, [Axis::Data]), 4),
            (Sharding::split(1, [Axis::Data]).and(2, [Axis::Fsdp]), 4),
        ];
        for (sharding, count) in shardings {
            let shards = Shards::new(tensor.shape(), &mesh, &sharding).unwrap();
            let devices = shards.distinct();
            assert_eq!(devices.len(), count, "{sharding:?}");
            let cut: Vec<_> =
                devices.iter().map(|&device| (device, shards.cut(&Rows::whole(&tensor), device).unwrap())).collect();
            assert!(cut.iter().all(|(_, shard)| shard.shape().elements() * count == 96));
            assert_eq!(shards.join(&cut).unwrap(), tensor, "{sharding:?}");
        }
        let columns = Sharding::split(1, [Axis::Data]);
        let columns = Shards::new(tensor.shape(), &mesh, &columns).unwrap().cut(&Rows::whole(&tensor), 2).unwrap();
        assert_eq!(columns.dims(), [4, 3, 4]);
        assert_eq!(columns.elements::<f32>().unwrap()[..4], [12.0, 13.0, 14.0, 15.0]);
    }

    /// Two processes of four devices each: the rows of a batch that one of them has, and a state whose parts both have.
    #[test]
    fn processes_upload_their_rows_and_keep_every_part_once() {
        let numbers: Vec<f32> = (0..96).map(|number| number as f32).collect();
        let tensor = HostTensor::new([8, 12], &numbers).unwrap();
        let mesh = |rank: usize| Mesh::along([(Axis::Data, 2), (Axis::Fsdp, 4)]).across(Process { rank, ranks: 2 });
        let batch = Sharding::split(0, mesh(0).batch_axes());
        let here = HostTensor::new([4, 12], &numbers[48..]).unwrap();
        let second = mesh(1);
        let (whole, rows) = (Rows::whole(&tensor), Rows { tensor: &here, first: 4, whole: tensor.shape() });
        let shards = Shards::new(tensor.shape(), &second, &batch).unwrap();
        for device in second.addressable() {
            assert_eq!(shards.cut(&rows, device).unwrap(), shards.cut(&whole, device).unwrap());
        }
        assert!(shards.cut(&rows, 0).is_err(), "those rows are elsewhere");
        assert_eq!(shards.here(), None);
        // Along the inner axis, each process has all parts; the first one keeps them.
        let state = Sharding::split(1, [Axis::Fsdp]);
        let shards = Shards::new(tensor.shape(), &second, &state).unwrap();
        assert_eq!(shards.here(), Some(vec![4, 5, 6, 7]));
        assert_eq!(shards.distinct(), [0, 1, 2, 3]);
        assert_eq!(shards.starts(6), [0, 6]);
        let parts: Vec<_> = (4..8).map(|device| (device, shards.cut(&whole, device).unwrap())).collect();
        assert_eq!(shards.join(&parts).unwrap(), tensor);
    }

    #[test]
    fn a_dimension_that_does_not_divide_is_refused() {
        let shape = Shape::new(octant_runtime::DType::F32, [6, 2]);
        let error = Shards::new(&shape, &Mesh::new(4), &Sharding::split(0, [Axis::Data])).err().unwrap().to_string();
        assert!(error.contains("cannot be split along axis 0 over 4 devices"), "{error}");
    }
}
