//! Cutting a host tensor into the shards of the devices, and putting them together again.

use octant_runtime::{HostTensor, Mesh, RuntimeError, Shape, Sharding};
use octant_tensor::{AlignedBytes, Bytes};

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
        let mut known = Vec::new();
        let is_new = |device: &usize| {
            let position = self.sharding.position(self.mesh, *device);
            let is_new = !known.contains(&position);
            known.push(position);
            is_new
        };
        (0..self.mesh.devices()).filter(is_new).collect()
    }

    /// The shard of a device. One that is contiguous shares the tensor's bytes, others are copies.
    pub(super) fn cut(&self, tensor: &HostTensor, device: usize) -> Result<HostTensor, RuntimeError> {
        if self.shape == *self.whole {
            return Ok(tensor.clone());
        }
        let runs = self.runs(device);
        let bytes = match runs.starts[..] {
            [start] => tensor.bytes().slice(start..start + runs.length),
            _ => {
                let mut bytes = AlignedBytes::zeroed(self.shape.bytes());
                for (to, &from) in bytes.chunks_exact_mut(runs.length.max(1)).zip(&runs.starts) {
                    to.copy_from_slice(&tensor.bytes()[from..from + runs.length]);
                }
                Some(Bytes::new(bytes))
            }
        };
        let bytes = bytes.ok_or_else(|| RuntimeError::Device("a shard lies outside its tensor".into()))?;
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
    use octant_runtime::Axis;

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
            let cut: Vec<_> = devices.iter().map(|&device| (device, shards.cut(&tensor, device).unwrap())).collect();
            assert!(cut.iter().all(|(_, shard)| shard.shape().elements() * count == 96));
            assert_eq!(shards.join(&cut).unwrap(), tensor, "{sharding:?}");
        }
        let columns = Sharding::split(1, [Axis::Data]);
        let columns = Shards::new(tensor.shape(), &mesh, &columns).unwrap().cut(&tensor, 2).unwrap();
        assert_eq!(columns.dims(), [4, 3, 4]);
        assert_eq!(columns.elements::<f32>().unwrap()[..4], [12.0, 13.0, 14.0, 15.0]);
    }

    #[test]
    fn a_dimension_that_does_not_divide_is_refused() {
        let shape = Shape::new(octant_runtime::DType::F32, [6, 2]);
        let error = Shards::new(&shape, &Mesh::new(4), &Sharding::split(0, [Axis::Data])).err().unwrap().to_string();
        assert!(error.contains("cannot be split along axis 0 over 4 devices"), "{error}");
    }
}
