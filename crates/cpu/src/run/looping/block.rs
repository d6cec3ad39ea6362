//! One thread inside of a loop: a block through the instructions.

use super::super::instructions::{self, Operands};
use super::super::memory::Memory;
use super::ahead::Ahead;
use super::registers::RegisterFill;
use super::{Lent, PreparedLoop};
use crate::plan::kernel::Source;
use crate::plan::nest::FoldKind;

/// Where a block lies in its loop.
pub(super) struct BlockRange {
    pub outer: usize,
    pub middle: usize,
    pub row: usize,
    pub column: usize,
    pub rows: usize,
    pub columns: usize,
}

impl BlockRange {
    /// Whether it is the one that many blocks below another one of the same size.
    pub fn lies_below(&self, other: &BlockRange, blocks: usize) -> bool {
        let below = other.row + blocks * other.rows;
        self.is_beside(other)
            && (self.row, self.column) == (below, other.column)
            && (self.rows, self.columns) == (other.rows, other.columns)
    }

    /// Whether two blocks differ in their rows and columns only.
    pub fn is_beside(&self, other: &BlockRange) -> bool {
        self.outer == other.outer && self.middle == other.middle
    }
}

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
    /// The buffer that lies elsewhere.
    pub lent: Option<Lent>,
    /// Where every register lies for the current block.
    pub registers: &'a mut [*mut u8],
    pub accumulators: &'a [*mut u8],
    /// Where the registers' slots begin.
    slots: *mut u8,
    /// Elements of the accumulators that were used in this task.
    pub folded: usize,
    /// Where the current block of every operand begins: of the loads, then of the stores.
    pub here: &'a mut Vec<*mut u8>,
    /// The same for the block after it.
    pub next: &'a mut Vec<*mut u8>,
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
        Block { prepared, memory, lent: None, registers, accumulators, slots: start, folded: 0, here, next }
    }

    /// Runs a block; with code that can, also the ones below it.
    pub(super) fn block(&mut self, range: &BlockRange, blocks: usize, first: bool, first_here: bool) {
        let prepared = self.prepared;
        let count = range.rows * range.columns;
        let native = prepared.native.as_ref().filter(|native| native.fits(count));
        for (index, (load, how)) in prepared.body.loads.iter().zip(&prepared.loads).enumerate() {
            let address = self.here[index];
            match (&load.source, how.fill) {
                (_, RegisterFill::EachBlock) if native.is_some_and(|native| native.share.reads[index].is_some()) => {}
                (Source::Memory(_), RegisterFill::InPlace) => self.registers[load.to] = address,
                (_, RegisterFill::Once) if !first => {}
                (_, RegisterFill::OncePerMiddle) if !first_here => {}
                (Source::Memory(operand), _) => self.fill_from_memory(range, load, (address, operand), how),
                (Source::Immediate(value), _) => self.fill_with(load, instructions::immediate(*value, load.lane)),
                (Source::Count { offset, strides }, fill) => self.fill_counting(range, load, fill, *offset, strides),
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
                native.run(self.here, self.slots, count, inner - range.row % inner, blocks)
            },
            None => self.instructions(count),
        }
        // Folds come before stores: a store may overwrite an operand that a fold reads where it lies.
        match prepared.nest.fold {
            FoldKind::None => {}
            FoldKind::Rows => self.fold_rows(range),
            FoldKind::Columns | FoldKind::Whole if native.is_none() => self.accumulate(count),
            FoldKind::Columns | FoldKind::Whole => {}
        }
        for (index, (store, how)) in prepared.body.stores.iter().zip(&prepared.stores).enumerate() {
            if !how.in_place && native.is_none_or(|native| native.share.writes[index].is_none()) {
                self.store(range, store.from, (self.here[targets + index], &store.to), how);
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
