//! What takes several of the machine's instructions: the same ones as elsewhere, in the same order.

use super::assembler::{self as machine, Op, Operand, Zmm};
use super::compiler::Compiler;
use super::registers::SPARE_MASK;
use crate::plan::kernel::Register;
use crate::run::math;
use octant_graph::Comparison;

/// Predicates of comparisons: whether either operand is NaN; the others are false then, except for "not equal".
const UNORDERED: u8 = 0x03;
const LESS: u8 = 0x11;

pub(super) fn predicate(comparison: Comparison) -> u8 {
    match comparison {
        Comparison::Equal => 0x00,
        Comparison::NotEqual => 0x04,
        Comparison::Less => LESS,
        Comparison::LessEqual => 0x12,
        Comparison::GreaterEqual => 0x1d,
        Comparison::Greater => 0x1e,
    }
}

impl Compiler<'_> {
    /// Rounds to bf16, ties to even; a NaN stays one.
    pub fn round(&mut self, target: Zmm, source: Zmm) {
        let machine = &mut self.machine;
        machine.shift(machine::TO_RIGHT, target, source, 16);
        machine.emit(machine::AND, target, target, Operand::Constant(1));
        machine.emit(machine::ADD_INTEGERS, target, target, Operand::Constant(0x7fff));
        machine.emit(machine::ADD_INTEGERS, target, target, Operand::Register(source));
        machine.emit(machine::AND, target, target, Operand::Constant(0xffff_0000));
        machine.compare(SPARE_MASK, source, Operand::Register(source), UNORDERED);
        machine.emit_masked(machine::OR, SPARE_MASK, target, source, Operand::Constant(0x0040_0000));
    }

    /// The machine's own gives the second operand if either is NaN; ours is NaN then.
    pub fn greatest(&mut self, op: Op, target: Zmm, source: Zmm, operand: Operand) {
        self.machine.emit(op, target, source, operand);
        self.machine.compare(SPARE_MASK, source, Operand::Register(source), UNORDERED);
        self.machine.emit_masked(machine::COPY, SPARE_MASK, target, 0, Operand::Register(source));
    }

    /// [`math::logistic`].
    pub fn logistic(&mut self, to: Register, from: Register) {
        use Operand::Register as R;
        let number = |value: f32| Operand::Constant(value.to_bits());
        let (x, y) = (self.vector(from), self.target(to));
        let [clamped, shifted, sum, r] = std::array::from_fn(|_| self.temporary());
        let code = &mut self.machine;
        code.emit(machine::XOR, r, x, number(-0.0));
        code.emit1(machine::BROADCAST, sum, number(-87.0));
        code.emit(machine::MAXIMUM, clamped, sum, R(r));
        code.emit1(machine::BROADCAST, sum, number(87.0));
        code.emit(machine::MINIMUM, clamped, sum, R(clamped));
        code.emit1(machine::BROADCAST, shifted, number(math::ROUNDING));
        code.emit(machine::MULTIPLY_ADD.onto_target(), shifted, clamped, number(std::f32::consts::LOG2_E));
        code.emit(machine::SUBTRACT, sum, shifted, number(math::ROUNDING));
        code.emit1(machine::COPY, r, R(clamped));
        for part in math::MINUS_LN_2 {
            code.emit(machine::MULTIPLY_ADD.onto_target(), r, sum, number(part));
        }
        let power = shifted;
        code.emit(machine::ADD_INTEGERS, power, shifted, Operand::Constant(127));
        code.shift(machine::TO_LEFT, power, power, 23);
        code.emit1(machine::BROADCAST, sum, number(math::EXPONENTIAL[0]));
        for &coefficient in &math::EXPONENTIAL[1..] {
            code.emit(machine::MULTIPLY_ADD, sum, r, number(coefficient));
        }
        code.emit(machine::MULTIPLY, sum, sum, R(r));
        code.emit(machine::MULTIPLY_ADD, sum, r, R(r));
        code.emit(machine::MULTIPLY_ADD, sum, power, R(power));
        code.emit(machine::ADD, sum, sum, number(1.0));
        code.emit1(machine::BROADCAST, y, Operand::Constant(math::RECIPROCAL));
        code.emit(machine::SUBTRACT_INTEGERS, y, y, R(sum));
        let error = r;
        for _ in 0..3 {
            code.emit1(machine::BROADCAST, error, number(1.0));
            code.emit(machine::SUBTRACT_PRODUCT.onto_target(), error, sum, R(y));
            code.emit(machine::MULTIPLY_ADD, y, error, R(y));
        }
        code.compare(SPARE_MASK, x, number(-87.0), LESS);
        code.emit_masked(machine::XOR, SPARE_MASK, y, y, R(y));
    }
}
