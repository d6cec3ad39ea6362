//! How batches and state lie on several devices.
//!
//! A batch need not divide over the devices: rows that hold nothing are added until it does, and the first thing that
//! the program does is to cut them off again. What follows knows only the real rows, so losses, gradients and the
//! statistics of norms are those of one device; spreading the rows that are left is the compiler's business.

use crate::{Task, TrainError};
use octant_data::Batch;
use octant_graph::{HostTensor, Shape};
use octant_runtime::{Axis, Backend, Buffer, Mesh, Sharding};
use octant_tensor::{AlignedBytes, Bytes};

/// The rows of a batch with those that make it divide over the devices.
pub(crate) fn rows(batch_size: usize, mesh: &Mesh) -> usize {
    batch_size.next_multiple_of(mesh.batch_parts())
}

/// How the tensors of a batch lie.
pub(crate) fn of_batch(mesh: &Mesh) -> Sharding {
    Sharding::split(0, mesh.batch_axes())
}

/// How a tensor lies of which no device needs more than its part: cut along its longest dimension that these axes divide, if
/// one does.
pub(crate) fn in_parts(shape: &Shape, mesh: &Mesh, axes: &[Axis]) -> Sharding {
    let parts: usize = axes.iter().map(|&axis| mesh.length(axis)).product();
    let dimensions = shape.dims().iter().enumerate().filter(|(_, length)| parts > 1 && length.is_multiple_of(parts));
    // The first of several equal ones.
    let longest = dimensions.rev().max_by_key(|(_, length)| **length);
    longest.map_or(Sharding::REPLICATED, |(dimension, _)| Sharding::split(dimension, axes))
}

/// How a parameter lies: in parts over the axis of that purpose, unless it has fewer KiB than are worth the communication.
pub(crate) fn of_variable(shape: &Shape, mesh: &Mesh, least_kib: usize) -> Sharding {
    match shape.bytes() >= least_kib << 10 {
        true => in_parts(shape, mesh, &[Axis::Fsdp]),
        false => Sharding::REPLICATED,
    }
}

/// Starts to copy a batch to the devices.
pub(crate) fn upload(
    backend: &dyn Backend,
    task: &dyn Task,
    mesh: &Mesh,
    batch: &Batch,
) -> Result<Vec<Buffer>, TrainError> {
    let one = |tensor: &HostTensor| -> Result<Buffer, TrainError> {
        let rows = rows(tensor.dims()[0], mesh);
        Ok(backend.upload(&with_rows(tensor, rows)?, mesh, &of_batch(mesh))?)
    };
    task.inputs(batch.mask.dims()[0]).tensors(batch)?.iter().map(one).collect()
}

/// The tensor with zeros behind its last row.
fn with_rows(tensor: &HostTensor, rows: usize) -> Result<HostTensor, TrainError> {
    if tensor.dims()[0] == rows {
        return Ok(tensor.clone());
    }
    let mut dims = tensor.dims().to_vec();
    dims[0] = rows;
    let shape = tensor.shape().with_dims(dims);
    let mut bytes = AlignedBytes::zeroed(shape.bytes());
    bytes[..tensor.bytes().len()].copy_from_slice(tensor.bytes());
    HostTensor::from_bytes(shape, Bytes::new(bytes)).map_err(|error| TrainError::Data(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_graph::DType;

    #[test]
    fn rows_are_added_until_a_batch_divides() {
        assert_eq!(rows(13, &Mesh::new(8)), 16);
        assert_eq!(rows(16, &Mesh::new(8)), 16);
        let tensor = HostTensor::new([3, 2], &[1u8, 2, 3, 4, 5, 6]).expect("six elements");
        let padded = with_rows(&tensor, 4).expect("zeros fit");
        assert_eq!(
            (padded.dims(), padded.elements::<u8>().expect("bytes")),
            (&[4, 2][..], &[1, 2, 3, 4, 5, 6, 0, 0][..])
        );
    }

    #[test]
    fn parts_are_cut_along_the_longest_axis_that_divides() {
        let along = |dims: &[usize]| in_parts(&Shape::new(DType::F32, dims), &Mesh::new(8), &[Axis::Data]);
        assert_eq!(along(&[3, 3, 64, 128]), Sharding::split(3, [Axis::Data]));
        assert_eq!(along(&[64, 10]), Sharding::split(0, [Axis::Data]));
        assert_eq!(along(&[64, 64]), Sharding::split(0, [Axis::Data]));
        assert_eq!(along(&[10]), Sharding::REPLICATED);
        assert_eq!(in_parts(&Shape::new(DType::F32, [64]), &Mesh::single(), &[Axis::Data]), Sharding::REPLICATED);
    }
}
