//! Sums of products.

use super::movement;
use crate::MatmulPrecision;
use crate::function::Function;
use crate::operation::{Kind, Value};
use octant_graph::{Convolution, DType, DotGeneral, Shape};

/// Operands as XLA takes them for that result type: f16 and bf16 are widened by the operation itself, everything else
/// before it (XLA's GPU compiler gives wrong products of i8 that are summed in i32).
fn widened(f: &mut Function, x: &Value, dtype: DType) -> Value {
    let by_itself = matches!((x.dtype(), dtype), (DType::F16 | DType::BF16, DType::F32));
    if by_itself { x.clone() } else { f.convert(x, dtype) }
}

pub fn dot(f: &mut Function, left: &Value, right: &Value, dot: &DotGeneral, shape: &Shape) -> Value {
    let is_half = |dtype: DType| matches!(dtype, DType::F16 | DType::BF16);
    if f.module.options.precision == MatmulPrecision::Highest && is_half(left.dtype()) {
        // XLA's GPU compiler rounds sums in between where the batch is not the first axis.
        let (left, right) = (f.convert(left, DType::F32), f.convert(right, DType::F32));
        let wide = DotGeneral { dtype: DType::F32, ..dot.clone() };
        let sums = self::dot(f, &left, &right, &wide, &shape.with_dtype(DType::F32));
        return f.convert(&sums, dot.dtype);
    }
    let (left, right) = (widened(f, left, dot.dtype), widened(f, right, dot.dtype));
    let precision = f.module.options.precision;
    f.op(Kind::Dot(dot.clone(), precision), &[&left, &right], shape)
}

pub fn convolution(f: &mut Function, input: &Value, kernel: &Value, conv: &Convolution, shape: &Shape) -> Value {
    let (input, kernel) = (widened(f, input, conv.dtype), widened(f, kernel, conv.dtype));
    // A reversal of its own is the form in which XLA recognizes the gradient with respect to the input.
    let mut spatial = conv.kernel.spatial.clone();
    spatial.sort_unstable();
    let kernel = if conv.reversed && !spatial.is_empty() { movement::reverse(f, &kernel, &spatial) } else { kernel };
    let kind = Kind::Convolution(Box::new(conv.clone()), f.module.options.precision);
    f.op(kind, &[&input, &kernel], shape)
}
