//! Steps on one element at a time.

use crate::random::generator::{GraphGenerator, Tracked};
use crate::values;
use octant_graph::{Binary, Comparison, DType, Op, Shape, Tensor, Unary};

fn unary(x: &Tensor, unary: Unary) -> Tensor {
    x.trace().emit_one(Op::Unary(unary), &[x])
}

/// Functions whose derivative is at most about 1 on their inputs, or has a known larger bound.
pub fn smooth(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.float(picks[0]);
    let positive = |least: f64| x.tensor.abs() + least;
    let made = match choice % 12 {
        0 => Tracked::rounded(x.tensor.tanh(), 1.0, x.error),
        1 => Tracked::rounded(x.tensor.logistic(), 1.0, x.error),
        2 => Tracked::rounded(x.tamed(8.0).tensor.sin(), 1.0, x.error),
        3 => Tracked::rounded(x.tamed(8.0).tensor.cos(), 1.0, x.error),
        4 => Tracked::rounded(x.tensor.erf(), 1.0, 1.2 * x.error),
        5 | 6 => {
            let x = x.tamed(2.0);
            let made = unary(&x.tensor, if choice % 12 == 5 { Unary::Exp } else { Unary::Expm1 });
            Tracked::rounded(made, 8.0, 8.0 * x.error)
        }
        7 => Tracked::rounded(x.tensor.abs().log1p(), x.magnitude + 1.0, x.error),
        8 => Tracked::rounded(positive(0.5).log(), x.magnitude + 1.0, 2.0 * x.error),
        9 => Tracked::rounded(positive(0.5).sqrt(), x.magnitude + 1.0, x.error),
        10 => Tracked::rounded(positive(0.5).rsqrt(), 1.5, 2.0 * x.error),
        _ => {
            // To another float type and sometimes back.
            let other = [DType::F32, DType::BF16, DType::F64, DType::F16][choice / 12 % 4];
            let x = x.tamed(500.0);
            Tracked::rounded(x.tensor.convert(other), x.magnitude, x.error)
        }
    };
    Some(made)
}

pub fn exact_unary(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = match choice % 7 {
        0 | 1 => generator.float(picks[0]),
        _ => generator.pick(picks[0], |value| value.is_exact() && value.tensor.dtype().is_float()),
    };
    let kind =
        [Unary::Neg, Unary::Abs, Unary::Floor, Unary::Ceil, Unary::RoundEven, Unary::Sign, Unary::IsFinite][choice % 7];
    let made = unary(&x.tensor, kind);
    Some(Tracked { magnitude: x.magnitude + 1.0, ..x.moved(made) })
}

/// Two float values of one type and shape.
pub fn float_pair(generator: &GraphGenerator, picks: [u8; 2]) -> (Tracked, Tracked) {
    let x = generator.float(picks[0]);
    let y = generator.pick(picks[1], |value| value.tensor.dtype() == x.tensor.dtype());
    let y = generator.fitted(&y, x.tensor.dims());
    (x, y)
}

pub fn arithmetic(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(generator, picks);
    let (x, y) = (x.tamed(20.0), y.tamed(20.0));
    let sum = (x.magnitude + y.magnitude, x.error + y.error);
    let product = (x.magnitude * y.magnitude, x.error * y.magnitude + y.error * x.magnitude);
    let (binary, (magnitude, error)) = match choice % 5 {
        0 => (Binary::Add, sum),
        1 => (Binary::Sub, sum),
        2 => (Binary::Mul, product),
        3 => (Binary::Max, sum),
        _ => (Binary::Min, sum),
    };
    let made = x.tensor.binary(binary, &y.tensor);
    // The greater of two exact values is exact.
    let selects = matches!(binary, Binary::Max | Binary::Min);
    Some(if selects { Tracked { tensor: made, magnitude, error } } else { Tracked::rounded(made, magnitude, error) })
}

pub fn quotient(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(generator, picks);
    let (x, y) = (x.tamed(20.0), y.tamed(20.0));
    let divisor = y.tensor.abs() + 1.0;
    let error = x.error + x.magnitude * (y.error + 0.1 * y.magnitude * crate::tolerance::epsilon(x.tensor.dtype()));
    match choice % 3 {
        0 | 1 => Some(Tracked::rounded(&x.tensor / &divisor, x.magnitude, error)),
        _ => Some(Tracked::rounded(x.tensor.atan2(&divisor), 1.6, error)),
    }
}

/// Two exact values of one type and shape.
fn exact_pair(generator: &GraphGenerator, picks: [u8; 2]) -> (Tensor, Tensor) {
    let x = generator.exact(picks[0]);
    let y = generator.pick(picks[1], |value| value.is_exact() && value.tensor.dtype() == x.tensor.dtype());
    let y = generator.fitted(&y, x.tensor.dims());
    (x.tensor, y.tensor)
}

pub fn compare(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = exact_pair(generator, picks);
    Some(Tracked::exact(x.compare(Comparison::ALL[choice % 6], &y)))
}

pub fn select(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(generator, picks);
    let condition = generator.pick(choice as u8, |value| value.tensor.dtype() == DType::Bool);
    let condition = generator.fitted(&condition, x.tensor.dims()).tensor;
    let (magnitude, error) = (x.magnitude.max(y.magnitude), x.error.max(y.error));
    let made = match choice % 3 {
        0 => x.tensor.clamp(&x.tensor.scalar_like(-0.5), &x.tensor.scalar_like(0.75)),
        _ => condition.select(&x.tensor, &y.tensor),
    };
    Some(Tracked { tensor: made, magnitude, error })
}

pub fn integers(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    const KINDS: [Binary; 12] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Rem,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::ShiftLeft,
        Binary::ShiftRight,
        Binary::Max,
        Binary::Min,
    ];
    let x = generator.pick(picks[0], |value| value.tensor.dtype() == DType::I32);
    let y = generator.pick(picks[1], |value| value.tensor.dtype() == DType::I32);
    let y = generator.fitted(&y, x.tensor.dims());
    match choice % 15 {
        12 => Some(Tracked::exact(generator.trace.iota(Shape::new(DType::I32, [1 + choice / 15 % 5, 2]), choice % 2))),
        13 => {
            let key = generator.trace.constant(values::between(0.0, 9.0, DType::U32, &[2]));
            Some(Tracked::exact(key.random_bits(&[1 + choice / 15 % 7]).bitcast(DType::I32)))
        }
        14 => {
            // A remainder is small enough for every float type to hold.
            let small = &x.tensor % 4.0;
            Some(Tracked::exact(small.convert(generator.float)))
        }
        kind => Some(Tracked::exact(x.tensor.binary(KINDS[kind], &y.tensor))),
    }
}
