//! From a loop to machine code: its frame, what it folds and what it stores.

use super::super::registers::moves_on;
use super::assembler::{self as machine, Assembler, Operand};
use super::registers::{Holds, Home, SPARE_MASK, ZMMS};
use super::{Outline, Share, Walk};
use crate::plan::kernel::{Code, Instruction, Lane, Register, Source};
use octant_graph::{DType, Reduction};

/// How far ahead of their use operands are asked for, in bytes.
const AHEAD: i32 = 2048;

pub(super) struct Compiler<'a> {
    pub outline: &'a Outline<'a>,
    pub share: &'a Share,
    streaming: bool,
    pub machine: Assembler,
    /// The operands that are memory, in the order in which they get general registers: loads, then stores.
    pointers: Vec<usize>,
    pub homes: Vec<Home>,
    /// Where every value is used, the last one first: at instructions, then sums, then stores.
    pub uses: Vec<Vec<usize>>,
    pub holds: [Holds; ZMMS],
    /// Vector registers that the current instruction reads.
    pub pinned: u32,
    /// The masks that hold bools.
    pub masks: [Option<Register>; SPARE_MASK as usize],
    /// Values that are bf16 numbers already.
    rounded: Vec<bool>,
}

impl<'a> Compiler<'a> {
    pub fn new(outline: &'a Outline<'a>, share: &'a Share, streaming: bool) -> Compiler<'a> {
        let body = outline.body;
        let mut homes = vec![Home::None; body.registers.len()];
        let mut rounded = vec![false; body.registers.len()];
        for (at, load) in body.loads.iter().enumerate() {
            homes[load.to] = match &load.source {
                Source::Immediate(value) => Home::Constant((*value as f32).to_bits()),
                Source::Memory(operand) if share.reads[at].is_some() => Home::Memory(at, operand.dtype),
                _ => Home::Slot,
            };
            rounded[load.to] = matches!(homes[load.to], Home::Memory(_, DType::BF16));
        }
        for instruction in &body.instructions {
            rounded[instruction.to] = instruction.code == Code::Round(DType::BF16);
        }
        Compiler {
            outline,
            share,
            streaming,
            machine: Assembler::default(),
            pointers: share.pointers(),
            homes,
            uses: uses(outline, share),
            holds: [Holds::Nothing; ZMMS],
            pinned: 0,
            masks: [None; SPARE_MASK as usize],
            rounded,
        }
    }

    /// The code of the whole loop.
    pub fn code(mut self) -> Option<Vec<u8>> {
        let body = self.outline.body;
        let lanes = |instruction: &Instruction| {
            let from = instruction.from.iter().map(|&from| body.registers[from]);
            from.chain([body.registers[instruction.to]]).all(|lane| matches!(lane, Lane::F32 | Lane::Bool))
        };
        let in_order = |lane: Lane, walk: &Option<Walk>| lane == Lane::F32 || (lane == Lane::Bool && walk.is_some());
        let loads = body.loads.iter().map(|load| load.lane).zip(&self.share.reads);
        let stores = body.stores.iter().map(|store| body.registers[store.from]).zip(&self.share.writes);
        let folds = body.folds.iter().all(|fold| body.registers[fold.from] == Lane::F32);
        if !folds
            || !loads.chain(stores).all(|(lane, walk)| in_order(lane, walk))
            || !body.instructions.iter().all(lanes)
        {
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

    /// An operand in memory at the loop's index, through the spare register if it has none of its own.
    pub fn memory(&mut self, operand: usize, bytes: usize) -> Operand {
        let place = self.pointers.iter().position(|&other| other == operand);
        let base = place.and_then(|place| machine::POINTERS.get(place)).copied().unwrap_or_else(|| {
            self.machine.load_pointer(machine::SPARE, operand);
            machine::SPARE
        });
        match self.share.walk(operand) {
            Some(Walk { everywhere: true, .. }) => Operand::Everywhere { base },
            _ => Operand::Memory { base, scale: bytes as u8, distance: 0 },
        }
    }

    pub fn slot(&self, slot: usize) -> Operand {
        let distance = (slot * self.outline.slot_bytes) as i32;
        Operand::Memory { base: machine::SLOTS, scale: 4, distance }
    }

    /// Asks for what later turns will read, and for what they will write, unless it is written past the caches.
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
                DType::Bool => self.store_truths(store.from, operand),
                DType::BF16 => self.store_halves(store.from, operand, self.streams(index)),
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

    fn store_truths(&mut self, from: Register, operand: usize) {
        let (mask, bytes) = (self.mask(from).expect("it was computed or loaded"), self.temporary());
        self.machine.emit_or_zero(machine::BROADCAST, mask, bytes, 0, Operand::Constant(1));
        let memory = self.memory(operand, 1);
        self.machine.emit1(machine::NARROW_TO_BYTES, bytes, memory);
    }
}

/// Where every value is used, the last use first.
fn uses(outline: &Outline, share: &Share) -> Vec<Vec<usize>> {
    let body = outline.body;
    let mut uses = vec![Vec::new(); body.registers.len()];
    let mut note = |value: Register, at: usize| uses[value].insert(0, at);
    for (at, instruction) in body.instructions.iter().enumerate() {
        instruction.from.iter().for_each(|&from| note(from, at));
    }
    let first = body.instructions.len();
    if share.folds {
        for (index, fold) in body.folds.iter().enumerate() {
            [Some(fold.from), fold.factor].into_iter().flatten().for_each(|from| note(from, first + index));
        }
    }
    let first = first + body.folds.len();
    for (index, store) in body.stores.iter().enumerate().filter(|&(index, _)| share.writes[index].is_some()) {
        note(store.from, first + index);
    }
    uses
}
