//! The state of a loop's compilation: where its values are, and when they are used.

use super::assembler::{self as machine, Assembler, Mask, Operand};
use super::{Outline, Share, Walk};
use crate::plan::kernel::{Code, Lane, Register, Source};
use octant_graph::DType;

pub(super) const ZMMS: usize = 32;
/// The mask that instructions use in between; the others hold bools.
pub(super) const SPARE_MASK: Mask = 7;

/// Where a value lies while it is in no vector register.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Home {
    /// Nowhere: it is computed in the loop.
    None,
    /// In its slot of the working memory.
    Slot,
    /// In memory, in the type it has there, by its index among the operands.
    Memory(usize, DType),
    Constant(u32),
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Holds {
    Nothing,
    Value(Register),
    /// Something that an instruction needs until it ends.
    Temporary,
}

/// A loop as it becomes machine code: `frame` writes the code, `registers` decides where values are.
pub(super) struct Compiler<'a> {
    pub outline: &'a Outline<'a>,
    pub share: &'a Share,
    pub streaming: bool,
    pub machine: Assembler,
    /// The operands that are memory, in the order in which they get general registers: loads, then stores.
    pub pointers: Vec<usize>,
    pub homes: Vec<Home>,
    /// Where every value is used, the last one first: at instructions, then sums, then stores.
    pub uses: Vec<Vec<usize>>,
    pub holds: [Holds; ZMMS],
    /// Vector registers that the current instruction reads.
    pub pinned: u32,
    /// The masks that hold bools.
    pub masks: [Option<Register>; SPARE_MASK as usize],
    /// Values that are bf16 numbers already.
    pub rounded: Vec<bool>,
}

impl<'a> Compiler<'a> {
    pub fn new(outline: &'a Outline<'a>, share: &'a Share, streaming: bool) -> Compiler<'a> {
        let body = outline.body;
        let mut homes = vec![Home::None; body.registers.len()];
        let mut rounded = vec![false; body.registers.len()];
        for (at, load) in body.loads.iter().enumerate() {
            homes[load.to] = match &load.source {
                Source::Immediate(value) if matches!(load.lane, Lane::I32 | Lane::U8) => {
                    Home::Constant(*value as i32 as u32)
                }
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

    /// An operand in memory at the loop's index, through the spare register if it has none of its own.
    pub fn memory(&mut self, operand: usize, bytes: usize) -> Operand {
        let index = self.pointers.iter().position(|&other| other == operand);
        let base = index.and_then(|index| machine::POINTERS.get(index)).copied().unwrap_or_else(|| {
            self.machine.load_pointer(machine::SPARE, operand);
            machine::SPARE
        });
        match self.share.walk(operand) {
            Some(Walk { everywhere: true, .. }) => Operand::Everywhere { base },
            _ => Operand::Memory { base, scale: bytes as u8, distance: 0 },
        }
    }

    pub fn slot(&self, slot: usize) -> Operand {
        self.slot_of(slot, 4)
    }

    /// A slot of elements of so many bytes.
    pub fn slot_of(&self, slot: usize, bytes: u8) -> Operand {
        let distance = (slot * self.outline.slot_bytes) as i32;
        Operand::Memory { base: machine::SLOTS, scale: bytes, distance }
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
