//! Operations on one element in C, for kernels that are compiled with them.

use octant_graph::{Binary, Comparison, DType, HostTensor, Op, Unary};

/// The type that holds an element, for those that kernels know.
pub fn c_type(dtype: DType) -> Option<&'static str> {
    const TYPES: [(DType, &str); 2] = [(DType::F32, "float"), (DType::Bool, "bool")];
    TYPES.iter().find(|(known, _)| *known == dtype).map(|&(_, name)| name)
}

/// A number that stands for itself in any expression.
pub fn literal(value: f64, dtype: DType) -> Option<String> {
    let value = value as f32;
    if dtype == DType::Bool {
        return Some((value != 0.0).to_string());
    }
    match value {
        _ if dtype != DType::F32 || value.is_nan() => None,
        f32::INFINITY => Some("INFINITY".to_string()),
        f32::NEG_INFINITY => Some("(-INFINITY)".to_string()),
        _ if value.is_sign_negative() => Some(format!("({value:e}f)")),
        _ => Some(format!("{value:e}f")),
    }
}

/// The element that a tensor has everywhere.
pub fn uniform(tensor: &HostTensor) -> Option<f64> {
    let mut elements = tensor.bytes().chunks(tensor.dtype().size());
    let first = elements.next()?;
    elements.all(|element| element == first).then(|| tensor.to_f64s().first().copied())?
}

/// An operation on variables or literals, of which the first is of that type. None if it is not known here.
pub fn expression(op: &Op, operands: &[&str], dtype: DType) -> Option<String> {
    if let (Op::Unary(operation), [x]) = (op, operands) {
        return unary(*operation, x, dtype);
    }
    if let (Op::Binary(operation), [x, y]) = (op, operands) {
        return binary(*operation, x, y, dtype);
    }
    if let (Op::Compare(comparison), [x, y]) = (op, operands) {
        return compare(*comparison, x, y, dtype);
    }
    if let (Op::Select, [condition, yes, no]) = (op, operands) {
        return Some(format!("{condition} ? {yes} : {no}"));
    }
    if let (Op::Clamp, [low, x, high]) = (op, operands) {
        return (dtype == DType::F32).then(|| format!("{x} < {low} ? {low} : {x} > {high} ? {high} : {x}"));
    }
    if let (Op::Convert(to), [x]) = (op, operands) {
        return convert(x, dtype, *to);
    }
    None
}

fn convert(x: &str, from: DType, to: DType) -> Option<String> {
    if from == to {
        return Some(x.to_string());
    }
    match [from, to] {
        [DType::Bool, DType::F32] => Some(format!("(float){x}")),
        [DType::F32, DType::Bool] => Some(format!("{x} != 0.0f")),
        _ => None,
    }
}

fn unary(operation: Unary, x: &str, dtype: DType) -> Option<String> {
    if dtype == DType::Bool {
        return (operation == Unary::Not).then(|| format!("!{x}"));
    }
    let function = match operation {
        _ if dtype != DType::F32 => return None,
        Unary::Neg => return Some(format!("-{x}")),
        Unary::Rsqrt => return Some(format!("1.0f / sqrtf({x})")),
        Unary::Logistic => return Some(format!("1.0f / (1.0f + expf(-{x}))")),
        Unary::Sign => return Some(format!("{x} > 0.0f ? 1.0f : {x} < 0.0f ? -1.0f : {x}")),
        // Infinities and NaN leave NaN.
        Unary::IsFinite => return Some(format!("{x} - {x} == 0.0f")),
        Unary::Not => return None,
        Unary::Abs => "fabsf",
        Unary::Sqrt => "sqrtf",
        Unary::Exp => "expf",
        Unary::Expm1 => "expm1f",
        Unary::Log => "logf",
        Unary::Log1p => "log1pf",
        Unary::Tanh => "tanhf",
        Unary::Erf => "erff",
        Unary::Sin => "sinf",
        Unary::Cos => "cosf",
        Unary::Floor => "floorf",
        Unary::Ceil => "ceilf",
        Unary::RoundEven => "rintf",
    };
    Some(format!("{function}({x})"))
}

/// An operation on two elements.
pub fn binary(operation: Binary, x: &str, y: &str, dtype: DType) -> Option<String> {
    let floats = dtype == DType::F32;
    let sign = match operation {
        Binary::And if dtype == DType::Bool => "&&",
        Binary::Or if dtype == DType::Bool => "||",
        Binary::Xor if dtype == DType::Bool => "!=",
        Binary::Add if floats => "+",
        Binary::Sub if floats => "-",
        Binary::Mul if floats => "*",
        Binary::Div if floats => "/",
        // NaN if either is.
        Binary::Max if floats => return Some(format!("{x} != {x} || {x} > {y} ? {x} : {y}")),
        Binary::Min if floats => return Some(format!("{x} != {x} || {x} < {y} ? {x} : {y}")),
        Binary::Pow if floats => return Some(format!("powf({x}, {y})")),
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Max | Binary::Min | Binary::Pow => return None,
        Binary::And | Binary::Or | Binary::Xor | Binary::Rem | Binary::Atan2 => return None,
        Binary::ShiftLeft | Binary::ShiftRight => return None,
    };
    Some(format!("{x} {sign} {y}"))
}

fn compare(comparison: Comparison, x: &str, y: &str, dtype: DType) -> Option<String> {
    let sign = match comparison {
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterEqual => ">=",
    };
    let known =
        dtype == DType::F32 || dtype == DType::Bool && matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    known.then(|| format!("{x} {sign} {y}"))
}
