//! One thread inside of a loop: from tasks to blocks, and each block through the instructions.

use super::super::instructions::{self, Operands};
use super::super::memory::Memory;
use super::PreparedLoop;
use super::registers::Way;
use crate::plan::kernel::{Operand, Source};
use crate::plan::nest::FoldKind;

/// Memory that a thread keeps from loop to loop.
#[derive(Default)]
pub(super) struct Workspace {
    /// Registers and accumulators.
    words: Vec<u64>,
    registers: Vec<*mut u8>,
    accumulators: Vec<*mut u8>,
}

/// The state of one thread inside of a loop.
pub(super) struct Block<'a> {
    pub prepared: &'a PreparedLoop,
    pub memory: &'a Memory,
    /// Where every register lies for the current block.
    pub registers: &'a mut [*mut u8],
    pub accumulators: &'a [*mut u8],
    /// Elements of the accumulators that were used in this task.
    pub folded: usize,
}

impl<'a> Block<'a> {
    pub(super) fn new(prepared: &'a PreparedLoop, memory: &'a Memory, workspace: &'a mut Workspace) -> Block<'a> {
        let blocks = prepared.slot_count + prepared.folds.len() + 1;
        // Registers begin at cache lines.
        let needed = (blocks * prepared.slot_bytes + 64).div_ceil(8);
        let Workspace { words, registers, accumulators } = workspace;
        if words.len() < needed {
            words.resize(needed, 0);
        }
        let start = words.as_mut_ptr().cast::<u8>();
        let start = start.wrapping_add(start.align_offset(64));
        let slot = |index: usize| start.wrapping_add(index * prepared.slot_bytes);
        registers.clear();
        registers.extend(prepared.slots.iter().map(|&index| slot(index)));
        accumulators.clear();
        accumulators.extend((0..=prepared.folds.len()).map(|fold| slot(prepared.slot_count + fold)));
        Block { prepared, memory, registers, accumulators, folded: 0 }
    }

    pub(super) fn task(&mut self, task: usize) {
        let nest = &self.prepared.nest;
        let chunks = nest.chunks();
        let (group, chunk) = (task / chunks, task % chunks);
        let (outer, column_task) = match nest.fold {
            FoldKind::Columns => (group / nest.column_blocks, group % nest.column_blocks),
            _ => (group, 0),
        };
        let steps = chunk * nest.steps_per_task..((chunk + 1) * nest.steps_per_task).min(nest.steps());
        let row_blocks = nest.rows.div_ceil(nest.rows_per_block);
        let column_steps = if nest.fold == FoldKind::Columns { 1 } else { nest.column_blocks };
        self.folded = 0;
        let mut first = true;
        for step in steps {
            let column_block = if nest.fold == FoldKind::Columns { column_task } else { step % column_steps };
            let row_block = step / column_steps % row_blocks;
            let place = BlockPlace {
                outer,
                middle: step / column_steps / row_blocks,
                row: row_block * nest.rows_per_block,
                column: column_block * nest.columns_per_block,
                rows: nest.rows_per_block.min(nest.rows - row_block * nest.rows_per_block),
                columns: nest.columns_per_block.min(nest.columns - column_block * nest.columns_per_block),
            };
            self.block(&place, first);
            first = false;
        }
        match nest.fold {
            FoldKind::Columns => self.finish_columns(task, outer, column_task),
            FoldKind::Whole => self.finish_whole(task, outer),
            FoldKind::None | FoldKind::Rows => {}
        }
    }

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

    pub(super) fn address(&self, place: &BlockPlace, operand: &Operand) -> *mut u8 {
        let position = self.position(place, operand.offset, &operand.strides);
        self.memory.at(operand.buffer.0 as usize).wrapping_offset(position * operand.dtype.size() as isize)
    }

    pub(super) fn block(&mut self, place: &BlockPlace, first: bool) {
        let prepared = self.prepared;
        let count = place.rows * place.columns;
        for (load, how) in prepared.body.loads.iter().zip(&prepared.loads) {
            match (&load.source, how.way) {
                (Source::Memory(operand), Way::InPlace) => {
                    let address = self.address(place, operand);
                    prefetch_after(address, count * operand.dtype.size());
                    self.registers[load.to] = address;
                }
                (_, Way::Once) if !first => {}
                (Source::Memory(operand), _) => self.fill_from_memory(place, load, operand, how),
                (Source::Immediate(value), _) => self.fill_with(load, instructions::immediate(*value, load.lane)),
                (Source::Count { offset, strides }, way) => self.fill_counting(place, load, way, *offset, strides),
            }
        }
        for (store, how) in prepared.body.stores.iter().zip(&prepared.stores) {
            if how.in_place {
                self.registers[store.from] = self.address(place, &store.to);
            }
        }
        for (run, to, from) in &prepared.instructions {
            let operands = Operands {
                to: self.registers[*to],
                from: from.map(|register| self.registers[register].cast_const()),
                count,
            };
            // SAFETY: registers hold a block of the lane type, or are memory where a block of it lies in order.
            unsafe { run(operands) };
        }
        // Folds come before stores: a store may overwrite an operand that a fold reads where it lies.
        match prepared.nest.fold {
            FoldKind::None => {}
            FoldKind::Rows => self.fold_rows(place),
            FoldKind::Columns | FoldKind::Whole => self.accumulate(count),
        }
        for (store, how) in prepared.body.stores.iter().zip(&prepared.stores) {
            if !how.in_place {
                self.store(place, store.from, &store.to, how);
            }
        }
    }
}

/// Where a block lies in its loop.
pub(super) struct BlockPlace {
    pub outer: usize,
    pub middle: usize,
    pub row: usize,
    pub column: usize,
    pub rows: usize,
    pub columns: usize,
}

/// Asks for the memory behind a block, as much of it as the block has: most often the next one lies there. Its operands
/// come while this one computes.
pub(super) fn prefetch_after(block: *const u8, bytes: usize) {
    const LINE: usize = 64;
    for line in (0..bytes).step_by(LINE) {
        crate::simd::prefetch(block.wrapping_add(bytes + line));
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
