//! Where blocks lie, and where their operands begin in memory.

use super::block::{Block, BlockRange};
use crate::plan::kernel::{Operand, Source};

impl Block<'_> {
    /// The distance in elements from an operand's start to the first element of a block.
    pub(super) fn position(&self, range: &BlockRange, offset: isize, strides: &[isize]) -> isize {
        let nest = &self.prepared.nest;
        offset
            + offset_of(range.outer, &nest.outer, strides)
            + offset_of(range.middle, &nest.middle, &strides[nest.outer.len()..])
            + nest.row_offset(strides, range.row)
            + range.column as isize * strides[strides.len() - 1]
    }

    /// The distance in elements from a block's first row to another of its rows.
    pub(super) fn row_distance(&self, range: &BlockRange, strides: &[isize], row: usize) -> isize {
        let nest = &self.prepared.nest;
        nest.row_offset(strides, range.row + row) - nest.row_offset(strides, range.row)
    }

    /// Finds where the operands of a block begin.
    pub(super) fn locate_next(&mut self, range: &BlockRange) {
        let body = &self.prepared.body;
        self.next.clear();
        for load in &body.loads {
            let address = match &load.source {
                Source::Memory(operand) => self.address(range, operand),
                Source::Immediate(_) | Source::Count { .. } => std::ptr::null_mut(),
            };
            self.next.push(address);
        }
        for store in &body.stores {
            let address = self.address(range, &store.to);
            self.next.push(address);
        }
    }

    /// The same for a block with other rows or columns only, from where the current one begins.
    pub(super) fn step_to(&mut self, range: &BlockRange, from: &BlockRange) {
        let inner = self.prepared.nest.row_inner.max(1);
        let distance = |to: usize, from: usize| to as isize - from as isize;
        let outer_rows = distance(range.row / inner, from.row / inner);
        let (rows, columns) = (distance(range.row % inner, from.row % inner), distance(range.column, from.column));
        self.next.clear();
        self.next.extend(self.here.iter().zip(&self.prepared.steps).map(|(here, [outer_row, row, column])| {
            here.wrapping_offset(outer_rows * outer_row + rows * row + columns * column)
        }));
    }

    fn address(&self, range: &BlockRange, operand: &Operand) -> *mut u8 {
        let position = self.position(range, operand.offset, &operand.strides);
        let buffer = operand.buffer.0 as usize;
        let start = match self.lent {
            Some(lent) if lent.buffer == buffer => lent.start,
            _ => self.memory.at(buffer),
        };
        start.wrapping_offset(position * operand.dtype.size() as isize)
    }
}

/// The distance in elements of a flattened index over `dims`, whose strides come first in `strides`.
pub(super) fn offset_of(mut index: usize, dims: &[usize], strides: &[isize]) -> isize {
    let mut offset = 0;
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        offset += (index % dim) as isize * stride;
        index /= dim;
    }
    offset
}
