//! Simplification of elementwise operations.

use super::Site;
use crate::{Binary, DType, Op, Shape, Unary, ValueId};

impl Site<'_> {
    pub(super) fn unary(&mut self, unary: Unary, x: ValueId) -> Option<ValueId> {
        let (Op::Unary(first), &[inner]) = self.producer(x) else { return None };
        if unary == *first && matches!(unary, Unary::Neg | Unary::Not) {
            return Some(inner);
        }
        let sign_is_lost = unary == Unary::Abs && matches!(first, Unary::Neg | Unary::Abs);
        if sign_is_lost { self.emit(Op::Unary(Unary::Abs), &[inner]) } else { None }
    }

    pub(super) fn binary(&mut self, binary: Binary, operands: &[ValueId], shape: &Shape) -> Option<ValueId> {
        let (x, y) = (operands[0], operands[1]);
        let (left, right) = (self.splat(x), self.splat(y));
        let integer = shape.dtype().is_integer();
        match binary {
            Binary::Add if right == Some(0.0) => Some(x),
            Binary::Add if left == Some(0.0) => Some(y),
            Binary::Add => self.add_in_place(x, y).or_else(|| self.add_in_place(y, x)),
            Binary::Sub if right == Some(0.0) => Some(x),
            Binary::Sub if x == y && integer => self.full(shape, 0.0),
            Binary::Mul if right == Some(1.0) => Some(x),
            Binary::Mul if left == Some(1.0) => Some(y),
            Binary::Mul if integer && (left == Some(0.0) || right == Some(0.0)) => self.full(shape, 0.0),
            Binary::Mul if !integer && right == Some(-1.0) => self.emit(Op::Unary(Unary::Neg), &[x]),
            Binary::Mul if !integer && left == Some(-1.0) => self.emit(Op::Unary(Unary::Neg), &[y]),
            Binary::Div if right == Some(1.0) => Some(x),
            Binary::Div if !integer => {
                let reciprocal = exact_reciprocal(right?, shape.dtype())?;
                let reciprocal = self.full(shape, reciprocal)?;
                self.emit(Op::Binary(Binary::Mul), &[x, reciprocal])
            }
            Binary::Pow if !integer => self.power(x, right?, shape),
            Binary::Max | Binary::Min | Binary::And | Binary::Or if x == y => Some(x),
            Binary::And | Binary::Or if shape.dtype() == DType::Bool => {
                // Or keeps the other operand beside false, and beside true; it is itself beside the opposite.
                let keeps = |known: f64| (known != 0.0) == (binary == Binary::And);
                match (left, right) {
                    (Some(known), _) => Some(if keeps(known) { y } else { x }),
                    (_, Some(known)) => Some(if keeps(known) { x } else { y }),
                    _ => None,
                }
            }
            Binary::Sub | Binary::Mul | Binary::Div | Binary::Rem | Binary::Max | Binary::Min | Binary::Pow => None,
            Binary::Atan2 | Binary::And | Binary::Or | Binary::Xor | Binary::ShiftLeft | Binary::ShiftRight => None,
        }
    }

    fn power(&mut self, x: ValueId, exponent: f64, shape: &Shape) -> Option<ValueId> {
        match exponent {
            0.0 => self.full(shape, 1.0),
            1.0 => Some(x),
            2.0 => self.emit(Op::Binary(Binary::Mul), &[x, x]),
            0.5 => self.emit(Op::Unary(Unary::Sqrt), &[x]),
            -0.5 => self.emit(Op::Unary(Unary::Rsqrt), &[x]),
            -1.0 => {
                let one = self.full(shape, 1.0)?;
                self.emit(Op::Binary(Binary::Div), &[one, x])
            }
            _ => None,
        }
    }

    /// `x + (zeros with a window written)` touches only the window: the gradients of stacked parameters, to which every
    /// round of a loop adds its slice, are made of that.
    fn add_in_place(&mut self, x: ValueId, written: ValueId) -> Option<ValueId> {
        let (Op::DynamicUpdateSlice, [zeros, update, starts @ ..]) = self.producer(written) else { return None };
        let (zeros, update, starts) = (*zeros, *update, starts.to_vec());
        if self.splat(zeros) != Some(0.0) {
            return None;
        }
        let sizes = self.shape(update).dims().to_vec();
        let window = self.emit(Op::DynamicSlice { sizes }, &[&[x], &starts[..]].concat())?;
        let sum = self.emit(Op::Binary(Binary::Add), &[window, update])?;
        self.emit(Op::DynamicUpdateSlice, &[&[x, sum], &starts[..]].concat())
    }

    pub(super) fn select(&mut self, operands: &[ValueId]) -> Option<ValueId> {
        let [condition, on_true, on_false] = *operands else { return None };
        if on_true == on_false {
            return Some(on_true);
        }
        self.splat(condition).map(|condition| if condition != 0.0 { on_true } else { on_false })
    }

    /// A detour over a type that holds every value of the first one changes nothing.
    pub(super) fn convert(&mut self, x: ValueId, shape: &Shape) -> Option<ValueId> {
        if self.shape(x) == shape {
            return Some(x);
        }
        let (Op::Convert(between), &[source]) = self.producer(x) else { return None };
        let from = self.shape(source).dtype();
        match (holds(*between, from), from == shape.dtype()) {
            (true, true) => Some(source),
            (true, false) => self.emit(Op::Convert(shape.dtype()), &[source]),
            (false, _) => None,
        }
    }

    pub(super) fn bitcast(&mut self, x: ValueId, shape: &Shape) -> Option<ValueId> {
        if self.shape(x) == shape {
            return Some(x);
        }
        let (Op::Bitcast(_), &[source]) = self.producer(x) else { return None };
        match self.shape(source) == shape {
            true => Some(source),
            false => self.emit(Op::Bitcast(shape.dtype()), &[source]),
        }
    }

    /// An elementwise operation on values that were all broadcast (or reshaped) equally is moved before that.
    pub(super) fn before_moving(&mut self, op: &Op, operands: &[ValueId], shape: &Shape) -> Option<ValueId> {
        let elementwise = matches!(
            op,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp | Op::Convert(_) | Op::Bitcast(_)
        );
        if !elementwise {
            return None;
        }
        let (movement, dims, sources) = self.common_movement(operands, shape)?;
        let mut moved = Vec::with_capacity(sources.len());
        for source in sources {
            let scalar = self.shape(source).rank() == 0;
            let wanted = self.shape(source).with_dims(dims.clone());
            moved.push(if scalar { self.spread(source, &wanted)? } else { source });
        }
        let result = self.emit(op.clone(), &moved)?;
        self.emit(movement, &[result])
    }

    /// The one movement that made all operands, the dimensions it started from, and what it moved. Repeated scalars fit
    /// to any movement.
    fn common_movement(&self, operands: &[ValueId], shape: &Shape) -> Option<(Op, Vec<usize>, Vec<ValueId>)> {
        let mut common: Option<(Op, Vec<usize>)> = None;
        let mut sources = Vec::with_capacity(operands.len());
        for &operand in operands {
            let (op @ (Op::Broadcast { .. } | Op::Reshape { .. }), &[source]) = self.producer(operand) else {
                return None;
            };
            sources.push(source);
            let dims = self.shape(source).dims();
            if matches!(op, Op::Broadcast { .. }) && dims.is_empty() {
                continue;
            }
            match &common {
                Some((known, known_dims)) if known != op || known_dims != dims => return None,
                _ => common = Some((op.clone(), dims.to_vec())),
            }
        }
        let scalars_only = || (Op::Broadcast { dims: shape.dims().to_vec(), axes: vec![] }, vec![]);
        let (movement, dims) = common.unwrap_or_else(scalars_only);
        Some((movement, dims, sources))
    }
}

/// One over a power of two, where neither is subnormal: multiplying by it is exactly dividing by the other.
fn exact_reciprocal(divisor: f64, dtype: DType) -> Option<f64> {
    let mantissa = divisor.to_bits() & ((1 << 52) - 1);
    let exponent = divisor.abs().log2();
    let limit = match dtype {
        DType::F16 => 13.0,
        _ => 100.0,
    };
    (divisor.is_normal() && mantissa == 0 && exponent.abs() <= limit).then(|| 1.0 / divisor)
}

/// Whether every value of `narrow` is a value of `wide`.
fn holds(wide: DType, narrow: DType) -> bool {
    use DType::*;
    if wide == narrow {
        return true;
    }
    match narrow {
        Bool => true,
        U8 => matches!(wide, U16 | U32 | U64 | I16 | I32 | I64 | F16 | BF16 | F32 | F64),
        I8 => matches!(wide, I16 | I32 | I64 | F16 | BF16 | F32 | F64),
        U16 => matches!(wide, U32 | U64 | I32 | I64 | F32 | F64),
        I16 => matches!(wide, I32 | I64 | F32 | F64),
        U32 => matches!(wide, U64 | I64 | F64),
        I32 => matches!(wide, I64 | F64),
        F16 | BF16 => matches!(wide, F32 | F64),
        F32 => wide == F64,
        U64 | I64 | F64 => false,
    }
}
