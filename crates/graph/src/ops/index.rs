//! Reading and writing at positions known only when the program runs.

pub(crate) mod gradient;

use crate::{Gather, Op, Scatter, Shape, Tensor};

/// The dimensions of an index tensor without the axis that holds index vectors, and the length of that axis.
pub(crate) fn index_batch(indices: &Shape, index_vector_axis: usize) -> Result<(Vec<usize>, usize), String> {
    super::check_index(indices)?;
    if index_vector_axis > indices.rank() {
        return Err(format!("there is no axis {index_vector_axis} for index vectors in {indices}"));
    }
    let mut dims = indices.dims().to_vec();
    let length = if index_vector_axis < dims.len() { dims.remove(index_vector_axis) } else { 1 };
    Ok((dims, length))
}

pub(super) fn infer_gather([operand, indices]: [&Shape; 2], gather: &Gather) -> Result<Shape, String> {
    let (batch, components) = index_batch(indices, gather.index_vector_axis)?;
    super::check_axes(&gather.collapsed_axes, operand.rank())?;
    super::check_lengths(operand.rank(), &[("slice_sizes", gather.slice_sizes.len())])?;
    let map_fits =
        gather.start_index_map.len() == components && gather.start_index_map.iter().all(|&axis| axis < operand.rank());
    let sizes_fit = gather.slice_sizes.iter().zip(operand.dims()).all(|(size, dim)| size <= dim)
        && gather.collapsed_axes.iter().all(|&axis| gather.slice_sizes[axis] == 1);
    let rank = batch.len() + gather.offset_axes.len();
    super::check_axes(&gather.offset_axes, rank)?;
    if !map_fits || !sizes_fit || gather.offset_axes.len() + gather.collapsed_axes.len() != operand.rank() {
        return Err(format!("indices {indices} do not address windows of {:?} in {operand}", gather.slice_sizes));
    }
    let window = (0..operand.rank()).filter(|axis| !gather.collapsed_axes.contains(axis));
    let mut window = window.map(|axis| gather.slice_sizes[axis]);
    let mut batch = batch.into_iter();
    let dims: Option<Vec<usize>> =
        (0..rank).map(|axis| if gather.offset_axes.contains(&axis) { window.next() } else { batch.next() }).collect();
    dims.map(|dims| operand.with_dims(dims)).ok_or_else(|| "the offset axes do not match the window".into())
}

pub(super) fn infer_scatter([operand, indices, updates]: [&Shape; 3], scatter: &Scatter) -> Result<Shape, String> {
    let (batch, components) = index_batch(indices, scatter.index_vector_axis)?;
    super::check_axes(&scatter.update_window_axes, updates.rank())?;
    super::check_axes(&scatter.inserted_window_axes, operand.rank())?;
    let map_fits =
        scatter.scatter_axes.len() == components && scatter.scatter_axes.iter().all(|&axis| axis < operand.rank());
    let window_axes = (0..operand.rank()).filter(|axis| !scatter.inserted_window_axes.contains(axis));
    let window_fits = scatter.update_window_axes.len() + scatter.inserted_window_axes.len() == operand.rank()
        && scatter.update_window_axes.iter().zip(window_axes).all(|(&u, o)| updates.dims()[u] <= operand.dims()[o]);
    let update_batch: Vec<usize> = (0..updates.rank())
        .filter(|axis| !scatter.update_window_axes.contains(axis))
        .map(|axis| updates.dims()[axis])
        .collect();
    match map_fits && window_fits && update_batch == batch && updates.dtype() == operand.dtype() {
        true => Ok(operand.clone()),
        false => Err(format!("updates {updates} at indices {indices} do not fit into {operand}")),
    }
}

impl Tensor {
    /// Windows taken at the given indices.
    pub fn gather(&self, indices: &Tensor, gather: Gather) -> Tensor {
        self.trace().emit_one(Op::Gather(gather), &[self, indices])
    }

    /// This value with updates written at the given indices.
    pub fn scatter(&self, indices: &Tensor, updates: &Tensor, scatter: Scatter) -> Tensor {
        self.trace().emit_one(Op::Scatter(scatter), &[self, indices, updates])
    }

    /// Rows of this value (its entries along axis 0) at integer indices of any shape, clamped to the rows there are.
    pub fn take(&self, indices: &Tensor) -> Tensor {
        let mut slice_sizes = self.dims().to_vec();
        if let Some(first) = slice_sizes.first_mut() {
            *first = 1;
        }
        let gather = Gather {
            offset_axes: (indices.rank()..indices.rank() + self.rank().max(1) - 1).collect(),
            collapsed_axes: vec![0],
            start_index_map: vec![0],
            index_vector_axis: indices.rank(),
            slice_sizes,
        };
        self.gather(indices, gather)
    }
}
