//! Operations on one element at a time.

use crate::function::Function;
use crate::operation::{Kind, Value};
use octant_graph::{Binary, Comparison, DType, Shape, StableHloForm, Unary};

pub fn unary(f: &mut Function, unary: Unary, x: &Value) -> Value {
    match unary.stablehlo() {
        StableHloForm::Operation(name) => f.same(name, &[x]),
        StableHloForm::Predicate(name) => f.typed(name, &[x], &x.shape.with_dtype(DType::Bool)),
        StableHloForm::ErrorFunction => erf(f, x),
    }
}

pub fn binary_name(binary: Binary) -> &'static str {
    binary.stablehlo()
}

pub fn comparison_name(comparison: Comparison) -> &'static str {
    comparison.stablehlo()
}

pub fn clamp(f: &mut Function, low: &Value, x: &Value, high: &Value) -> Value {
    f.same("clamp", &[low, x, high])
}

pub fn convert(f: &mut Function, x: &Value, dtype: DType) -> Value {
    f.convert(x, dtype)
}

pub fn bitcast(f: &mut Function, x: &Value, shape: &Shape) -> Value {
    match (x.dtype(), shape.dtype()) {
        (from, to) if from == to => x.clone(),
        // One bit is not the same width as a byte in StableHLO; bools are converted.
        (DType::Bool, _) | (_, DType::Bool) => f.convert(x, shape.dtype()),
        _ => f.typed("bitcast_convert", &[x], shape),
    }
}

/// A polynomial by Horner's rule, the highest coefficient first.
fn polynomial(f: &mut Function, x: &Value, coefficients: &[f64]) -> Value {
    let (first, rest) = coefficients.split_first().expect("a polynomial has coefficients");
    let mut sum = f.full(&x.shape, *first);
    for &coefficient in rest {
        let product = f.same("multiply", &[&sum, x]);
        let constant = f.full(&x.shape, coefficient);
        sum = f.same("add", &[&product, &constant]);
    }
    sum
}

/// The error function, which StableHLO does not have, as `x · P(x²) / Q(x²)` of a clamped `x`. In f32 it is the rational
/// approximation that Eigen and XLA use too, flat beyond ±4, where f32 does not resolve the result from ±1. bf16 and f16 round to
/// ±1 earlier and need fewer digits: a polynomial, 3e-5 away relatively, takes a third of the instructions and no division. In
/// a GELU over arrays these instructions, not the memory, are what takes the time on a GPU.
fn erf(f: &mut Function, x: &Value) -> Value {
    const NUMERATOR: [f64; 7] = [
        -2.726_142_258_013_06e-10,
        2.770_681_424_959_02e-8,
        -2.101_024_020_825_08e-6,
        -5.692_506_394_623_46e-5,
        -7.349_906_303_268_55e-4,
        -2.954_599_808_540_25e-3,
        -1.609_603_332_624_15e-2,
    ];
    const DENOMINATOR: [f64; 5] = [
        -1.456_607_184_649_96e-5,
        -2.133_740_552_789_05e-4,
        -1.682_826_974_382_03e-3,
        -7.373_329_167_204_68e-3,
        -1.426_473_905_141_89e-2,
    ];
    const NARROW: [f64; 8] = [
        -8.957_264e-7,
        3.049_554e-5,
        -4.595_668e-4,
        4.119_787e-3,
        -2.504_96e-2,
        1.112_845e-1,
        -3.755_938e-1,
        1.128_347,
    ];
    let dtype = x.dtype();
    if dtype == DType::F64 {
        // Only tests compute in f64, on plugins that know the extension dialect; it is not worth four more polynomials.
        return f.op(Kind::ExtendedErf, &[x], &x.shape);
    }
    let wide = f.convert(x, DType::F32);
    let limit = if dtype == DType::F32 { 4.0 } else { 2.65 };
    let (low, high) = (f.full(&wide.shape, -limit), f.full(&wide.shape, limit));
    let clamped = f.same("clamp", &[&low, &wide, &high]);
    let square = f.same("multiply", &[&clamped, &clamped]);
    let numerator = polynomial(f, &square, if dtype == DType::F32 { &NUMERATOR } else { &NARROW });
    let result = f.same("multiply", &[&clamped, &numerator]);
    if dtype != DType::F32 {
        return f.convert(&result, dtype);
    }
    let denominator = polynomial(f, &square, &DENOMINATOR);
    f.same("divide", &[&result, &denominator])
}
