//! Constants as MLIR writes them: one value when all are equal, a list when there are few, raw bytes otherwise.

use octant_graph::{DType, HostTensor, Reduction, Shape};
use octant_tensor::{bf16, f16};

/// The longest list of elements that a person still reads.
const READABLE: usize = 16;

/// `dense<…>` without its type.
pub fn dense(tensor: &HostTensor) -> String {
    let size = tensor.dtype().size();
    let bytes = tensor.bytes();
    let count = tensor.shape().elements();
    if count == 0 {
        return "dense<>".into();
    }
    if uniform(tensor).is_some() {
        return format!("dense<{}>", literal(tensor, 0));
    }
    // Bools are packed into bits in raw form, which is hard to get right and to read; they stay a list.
    if count <= READABLE || tensor.dtype() == DType::Bool {
        return format!("dense<{}>", nested(tensor, 0, 0..count));
    }
    format!("dense<\"0x{}\">", hex(bytes, size))
}

/// The element that a tensor has everywhere.
pub fn uniform(tensor: &HostTensor) -> Option<f64> {
    let size = tensor.dtype().size();
    let mut elements = tensor.bytes().chunks(size);
    let first = elements.next()?;
    elements.all(|element| element == first).then(|| tensor.to_f64s().first().copied())?
}

/// A nested list over the axes from `axis` on.
fn nested(tensor: &HostTensor, axis: usize, range: std::ops::Range<usize>) -> String {
    let Some(&parts) = tensor.dims().get(axis) else { return literal(tensor, range.start) };
    let length = range.len() / parts;
    let items = (0..parts).map(|i| nested(tensor, axis + 1, range.start + i * length..range.start + (i + 1) * length));
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// The bytes in little-endian order.
fn hex(bytes: &[u8], size: usize) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 * bytes.len());
    for element in bytes.chunks(size) {
        let mut write = |byte: &u8| write!(text, "{byte:02X}").expect("writing to a string does not fail");
        match cfg!(target_endian = "big") {
            true => element.iter().rev().for_each(&mut write),
            false => element.iter().for_each(&mut write),
        }
    }
    text
}

fn literal(tensor: &HostTensor, position: usize) -> String {
    const SAME: &str = "the type was just looked at";
    match tensor.dtype() {
        DType::Bool => (tensor.bytes()[position] != 0).to_string(),
        DType::I8 => tensor.elements::<i8>().expect(SAME)[position].to_string(),
        DType::I16 => tensor.elements::<i16>().expect(SAME)[position].to_string(),
        DType::I32 => tensor.elements::<i32>().expect(SAME)[position].to_string(),
        DType::I64 => tensor.elements::<i64>().expect(SAME)[position].to_string(),
        DType::U8 => tensor.elements::<u8>().expect(SAME)[position].to_string(),
        DType::U16 => tensor.elements::<u16>().expect(SAME)[position].to_string(),
        DType::U32 => tensor.elements::<u32>().expect(SAME)[position].to_string(),
        DType::U64 => tensor.elements::<u64>().expect(SAME)[position].to_string(),
        DType::F16 => {
            let value = tensor.elements::<f16>().expect(SAME)[position];
            decimal(value.to_f32()).unwrap_or_else(|| format!("0x{:04X}", value.to_bits()))
        }
        DType::BF16 => {
            let value = tensor.elements::<bf16>().expect(SAME)[position];
            decimal(value.to_f32()).unwrap_or_else(|| format!("0x{:04X}", value.to_bits()))
        }
        DType::F32 => {
            let value = tensor.elements::<f32>().expect(SAME)[position];
            decimal(value).unwrap_or_else(|| format!("0x{:08X}", value.to_bits()))
        }
        DType::F64 => {
            let value = tensor.elements::<f64>().expect(SAME)[position];
            decimal(value).unwrap_or_else(|| format!("0x{:016X}", value.to_bits()))
        }
    }
}

/// The shortest decimal number that reads back as this one; none for infinities and NaN. MLIR insists on a point.
fn decimal(value: impl Into<f64> + Copy + std::fmt::LowerExp) -> Option<String> {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let exponent = if exponent == "0" { String::new() } else { format!("e{exponent}") };
    value.into().is_finite().then(|| format!("{mantissa}{point}{exponent}"))
}

/// A scalar.
pub fn scalar(dtype: DType, value: f64) -> HostTensor {
    HostTensor::from_f64s(Shape::scalar(dtype), &[value]).expect("one element fills a scalar")
}

/// What combining nothing gives. The ends of an integer type saturate from the infinities.
pub fn identity(kind: Reduction, dtype: DType) -> HostTensor {
    let value = match kind {
        Reduction::Sum | Reduction::Or => 0.0,
        Reduction::Product | Reduction::And => 1.0,
        Reduction::Max if dtype == DType::Bool => 0.0,
        Reduction::Max => f64::NEG_INFINITY,
        Reduction::Min => f64::INFINITY,
    };
    scalar(dtype, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_short() {
        let f32s = |values: &[f32]| HostTensor::new([values.len()], values).unwrap();
        assert_eq!(dense(&f32s(&[0.5; 1000])), "dense<5.0e-1>");
        assert_eq!(dense(&f32s(&[1.0, -2.5, f32::INFINITY])), "dense<[1.0, -2.5, 0x7F800000]>");
        assert_eq!(dense(&f32s(&[])), "dense<>");
        let counted: Vec<u16> = (0..17).collect();
        let text = dense(&HostTensor::new([17], &counted).unwrap());
        assert!(text.starts_with("dense<\"0x000001000200"), "{text}");
        let square = HostTensor::new([2, 2], &[1i32, 2, 3, 4]).unwrap();
        assert_eq!(dense(&square), "dense<[[1, 2], [3, 4]]>");
        assert_eq!(dense(&identity(Reduction::Max, DType::I8)), "dense<-128>");
        assert_eq!(dense(&scalar(DType::BF16, 0.1)), "dense<1.00097656e-1>");
    }
}
