//! Which value is in which vector register, and where it lies otherwise.

use super::assembler::{self as machine, Mask, Operand, Zmm};
use super::compiler::{Compiler, Holds, Home, ZMMS};
use crate::plan::kernel::{Lane, Register};
use octant_graph::DType;

impl Compiler<'_> {
    /// Stores a value to its slot if something else reads it from there: a fold of rows, or a store that is no block.
    pub fn keep_for_others(&mut self, value: Register) {
        let body = self.outline.body;
        let folded = !self.share.folds && body.folds.iter().any(|fold| fold.from == value);
        let mut stores = body.stores.iter().zip(self.outline.stores).zip(&self.share.writes);
        let in_place = stores.clone().any(|((store, how), _)| store.from == value && how.in_place);
        let stored = stores.any(|((store, _), walk)| store.from == value && walk.is_none());
        if (folded || stored) && !in_place && self.homes[value] == Home::None {
            self.spill(value);
            self.drop_unused(value);
        }
    }

    fn spill(&mut self, value: Register) {
        if let Some(zmm) = self.holds.iter().position(|&holds| holds == Holds::Value(value)) {
            let bytes = self.is_byte(value);
            let slot = self.slot_of(self.outline.slots[value], if bytes { 1 } else { 4 });
            self.machine.emit1(if bytes { machine::NARROW_TO_BYTES } else { machine::STORE }, zmm as Zmm, slot);
            self.homes[value] = Home::Slot;
        }
    }

    /// Whether a value is bytes outside of the vector registers.
    fn is_byte(&self, value: Register) -> bool {
        self.outline.body.registers[value] == Lane::U8
    }

    /// Whether a value is better read from memory by the instruction that needs it.
    pub fn stays_in_memory(&self, value: Register) -> bool {
        let held = self.holds.contains(&Holds::Value(value));
        let once = self.uses[value].len() == 1;
        match self.homes[value] {
            Home::Constant(_) => true,
            Home::Slot | Home::Memory(_, DType::F32 | DType::I32) => once && !held && !self.is_byte(value),
            Home::Memory(..) | Home::None => false,
        }
    }

    /// A value as the last operand of an instruction. Nothing else may be fetched before that instruction.
    pub fn operand(&mut self, value: Register) -> Operand {
        match self.homes[value] {
            Home::Constant(bits) => Operand::Constant(bits),
            Home::Slot if self.stays_in_memory(value) => self.slot(self.outline.slots[value]),
            Home::Memory(operand, _) if self.stays_in_memory(value) => self.memory(operand, 4),
            _ => Operand::Register(self.vector(value)),
        }
    }

    /// A value in a vector register.
    pub fn vector(&mut self, value: Register) -> Zmm {
        if let Some(zmm) = self.holds.iter().position(|&holds| holds == Holds::Value(value)) {
            self.pinned |= 1 << zmm;
            return zmm as Zmm;
        }
        let zmm = self.take(Holds::Value(value));
        match self.homes[value] {
            Home::Constant(bits) => self.machine.emit1(machine::BROADCAST, zmm, Operand::Constant(bits)),
            Home::Memory(operand, DType::BF16) => match self.memory(operand, 2) {
                memory @ Operand::Everywhere { .. } => {
                    self.machine.emit1(machine::BROADCAST_16_BITS, zmm, memory);
                    self.machine.emit(machine::AND, zmm, zmm, Operand::Constant(0xffff_0000));
                }
                memory => {
                    self.machine.emit1(machine::WIDEN, zmm, memory);
                    self.machine.shift(machine::TO_LEFT, zmm, zmm, 16);
                }
            },
            Home::Memory(operand, DType::U8) => {
                let memory = self.memory(operand, 1);
                self.machine.emit1(machine::WIDEN_BYTES, zmm, memory);
            }
            Home::Slot if self.is_byte(value) => {
                self.machine.emit1(machine::WIDEN_BYTES, zmm, self.slot_of(self.outline.slots[value], 1));
            }
            Home::Memory(operand, _) => match self.memory(operand, 4) {
                memory @ Operand::Everywhere { .. } => self.machine.emit1(machine::BROADCAST, zmm, memory),
                memory => self.machine.emit1(machine::LOAD, zmm, memory),
            },
            Home::Slot => self.machine.emit1(machine::LOAD, zmm, self.slot(self.outline.slots[value])),
            Home::None => unreachable!("a value is computed before it is used"),
        }
        zmm
    }

    /// The vector register for an instruction's result: never one of its operands.
    pub fn target(&mut self, to: Register) -> Zmm {
        self.take(Holds::Value(to))
    }

    pub fn temporary(&mut self) -> Zmm {
        self.take(Holds::Temporary)
    }

    /// A free vector register, or that of the value which is needed again last.
    fn take(&mut self, holds: Holds) -> Zmm {
        let free = self.holds.iter().position(|&holds| holds == Holds::Nothing);
        let zmm = free.unwrap_or_else(|| {
            let candidates = (0..ZMMS).filter_map(|zmm| match self.holds[zmm] {
                Holds::Value(value) if self.pinned & 1 << zmm == 0 => Some((self.uses[value].last(), zmm, value)),
                _ => None,
            });
            let (_, zmm, value) = candidates.max().expect("an instruction needs fewer registers than there are");
            if self.homes[value] == Home::None {
                self.spill(value);
            }
            zmm
        });
        self.holds[zmm] = holds;
        self.pinned |= 1 << zmm;
        zmm as Zmm
    }

    /// Ends what happens at `at`: values that were used for the last time leave their registers.
    pub fn finish(&mut self, at: usize, used: &[Register]) {
        self.pinned = 0;
        for holds in self.holds.iter_mut().filter(|holds| **holds == Holds::Temporary) {
            *holds = Holds::Nothing;
        }
        for &value in used {
            while self.uses[value].last() == Some(&at) {
                self.uses[value].pop();
            }
            self.drop_unused(value);
        }
    }

    fn drop_unused(&mut self, value: Register) {
        if self.uses[value].is_empty() {
            self.holds
                .iter_mut()
                .filter(|holds| **holds == Holds::Value(value))
                .for_each(|holds| *holds = Holds::Nothing);
            self.masks.iter_mut().filter(|mask| **mask == Some(value)).for_each(|mask| *mask = None);
        }
    }

    /// The mask that holds a bool.
    pub fn mask(&mut self, value: Register) -> Option<Mask> {
        if let Some(mask) = self.masks.iter().position(|&mask| mask == Some(value)) {
            return Some(mask as Mask);
        }
        let memory = match self.homes[value] {
            Home::Memory(operand, _) => self.memory(operand, 1),
            Home::Slot => self.slot_of(self.outline.slots[value], 1),
            Home::None | Home::Constant(_) => return None,
        };
        let (mask, wide) = (self.new_mask(value)?, self.temporary());
        self.machine.emit1(machine::WIDEN_BYTES, wide, memory);
        self.machine.emit(machine::TEST, mask, wide, Operand::Register(wide));
        Some(mask)
    }

    /// A mask for a new bool; none is left if there are too many at once.
    pub fn new_mask(&mut self, value: Register) -> Option<Mask> {
        let free = (1..self.masks.len()).find(|&mask| self.masks[mask].is_none())?;
        self.masks[free] = Some(value);
        Some(free as Mask)
    }
}
