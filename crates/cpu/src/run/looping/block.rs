//! One thread inside of a loop: from tasks to blocks, and each block through the instructions.

use super::super::instructions::{self, Operands};
use super::super::memory::Memory;
use super::PreparedLoop;
use super::ahead::Ahead;
use super::native::Native;
use super::registers::Way;
use crate::plan::kernel::{Operand, Source};
use crate::plan::nest::FoldKind;
use std::iter::Peekable;

/// Memory that a thread keeps from loop to loop.
#[derive(Default)]
pub(super) struct Workspace {
    /// Registers and accumulators.
    words: Vec<u64>,
    registers: Vec<*mut u8>,
    accumulators: Vec<*mut u8>,
    here: Vec<*mut u8>,
    next: Vec<*mut u8>,
}

/// The state of one thread inside of a loop.
pub(super) struct Block<'a> {
    pub prepared: &'a PreparedLoop,
    pub memory: &'a Memory,
    /// Where every register lies for the current block.
    pub registers: &'a mut [*mut u8],
    pub accumulators: &'a [*mut u8],
    /// Where the registers' slots begin.
    slots: *mut u8,
    /// Elements of the accumulators that were used in this task.
    pub folded: usize,
    /// Where the current block of every operand begins: of the loads, then of the stores.
    here: &'a mut Vec<*mut u8>,
    /// The same for the block after it.
    next: &'a mut Vec<*mut u8>,
}

impl<'a> Block<'a> {
    pub(super) fn new(prepared: &'a PreparedLoop, memory: &'a Memory, workspace: &'a mut Workspace) -> Block<'a> {
        let blocks = prepared.slot_count + prepared.folds.len() + 1;
        // Registers begin at cache lines.
        let needed = (blocks * prepared.slot_bytes + 64).div_ceil(8);
        let Workspace { words, registers, accumulators, here, next } = workspace;
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
        Block { prepared, memory, registers, accumulators, slots: start, folded: 0, here, next }
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
        if self.prepared.native.as_ref().is_some_and(|native| native.share.folds) {
            let columns = nest.columns_per_block.min(nest.columns - column_task * nest.columns_per_block);
            self.begin_folds(nest.rows_per_block * columns);
        }
        let place = |rows: usize, column_block: usize| {
            let (middle, row, column) = (
                rows / row_blocks,
                rows % row_blocks * nest.rows_per_block,
                (column_task + column_block) * nest.columns_per_block,
            );
            let (rows, columns) =
                (nest.rows_per_block.min(nest.rows - row), nest.columns_per_block.min(nest.columns - column));
            BlockPlace { outer, middle, row, column, rows, columns }
        };
        match nest.fold {
            // The order does not matter, and from row to row the code finds its way alone.
            FoldKind::None if self.runs_together().is_some() => {
                let rows = steps.start.div_ceil(column_steps)..steps.end.div_ceil(column_steps);
                self.blocks((0..column_steps).flat_map(|column| rows.clone().map(move |row| place(row, column))))
            }
            _ => self.blocks(steps.map(|step| place(step / column_steps, step % column_steps))),
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

    /// The loop's code, if it can run several blocks by itself.
    fn runs_together(&self) -> Option<&'a Native> {
        self.prepared.native.as_ref().filter(|native| native.share.steps.is_some())
    }

    pub(super) fn blocks(&mut self, places: impl Iterator<Item = BlockPlace>) {
        match self.runs_together() {
            Some(native) => self.together(native, places.peekable()),
            None => self.one_by_one(places),
        }
    }

    /// Runs blocks that lie below each other together.
    fn together(&mut self, native: &Native, mut places: Peekable<impl Iterator<Item = BlockPlace>>) {
        let mut before = None;
        while let Some(place) = places.next() {
            let fits = native.fits(place.rows * place.columns);
            let mut blocks = 1;
            while places.next_if(|next| fits && next.lies_below(&place, blocks)).is_some() {
                blocks += 1;
            }
            self.locate_next(&place);
            std::mem::swap(self.here, self.next);
            self.next.clear();
            self.block(&place, blocks, before.is_none(), before != Some(place.middle));
            before = Some(place.middle);
        }
    }

    /// Runs blocks one after the other. Where the next one lies is known while one is computed.
    fn one_by_one(&mut self, mut places: impl Iterator<Item = BlockPlace>) {
        let Some(mut place) = places.next() else { return };
        self.locate_next(&place);
        // The first block of all, and of every index along the middle dimensions, fills what stays the same.
        let (mut first, mut first_here) = (true, true);
        loop {
            std::mem::swap(self.here, self.next);
            let after = places.next();
            match &after {
                Some(after) if after.is_beside(&place) => self.step_to(after, &place),
                Some(after) => self.locate_next(after),
                None => self.next.clear(),
            }
            self.block(&place, 1, first, first_here);
            let Some(after) = after else { return };
            (first, first_here) = (false, after.middle != place.middle);
            place = after;
        }
    }

    /// Finds where the operands of a block begin.
    fn locate_next(&mut self, place: &BlockPlace) {
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
    fn step_to(&mut self, place: &BlockPlace, from: &BlockPlace) {
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

    /// Runs a block; with code that can, also the ones below it.
    fn block(&mut self, place: &BlockPlace, blocks: usize, first: bool, first_here: bool) {
        let prepared = self.prepared;
        let count = place.rows * place.columns;
        let native = prepared.native.as_ref().filter(|native| native.fits(count));
        for (index, (load, how)) in prepared.body.loads.iter().zip(&prepared.loads).enumerate() {
            let address = self.here[index];
            match (&load.source, how.way) {
                (_, Way::EachBlock) if native.is_some_and(|native| native.share.reads[index].is_some()) => {}
                (Source::Memory(_), Way::InPlace) => self.registers[load.to] = address,
                (_, Way::Once) if !first => {}
                (_, Way::OncePerMiddle) if !first_here => {}
                (Source::Memory(operand), _) => self.fill_from_memory(place, load, (address, operand), how),
                (Source::Immediate(value), _) => self.fill_with(load, instructions::immediate(*value, load.lane)),
                (Source::Count { offset, strides }, way) => self.fill_counting(place, load, way, *offset, strides),
            }
        }
        let targets = prepared.body.loads.len();
        for (index, (store, how)) in prepared.body.stores.iter().zip(&prepared.stores).enumerate() {
            if how.in_place {
                self.registers[store.from] = self.here[targets + index];
            }
        }
        match native {
            // SAFETY: operands and slots hold a block each.
            Some(native) => unsafe {
                let inner = prepared.nest.row_inner.max(1);
                native.run(self.here, self.slots, count, inner - place.row % inner, blocks)
            },
            None => self.instructions(count),
        }
        // Folds come before stores: a store may overwrite an operand that a fold reads where it lies.
        match prepared.nest.fold {
            FoldKind::None => {}
            FoldKind::Rows => self.fold_rows(place),
            FoldKind::Columns | FoldKind::Whole if native.is_none() => self.accumulate(count),
            FoldKind::Columns | FoldKind::Whole => {}
        }
        for (index, (store, how)) in prepared.body.stores.iter().zip(&prepared.stores).enumerate() {
            if !how.in_place && native.is_none_or(|native| native.share.writes[index].is_none()) {
                self.store(place, store.from, (self.here[targets + index], &store.to), how);
            }
        }
    }

    /// Runs the loop's instructions one by one over the whole block.
    fn instructions(&mut self, count: usize) {
        let prepared = self.prepared;
        let mut ahead = Ahead::new(&prepared.fetched, self.next, count, prepared.instructions.len() + 1);
        for (run, to, from) in &prepared.instructions {
            ahead.fetch();
            let operands = Operands {
                to: self.registers[*to],
                from: from.map(|register| self.registers[register].cast_const()),
                count,
            };
            // SAFETY: registers hold a block of the lane type, or are memory where a block of it lies in order.
            unsafe { run(operands) };
        }
        ahead.fetch();
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

impl BlockPlace {
    /// Whether it is the one that many blocks below another one of the same size.
    fn lies_below(&self, other: &BlockPlace, blocks: usize) -> bool {
        let below = other.row + blocks * other.rows;
        self.is_beside(other)
            && (self.row, self.column) == (below, other.column)
            && (self.rows, self.columns) == (other.rows, other.columns)
    }

    /// Whether two blocks differ in their rows and columns only.
    fn is_beside(&self, other: &BlockPlace) -> bool {
        self.outer == other.outer && self.middle == other.middle
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
