//! Meshes of devices with named axes, and how tensors are sharded over them.
//!
//! One program runs on all devices of a mesh (SPMD). A [`Sharding`] names, for each dimension of a tensor, the axes of the mesh
//! that split it; a dimension that none splits is whole on every device. One device is the mesh without axes.

use crate::{Result, RuntimeError, Shape};
use std::fmt;
use std::ops::Range;

/// What the devices along an axis of a mesh divide among themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// The batch, between groups of devices with slow links, such as slices.
    Replica,
    /// The batch.
    Data,
    /// The batch, and the parameters with the optimizer's state.
    Fsdp,
    /// The height of images.
    Spatial,
    /// The channels inside of layers.
    Tensor,
}

impl Axis {
    /// Every axis, the outermost first: devices along the last one are neighbors.
    pub const ALL: [Axis; 5] = [Axis::Replica, Axis::Data, Axis::Fsdp, Axis::Spatial, Axis::Tensor];

    /// The name in programs and messages.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Replica => "replica",
            Axis::Data => "data",
            Axis::Fsdp => "fsdp",
            Axis::Spatial => "spatial",
            Axis::Tensor => "tensor",
        }
    }

    /// Whether the devices along it have different images.
    fn splits_batch(self) -> bool {
        match self {
            Axis::Replica | Axis::Data | Axis::Fsdp => true,
            Axis::Spatial | Axis::Tensor => false,
        }
    }
}

/// One process among those whose devices make up a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number, from 0.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
}

impl Process {
    /// The only one.
    pub const ALONE: Process = Process { rank: 0, ranks: 1 };

    /// Whether there are no others.
    pub fn is_alone(self) -> bool {
        self.ranks == 1
    }
}

impl Default for Process {
    fn default() -> Process {
        Process::ALONE
    }
}

/// The devices of a program, arranged along named axes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Mesh {
    /// In the order of [`Axis::ALL`]; axes of one device are left out.
    axes: Vec<(Axis, usize)>,
    is_remote: bool,
    /// Whose memory this process can address: each has an equal share of the devices, in the order of ranks.
    process: Process,
}

impl Mesh {
    /// A mesh of that many devices, the backend's first ones, which divide batches.
    pub fn new(devices: usize) -> Mesh {
        Mesh::along([(Axis::Data, devices)])
    }

    /// One device.
    pub fn single() -> Mesh {
        Mesh::default()
    }

    /// A mesh with these axes. Lengths of one axis that is named again are multiplied.
    pub fn along(axes: impl IntoIterator<Item = (Axis, usize)>) -> Mesh {
        let axes: Vec<(Axis, usize)> = axes.into_iter().collect();
        let length = |axis: Axis| axes.iter().filter(|(of, _)| *of == axis).map(|(_, length)| *length).product();
        let axes = Axis::ALL.map(|axis| (axis, length(axis))).into_iter().filter(|(_, length)| *length > 1);
        Mesh { axes: axes.collect(), ..Mesh::default() }
    }

    /// The same devices with memory of their own: what they return is copied to the host, so less of it is better.
    pub fn remote(self) -> Mesh {
        Mesh { is_remote: true, ..self }
    }

    /// Whether the devices have memory of their own.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// The same devices, of which this process has its share, and the others theirs.
    pub fn across(self, process: Process) -> Mesh {
        Mesh { process, ..self }
    }

    /// The process that sees the mesh.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The devices whose memory this process can read and write; the others are those of other processes.
    pub fn addressable(&self) -> Range<usize> {
        let here = self.devices() / self.process.ranks;
        self.process.rank * here..(self.process.rank + 1) * here
    }

    /// The rows of a batch that the devices of this process hold; `rows` is a multiple of [`batch_parts`](Mesh::batch_parts).
    pub fn rows_here(&self, rows: usize) -> Range<usize> {
        let batch = Sharding::split(0, self.batch_axes());
        let each = rows / self.batch_parts();
        let part = |device: usize| batch.position(self, device).first().copied().unwrap_or(0);
        // Batches are split along the outermost axes, so the parts of neighbors follow one another.
        let devices = self.addressable();
        let last = devices.end.max(1) - 1;
        part(devices.start.min(last)) * each..(part(last) + 1) * each
    }

    /// The axes and how many devices lie along each.
    pub fn axes(&self) -> &[(Axis, usize)] {
        &self.axes
    }

    /// How many devices lie along an axis: 1 where the mesh does not have it.
    pub fn length(&self, axis: Axis) -> usize {
        self.axes.iter().find(|(of, _)| *of == axis).map_or(1, |(_, length)| *length)
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.axes.iter().map(|(_, length)| length).product()
    }

    /// The axes along which devices have different images.
    pub fn batch_axes(&self) -> Vec<Axis> {
        self.axes.iter().map(|(axis, _)| *axis).filter(|axis| axis.splits_batch()).collect()
    }

    /// Into how many parts a batch is split.
    pub fn batch_parts(&self) -> usize {
        self.batch_axes().into_iter().map(|axis| self.length(axis)).product()
    }

    /// The position of a device along an axis.
    fn position(&self, device: usize, axis: Axis) -> usize {
        let inner = self.axes.iter().skip_while(|(of, _)| *of != axis).skip(1).map(|(_, length)| length);
        device / inner.product::<usize>() % self.length(axis)
    }
}

/// How one tensor lies on the devices of a mesh: for each dimension, the axes that split it into equal parts.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Sharding {
    /// Dimensions behind the last one that is split are left out.
    dimensions: Vec<Vec<Axis>>,
}

impl Sharding {
    /// A full copy on every device.
    pub const REPLICATED: Sharding = Sharding { dimensions: Vec::new() };

    /// Split along one dimension by these axes; replicated where there are none.
    pub fn split(dimension: usize, axes: impl Into<Vec<Axis>>) -> Sharding {
        Sharding::REPLICATED.and(dimension, axes)
    }

    /// Also split along another dimension.
    pub fn and(mut self, dimension: usize, axes: impl Into<Vec<Axis>>) -> Sharding {
        let axes = axes.into();
        if !axes.is_empty() {
            self.dimensions.resize(self.dimensions.len().max(dimension + 1), Vec::new());
            self.dimensions[dimension] = axes;
        }
        self
    }

    /// The axes that split a dimension.
    pub fn axes(&self, dimension: usize) -> &[Axis] {
        self.dimensions.get(dimension).map_or(&[], Vec::as_slice)
    }

    /// Whether every device has a full copy.
    pub fn is_replicated(&self) -> bool {
        self.dimensions.is_empty()
    }

    /// Into how many parts a dimension is split.
    pub fn parts(&self, dimension: usize, mesh: &Mesh) -> usize {
        self.axes(dimension).iter().map(|&axis| mesh.length(axis)).product()
    }

    /// The shape of one shard; an error where the parts of a dimension would not be equal.
    pub fn shard_shape(&self, shape: &Shape, mesh: &Mesh) -> Result<Shape> {
        let mut dims = shape.dims().to_vec();
        for dimension in 0..self.dimensions.len() {
            let parts = self.parts(dimension, mesh);
            match dims.get_mut(dimension) {
                Some(length) if *length > 0 && length.is_multiple_of(parts) => *length /= parts,
                _ if parts == 1 => {}
                _ => {
                    let text = format!(
                        "{shape} cannot be split along axis {dimension} over {parts} devices: they must divide its length"
                    );
                    return Err(RuntimeError::Device(text));
                }
            }
        }
        Ok(shape.with_dims(dims))
    }

    /// Which part of each dimension a device has.
    pub fn position(&self, mesh: &Mesh, device: usize) -> Vec<usize> {
        let along = |axes: &Vec<Axis>| {
            axes.iter().fold(0, |part, &axis| part * mesh.length(axis) + mesh.position(device, axis))
        };
        self.dimensions.iter().map(along).collect()
    }
}

impl fmt::Debug for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names = |axes: &Vec<Axis>| axes.iter().map(|axis| axis.name()).collect::<Vec<_>>().join(" × ");
        match self.is_replicated() {
            true => write!(f, "replicated"),
            false => write!(f, "[{}]", self.dimensions.iter().map(names).collect::<Vec<_>>().join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn one_device_is_the_mesh_without_axes() {
        assert_eq!(Mesh::new(1), Mesh::single());
        assert_eq!(Mesh::along([(Axis::Fsdp, 1), (Axis::Data, 1)]), Mesh::single());
        assert_eq!((Mesh::single().devices(), Mesh::single().batch_parts()), (1, 1));
    }

    #[test]
    fn devices_are_numbered_along_the_last_axis_first() {
        let mesh = Mesh::along([(Axis::Fsdp, 4), (Axis::Data, 2)]);
        assert_eq!((mesh.devices(), mesh.axes()), (8, &[(Axis::Data, 2), (Axis::Fsdp, 4)][..]));
        let positions: Vec<[usize; 2]> =
            (0..8).map(|device| [Axis::Data, Axis::Fsdp].map(|axis| mesh.position(device, axis))).collect();
        assert_eq!(positions, [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3]]);
        let batch = Sharding::split(0, mesh.batch_axes());
        assert_eq!((0..8).map(|device| batch.position(&mesh, device)[0]).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        let weights = Sharding::split(1, [Axis::Fsdp]);
        assert_eq!(weights.position(&mesh, 6), [0, 2]);
    }

    #[test]
    fn processes_divide_the_devices_and_the_rows_of_batches() {
        let rows = |axes: [(Axis, usize); 2], rank: usize, ranks: usize| {
            Mesh::along(axes).across(Process { rank, ranks }).rows_here(32)
        };
        let along = [(Axis::Data, 2), (Axis::Fsdp, 4)];
        assert_eq!((0..4).map(|rank| rows(along, rank, 4)).collect::<Vec<_>>(), [0..8, 8..16, 16..24, 24..32]);
        // Two processes share the images that their devices have parts of.
        let spatial = [(Axis::Data, 2), (Axis::Spatial, 4)];
        assert_eq!((0..4).map(|rank| rows(spatial, rank, 4)).collect::<Vec<_>>(), [0..16, 0..16, 16..32, 16..32]);
        let mesh = Mesh::new(8).across(Process { rank: 1, ranks: 2 });
        assert_eq!((mesh.addressable(), mesh.process().is_alone()), (4..8, false));
        assert_eq!((Mesh::new(8).addressable(), Mesh::single().rows_here(7)), (0..8, 0..7));
    }

    #[test]
    fn shards_are_equal_parts() {
        let mesh = Mesh::along([(Axis::Data, 2), (Axis::Fsdp, 4)]);
        let shape = Shape::new(DType::F32, [6, 8, 3]);
        let both = Sharding::split(0, [Axis::Data]).and(1, [Axis::Fsdp]);
        assert_eq!(both.shard_shape(&shape, &mesh).unwrap().dims(), [3, 2, 3]);
        assert_eq!(format!("{both:?}, {:?}", Sharding::REPLICATED), "[data, fsdp], replicated");
        let error = Sharding::split(0, [Axis::Fsdp]).shard_shape(&shape, &mesh).unwrap_err().to_string();
        assert!(error.contains("cannot be split along axis 0 over 4 devices"), "{error}");
        assert!(Sharding::split(5, [Axis::Data]).shard_shape(&shape, &mesh).is_err());
        // On a mesh without the axis, nothing is split.
        assert_eq!(both.shard_shape(&shape, &Mesh::single()).unwrap(), shape);
    }
}
