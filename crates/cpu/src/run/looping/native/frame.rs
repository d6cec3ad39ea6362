//! The code of a loop around its instructions: its frame, what it folds and what it stores.

use super::super::registers::moves_on;
use super::Walk;
use super::assembler::{self as machine, Operand};
use super::compiler::Compiler;
use crate::plan::kernel::{Instruction, Lane, Register, Source};
use octant_graph::{DType, Reduction};

/// How far ahead of their use operands are prefetched, in bytes.
const AHEAD: i32 = 2048;

/// Whether there is code for values of that lane.
fn has_code(lane: Lane) -> bool {
    matches!(lane, Lane::F32 | Lane::I32 | Lane::U8 | Lane::Bool)
}

impl Compiler<'_> {
    /// The code of the whole loop.
    pub fn code(mut self) -> Option<Vec<u8>> {
        let body = self.outline.body;
        let lanes = |instruction: &Instruction| {
            let from = instruction.from.iter().map(|&from| body.registers[from]);
            from.chain([body.registers[instruction.to]]).all(has_code)
        };
        let mut loads = body.loads.iter().map(|load| load.lane);
        let mut stores = body.stores.iter().map(|store| body.registers[store.from]).zip(&self.share.writes);
        let storable = |(lane, walk): (Lane, &Option<Walk>)| {
            matches!(lane, Lane::F32 | Lane::I32 | Lane::U8) || (lane == Lane::Bool && walk.is_some())
        };
        let folds = body.folds.iter().all(|fold| body.registers[fold.from] == Lane::F32);
        if !folds || !loads.all(has_code) || !stores.all(storable) || !body.instructions.iter().all(lanes) {
            return None;
        }
        self.machine.begin();
        let begin_block = self.machine.bytes.len();
        for (&pointer, &operand) in machine::POINTERS.iter().zip(&self.pointers) {
            self.machine.load_pointer(pointer, operand);
        }
        let columns = self.outline.nest.columns_per_block;
        let begin = self.machine.begin_loop(columns);
        self.prefetch();
        for (at, instruction) in body.instructions.iter().enumerate() {
            self.instruction(instruction)?;
            self.finish(at, &instruction.from);
            self.keep_for_others(instruction.to);
        }
        let first = body.instructions.len();
        self.folds(first)?;
        self.stores(first + body.folds.len());
        let operands = machine::POINTERS.into_iter().zip(&self.pointers);
        let jumping = operands.filter_map(|(pointer, &operand)| Some((pointer, self.share.walk(operand)?.turns?)));
        let jumping: Vec<(u8, [i32; 2])> = jumping.collect();
        if !jumping.is_empty() {
            self.machine.end_row(columns, self.outline.nest.row_inner, &jumping);
        }
        self.machine.repeat(begin);
        if let Some(steps) = &self.share.steps {
            let moving = self.pointers.iter().map(|&operand| (operand, steps[operand])).filter(|&(_, step)| step != 0);
            self.machine.repeat_block(begin_block, moving);
        }
        self.machine.end();
        Some(self.machine.finish())
    }

    /// Prefetches what later turns will read, and what they will write, unless it is written past the caches.
    fn prefetch(&mut self) {
        let body = self.outline.body;
        for (&operand, &base) in self.pointers.iter().zip(&machine::POINTERS) {
            let (to, written) = match operand.checked_sub(body.loads.len()) {
                Some(store) if self.streams(store) => continue,
                Some(store) => (&body.stores[store].to, true),
                None => match &body.loads[operand].source {
                    Source::Memory(operand) => (operand, false),
                    _ => continue,
                },
            };
            if moves_on(to, self.outline.nest) {
                let scale = to.dtype.size() as u8;
                self.machine.prefetch(Operand::Memory { base, scale, distance: AHEAD }, written);
            }
        }
    }

    /// Whether a store goes past the caches.
    fn streams(&self, store: usize) -> bool {
        self.streaming && self.outline.stores[store].stream.is_some()
    }

    /// Folds into the accumulators.
    fn folds(&mut self, first: usize) -> Option<()> {
        let folds = if self.share.folds { self.outline.body.folds.as_slice() } else { &[] };
        for (index, fold) in folds.iter().enumerate() {
            let accumulator = self.slot(self.outline.slot_count + index);
            let (before, after) = (self.temporary(), self.temporary());
            self.machine.emit1(machine::LOAD, before, accumulator);
            let folded = self.vector(fold.from);
            match (fold.kind, fold.factor) {
                (Reduction::Sum, None) => self.machine.emit(machine::ADD, after, before, Operand::Register(folded)),
                (Reduction::Sum, Some(factor)) => {
                    let factor = self.operand(factor);
                    self.machine.emit1(machine::COPY, after, Operand::Register(before));
                    self.machine.emit(machine::MULTIPLY_ADD.onto_target(), after, folded, factor);
                }
                (Reduction::Max, _) => self.largest(machine::MAXIMUM, after, before, Operand::Register(folded)),
                (Reduction::Min, _) => self.largest(machine::MINIMUM, after, before, Operand::Register(folded)),
                (Reduction::Product | Reduction::And | Reduction::Or, _) => return None,
            }
            self.machine.emit1(machine::STORE, after, accumulator);
            self.finish(first + index, &[fold.from, fold.factor.unwrap_or(fold.from)]);
        }
        Some(())
    }

    fn stores(&mut self, first: usize) {
        let body = self.outline.body;
        for (index, store) in body.stores.iter().enumerate().filter(|&(index, _)| self.share.writes[index].is_some()) {
            let operand = body.loads.len() + index;
            match store.to.dtype {
                DType::Bool => self.store_bools(store.from, operand),
                DType::BF16 => self.store_halves(store.from, operand, self.streams(index)),
                DType::U8 => {
                    let value = self.vector(store.from);
                    let memory = self.memory(operand, 1);
                    self.machine.emit1(machine::NARROW_TO_BYTES, value, memory);
                }
                _ => {
                    let value = self.vector(store.from);
                    let op = if self.streams(index) { machine::STREAM } else { machine::STORE };
                    let memory = self.memory(operand, 4);
                    self.machine.emit1(op, value, memory);
                }
            }
            self.finish(first + index, &[store.from]);
        }
    }

    fn store_halves(&mut self, from: Register, operand: usize, streams: bool) {
        let (value, narrow) = (self.vector(from), self.temporary());
        let rounded = if self.rounded[from] { value } else { narrow };
        if !self.rounded[from] {
            self.round_above(narrow, value);
        }
        self.machine.shift(machine::TO_RIGHT, narrow, rounded, 16);
        let memory = self.memory(operand, 2);
        if streams {
            self.machine.emit1(machine::NARROW, narrow, Operand::Register(narrow));
            self.machine.emit1(machine::STREAM_HALF, narrow, memory);
        } else {
            self.machine.emit1(machine::NARROW, narrow, memory);
        }
    }

    fn store_bools(&mut self, from: Register, operand: usize) {
        let (mask, bytes) = (self.mask(from).expect("it was computed or loaded"), self.temporary());
        self.machine.emit_or_zero(machine::BROADCAST, mask, bytes, 0, Operand::Constant(1));
        let memory = self.memory(operand, 1);
        self.machine.emit1(machine::NARROW_TO_BYTES, bytes, memory);
    }
}
