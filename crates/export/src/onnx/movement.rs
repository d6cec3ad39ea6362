//! Operations that move elements.

use super::writer::{Writer, int};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{DType, Gather, Node, Op, ValueId};

impl Writer<'_> {
    /// Axes in another order: nothing is written, the stored tensor is read by other names of its axes.
    pub(super) fn transpose(&mut self, node: &Node, permutation: &[usize]) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let renamed = |axis: &usize| permutation.iter().position(|from| from == axis).unwrap_or(0);
        let order = stored.order.iter().map(renamed).collect();
        self.keep(node.outputs[0], stored.name, order);
        Ok(())
    }

    pub(super) fn reshape(&mut self, node: &Node, dims: &[usize]) -> Result<(), ExportError> {
        let before = self.shape(node.inputs[0]).dims();
        if let Some(axes) = kept_axes(before, dims) {
            return self.reshape_ones(node, &axes, dims.len());
        }
        let whole: Vec<usize> = (0..before.len()).collect();
        let name = self.operand(node.inputs[0], &whole)?;
        let name = self.reshaped(&name, &self.network.dims(node.outputs[0])?, &node.path)?;
        self.keep(node.outputs[0], name, (0..dims.len()).collect());
        Ok(())
    }

    /// A tensor under other dimensions.
    pub(super) fn reshaped(&mut self, name: &str, dims: &[Dim], path: &str) -> Result<String, ExportError> {
        let follows = |dim: &&Dim| matches!(dim, Dim::Batch(_));
        let shape = match dims.iter().filter(follows).count() {
            // ONNX finds one dimension by itself.
            0 | 1 => {
                let length = |dim: &Dim| match dim {
                    Dim::Fixed(length) => *length as i64,
                    Dim::Batch(_) => -1,
                };
                self.integers(&dims.iter().map(length).collect::<Vec<_>>())
            }
            _ => self.dims_tensor(dims)?,
        };
        Ok(self.emit("Reshape", path, vec![name.to_string(), shape], vec![]))
    }

    /// A reshape that only adds or removes axes of length 1: the others keep their order in memory.
    fn reshape_ones(&mut self, node: &Node, axes: &[(usize, usize)], rank: usize) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let to = |axis: usize| axes.iter().find(|(from, _)| *from == axis).map(|(_, to)| *to);
        let mut order: Vec<usize> = stored.order.iter().filter_map(|&axis| to(axis)).collect();
        // New axes come last; every later operation may read them where they are.
        let added = (0..rank).filter(|axis| !axes.iter().any(|(_, to)| to == axis));
        order.extend(added);
        let dims = self.network.dims(node.outputs[0])?;
        let dims: Vec<Dim> = order.iter().map(|&axis| dims[axis]).collect();
        let name = self.reshaped(&stored.name, &dims, &node.path)?;
        self.keep(node.outputs[0], name, order);
        Ok(())
    }

    pub(super) fn reverse(&mut self, node: &Node, axes: &[usize]) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let at: Vec<i64> = positions(&stored.order, axes);
        let count = at.len();
        let last = i64::from(i32::MIN);
        let bounds = [vec![-1; count], vec![last; count], at, vec![-1; count]];
        let name = self.sliced(&stored.name, &node.path, bounds);
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    fn sliced(&mut self, name: &str, path: &str, bounds: [Vec<i64>; 4]) -> String {
        let mut inputs = vec![name.to_string()];
        inputs.extend(bounds.map(|list| self.integers(&list)));
        self.emit("Slice", path, inputs, vec![])
    }

    pub(super) fn slice(
        &mut self,
        index: usize,
        node: &Node,
        starts: &[usize],
        limits: &[usize],
        strides: &[usize],
    ) -> Result<(), ExportError> {
        let stored = self.stored(node.inputs[0])?;
        let before = self.shape(node.inputs[0]).dims();
        let mut bounds: [Vec<i64>; 4] = Default::default();
        for (at, &axis) in stored.order.iter().enumerate() {
            if starts[axis] == 0 && limits[axis] == before[axis] && strides[axis] == 1 {
                continue;
            }
            let limit = self.network.attribute(index, |op| match op {
                Op::Slice { limits, .. } => limits[axis],
                _ => 0,
            })?;
            let Dim::Fixed(limit) = limit else {
                return Err(self.refusal(node, "it takes a part of the batch"));
            };
            let values = [starts[axis] as i64, limit as i64, at as i64, strides[axis] as i64];
            bounds.iter_mut().zip(values).for_each(|(list, value)| list.push(value));
        }
        let name = match bounds[0].is_empty() {
            true => stored.name,
            false => self.sliced(&stored.name, &node.path, bounds),
        };
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    pub(super) fn pad(
        &mut self,
        node: &Node,
        low: &[i64],
        high: &[i64],
        interior: &[usize],
    ) -> Result<(), ExportError> {
        if interior.iter().any(|&holes| holes > 0) {
            return Err(self.refusal(node, "ONNX cannot put elements between others"));
        }
        let stored = self.stored(node.inputs[0])?;
        let edges = |edge: &[i64]| stored.order.iter().map(|&axis| edge[axis]).collect::<Vec<i64>>();
        let pads = self.integers(&[edges(low), edges(high)].concat());
        let value = self.operand(node.inputs[1], &[])?;
        let name = self.emit("Pad", &node.path, vec![stored.name, pads, value], vec![]);
        self.keep(node.outputs[0], name, stored.order);
        Ok(())
    }

    pub(super) fn concatenate(&mut self, node: &Node, axis: usize) -> Result<(), ExportError> {
        let order = self.common_order(&node.inputs)?;
        let mut parts = Vec::new();
        for &input in &node.inputs {
            parts.push(self.operand(input, &order)?);
        }
        let at = positions(&order, &[axis])[0];
        let name = self.emit("Concat", &node.path, parts, vec![int("axis", at)]);
        self.keep(node.outputs[0], name, order);
        Ok(())
    }

    /// Elements looked up along some axes, with the others whole. Indices are inside of the table: ONNX counts negative ones from
    /// the end and refuses those beyond it, where the graph takes the nearest element.
    pub(super) fn gather(&mut self, node: &Node, gather: &Gather) -> Result<(), ExportError> {
        let dims = self.shape(node.inputs[0]).dims();
        let axes = &gather.start_index_map;
        let is_meant = |axis: usize| match axes.contains(&axis) {
            true => gather.collapsed_axes.contains(&axis),
            false => gather.slice_sizes[axis] == dims[axis] && !gather.collapsed_axes.contains(&axis),
        };
        if axes.is_empty() || !(0..dims.len()).all(is_meant) {
            return Err(self.refusal(node, "it looks up windows"));
        }
        match axes[..] {
            [axis] => self.gather_along(node, gather, axis),
            _ => self.gather_elements(node, gather),
        }
    }

    fn gather_along(&mut self, node: &Node, gather: &Gather, axis: usize) -> Result<(), ExportError> {
        let (operand, indices) = (node.inputs[0], node.inputs[1]);
        let rank = self.shape(indices).rank();
        let whole: Vec<usize> = (0..self.shape(operand).rank()).collect();
        let table = self.operand(operand, &whole)?;
        let (mut at, scalars) = (self.index_vectors(indices, gather)?, gather.index_vector_axis == rank);
        if !scalars {
            let last = self.integers(&[-1]);
            at = self.emit("Squeeze", &node.path, vec![at, last], vec![]);
        }
        let name = self.emit("Gather", &node.path, vec![table, at], vec![int("axis", axis as i64)]);
        // ONNX puts the axes of the indices where the axis was; the result's offset axes are the operand's others, in order.
        let index_rank = if scalars { rank } else { rank - 1 };
        let result = self.shape(node.outputs[0]).rank();
        let mut of_indices = (0..result).filter(|axis| !gather.offset_axes.contains(axis));
        let mut of_operand = gather.offset_axes.iter().copied();
        let order = (0..result).filter_map(|position| match position >= axis && position < axis + index_rank {
            true => of_indices.next(),
            false => of_operand.next(),
        });
        self.keep(node.outputs[0], name, order.collect());
        Ok(())
    }

    /// GatherND reads along the first axes of a table; the result has the axes of the indices first.
    fn gather_elements(&mut self, node: &Node, gather: &Gather) -> Result<(), ExportError> {
        let axes = &gather.start_index_map;
        let others = (0..self.shape(node.inputs[0]).rank()).filter(|axis| !axes.contains(axis));
        let order: Vec<usize> = axes.iter().copied().chain(others).collect();
        let table = self.operand(node.inputs[0], &order)?;
        let at = self.index_vectors(node.inputs[1], gather)?;
        let at = self.emit("Cast", &node.path, vec![at], vec![int("to", 7)]);
        let name = self.emit("GatherND", &node.path, vec![table, at], vec![]);
        let result = self.shape(node.outputs[0]).rank();
        let of_indices = (0..result).filter(|axis| !gather.offset_axes.contains(axis));
        let order = of_indices.chain(gather.offset_axes.iter().copied()).collect();
        self.keep(node.outputs[0], name, order);
        Ok(())
    }

    /// Indices of a type that ONNX takes, with the axis of index vectors last.
    fn index_vectors(&mut self, indices: ValueId, gather: &Gather) -> Result<String, ExportError> {
        let (rank, vector) = (self.shape(indices).rank(), gather.index_vector_axis);
        let order: Vec<usize> =
            (0..rank).filter(|&axis| axis != vector).chain((vector < rank).then_some(vector)).collect();
        let at = self.operand(indices, &order)?;
        Ok(match self.shape(indices).dtype() {
            DType::I32 | DType::I64 => at,
            _ => self.emit("Cast", "", vec![at], vec![int("to", 7)]),
        })
    }
}

/// Where axes of a value lie in a stored tensor.
pub(super) fn positions(order: &[usize], axes: &[usize]) -> Vec<i64> {
    axes.iter().filter_map(|axis| order.iter().position(|found| found == axis)).map(|at| at as i64).collect()
}

/// The axes that a reshape keeps, from and to, where it only adds or removes axes of length 1.
fn kept_axes(before: &[usize], after: &[usize]) -> Option<Vec<(usize, usize)>> {
    let long = |dims: &[usize]| -> Vec<(usize, usize)> {
        dims.iter().copied().enumerate().filter(|(_, length)| *length != 1).collect()
    };
    let (from, to) = (long(before), long(after));
    let is_same = from.len() == to.len() && from.iter().zip(&to).all(|((_, a), (_, b))| a == b);
    is_same.then(|| from.into_iter().zip(to).map(|((from, _), (to, _))| (from, to)).collect())
}
