//! The code of single instructions.

use super::assembler::{self as machine, Op, Operand};
use super::compiler::Compiler;
use super::functions::{integer_predicate, predicate};
use crate::plan::kernel::{Code, Instruction, Lane, Register};
use octant_graph::{Binary, DType, Unary};

impl Compiler<'_> {
    /// The code of an instruction; none if it has no code here.
    pub fn instruction(&mut self, instruction: &Instruction) -> Option<()> {
        let Instruction { code, lane, to, ref from } = *instruction;
        let a = from[0];
        match (code, lane) {
            (Code::Binary(Binary::Add), Lane::F32) => self.commutative(machine::ADD, to, [a, from[1]]),
            (Code::Binary(Binary::Mul), Lane::F32) => self.commutative(machine::MULTIPLY, to, [a, from[1]]),
            (Code::Binary(Binary::Sub), Lane::F32) => self.binary(machine::SUBTRACT, to, [a, from[1]]),
            (Code::Binary(Binary::Div), Lane::F32) => self.binary(machine::DIVIDE, to, [a, from[1]]),
            (Code::Binary(Binary::Max), Lane::F32) => self.extreme(machine::MAXIMUM, to, [a, from[1]]),
            (Code::Binary(Binary::Min), Lane::F32) => self.extreme(machine::MINIMUM, to, [a, from[1]]),
            (Code::MultiplyAdd, Lane::F32) => self.fused(machine::MULTIPLY_ADD, to, from),
            (Code::MultiplySubtract, Lane::F32) => self.fused(machine::MULTIPLY_SUBTRACT, to, from),
            (Code::SubtractProduct, Lane::F32) => self.fused(machine::SUBTRACT_PRODUCT, to, from),
            (Code::Unary(Unary::Neg), Lane::F32) => self.with_constant(machine::XOR, to, a, 0x8000_0000),
            (Code::Unary(Unary::Abs), Lane::F32) => self.with_constant(machine::AND, to, a, 0x7fff_ffff),
            (Code::Unary(Unary::Sqrt), Lane::F32) => {
                let source = self.operand(a);
                let target = self.target(to);
                self.machine.emit1(machine::ROOT, target, source);
            }
            (Code::Unary(Unary::Rsqrt), Lane::F32) => {
                let (source, target, root) = (self.vector(a), self.target(to), self.temporary());
                self.machine.emit1(machine::ROOT, root, Operand::Register(source));
                self.machine.emit1(machine::BROADCAST, target, Operand::Constant(1f32.to_bits()));
                self.machine.emit(machine::DIVIDE, target, target, Operand::Register(root));
            }
            (Code::Unary(Unary::Logistic), Lane::F32) => self.logistic(to, a),
            (Code::Unary(Unary::Exp), Lane::F32) => self.exp(to, a),
            (Code::Unary(Unary::Erf), Lane::F32) => self.erf(to, a),
            (Code::Round(DType::BF16), Lane::F32) => {
                let (source, target) = (self.vector(a), self.target(to));
                self.round(target, source);
            }
            (Code::Compare(comparison), Lane::F32) => {
                let (source, operand) = (self.vector(a), self.operand(from[1]));
                let mask = self.new_mask(to)?;
                self.machine.compare(mask, source, operand, predicate(comparison));
            }
            (Code::Compare(comparison), Lane::I32) => {
                let (source, operand) = (self.vector(a), self.operand(from[1]));
                let mask = self.new_mask(to)?;
                self.machine.compare_integers(mask, source, operand, integer_predicate(comparison));
            }
            (Code::Select, Lane::F32 | Lane::I32) => {
                let mask = self.mask(a)?;
                let (otherwise, then) = (self.vector(from[2]), self.operand(from[1]));
                let target = self.target(to);
                self.machine.emit_masked(machine::BLEND, mask, target, otherwise, then);
            }
            (Code::Convert(Lane::F32), Lane::Bool) => {
                let mask = self.mask(a)?;
                let target = self.target(to);
                self.machine.emit_or_zero(machine::BROADCAST, mask, target, 0, Operand::Constant(1f32.to_bits()));
            }
            (Code::Convert(Lane::I32), Lane::Bool) => {
                let mask = self.mask(a)?;
                let target = self.target(to);
                self.machine.emit_or_zero(machine::BROADCAST, mask, target, 0, Operand::Constant(1));
            }
            (Code::Convert(Lane::F32), Lane::I32) => {
                let (source, target) = (self.vector(a), self.target(to));
                self.machine.emit1(machine::TO_FLOATS, target, Operand::Register(source));
            }
            // Bytes are held as 32-bit integers.
            (Code::Convert(Lane::F32), Lane::U8) => {
                let (source, target) = (self.vector(a), self.target(to));
                self.machine.emit1(machine::TO_FLOATS, target, Operand::Register(source));
            }
            (Code::Convert(Lane::I32), Lane::U8) => {
                let (source, target) = (self.vector(a), self.target(to));
                self.machine.emit1(machine::COPY, target, Operand::Register(source));
            }
            (Code::Convert(Lane::U8), Lane::F32) => {
                // The second operand is the result where either is NaN, which becomes 0.
                let (source, target) = (self.vector(a), self.target(to));
                self.machine.emit(machine::XOR, target, source, Operand::Register(source));
                self.machine.emit(machine::MAXIMUM, target, source, Operand::Register(target));
                self.machine.emit(machine::MINIMUM, target, target, Operand::Constant(255f32.to_bits()));
                self.machine.emit1(machine::TO_INTEGERS, target, Operand::Register(target));
            }
            (Code::Unary(Unary::RoundEven), Lane::F32) => {
                let (source, target) = (self.vector(a), self.target(to));
                self.machine.nearest_whole(target, source);
            }
            (Code::Binary(Binary::Add), Lane::I32) => self.commutative(machine::ADD_INTEGERS, to, [a, from[1]]),
            (Code::Binary(Binary::Mul), Lane::I32) => self.commutative(machine::MULTIPLY_INTEGERS, to, [a, from[1]]),
            (Code::Binary(Binary::Max), Lane::I32) => self.commutative(machine::MAXIMUM_OF_INTEGERS, to, [a, from[1]]),
            (Code::Binary(Binary::Min), Lane::I32) => self.commutative(machine::MINIMUM_OF_INTEGERS, to, [a, from[1]]),
            (Code::Binary(Binary::Sub), Lane::I32) => self.binary(machine::SUBTRACT_INTEGERS, to, [a, from[1]]),
            (Code::Binary(Binary::And), Lane::Bool) => self.of_masks(machine::AND_MASKS, to, [a, from[1]])?,
            (Code::Binary(Binary::Or), Lane::Bool) => self.of_masks(machine::OR_MASKS, to, [a, from[1]])?,
            (Code::Binary(Binary::Xor), Lane::Bool) => self.of_masks(machine::XOR_MASKS, to, [a, from[1]])?,
            (Code::Unary(Unary::Not), Lane::Bool) => {
                let (source, target) = (self.mask(a)?, self.new_mask(to)?);
                self.machine.invert_mask(target, source);
            }
            (Code::Clamp, Lane::F32) => {
                let (value, raised) = (self.vector(from[1]), self.temporary());
                let low = self.operand(a);
                self.largest(machine::MAXIMUM, raised, value, low);
                let (high, target) = (self.operand(from[2]), self.target(to));
                self.largest(machine::MINIMUM, target, raised, high);
            }
            // The interpreter runs these.
            (Code::Unary(_) | Code::Binary(_) | Code::Compare(_) | Code::Select | Code::Clamp, _) => return None,
            (Code::Convert(_) | Code::Round(_), _) => return None,
            (Code::MultiplyAdd | Code::MultiplySubtract | Code::SubtractProduct, _) => return None,
        }
        Some(())
    }

    fn binary(&mut self, op: Op, to: Register, [a, b]: [Register; 2]) {
        let (source, operand) = (self.vector(a), self.operand(b));
        let target = self.target(to);
        self.machine.emit(op, target, source, operand);
    }

    /// What is read but once can stay in memory, as the second operand.
    fn commutative(&mut self, op: Op, to: Register, [a, b]: [Register; 2]) {
        let swap = self.stays_in_memory(a) && !self.stays_in_memory(b);
        self.binary(op, to, if swap { [b, a] } else { [a, b] });
    }

    fn of_masks(&mut self, op: u8, to: Register, [a, b]: [Register; 2]) -> Option<()> {
        let operands = [self.mask(a)?, self.mask(b)?];
        let target = self.new_mask(to)?;
        self.machine.combine_masks(op, target, operands);
        Some(())
    }

    fn with_constant(&mut self, op: Op, to: Register, from: Register, bits: u32) {
        let source = self.vector(from);
        let target = self.target(to);
        self.machine.emit(op, target, source, Operand::Constant(bits));
    }

    fn extreme(&mut self, op: Op, to: Register, [a, b]: [Register; 2]) {
        let (source, operand) = (self.vector(a), self.operand(b));
        let target = self.target(to);
        self.largest(op, target, source, operand);
    }

    /// Of a product and a sum one operand is overwritten, so it is copied first.
    fn fused(&mut self, op: Op, to: Register, from: &[Register]) {
        let (a, b, c) = match self.stays_in_memory(from[0]) {
            true => (from[1], from[0], from[2]),
            false => (from[0], from[1], from[2]),
        };
        let source = self.vector(a);
        if self.stays_in_memory(c) {
            let factor = self.vector(b);
            let added = self.operand(c);
            let target = self.target(to);
            self.machine.emit1(machine::COPY, target, Operand::Register(factor));
            self.machine.emit(op, target, source, added);
        } else {
            let added = self.vector(c);
            let factor = self.operand(b);
            let target = self.target(to);
            self.machine.emit1(machine::COPY, target, Operand::Register(added));
            self.machine.emit(op.onto_target(), target, source, factor);
        }
    }
}
