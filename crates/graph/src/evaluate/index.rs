//! Reading and writing at positions known only when the program runs.

use super::movement::rearrange;
use super::numbers::{Numbers, from_floats, from_integers, integers, numbers};
use super::positions::{TensorBuilder, element, for_each_index, position};
use crate::{DType, Gather, HostTensor, Scatter, ScatterKind, Shape};

/// Index vectors, one per index of the batch.
struct IndexVectors {
    components: Vec<i128>,
    /// Strides of the batch axes, in order.
    batch_strides: Vec<usize>,
    /// Stride and length of the axis that holds the vectors.
    vector: (usize, usize),
}

impl IndexVectors {
    fn new(indices: &HostTensor, index_vector_axis: usize) -> IndexVectors {
        let mut batch_strides = indices.shape().strides();
        let vector = match index_vector_axis < batch_strides.len() {
            true => (batch_strides.remove(index_vector_axis), indices.dims()[index_vector_axis]),
            false => (0, 1),
        };
        IndexVectors { components: integers(indices), batch_strides, vector }
    }

    /// The position in an operand of that rank which the vector of a batch index addresses; component `i` counts along
    /// axis `axes[i]`.
    fn start(&self, batch: &[usize], axes: &[usize], rank: usize) -> Vec<i128> {
        let first = position(batch, &self.batch_strides);
        let mut start = vec![0; rank];
        for i in 0..self.vector.1 {
            start[axes[i]] = self.components[first + i * self.vector.0];
        }
        start
    }
}

/// The entries of `index` along `axes`, and those along all others.
fn split(index: &[usize], axes: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let inside: Vec<usize> = axes.iter().map(|&axis| index[axis]).collect();
    let outside = (0..index.len()).filter(|axis| !axes.contains(axis)).map(|axis| index[axis]).collect();
    (inside, outside)
}

/// An index of a window, with zeros along the operand axes that the window does not show.
fn spread(window: &[usize], hidden: &[usize], rank: usize) -> Vec<usize> {
    let mut shown = window.iter().copied();
    (0..rank).map(|axis| if hidden.contains(&axis) { 0 } else { shown.next().unwrap_or(0) }).collect()
}

pub fn gather(operand: &HostTensor, indices: &HostTensor, gather: &Gather, shape: &Shape) -> HostTensor {
    let vectors = IndexVectors::new(indices, gather.index_vector_axis);
    let (dims, strides) = (operand.dims(), operand.shape().strides());
    rearrange(operand, shape, |index| {
        let (window, batch) = split(index, &gather.offset_axes);
        let start = vectors.start(&batch, &gather.start_index_map, dims.len());
        let offset = spread(&window, &gather.collapsed_axes, dims.len());
        let position = |axis: usize| {
            let last = (dims[axis] - gather.slice_sizes[axis]) as i128;
            start[axis].clamp(0, last) as usize + offset[axis]
        };
        (0..dims.len()).map(|axis| position(axis) * strides[axis]).sum()
    })
}

pub fn scatter(operand: &HostTensor, indices: &HostTensor, updates: &HostTensor, scatter: &Scatter) -> HostTensor {
    let targets = scatter_targets(operand, indices, updates, scatter);
    let written = targets.iter().enumerate().filter_map(|(update, target)| target.map(|target| (update, target)));
    if scatter.kind == ScatterKind::Set {
        let mut canvas = TensorBuilder::copy_of(operand);
        written.for_each(|(update, target)| canvas.put(target, element(updates, update)));
        return canvas.finish();
    }
    // Combined in the widest type and rounded once, like every sum here.
    match (numbers(operand), numbers(updates)) {
        (Numbers::Floats(mut values), Numbers::Floats(updates)) => {
            written.for_each(|(u, t)| values[t] = float_update(scatter.kind, values[t], updates[u]));
            from_floats(operand.shape(), &values)
        }
        (Numbers::Integers(mut values), Numbers::Integers(updates)) => {
            let dtype = operand.dtype();
            written.for_each(|(u, t)| values[t] = integer_update(scatter.kind, values[t], updates[u], dtype));
            from_integers(operand.shape(), &values)
        }
        _ => unreachable!("operand and updates are of one type"),
    }
}

/// The operand position that each update goes to; none when its window does not fit.
fn scatter_targets(
    operand: &HostTensor,
    indices: &HostTensor,
    updates: &HostTensor,
    scatter: &Scatter,
) -> Vec<Option<usize>> {
    let vectors = IndexVectors::new(indices, scatter.index_vector_axis);
    let (dims, strides) = (operand.dims(), operand.shape().strides());
    let (window_sizes, _) = split(updates.dims(), &scatter.update_window_axes);
    let mut sizes = window_sizes.into_iter();
    let sizes: Vec<usize> = (0..dims.len())
        .map(|axis| if scatter.inserted_window_axes.contains(&axis) { 1 } else { sizes.next().unwrap_or(1) })
        .collect();
    let mut targets = Vec::with_capacity(updates.shape().elements());
    for_each_index(updates.dims(), |index| {
        let (window, batch) = split(index, &scatter.update_window_axes);
        let start = vectors.start(&batch, &scatter.scatter_axes, dims.len());
        let offset = spread(&window, &scatter.inserted_window_axes, dims.len());
        let fits =
            (0..dims.len()).all(|axis| start[axis] >= 0 && start[axis] + sizes[axis] as i128 <= dims[axis] as i128);
        let target = || (0..dims.len()).map(|axis| (start[axis] as usize + offset[axis]) * strides[axis]).sum();
        targets.push(fits.then(target));
    });
    targets
}

fn float_update(kind: ScatterKind, there: f64, update: f64) -> f64 {
    use super::elementwise::float_max;
    match kind {
        ScatterKind::Set => update,
        ScatterKind::Add => there + update,
        ScatterKind::Multiply => there * update,
        ScatterKind::Min => -float_max(-there, -update),
        ScatterKind::Max => float_max(there, update),
    }
}

fn integer_update(kind: ScatterKind, there: i128, update: i128, dtype: DType) -> i128 {
    match kind {
        ScatterKind::Set => update,
        // Bools add up like "or".
        ScatterKind::Add if dtype == DType::Bool => there | update,
        ScatterKind::Add => there + update,
        ScatterKind::Multiply => there.wrapping_mul(update),
        ScatterKind::Min => there.min(update),
        ScatterKind::Max => there.max(update),
    }
}
