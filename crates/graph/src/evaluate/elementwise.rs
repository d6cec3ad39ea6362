//! Operations on one element at a time.

use super::numbers::{Numbers, from_floats, from_integers, from_numbers, integer_range, integers, numbers};
use super::positions::for_each_index;
use crate::{Binary, Comparison, DType, HostTensor, Shape, Unary};

pub fn iota(shape: &Shape, axis: usize) -> HostTensor {
    let mut counts = Vec::with_capacity(shape.elements());
    for_each_index(shape.dims(), |index| counts.push(index[axis] as i128));
    convert_integers(shape, &counts)
}

pub fn unary(unary: Unary, operand: &HostTensor) -> HostTensor {
    let shape = operand.shape();
    match numbers(operand) {
        Numbers::Floats(values) if unary == Unary::IsFinite => {
            let finite: Vec<i128> = values.iter().map(|&value| unary.of_float(value) as i128).collect();
            from_integers(&shape.with_dtype(DType::Bool), &finite)
        }
        Numbers::Floats(values) => {
            from_floats(shape, &values.iter().map(|&value| unary.of_float(value)).collect::<Vec<_>>())
        }
        Numbers::Integers(values) => {
            let results = values.iter().map(|&value| unary.of_integer(value, shape.dtype()));
            let results: Option<Vec<i128>> = results.collect();
            from_integers(shape, &results.expect("shape inference gives operations on floats no integers"))
        }
    }
}

pub fn binary(binary: Binary, left: &HostTensor, right: &HostTensor) -> HostTensor {
    let shape = left.shape();
    match (numbers(left), numbers(right)) {
        (Numbers::Floats(left), Numbers::Floats(right)) => {
            let results = left.iter().zip(&right).map(|(&x, &y)| float_binary(binary, x, y));
            from_floats(shape, &results.collect::<Vec<_>>())
        }
        (Numbers::Integers(left), Numbers::Integers(right)) => {
            let results = left.iter().zip(&right).map(|(&x, &y)| integer_binary(binary, x, y, shape.dtype()));
            from_integers(shape, &results.collect::<Vec<_>>())
        }
        (Numbers::Floats(_), Numbers::Integers(_)) | (Numbers::Integers(_), Numbers::Floats(_)) => {
            unreachable!("operands are of one type")
        }
    }
}

fn float_binary(binary: Binary, x: f64, y: f64) -> f64 {
    match binary {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
        Binary::Rem => x % y,
        Binary::Max => float_max(x, y),
        Binary::Min => -float_max(-x, -y),
        Binary::Pow => x.powf(y),
        Binary::Atan2 => x.atan2(y),
        Binary::And | Binary::Or | Binary::Xor | Binary::ShiftLeft | Binary::ShiftRight => {
            unreachable!("shape inference gives {} no floats", binary.name())
        }
    }
}

/// The larger of two; NaN if either is NaN.
pub fn float_max(x: f64, y: f64) -> f64 {
    match x.is_nan() || x > y {
        true => x,
        false => y,
    }
}

fn integer_binary(binary: Binary, x: i128, y: i128, dtype: DType) -> i128 {
    let bits = 8 * dtype.size() as i128;
    match binary {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div => {
            if y == 0 {
                -1
            } else {
                x / y
            }
        }
        Binary::Rem => {
            if y == 0 {
                x
            } else {
                x % y
            }
        }
        Binary::Max => x.max(y),
        Binary::Min => x.min(y),
        Binary::Pow => integer_power(x, y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        // A negative shift amount is a huge unsigned one, so the result is zero.
        Binary::ShiftLeft => {
            if (0..bits).contains(&y) {
                x << y
            } else {
                0
            }
        }
        Binary::ShiftRight => {
            if (0..bits).contains(&y) {
                (x & ((1 << bits) - 1)) >> y
            } else {
                0
            }
        }
        Binary::Atan2 => unreachable!("shape inference gives atan2 no integers"),
    }
}

/// Below zero only the powers of 1 and -1 are integers; the others are 0.
fn integer_power(base: i128, exponent: i128) -> i128 {
    let odd = exponent % 2 != 0;
    match (base, exponent) {
        (_, 0) | (1, _) => 1,
        (-1, _) => {
            if odd {
                -1
            } else {
                1
            }
        }
        (0, _) | (_, ..0) => 0,
        // All that is left is to multiply; beyond 2^63 factors an even base has long wrapped to zero.
        _ => {
            let (mut result, mut square, mut left) = (1i128, base, exponent);
            while left > 0 {
                if left & 1 == 1 {
                    result = result.wrapping_mul(square);
                }
                square = square.wrapping_mul(square);
                left >>= 1;
            }
            result
        }
    }
}

pub fn compare(comparison: Comparison, left: &HostTensor, right: &HostTensor) -> HostTensor {
    fn all<T: PartialOrd>(comparison: Comparison, left: &[T], right: &[T]) -> Vec<i128> {
        left.iter().zip(right).map(|(x, y)| comparison.holds(x, y) as i128).collect()
    }
    let bools = match (numbers(left), numbers(right)) {
        (Numbers::Floats(left), Numbers::Floats(right)) => all(comparison, &left, &right),
        (Numbers::Integers(left), Numbers::Integers(right)) => all(comparison, &left, &right),
        (Numbers::Floats(_), Numbers::Integers(_)) | (Numbers::Integers(_), Numbers::Floats(_)) => {
            unreachable!("operands are of one type")
        }
    };
    from_integers(&left.shape().with_dtype(DType::Bool), &bools)
}

pub fn clamp(low: &HostTensor, value: &HostTensor, high: &HostTensor) -> HostTensor {
    binary(Binary::Min, &binary(Binary::Max, low, value), high)
}

pub fn convert(operand: &HostTensor, dtype: DType) -> HostTensor {
    let shape = operand.shape().with_dtype(dtype);
    match numbers(operand) {
        Numbers::Integers(values) => convert_integers(&shape, &values),
        Numbers::Floats(values) if dtype.is_float() => from_floats(&shape, &values),
        Numbers::Floats(values) if dtype == DType::Bool => {
            from_integers(&shape, &values.iter().map(|&value| (value != 0.0) as i128).collect::<Vec<_>>())
        }
        Numbers::Floats(values) => {
            let (smallest, largest) = integer_range(dtype);
            // Rust's `as` truncates, saturates and makes NaN zero, as StableHLO's convert does.
            let truncated = values.iter().map(|&value| (value as i128).clamp(smallest, largest));
            from_integers(&shape, &truncated.collect::<Vec<_>>())
        }
    }
}

fn convert_integers(shape: &Shape, values: &[i128]) -> HostTensor {
    match shape.dtype() {
        // Straight to f32: going through f64 would round twice.
        DType::F32 => from_floats(shape, &values.iter().map(|&value| (value as f32) as f64).collect::<Vec<_>>()),
        dtype if dtype.is_float() => from_floats(shape, &values.iter().map(|&value| value as f64).collect::<Vec<_>>()),
        _ => from_numbers(shape, &Numbers::Integers(values.to_vec())),
    }
}

/// The scalar integer of an index operand.
pub fn scalar_index(tensor: &HostTensor) -> i128 {
    integers(tensor)[0]
}
