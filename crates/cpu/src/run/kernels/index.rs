//! Reading and writing windows at positions known only now.

use super::super::memory::Memory;
use super::Arguments;
use super::numbers::{Number, advance, for_type, integers};
use crate::kernels::{Machine, Shared};
use octant_graph::{DType, Gather, Scatter, ScatterKind, Shape};

/// The start of a window, moved so that it fits.
fn clamp(start: i64, size: usize, dim: usize) -> usize {
    start.clamp(0, (dim - size) as i64) as usize
}

fn position(index: impl Iterator<Item = usize>, strides: &[usize]) -> usize {
    index.zip(strides).map(|(i, stride)| i * stride).sum()
}

/// Copies a window row by row between two buffers: `visit(offset in the large one, offset in the small one, elements)`.
fn rows_of_window(large: &Shape, start: &[usize], sizes: &[usize], mut visit: impl FnMut(usize, usize, usize)) {
    let Some((&row, outer)) = sizes.split_last() else { return visit(0, 0, 1) };
    if sizes.contains(&0) {
        return;
    }
    let strides = large.strides();
    let mut index = vec![0; outer.len()];
    let mut small = 0;
    loop {
        let start = position(index.iter().chain([&0]).zip(start).map(|(i, s)| i + s), &strides);
        visit(start, small, row);
        small += row;
        if !advance(&mut index, outer) {
            return;
        }
    }
}

pub(super) fn dynamic_slice(sizes: &[usize], arguments: &Arguments, memory: &Memory) {
    let (operand, shape) = &arguments.inputs[0];
    let start: Vec<usize> = (0..sizes.len())
        .map(|axis| clamp(integers(memory, &arguments.inputs[axis + 1])[0], sizes[axis], shape.dims()[axis]))
        .collect();
    let size = shape.dtype().size();
    let (output, result) = &arguments.outputs[0];
    // SAFETY: operand and result are stored with these sizes; this step owns the result.
    let (from, to) =
        unsafe { (memory.read::<u8>(*operand, shape.bytes()), memory.write::<u8>(*output, result.bytes())) };
    rows_of_window(shape, &start, sizes, |large, small, row| {
        to[small * size..(small + row) * size].copy_from_slice(&from[large * size..(large + row) * size]);
    });
}

pub(super) fn dynamic_update_slice(arguments: &Arguments, memory: &Memory) {
    let [(operand, shape), (update, window)] = [&arguments.inputs[0], &arguments.inputs[1]];
    let start: Vec<usize> = (0..shape.rank())
        .map(|axis| clamp(integers(memory, &arguments.inputs[axis + 2])[0], window.dims()[axis], shape.dims()[axis]))
        .collect();
    let size = shape.dtype().size();
    let output = arguments.outputs[0].0;
    memory.copy(*operand, output, shape.bytes());
    // SAFETY: update and result are stored with these sizes; this step owns the result.
    let (from, to) = unsafe { (memory.read::<u8>(*update, window.bytes()), memory.write::<u8>(output, shape.bytes())) };
    rows_of_window(shape, &start, window.dims(), |large, small, row| {
        to[large * size..(large + row) * size].copy_from_slice(&from[small * size..(small + row) * size]);
    });
}

/// The index vectors of a gather or scatter, one for every batch index.
struct IndexVectors {
    values: Vec<i64>,
    batch: Vec<usize>,
    batch_strides: Vec<usize>,
    component_stride: usize,
    components: usize,
}

impl IndexVectors {
    fn read(memory: &Memory, argument: &(usize, Shape), axis: usize) -> IndexVectors {
        let (mut batch, mut batch_strides) = (argument.1.dims().to_vec(), argument.1.strides());
        let (components, component_stride) = match axis < batch.len() {
            true => (batch.remove(axis), batch_strides.remove(axis)),
            false => (1, 0),
        };
        IndexVectors { values: integers(memory, argument), batch, batch_strides, component_stride, components }
    }

    /// Calls `visit` with every batch index and its vector, on all threads; `window` elements are moved for each.
    fn for_each(&self, machine: &Machine, window: usize, visit: impl Fn(&[usize], &[i64]) + Sync) {
        const TASK: usize = 1 << 14;
        let count: usize = self.batch.iter().product();
        let each = TASK.div_ceil(window.max(1));
        machine.pool.run(count.div_ceil(each), &|task| {
            let mut batch_index = nth_index(&self.batch, task * each);
            for _ in task * each..((task + 1) * each).min(count) {
                visit(&batch_index, &self.vector(&batch_index));
                advance(&mut batch_index, &self.batch);
            }
        });
    }

    fn vector(&self, batch_index: &[usize]) -> Vec<i64> {
        let start = position(batch_index.iter().copied(), &self.batch_strides);
        (0..self.components).map(|component| self.values[start + component * self.component_stride]).collect()
    }
}

/// Windows that are one run of elements each, whose index vectors and whose runs in the other tensor lie one after another: most
/// gathers and scatters are of rows, and need no index per element.
struct Runs {
    /// Elements of a run.
    length: usize,
    /// The stride and the last start of every component of an index vector.
    axes: Vec<(usize, i64)>,
}

impl Runs {
    /// None where windows are not of that kind. `window_axes` are the axes of the other tensor, of that rank, that belong to windows.
    fn of(
        operand: &Shape,
        sizes: &[usize],
        starts: &[usize],
        vectors: &IndexVectors,
        (window_axes, rank): (&[usize], usize),
    ) -> Option<Runs> {
        let (strides, dims) = (operand.strides(), operand.dims());
        let first = sizes.iter().position(|&size| size != 1).unwrap_or(sizes.len());
        let is_run = sizes.iter().zip(dims).skip(first + 1).all(|(size, dim)| size == dim);
        let is_behind = window_axes.iter().copied().eq(rank - window_axes.len()..rank);
        let packed = Shape::new(DType::U8, vectors.batch.clone()).strides();
        let is_packed = vectors.components > 0
            && (vectors.component_stride == 1 || vectors.components == 1)
            && vectors.batch_strides.iter().zip(packed).all(|(own, packed)| *own == packed * vectors.components);
        let axis = |&axis: &usize| (strides[axis], dims[axis] as i64 - sizes[axis] as i64);
        let length = sizes.iter().product();
        (is_run && is_behind && is_packed && length > 0)
            .then(|| Runs { length, axes: starts.iter().map(axis).collect() })
    }

    /// Where the run of an index vector begins, moved so that it fits.
    fn clamped(&self, vector: &[i64]) -> usize {
        vector.iter().zip(&self.axes).map(|(&index, &(stride, last))| index.clamp(0, last) as usize * stride).sum()
    }

    /// The same; none where it does not fit.
    fn fitting(&self, vector: &[i64]) -> Option<usize> {
        let fits = vector.iter().zip(&self.axes).all(|(index, (_, last))| (0..=*last).contains(index));
        fits.then(|| vector.iter().zip(&self.axes).map(|(&index, &(stride, _))| index as usize * stride).sum())
    }
}

pub(super) fn gather(gather: &Gather, arguments: &Arguments, memory: &Memory, machine: &Machine) {
    let (operand, shape) = &arguments.inputs[0];
    let (output, result) = &arguments.outputs[0];
    let vectors = IndexVectors::read(memory, &arguments.inputs[1], gather.index_vector_axis);
    let size = shape.dtype().size();
    let result_strides = result.strides();
    let batch_strides: Vec<usize> =
        (0..result.rank()).filter(|axis| !gather.offset_axes.contains(axis)).map(|axis| result_strides[axis]).collect();
    // The result's stride for every operand axis; collapsed axes do not appear.
    let mut offset_axes = gather.offset_axes.iter();
    let window_strides: Vec<usize> = (0..shape.rank())
        .map(|axis| match gather.collapsed_axes.contains(&axis) {
            true => 0,
            false => offset_axes.next().map_or(0, |&axis| result_strides[axis]),
        })
        .collect();
    // SAFETY: operand and result are stored with these sizes; this step owns the result.
    let (from, to) =
        unsafe { (memory.read::<u8>(*operand, shape.bytes()), memory.write::<u8>(*output, result.bytes())) };
    let to = Shared(to.as_mut_ptr());
    let window_axes = (gather.offset_axes.as_slice(), result.rank());
    if let Some(runs) = Runs::of(shape, &gather.slice_sizes, &gather.start_index_map, &vectors, window_axes) {
        const TASK: usize = 1 << 14;
        let (bytes, components) = (runs.length * size, vectors.components);
        let count = result.elements() / runs.length;
        let each = TASK.div_ceil(runs.length);
        machine.pool.run(count.div_ceil(each), &|task| {
            for row in task * each..((task + 1) * each).min(count) {
                let start = runs.clamped(&vectors.values[row * components..][..components]) * size;
                let from = &from[start..start + bytes];
                // SAFETY: every run of the result belongs to one row, and every row to one task.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.at(row * bytes), bytes) };
            }
        });
        return;
    }
    let window: usize = gather.slice_sizes.iter().product();
    vectors.for_each(machine, window, |batch_index, vector| {
        let mut start = vec![0; shape.rank()];
        for (&axis, &index) in gather.start_index_map.iter().zip(vector) {
            start[axis] = clamp(index, gather.slice_sizes[axis], shape.dims()[axis]);
        }
        let target = position(batch_index.iter().copied(), &batch_strides);
        copy_window(shape, &start, &gather.slice_sizes, target, &window_strides, |source, target, count| {
            let from = &from[source * size..(source + count) * size];
            // SAFETY: the windows of a gather are disjoint parts of the result, and every window belongs to one task.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.at(target * size), from.len()) };
        });
    });
}

pub(super) fn scatter(scatter: &Scatter, arguments: &Arguments, memory: &Memory) {
    let [(operand, shape), _, (updates, update_shape)] =
        [&arguments.inputs[0], &arguments.inputs[1], &arguments.inputs[2]];
    let output = arguments.outputs[0].0;
    let vectors = IndexVectors::read(memory, &arguments.inputs[1], scatter.index_vector_axis);
    memory.copy(*operand, output, shape.bytes());
    let update_strides = update_shape.strides();
    let batch_strides: Vec<usize> = (0..update_shape.rank())
        .filter(|axis| !scatter.update_window_axes.contains(axis))
        .map(|axis| update_strides[axis])
        .collect();
    let mut window_axes = scatter.update_window_axes.iter();
    let (mut sizes, mut window_strides) = (vec![1; shape.rank()], vec![0; shape.rank()]);
    for axis in (0..shape.rank()).filter(|axis| !scatter.inserted_window_axes.contains(axis)) {
        if let Some(&update_axis) = window_axes.next() {
            (sizes[axis], window_strides[axis]) = (update_shape.dims()[update_axis], update_strides[update_axis]);
        }
    }
    for_type!(shape.dtype(), T => {
        // SAFETY: updates and result are stored with this element type; this step owns the result.
        let (from, to) = unsafe {
            (memory.read::<T>(*updates, update_shape.elements()), memory.write::<T>(output, shape.elements()))
        };
        let combined = |to: T, new: T| match scatter.kind {
            ScatterKind::Set => new,
            ScatterKind::Add => to.plus(new),
            ScatterKind::Multiply => to.times(new),
            ScatterKind::Min => to.lesser_of(new),
            ScatterKind::Max => to.greater_of(new),
        };
        let window_axes = (scatter.update_window_axes.as_slice(), update_shape.rank());
        if let Some(runs) = Runs::of(shape, &sizes, &scatter.scatter_axes, &vectors, window_axes) {
            let rows = from.chunks_exact(runs.length).zip(vectors.values.chunks_exact(vectors.components.max(1)));
            for (row, vector) in rows {
                let Some(start) = runs.fitting(vector) else { continue };
                to[start..start + runs.length].iter_mut().zip(row).for_each(|(to, &new)| *to = combined(*to, new));
            }
            return;
        }
        for_each_index(&vectors.batch, |batch_index| {
            let mut start = vec![0i64; shape.rank()];
            for (&axis, &index) in scatter.scatter_axes.iter().zip(&vectors.vector(batch_index)) {
                start[axis] = index;
            }
            let fits = (0..shape.rank()).all(|axis| start[axis] >= 0 && start[axis] as usize + sizes[axis] <= shape.dims()[axis]);
            if !fits {
                return;
            }
            let start: Vec<usize> = start.into_iter().map(|index| index as usize).collect();
            let source = position(batch_index.iter().copied(), &batch_strides);
            copy_window(shape, &start, &sizes, source, &window_strides, |target, source, count| {
                for (to, &new) in to[target..target + count].iter_mut().zip(&from[source..source + count]) {
                    *to = combined(*to, new);
                }
            });
        });
    });
}

fn for_each_index(dims: &[usize], mut visit: impl FnMut(&[usize])) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    loop {
        visit(&index);
        if !advance(&mut index, dims) {
            return;
        }
    }
}

/// The index that comes after `number` others, in row-major order.
fn nth_index(dims: &[usize], mut number: usize) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (index, &dim) in index.iter_mut().zip(dims).rev() {
        (*index, number) = (number % dim, number / dim);
    }
    index
}

/// Visits `(position in the operand, position in the other tensor, elements)` for every run of elements of a window that is
/// contiguous in both.
fn copy_window(
    operand: &Shape,
    start: &[usize],
    sizes: &[usize],
    other_start: usize,
    other_strides: &[usize],
    mut visit: impl FnMut(usize, usize, usize),
) {
    let strides = operand.strides();
    let (run, outer) = match (sizes.split_last(), other_strides.last()) {
        (Some((&row, outer)), Some(1)) => (row, outer),
        _ => (1, sizes),
    };
    let inside = position(start.iter().copied(), &strides);
    for_each_index(outer, |index| {
        let index = || index.iter().copied();
        visit(inside + position(index(), &strides), other_start + position(index(), other_strides), run);
    });
}
