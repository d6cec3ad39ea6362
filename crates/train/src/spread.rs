//! How batches and state lie on several devices.
//!
//! A batch need not divide over the devices: rows that hold nothing are added until it does, and the first thing that
//! the program does is to cut them off again. What follows knows only the real rows, so losses, gradients and the
//! statistics of norms are those of one device; spreading the rows that are left is the compiler's business. Where devices
//! belong to several processes, each brings the rows that its own devices hold.

use crate::{Task, TrainError};
use octant_data::Batch;
use octant_graph::{HostTensor, Shape};
use octant_nn::{VariableSpec, WeightLayout};
use octant_runtime::{Axis, Backend, Buffer, Mesh, Sharding};
use octant_tensor::{AlignedBytes, Bytes};
use std::ops::Range;

/// The rows of a batch with those that make it divide over the devices.
pub(crate) fn rows(batch_size: usize, mesh: &Mesh) -> usize {
    batch_size.next_multiple_of(mesh.batch_parts())
}

/// How a tensor of a batch lies: images and masks also in strips of their height, where devices divide that.
pub(crate) fn of_batch(shape: &Shape, mesh: &Mesh) -> Sharding {
    let rows = Sharding::split(0, mesh.batch_axes());
    let strips = mesh.length(Axis::Spatial);
    let is_image = shape.rank() == 4 && strips > 1 && shape.dims()[1].is_multiple_of(strips);
    if is_image { rows.and(1, [Axis::Spatial]) } else { rows }
}

/// How a tensor lies of which no device needs more than its part: cut along its longest dimension that these axes divide, if
/// one does.
pub(crate) fn in_parts(shape: &Shape, mesh: &Mesh, axes: &[Axis]) -> Sharding {
    in_parts_from(0, shape, mesh, axes)
}

/// The same along one of the dimensions from `first` on.
fn in_parts_from(first: usize, shape: &Shape, mesh: &Mesh, axes: &[Axis]) -> Sharding {
    let parts: usize = axes.iter().map(|&axis| mesh.length(axis)).product();
    let divided = |length: usize| parts > 1 && length.is_multiple_of(parts);
    let dimensions = shape.dims().iter().enumerate().skip(first).filter(|(_, length)| divided(**length));
    // The first of several equal ones.
    let longest = dimensions.rev().max_by_key(|(_, length)| **length);
    longest.map_or(Sharding::REPLICATED, |(dimension, _)| Sharding::split(dimension, axes))
}

/// How a parameter lies: in parts over the axis of that purpose, unless it has fewer KiB than are worth the communication. Every
/// part is a rectangle in the reference's layout too, because checkpoints keep it there.
pub(crate) fn of_variable(spec: &VariableSpec, mesh: &Mesh, least_kib: usize) -> Sharding {
    // Rows of a flattened layer are pixels first and channels second; in the reference it is the other way round.
    let first = usize::from(matches!(spec.layout, WeightLayout::Flattened { .. }));
    along_fsdp(first, &spec.shape, mesh, least_kib)
}

/// How a tensor lies that the optimizer keeps for a parameter.
pub(crate) fn of_slot(shape: &Shape, mesh: &Mesh, least_kib: usize) -> Sharding {
    along_fsdp(0, shape, mesh, least_kib)
}

fn along_fsdp(first: usize, shape: &Shape, mesh: &Mesh, least_kib: usize) -> Sharding {
    match shape.bytes() >= least_kib << 10 {
        true => in_parts_from(first, shape, mesh, &[Axis::Fsdp]),
        false => Sharding::REPLICATED,
    }
}

/// The rows of a batch of that many images that this process brings.
pub(crate) fn rows_here(batch_size: usize, mesh: &Mesh) -> Range<usize> {
    let here = mesh.rows_here(rows(batch_size, mesh));
    here.start.min(batch_size)..here.end.min(batch_size)
}

/// Starts to copy a batch of `batch_size` images to the devices; `batch` has all of its rows, or those of this process.
pub(crate) fn upload(
    backend: &dyn Backend,
    task: &dyn Task,
    mesh: &Mesh,
    batch_size: usize,
    batch: &Batch,
) -> Result<Vec<Buffer>, TrainError> {
    let given = batch.mask.dims()[0];
    // A single process always has all rows, also of a batch whose size the program does not expect, which it refuses.
    let is_whole = mesh.process().is_alone() || given == batch_size;
    let one = |tensor: &HostTensor| -> Result<Buffer, TrainError> {
        if is_whole {
            let tensor = with_rows(tensor, rows(given, mesh))?;
            return Ok(backend.upload(&tensor, mesh, &of_batch(tensor.shape(), mesh))?);
        }
        let padded = rows(batch_size, mesh);
        let (here, mut dims) = (mesh.rows_here(padded), tensor.dims().to_vec());
        dims[0] = padded;
        let whole = tensor.shape().with_dims(dims);
        let sharding = of_batch(&whole, mesh);
        Ok(backend.upload_rows(&with_rows(tensor, here.len())?, here.start, &whole, mesh, &sharding)?)
    };
    task.inputs(given).tensors(batch)?.iter().map(one).collect()
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
    fn every_real_row_is_brought_by_one_process() {
        let rows = |batch_size: usize| -> Vec<Range<usize>> {
            let mesh = |rank: usize| Mesh::new(8).across(octant_runtime::Process { rank, ranks: 4 });
            (0..4).map(|rank| rows_here(batch_size, &mesh(rank))).collect()
        };
        assert_eq!(rows(16), [0..4, 4..8, 8..12, 12..16]);
        assert_eq!(rows(13), [0..4, 4..8, 8..12, 12..13]);
    }

    #[test]
    fn parts_of_a_flattened_layer_were_no_rectangles_of_the_reference() {
        let spec = |layout| VariableSpec {
            path: "fc.weight".into(),
            shape: Shape::new(DType::F32, [4096, 16]),
            kind: octant_nn::VariableKind::Parameter,
            init: octant_nn::Init::Constant(0.0),
            layout,
            layer: 0,
            companion: false,
        };
        let mesh = Mesh::along([(Axis::Fsdp, 2)]);
        let flattened = WeightLayout::Flattened { height: 4, width: 4 };
        assert_eq!(of_variable(&spec(flattened), &mesh, 1), Sharding::split(1, [Axis::Fsdp]));
        assert_eq!(of_variable(&spec(WeightLayout::Dense), &mesh, 1), Sharding::split(0, [Axis::Fsdp]));
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
