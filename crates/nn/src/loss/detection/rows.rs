//! Cells that are assigned to an object, as rows of a fixed number: losses over masks and keypoints are computed for these
//! alone, not for every cell.

use super::assign::Assigned;
use octant_graph::{DType, Gather, Shape, Tensor};

/// The cells that objects chose, [`TaskAligned::cells`](super::TaskAligned) per object.
#[derive(Debug, Clone)]
pub(super) struct AssignedRows {
    /// The cell of every row, i32 `[n, rows]`.
    pub cell: Tensor,
    /// The object that the cell was assigned to, i32 `[n, rows]`.
    pub object: Tensor,
    /// Whether the row counts, bool `[n, rows]`: every assigned cell has one row that does.
    pub counts: Tensor,
}

impl AssignedRows {
    pub fn of(assigned: &Assigned) -> AssignedRows {
        let [n, objects] = [assigned.owned.dim(0), assigned.owned.dim(1)];
        let trace = assigned.owned.trace();
        // A cell that several objects chose counts in the row of the first of them, whichever has it in the end.
        let claimed = assigned.claimed.convert(DType::F32);
        let (_, first) = claimed.arg_max(1);
        let (_, owner) = assigned.owned.convert(DType::F32).arg_max(1);
        let number = trace.iota(Shape::new(DType::I32, [n, objects]), 1);
        let cell = Tensor::concatenate(&assigned.choices, 1);
        let rows = assigned.choices.len();
        let chooser = Tensor::concatenate(&vec![number; rows], 1);
        let image = trace.iota(cell.shape().clone(), 0);
        let vectors = [&image, &chooser, &cell].map(|index| index.unsqueeze(2));
        let single = Gather {
            offset_axes: vec![],
            collapsed_axes: vec![0, 1, 2],
            start_index_map: vec![0, 1, 2],
            index_vector_axis: 2,
            slice_sizes: vec![1, 1, 1],
        };
        let is_claimed = claimed.gather(&Tensor::concatenate(&vectors, 2), single);
        let per_cell = |values: &Tensor| gathered(&values.unsqueeze(2), &cell).reshape(cell.dims());
        let is_first = per_cell(&first).equal(&chooser);
        let counts = is_claimed.greater(&is_claimed.scalar_like(0.5)).and(&is_first);
        AssignedRows { object: per_cell(&owner), cell, counts }
    }

    /// What cells predict, `[n, cells, columns]`, by rows.
    pub fn of_cells(&self, values: &Tensor) -> Tensor {
        gathered(values, &self.cell)
    }

    /// What objects have, `[n, objects, columns]`, by rows.
    pub fn of_objects(&self, values: &Tensor) -> Tensor {
        gathered(values, &self.object)
    }

    /// How many rows count; at least one.
    pub fn total(&self) -> Tensor {
        let total = self.counts.convert(DType::F32).sum_all();
        total.max(&total.scalar_like(1.0))
    }
}

/// Elements of `[n, elements, columns]` by numbers `[n, rows]`: `[n, rows, columns]`. Images are named in the index vectors, so
/// that partitioners see that every device finds its images at home.
fn gathered(values: &Tensor, numbers: &Tensor) -> Tensor {
    let image = numbers.trace().iota(numbers.shape().clone(), 0);
    let gather = Gather {
        offset_axes: vec![2],
        collapsed_axes: vec![0, 1],
        start_index_map: vec![0, 1],
        index_vector_axis: 2,
        slice_sizes: vec![1, 1, values.dim(2)],
    };
    values.gather(&Tensor::concatenate(&[image.unsqueeze(2), numbers.unsqueeze(2)], 2), gather)
}
