//! Backward rules: what was read is written back, what was written is read back.

use crate::gradient::step::{Gradients, Step};
use crate::{DType, Gather, HostTensor, Scatter, ScatterKind, Shape, Tensor};

pub(crate) fn gather(gather: &Gather, step: &Step) -> Gradients {
    let (operand, indices, ct) = (&step.inputs[0], &step.inputs[1], step.cotangent());
    // Gathering clamps its indices, scattering drops what does not fit: the clamped ones serve both.
    let positions =
        SlicePositions::new(operand, indices, &gather.start_index_map, gather.index_vector_axis, &gather.slice_sizes);
    let scatter = Scatter {
        update_window_axes: gather.offset_axes.clone(),
        inserted_window_axes: gather.collapsed_axes.clone(),
        scatter_axes: gather.start_index_map.clone(),
        index_vector_axis: gather.index_vector_axis,
        kind: ScatterKind::Add,
    };
    vec![Some(operand.zeros_like().scatter(&positions.clamped(), ct, scatter)), None]
}

pub(crate) fn scatter(scatter: &Scatter, step: &Step) -> Gradients {
    let [operand, indices, updates] = [0, 1, 2].map(|operand| &step.inputs[operand]);
    let ct = step.cotangent();
    let gather = reading_back(scatter, operand, updates);
    let fits = || {
        let positions = SlicePositions::new(
            operand,
            indices,
            &gather.start_index_map,
            gather.index_vector_axis,
            &gather.slice_sizes,
        );
        positions.fitting(updates, &scatter.update_window_axes)
    };
    let read_back = |from: &Tensor| from.gather(indices, gather.clone());
    let zero = ct.scalar_like(0.0);
    match scatter.kind {
        ScatterKind::Add => {
            vec![step.want(0, || ct.clone()), None, step.want(2, || fits().select(&read_back(ct), &zero))]
        }
        ScatterKind::Set => {
            let erased = || ct.scatter(indices, &updates.zeros_like(), scatter.clone());
            let update_gradient = || {
                // Of several updates of one element only the last one has a gradient: scatter the updates' numbers to find it.
                let numbers = numbered(updates);
                let unwritten = operand.trace().full(&operand.shape().with_dtype(DType::I32), -1.0);
                let left = unwritten.scatter(indices, &numbers, scatter.clone());
                let lasting = read_back(&left).equal(&numbers).and(&fits());
                lasting.select(&read_back(ct), &zero)
            };
            vec![step.want(0, erased), None, step.want(2, update_gradient)]
        }
        ScatterKind::Multiply | ScatterKind::Min | ScatterKind::Max => step.mistake(format!(
            "scatter: combining updates with {:?} has no gradient; scatter with Add or Set instead",
            scatter.kind
        )),
    }
}

/// The gather that reads the windows which a scatter writes.
fn reading_back(scatter: &Scatter, operand: &Tensor, updates: &Tensor) -> Gather {
    let mut window = scatter.update_window_axes.iter().map(|&axis| updates.dims()[axis]);
    let slice_sizes = (0..operand.rank())
        .map(|axis| if scatter.inserted_window_axes.contains(&axis) { 1 } else { window.next().unwrap_or(1) })
        .collect();
    Gather {
        offset_axes: scatter.update_window_axes.clone(),
        collapsed_axes: scatter.inserted_window_axes.clone(),
        start_index_map: scatter.scatter_axes.clone(),
        index_vector_axis: scatter.index_vector_axis,
        slice_sizes,
    }
}

/// 0, 1, 2 … in row-major order, in the shape of a value.
pub(crate) fn numbered(like: &Tensor) -> Tensor {
    let flat = Shape::new(DType::I32, [like.shape().elements()]);
    like.trace().iota(flat, 0).reshape(like.dims())
}

/// Where windows start in an operand.
struct SlicePositions<'a> {
    indices: &'a Tensor,
    index_vector_axis: usize,
    /// The last start that fits, per component of an index vector.
    last: Vec<f64>,
}

impl SlicePositions<'_> {
    fn new<'a>(
        operand: &Tensor,
        indices: &'a Tensor,
        map: &[usize],
        index_vector_axis: usize,
        sizes: &[usize],
    ) -> SlicePositions<'a> {
        let last = map.iter().map(|&axis| (operand.dims()[axis] - sizes[axis]) as f64).collect();
        SlicePositions { indices, index_vector_axis, last }
    }

    /// One number per component, in the shape of the indices.
    fn bounds(&self, bounds: &[f64]) -> Tensor {
        let indices = self.indices;
        let vector = Shape::new(indices.dtype(), [bounds.len()]);
        let vector = HostTensor::from_f64s(vector, bounds).expect("as many bounds as the shape says");
        let vector = indices.trace().constant(vector);
        match self.index_vector_axis < indices.rank() {
            true => vector.broadcast_in_dim(indices.dims(), &[self.index_vector_axis]),
            false => vector.reshape(&[]).broadcast_to(indices.dims()),
        }
    }

    fn clamped(&self) -> Tensor {
        self.indices.clamp(&self.bounds(&vec![0.0; self.last.len()]), &self.bounds(&self.last))
    }

    /// Where the window of an update fits, in the shape of the updates.
    fn fitting(&self, updates: &Tensor, window_axes: &[usize]) -> Tensor {
        let fits = self.indices.equal(&self.clamped());
        let per_window = match self.index_vector_axis < self.indices.rank() {
            true => fits.all(&[self.index_vector_axis]),
            false => fits,
        };
        let batch_axes: Vec<usize> = (0..updates.rank()).filter(|axis| !window_axes.contains(axis)).collect();
        per_window.broadcast_in_dim(updates.dims(), &batch_axes)
    }
}
