//! Folds: reductions of a loop over blocks, tasks and rows.

use super::super::instructions::{FoldRows, Operands, RowsToFold, Run};
use super::super::memory::Memory;
use super::PreparedLoop;
use super::address::offset_of;
use super::block::{Block, BlockRange};
use crate::plan::kernel::{Lane, Operand};
use crate::plan::nest::{FoldKind, Nest};

/// A fold with its instructions chosen.
pub(super) struct PreparedFold {
    /// Lane by lane.
    pub combine: Run,
    /// For a sum of products: adds products to lanes, and multiplies alone for lanes that hold nothing yet.
    pub products: Option<[Run; 2]>,
    /// Whole rows at once, for the common cases.
    pub rows: Option<FoldRows>,
    pub lane: Lane,
    pub identity: [u8; 8],
    pub narrow: Option<Run>,
}

impl PreparedLoop {
    /// A fold of nothing is the identity.
    pub(super) fn write_identities(&self, memory: &Memory) {
        for (fold, prepared) in self.body.folds.iter().zip(&self.folds) {
            let kept = self.body.dims.iter().zip(&fold.to.strides).filter(|&(_, &stride)| stride != 0);
            let count: usize = kept.map(|(&dim, _)| dim).product();
            for element in 0..count {
                self.write_folded(memory, fold.to.offset + element as isize, prepared, &fold.to, &prepared.identity, 1);
            }
        }
    }

    /// Writes folded lanes to memory, converting where the type there is narrower.
    fn write_folded(
        &self,
        memory: &Memory,
        position: isize,
        fold: &PreparedFold,
        to: &Operand,
        lanes: &[u8],
        count: usize,
    ) {
        let target = memory.at(to.buffer.0 as usize).wrapping_offset(position * to.dtype.size() as isize);
        // SAFETY: the position lies inside of the fold's buffer by the loop's construction; `lanes` holds `count` lanes.
        unsafe {
            match fold.narrow {
                Some(narrow) => narrow(Operands { to: target, from: [lanes.as_ptr(); 3], count }),
                None => std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, count * fold.lane.size()),
            }
        }
    }

    /// The bytes of one fold's partial results.
    fn partial_bytes(&self) -> usize {
        let widest = self.folds.iter().map(|fold| fold.lane.size()).max().unwrap_or(0);
        self.nest.partials() * widest
    }

    /// Adds up what tasks left, always in the same order.
    pub(super) fn combine_partials(&self, memory: &Memory) {
        let Some(buffer) = self.partials else { return };
        let (chunks, columns) = (self.nest.chunks(), self.nest.columns);
        let width = if self.nest.fold == FoldKind::Columns { self.nest.columns_per_block } else { 1 };
        for (index, (fold, prepared)) in self.body.folds.iter().zip(&self.folds).enumerate() {
            let base = memory.at(buffer).wrapping_add(index * self.partial_bytes());
            let stride = width * prepared.lane.size();
            for group in 0..self.nest.tasks() / chunks {
                let first = base.wrapping_add(group * chunks * stride);
                let (outer, column_block) = match self.nest.fold {
                    FoldKind::Columns => (group / self.nest.column_blocks, group % self.nest.column_blocks),
                    _ => (group, 0),
                };
                let begin = column_block * width;
                let count = if self.nest.fold == FoldKind::Columns { width.min(columns - begin) } else { 1 };
                for chunk in 1..chunks {
                    let other = first.wrapping_add(chunk * stride).cast_const();
                    let operands = Operands { to: first, from: [first.cast_const(), other, other], count };
                    // SAFETY: both partial results lie in the buffer that the plan made for them.
                    unsafe { (prepared.combine)(operands) };
                }
                let position = fold.to.offset
                    + offset_of(outer, &self.nest.outer, &fold.to.strides)
                    + begin as isize * fold.to.strides.last().copied().unwrap_or(0);
                // SAFETY: the partial result was written by the tasks, `count` lanes of it.
                let lanes = unsafe { std::slice::from_raw_parts(first, count * prepared.lane.size()) };
                self.write_folded(memory, position, prepared, &fold.to, lanes, count);
            }
        }
    }
}

impl Block<'_> {
    /// Lets all folds of a task begin, over `count` elements of 32 bits.
    pub(super) fn begin_folds(&mut self, count: usize) {
        for (accumulator, how) in self.accumulators.iter().zip(&self.prepared.folds) {
            let [a, b, c, d, ..] = how.identity;
            // SAFETY: an accumulator holds a whole block of lanes and begins at a cache line.
            unsafe { std::slice::from_raw_parts_mut(accumulator.cast(), count) }.fill(u32::from_ne_bytes([a, b, c, d]));
        }
        self.folded = count;
    }

    /// Combines a block into the accumulators, element by element; what a task has not touched yet is copied.
    pub(super) fn accumulate(&mut self, count: usize) {
        for (index, (fold, how)) in self.prepared.body.folds.iter().zip(&self.prepared.folds).enumerate() {
            let (accumulator, block) = (self.accumulators[index], self.registers[fold.from]);
            let size = how.lane.size();
            let known = self.folded.min(count);
            if let (Some([add, multiply]), Some(factor)) = (how.products, fold.factor) {
                let sources = [block, self.registers[factor], accumulator];
                let operands = |first: usize, count: usize| Operands {
                    to: accumulator.wrapping_add(first * size),
                    from: sources.map(|source| source.wrapping_add(first * size).cast_const()),
                    count,
                };
                // SAFETY: accumulators and registers hold a whole block of lanes.
                unsafe {
                    add(operands(0, known));
                    multiply(operands(known, count - known));
                }
                continue;
            }
            // SAFETY: accumulators and registers hold a whole block of lanes.
            unsafe {
                (how.combine)(Operands {
                    to: accumulator,
                    from: [accumulator, block, block].map(|p| p.cast_const()),
                    count: known,
                });
                if count > known {
                    std::ptr::copy_nonoverlapping(
                        block.add(known * size),
                        accumulator.add(known * size),
                        (count - known) * size,
                    );
                }
            }
        }
        self.folded = self.folded.max(count);
    }

    /// Folds the accumulator's rows into its first row and hands that out.
    pub(super) fn finish_columns(&mut self, task: usize, outer: usize, column_block: usize) {
        let nest = &self.prepared.nest;
        let begin = column_block * nest.columns_per_block;
        let columns = nest.columns_per_block.min(nest.columns - begin);
        for (index, (fold, how)) in self.prepared.body.folds.iter().zip(&self.prepared.folds).enumerate() {
            let (accumulator, size) = (self.accumulators[index], how.lane.size());
            for row in 1..self.folded / columns {
                let other = accumulator.wrapping_add(row * columns * size).cast_const();
                let operands =
                    Operands { to: accumulator, from: [accumulator.cast_const(), other, other], count: columns };
                // SAFETY: both rows lie in the accumulator.
                unsafe { (how.combine)(operands) };
            }
            let position = fold.to.offset
                + offset_of(outer, &nest.outer, &fold.to.strides)
                + begin as isize * fold.to.strides.last().copied().unwrap_or(0);
            self.hand_out(task, index, position, columns, nest.columns_per_block);
        }
    }

    pub(super) fn finish_whole(&mut self, task: usize, outer: usize) {
        let nest = &self.prepared.nest;
        for (index, (fold, how)) in self.prepared.body.folds.iter().zip(&self.prepared.folds).enumerate() {
            fold_all(self.accumulators[index], self.folded, how);
            let position = fold.to.offset + offset_of(outer, &nest.outer, &fold.to.strides);
            self.hand_out(task, index, position, 1, 1);
        }
    }

    /// Writes folded lanes to their output, or to the partial results when other tasks fold the same value.
    fn hand_out(&self, task: usize, index: usize, position: isize, count: usize, width: usize) {
        let (prepared, how) = (self.prepared, &self.prepared.folds[index]);
        let accumulator = self.accumulators[index];
        // SAFETY: the accumulator holds at least `count` folded lanes.
        let lanes = unsafe { std::slice::from_raw_parts(accumulator, count * how.lane.size()) };
        match prepared.partials {
            Some(buffer) => {
                let start = index * prepared.partial_bytes() + task * width * how.lane.size();
                let target = self.memory.at(buffer).wrapping_add(start);
                // SAFETY: the plan made room for `width` lanes of every task and fold.
                unsafe { std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, lanes.len()) };
            }
            None => prepared.write_folded(self.memory, position, how, &prepared.body.folds[index].to, lanes, count),
        }
    }

    /// Folds the columns of every row.
    pub(super) fn fold_rows(&mut self, range: &BlockRange) {
        let prepared = self.prepared;
        for (index, (fold, how)) in prepared.body.folds.iter().zip(&prepared.folds).enumerate() {
            let (size, spare) = (how.lane.size(), self.accumulators[index]);
            let block = self.registers[fold.from];
            if let Some(rows) = how.rows {
                // SAFETY: the register holds the block's rows, the accumulator a lane for each of them.
                unsafe { rows(RowsToFold { to: spare, from: block, rows: range.rows, columns: range.columns }) };
            }
            let first = self.position(range, fold.to.offset, &fold.to.strides);
            if how.rows.is_some() && rows_follow_each_other(&prepared.nest, &fold.to) {
                // SAFETY: the accumulator holds a lane for every row, all just folded.
                let lanes = unsafe { std::slice::from_raw_parts(spare, range.rows * size) };
                prepared.write_folded(self.memory, first, how, &fold.to, lanes, range.rows);
                continue;
            }
            for row in 0..range.rows {
                let folded = match how.rows {
                    Some(_) => spare.wrapping_add(row * size),
                    None => {
                        let source = block.wrapping_add(row * range.columns * size);
                        // SAFETY: a row of the register and the accumulator hold at least `columns` lanes.
                        unsafe { std::ptr::copy_nonoverlapping(source, spare, range.columns * size) };
                        fold_all(spare, range.columns, how);
                        spare
                    }
                };
                let position = first + self.row_distance(range, &fold.to.strides, row);
                // SAFETY: the lane was just folded.
                let lane = unsafe { std::slice::from_raw_parts(folded, size) };
                prepared.write_folded(self.memory, position, how, &fold.to, lane, 1);
            }
        }
    }
}

/// Whether the rows' results lie in memory one after the other.
fn rows_follow_each_other(nest: &Nest, to: &Operand) -> bool {
    let [.., outer, inner, _] = to.strides[..] else { return false };
    let inner_follows = inner == 1 || nest.row_inner == 1;
    inner_follows && (nest.row_inner == nest.rows || outer == nest.row_inner as isize)
}

/// Folds `count` lanes into the first one by halves.
fn fold_all(lanes: *mut u8, count: usize, how: &PreparedFold) {
    let size = how.lane.size();
    let mut left = count;
    while left > 1 {
        let half = left / 2;
        let other = lanes.wrapping_add((left - half) * size).cast_const();
        // SAFETY: both halves lie among the `count` lanes and do not overlap.
        unsafe { (how.combine)(Operands { to: lanes, from: [lanes.cast_const(), other, other], count: half }) };
        left -= half;
    }
}
