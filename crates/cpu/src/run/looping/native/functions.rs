//! What takes several of the machine's instructions: the same ones as elsewhere, in the same order.

use super::assembler::{self as machine, Op, Operand, Zmm};
use super::compiler::{Compiler, SPARE_MASK};
use crate::math;
use crate::plan::kernel::Register;
use octant_graph::Comparison;

/// Predicates of comparisons: whether either operand is NaN; the others are false then, except for those with "not".
const UNORDERED: u8 = 0x03;
const NOT_LESS: u8 = 0x15;

pub(super) fn predicate(comparison: Comparison) -> u8 {
    match comparison {
        Comparison::Equal => 0x00,
        Comparison::NotEqual => 0x04,
        Comparison::Less => 0x11,
        Comparison::LessEqual => 0x12,
        Comparison::GreaterEqual => 0x1d,
        Comparison::Greater => 0x1e,
    }
}

/// The same of integers.
pub(super) fn integer_predicate(comparison: Comparison) -> u8 {
    match comparison {
        Comparison::Equal => 0,
        Comparison::Less => 1,
        Comparison::LessEqual => 2,
        Comparison::NotEqual => 4,
        Comparison::GreaterEqual => 5,
        Comparison::Greater => 6,
    }
}

impl Compiler<'_> {
    /// Rounds to bf16, ties to even; a NaN stays one.
    pub fn round(&mut self, target: Zmm, source: Zmm) {
        self.round_above(target, source);
        self.machine.emit(machine::AND, target, target, Operand::Constant(0xffff_0000));
    }

    /// The same in the upper bits; the lower ones are left as they come.
    pub fn round_above(&mut self, target: Zmm, source: Zmm) {
        const LOWEST: u32 = 0x0001_0000;
        let machine = &mut self.machine;
        machine.emit(machine::TEST, SPARE_MASK, source, Operand::Constant(LOWEST));
        machine.emit(machine::ADD_INTEGERS, target, source, Operand::Constant(LOWEST / 2 - 1));
        machine.emit_masked(machine::ADD_INTEGERS, SPARE_MASK, target, target, Operand::Constant(1));
        machine.keep_nans(target, source);
    }

    /// The machine's own gives the second operand if either is NaN; ours is NaN then.
    pub fn largest(&mut self, op: Op, target: Zmm, source: Zmm, operand: Operand) {
        self.machine.emit(op, target, source, operand);
        self.machine.compare(SPARE_MASK, source, Operand::Register(source), UNORDERED);
        self.machine.emit_masked(machine::COPY, SPARE_MASK, target, 0, Operand::Register(source));
    }

    /// [`math::logistic`]. All signs before the sum are negated, which saves negating `x`.
    pub fn logistic(&mut self, to: Register, from: Register) {
        use Operand::Register as R;
        let number = |value: f32| Operand::Constant(value.to_bits());
        let (x, y) = (self.vector(from), self.target(to));
        let [clamped, shifted, sum] = std::array::from_fn(|_| self.temporary());
        let code = &mut self.machine;
        code.emit1(machine::BROADCAST, sum, number(-87.0));
        code.emit(machine::MAXIMUM, clamped, sum, R(x));
        code.emit1(machine::BROADCAST, sum, number(87.0));
        code.emit(machine::MINIMUM, clamped, sum, R(clamped));
        code.emit1(machine::BROADCAST, shifted, number(math::ROUNDING));
        code.emit(machine::MULTIPLY_ADD.onto_target(), shifted, clamped, number(-std::f32::consts::LOG2_E));
        code.emit(machine::SUBTRACT, sum, shifted, number(math::ROUNDING));
        let minus_r = clamped;
        for part in math::MINUS_LN_2 {
            code.emit(machine::MULTIPLY_ADD.onto_target(), minus_r, sum, number(-part));
        }
        let power = shifted;
        code.emit(machine::ADD_INTEGERS, power, shifted, Operand::Constant(127));
        code.shift(machine::TO_LEFT, power, power, 23);
        let [first, others @ ..] = math::EXPONENTIAL;
        code.emit1(machine::BROADCAST, sum, number(first));
        for (index, coefficient) in others.into_iter().enumerate() {
            let negated = if index % 2 == 0 { -coefficient } else { coefficient };
            code.emit(machine::MULTIPLY_ADD, sum, minus_r, number(negated));
        }
        code.emit(machine::MULTIPLY, sum, sum, R(minus_r));
        code.emit(machine::MULTIPLY_SUBTRACT, sum, minus_r, R(minus_r));
        code.emit(machine::MULTIPLY_ADD, sum, power, R(power));
        code.emit(machine::ADD, sum, sum, number(1.0));
        code.compare(SPARE_MASK, x, number(-87.0), NOT_LESS);
        code.emit1(machine::BROADCAST, y, number(1.0));
        code.emit_or_zero(machine::DIVIDE, SPARE_MASK, y, y, R(sum));
    }

    /// A number kept within a range; a NaN stays one. `spare` is overwritten.
    fn clamp(&mut self, target: Zmm, source: Zmm, [low, high]: [f32; 2], spare: Zmm) {
        let code = &mut self.machine;
        code.emit1(machine::BROADCAST, spare, Operand::Constant(low.to_bits()));
        code.emit(machine::MAXIMUM, target, spare, Operand::Register(source));
        code.emit1(machine::BROADCAST, spare, Operand::Constant(high.to_bits()));
        code.emit(machine::MINIMUM, target, spare, Operand::Register(target));
    }

    /// A polynomial in `x`, its highest coefficient first.
    fn polynomial(&mut self, target: Zmm, x: Zmm, coefficients: &[f32]) {
        for (index, coefficient) in coefficients.iter().enumerate() {
            let number = Operand::Constant(coefficient.to_bits());
            match index {
                0 => self.machine.emit1(machine::BROADCAST, target, number),
                1.. => self.machine.emit(machine::MULTIPLY_ADD, target, x, number),
            }
        }
    }

    /// [`math::exp`].
    pub fn exp(&mut self, to: Register, from: Register) {
        use Operand::Register as R;
        let number = |value: f32| Operand::Constant(value.to_bits());
        let (x, y) = (self.vector(from), self.target(to));
        let [r, shifted, sum] = std::array::from_fn(|_| self.temporary());
        self.clamp(r, x, math::EXP_RANGE, sum);
        let code = &mut self.machine;
        code.emit1(machine::BROADCAST, shifted, number(math::ROUNDING));
        code.emit(machine::MULTIPLY_ADD.onto_target(), shifted, r, number(std::f32::consts::LOG2_E));
        code.emit(machine::SUBTRACT, sum, shifted, number(math::ROUNDING));
        for part in math::MINUS_LN_2 {
            code.emit(machine::MULTIPLY_ADD.onto_target(), r, sum, number(part));
        }
        self.polynomial(sum, r, &math::EXPONENTIAL);
        let code = &mut self.machine;
        code.emit(machine::MULTIPLY, sum, sum, R(r));
        code.emit(machine::MULTIPLY_ADD, sum, r, R(r));
        code.emit(machine::ADD, sum, sum, number(1.0));
        let (n, half) = (shifted, y);
        code.emit(machine::ADD_INTEGERS, n, shifted, Operand::Constant(math::ROUNDING.to_bits().wrapping_neg()));
        code.shift(machine::TO_RIGHT_SIGNED, half, n, 1);
        code.emit(machine::SUBTRACT_INTEGERS, n, n, R(half));
        for power in [half, n] {
            code.emit(machine::ADD_INTEGERS, power, power, Operand::Constant(127));
            code.shift(machine::TO_LEFT, power, power, 23);
        }
        code.emit(machine::MULTIPLY, sum, sum, R(half));
        code.emit(machine::MULTIPLY, y, sum, R(n));
    }

    /// [`math::erf`].
    pub fn erf(&mut self, to: Register, from: Register) {
        use Operand::Register as R;
        let (x, y) = (self.vector(from), self.target(to));
        let [clamped, square, sum] = std::array::from_fn(|_| self.temporary());
        self.clamp(clamped, x, [-math::ERF_REACH, math::ERF_REACH], sum);
        self.machine.emit(machine::MULTIPLY, square, clamped, R(clamped));
        self.polynomial(sum, square, &math::ERF_NUMERATOR);
        self.machine.emit(machine::MULTIPLY, sum, sum, R(clamped));
        self.polynomial(y, square, &math::ERF_DENOMINATOR);
        self.machine.emit(machine::DIVIDE, y, sum, R(y));
    }
}
