//! Names of types and attributes in MLIR.

use octant_graph::{DType, Shape};
use std::fmt::Display;

/// `f32`, `ui8`, `i1` …
pub fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "i1",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U8 => "ui8",
        DType::U16 => "ui16",
        DType::U32 => "ui32",
        DType::U64 => "ui64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
    }
}

/// `tensor<2x3xf32>`.
pub fn tensor(shape: &Shape) -> String {
    let dims: String = shape.dims().iter().map(|dim| format!("{dim}x")).collect();
    format!("tensor<{dims}{}>", element(shape.dtype()))
}

/// `(tensor<2xf32>, tensor<i32>)`.
pub fn tuple(shapes: &[&Shape]) -> String {
    format!("({})", join(shapes.iter().map(|shape| tensor(shape))))
}

/// `tensor<2xf32>` for one, in parentheses for several.
pub fn results(shapes: &[&Shape]) -> String {
    match shapes {
        [only] => tensor(only),
        several => tuple(several),
    }
}

/// Row-major layouts of custom calls. Without them the compiler may choose other layouts for the operands.
pub fn row_major(shapes: &[&Shape]) -> String {
    let layout = |shape: &&Shape| {
        let rank = shape.rank();
        format!("dense<[{}]> : tensor<{rank}xindex>", join((0..rank).rev()))
    };
    list(shapes.iter().map(layout))
}

/// With commas in between.
pub fn join(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// `[1, 2]`.
pub fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    format!("[{}]", join(items))
}

/// `array<i64: 1, 2>`.
pub fn array(items: &[usize]) -> String {
    match items {
        [] => "array<i64>".into(),
        _ => format!("array<i64: {}>", join(items)),
    }
}

/// Pairs as a constant matrix: `dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>`.
pub fn pairs(items: &[(i64, i64)]) -> String {
    let count = items.len();
    match items {
        [] => "dense<> : tensor<0x2xi64>".into(),
        _ => format!(
            "dense<[{}]> : tensor<{count}x2xi64>",
            join(items.iter().map(|(low, high)| format!("[{low}, {high}]")))
        ),
    }
}

/// A string literal of MLIR.
pub fn quoted(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b' '..=b'~' if byte != b'"' && byte != b'\\' => (byte as char).to_string(),
        _ => format!("\\{byte:02X}"),
    };
    format!("\"{}\"", text.bytes().map(escape).collect::<String>())
}

/// Letters, digits, points and underscores of a text, beginning with a letter.
pub fn symbol(text: &str, otherwise: &str) -> String {
    let kept: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
    match kept.chars().next() {
        None => otherwise.to_string(),
        Some(first) if first.is_ascii_alphabetic() => kept,
        Some(_) => format!("_{kept}"),
    }
}
