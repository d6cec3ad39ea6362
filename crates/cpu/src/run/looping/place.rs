//! Where blocks lie, and where their operands begin in memory.

use super::block::Block;
use crate::plan::kernel::{Operand, Source};

/// Where a block lies in its loop.
pub(super) struct BlockPlace {
    pub outer: usize,
    pub middle: usize,
    pub row: usize,
    pub column: usize,
    pub rows: usize,
    pub columns: usize,
}

impl BlockPlace {
    /// Whether it is the one that many blocks below another one of the same size.
    pub fn lies_below(&self, other: &BlockPlace, blocks: usize) -> bool {
        let below = other.row + blocks * other.rows;
        self.is_beside(other)
            && (self.row, self.column) == (below, other.column)
            && (self.rows, self.columns) == (other.rows, other.columns)
    }

    /// Whether two blocks differ in their rows and columns only.
    pub fn is_beside(&self, other: &BlockPlace) -> bool {
        self.outer == other.outer && self.middle == other.middle
    }
}

impl Block<'_> {
    /// The distance in elements from an operand's start to the first element of a block.
    pub(super) fn position(&self, place: &BlockPlace, offset: isize, strides: &[isize]) -> isize {
        let nest = &self.prepared.nest;
        offset
            + offset_of(place.outer, &nest.outer, strides)
            + offset_of(place.middle, &nest.middle, &strides[nest.outer.len()..])
            + nest.row_offset(strides, place.row)
            + place.column as isize * strides[strides.len() - 1]
    }

    /// The distance in elements from a block's first row to another of its rows.
    pub(super) fn row_distance(&self, place: &BlockPlace, strides: &[isize], row: usize) -> isize {
        let nest = &self.prepared.nest;
        nest.row_offset(strides, place.row + row) - nest.row_offset(strides, place.row)
    }

    /// Finds where the operands of a block begin.
    pub(super) fn locate_next(&mut self, place: &BlockPlace) {
        let body = &self.prepared.body;
        self.next.clear();
        for load in &body.loads {
            let address = match &load.source {
                Source::Memory(operand) => self.address(place, operand),
                Source::Immediate(_) | Source::Count { .. } => std::ptr::null_mut(),
            };
            self.next.push(address);
        }
        for store in &body.stores {
            let address = self.address(place, &store.to);
            self.next.push(address);
        }
    }

    /// The same for a block with other rows or columns only, from where the current one begins.
    pub(super) fn step_to(&mut self, place: &BlockPlace, from: &BlockPlace) {
        let inner = self.prepared.nest.row_inner.max(1);
        let distance = |to: usize, from: usize| to as isize - from as isize;
        let outer_rows = distance(place.row / inner, from.row / inner);
        let (rows, columns) = (distance(place.row % inner, from.row % inner), distance(place.column, from.column));
        self.next.clear();
        self.next.extend(self.here.iter().zip(&self.prepared.steps).map(|(here, [outer_row, row, column])| {
            here.wrapping_offset(outer_rows * outer_row + rows * row + columns * column)
        }));
    }

    fn address(&self, place: &BlockPlace, operand: &Operand) -> *mut u8 {
        let position = self.position(place, operand.offset, &operand.strides);
        self.memory.at(operand.buffer.0 as usize).wrapping_offset(position * operand.dtype.size() as isize)
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
