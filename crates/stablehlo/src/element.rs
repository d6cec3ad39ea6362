//! Operations on one element in C, by their names in StableHLO, for kernels that are compiled with them.

use octant_graph::DType;

/// Words that tell such a kernel where everything lies; see `octant-cuda`, `call`.
pub const WORDS: usize = 500;

/// The type that holds an element, for those that kernels know.
pub fn c_type(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F32 => Some("float"),
        DType::Bool => Some("bool"),
        _ => None,
    }
}

/// A number that stands for itself in any expression.
pub fn literal(value: f64, dtype: DType) -> Option<String> {
    let value = value as f32;
    match dtype {
        DType::Bool => Some((value != 0.0).to_string()),
        DType::F32 if value.is_nan() => None,
        DType::F32 if value.is_infinite() => Some(if value > 0.0 { "INFINITY" } else { "(-INFINITY)" }.to_string()),
        DType::F32 if value.is_sign_negative() => Some(format!("({value:e}f)")),
        DType::F32 => Some(format!("{value:e}f")),
        _ => None,
    }
}

/// An operation on variables or literals, of which the first is of that type. None if it is not known here.
pub fn expression(operation: &str, operands: &[&str], dtype: DType) -> Option<String> {
    match operands {
        [x] => unary(operation, x, dtype),
        [x, y] => binary(operation, x, y, dtype),
        [condition, yes, no] if operation == "select" => Some(format!("{condition} ? {yes} : {no}")),
        [low, x, high] if operation == "clamp" && dtype == DType::F32 => {
            Some(format!("{x} < {low} ? {low} : {x} > {high} ? {high} : {x}"))
        }
        _ => None,
    }
}

fn unary(operation: &str, x: &str, dtype: DType) -> Option<String> {
    let function = match (operation, dtype) {
        ("not", DType::Bool) => return Some(format!("!{x}")),
        ("convert", DType::Bool) => return Some(format!("(float){x}")),
        (_, dtype) if dtype != DType::F32 => return None,
        ("convert", _) => return Some(format!("{x} != 0.0f")),
        ("negate", _) => return Some(format!("-{x}")),
        ("rsqrt", _) => return Some(format!("1.0f / sqrtf({x})")),
        ("logistic", _) => return Some(format!("1.0f / (1.0f + expf(-{x}))")),
        ("sign", _) => return Some(format!("{x} > 0.0f ? 1.0f : {x} < 0.0f ? -1.0f : {x}")),
        // Infinities and NaN leave NaN.
        ("is_finite", _) => return Some(format!("{x} - {x} == 0.0f")),
        ("abs", _) => "fabsf",
        ("sqrt", _) => "sqrtf",
        ("exponential", _) => "expf",
        ("exponential_minus_one", _) => "expm1f",
        ("log", _) => "logf",
        ("log_plus_one", _) => "log1pf",
        ("tanh", _) => "tanhf",
        ("sine", _) => "sinf",
        ("cosine", _) => "cosf",
        ("floor", _) => "floorf",
        ("ceil", _) => "ceilf",
        ("round_nearest_even", _) => "rintf",
        _ => return None,
    };
    Some(format!("{function}({x})"))
}

fn binary(operation: &str, x: &str, y: &str, dtype: DType) -> Option<String> {
    let sign = match (operation, dtype) {
        ("and", DType::Bool) => "&&",
        ("or", DType::Bool) => "||",
        ("xor", DType::Bool) => "!=",
        ("EQ", _) => "==",
        ("NE", _) => "!=",
        (_, dtype) if dtype != DType::F32 => return None,
        ("LT", _) => "<",
        ("LE", _) => "<=",
        ("GT", _) => ">",
        ("GE", _) => ">=",
        ("add", _) => "+",
        ("subtract", _) => "-",
        ("multiply", _) => "*",
        ("divide", _) => "/",
        // NaN if either is.
        ("maximum", _) => return Some(format!("{x} != {x} || {x} > {y} ? {x} : {y}")),
        ("minimum", _) => return Some(format!("{x} != {x} || {x} < {y} ? {x} : {y}")),
        ("power", _) => return Some(format!("powf({x}, {y})")),
        _ => return None,
    };
    Some(format!("{x} {sign} {y}"))
}
