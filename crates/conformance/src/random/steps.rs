//! The operations that random graphs are made of. Each takes what it picks and bends it until the operation is defined.

use super::growth::{Garden, Tracked, chosen_axis};
use crate::values;
use octant_graph::{
    Binary, Comparison, Convolution, DType, Op, Reduction, Scatter, ScatterKind, Shape, Tensor, Unary, Window,
};

type Maker = fn(&mut Garden, [u8; 2], usize) -> Option<Tracked>;

const MAKERS: [Maker; 24] = [
    smooth,
    smooth,
    exact_unary,
    arithmetic,
    arithmetic,
    quotient,
    compare,
    select,
    broadcast,
    reshape,
    transpose,
    reverse,
    slice,
    pad,
    concatenate,
    reduce,
    dot,
    pool,
    convolve,
    order,
    rows,
    window,
    control,
    integers,
];

/// Adds one operation to the garden.
pub fn grow(garden: &mut Garden, kind: usize, picks: [u8; 2], choice: usize) {
    if let Some(made) = MAKERS[kind % MAKERS.len()](garden, picks, choice) {
        garden.keep(made);
    }
}

fn unary(x: &Tensor, unary: Unary) -> Tensor {
    x.trace().emit_one(Op::Unary(unary), &[x])
}

/// Functions with a slope of at most about 1 on what they are given, or a known greater one.
fn smooth(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.float(picks[0]);
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

fn exact_unary(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = match choice % 7 {
        0 | 1 => garden.float(picks[0]),
        _ => garden.pick(picks[0], |value| value.is_exact() && value.tensor.dtype().is_float()),
    };
    let kind =
        [Unary::Neg, Unary::Abs, Unary::Floor, Unary::Ceil, Unary::RoundEven, Unary::Sign, Unary::IsFinite][choice % 7];
    let made = unary(&x.tensor, kind);
    Some(Tracked { magnitude: x.magnitude + 1.0, ..x.moved(made) })
}

/// Two float values of one type and shape.
fn float_pair(garden: &Garden, picks: [u8; 2]) -> (Tracked, Tracked) {
    let x = garden.float(picks[0]);
    let y = garden.pick(picks[1], |value| value.tensor.dtype() == x.tensor.dtype());
    let y = garden.fitted(&y, x.tensor.dims());
    (x, y)
}

fn arithmetic(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(garden, picks);
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
    match binary {
        // The greater of two exact values is exact.
        Binary::Max | Binary::Min => Some(Tracked { tensor: made, magnitude, error }),
        _ => Some(Tracked::rounded(made, magnitude, error)),
    }
}

fn quotient(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(garden, picks);
    let (x, y) = (x.tamed(20.0), y.tamed(20.0));
    let divisor = y.tensor.abs() + 1.0;
    let error = x.error + x.magnitude * (y.error + 0.1 * y.magnitude * crate::tolerance::epsilon(x.tensor.dtype()));
    match choice % 3 {
        0 | 1 => Some(Tracked::rounded(&x.tensor / &divisor, x.magnitude, error)),
        _ => Some(Tracked::rounded(x.tensor.atan2(&divisor), 1.6, error)),
    }
}

/// Two exact values of one type and shape.
fn exact_pair(garden: &Garden, picks: [u8; 2]) -> (Tensor, Tensor) {
    let x = garden.exact(picks[0]);
    let y = garden.pick(picks[1], |value| value.is_exact() && value.tensor.dtype() == x.tensor.dtype());
    let y = garden.fitted(&y, x.tensor.dims());
    (x.tensor, y.tensor)
}

fn compare(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = exact_pair(garden, picks);
    Some(Tracked::exact(x.compare(Comparison::ALL[choice % 6], &y)))
}

fn select(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(garden, picks);
    let condition = garden.pick(choice as u8, |value| value.tensor.dtype() == DType::Bool);
    let condition = garden.fitted(&condition, x.tensor.dims()).tensor;
    let (magnitude, error) = (x.magnitude.max(y.magnitude), x.error.max(y.error));
    let made = match choice % 3 {
        0 => x.tensor.clamp(&x.tensor.scalar_like(-0.5), &x.tensor.scalar_like(0.75)),
        _ => condition.select(&x.tensor, &y.tensor),
    };
    Some(Tracked { tensor: made, magnitude, error })
}

fn broadcast(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |_| true);
    let place = choice % (x.tensor.rank() + 1);
    let mut dims = x.tensor.dims().to_vec();
    dims.insert(place, 1 + choice / 8 % 4);
    let axes: Vec<usize> = (0..dims.len()).filter(|&axis| axis != place).collect();
    (dims.len() <= 5).then(|| x.moved(x.tensor.broadcast_in_dim(&dims, &axes)))
}

fn reshape(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |_| true);
    let elements = x.tensor.shape().elements();
    let divisor = (1..=6).filter(|divisor| elements % divisor == 0).nth(choice % 3).unwrap_or(1);
    let dims = if choice % 2 == 0 { vec![divisor, elements / divisor] } else { vec![elements / divisor, 1, divisor] };
    Some(x.moved(x.tensor.reshape(&dims)))
}

fn transpose(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |value| value.tensor.rank() > 1);
    let mut permutation: Vec<usize> = (0..x.tensor.rank()).collect();
    permutation.rotate_left(1 + choice % (x.tensor.rank() - 1));
    if choice / 16 % 2 == 0 {
        permutation.swap(0, 1);
    }
    Some(x.moved(x.tensor.transpose(&permutation)))
}

fn reverse(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |value| value.tensor.rank() > 0);
    let axes: Vec<usize> = (0..x.tensor.rank()).filter(|axis| choice >> axis & 1 == 1).collect();
    Some(x.moved(x.tensor.reverse(&axes)))
}

fn slice(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |value| value.tensor.rank() > 0);
    let dims = x.tensor.dims();
    let starts: Vec<usize> = dims.iter().map(|dim| choice % 3 * dim / 4).collect();
    let limits: Vec<usize> =
        dims.iter().zip(&starts).map(|(dim, start)| dim - (dim - start) / 3 * (choice / 3 % 2)).collect();
    let strides: Vec<usize> = (0..dims.len()).map(|axis| 1 + (choice / 8 + axis) % 2).collect();
    Some(x.moved(x.tensor.slice(&starts, &limits, &strides)))
}

fn pad(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |value| value.tensor.rank() > 0);
    let fill = x.tensor.scalar_like(1.0);
    let rank = x.tensor.rank();
    let low: Vec<i64> = (0..rank).map(|axis| (choice as i64 + axis as i64) % 3 - 1).collect();
    // What is removed in front is always there to be removed.
    let high: Vec<i64> = (0..rank).map(|axis| 1 + (choice as i64 / 3 + axis as i64) % 2).collect();
    let interior: Vec<usize> = (0..rank).map(|axis| (choice / 7 + axis) % 2).collect();
    Some(Tracked { magnitude: x.magnitude.max(1.0), ..x.moved(x.tensor.pad(&fill, &low, &high, &interior)) })
}

fn concatenate(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(garden, picks);
    let axis = chosen_axis(x.tensor.shape(), choice)?;
    let parts = [x.tensor.clone(), y.tensor, x.tensor];
    let made = Tensor::concatenate(&parts[..2 + choice / 8 % 2], axis);
    Some(Tracked { tensor: made, magnitude: x.magnitude.max(y.magnitude), error: x.error.max(y.error) })
}

fn reduce(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |value| value.tensor.rank() > 0);
    let axes: Vec<usize> = (0..x.tensor.rank()).filter(|axis| choice >> axis & 1 == 1).collect();
    let terms: usize = axes.iter().map(|&axis| x.tensor.dims()[axis]).product();
    if x.tensor.dtype() == DType::Bool {
        let kind = [Reduction::And, Reduction::Or][choice / 16 % 2];
        return Some(Tracked::exact(x.trace_reduce(kind, axes)));
    }
    match choice / 16 % 3 {
        0 if x.tensor.dtype().is_integer() => Some(Tracked::exact(x.trace_reduce(Reduction::Sum, axes))),
        0 => {
            let x = x.tamed(1000.0 / terms.max(1) as f64);
            let all = terms.max(1) as f64;
            Some(Tracked::rounded(x.trace_reduce(Reduction::Sum, axes), all * x.magnitude, all * x.error))
        }
        // The greatest of nothing is an infinity, which would spoil what follows.
        _ if terms == 0 => None,
        1 => Some(x.moved(x.trace_reduce(Reduction::Max, axes))),
        _ => Some(x.moved(x.trace_reduce(Reduction::Min, axes))),
    }
}

impl Tracked {
    fn trace_reduce(&self, kind: Reduction, axes: Vec<usize>) -> Tensor {
        self.tensor.trace().emit_one(Op::Reduce { kind, axes }, &[&self.tensor])
    }
}

fn dot(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(garden, picks);
    let (rows, summed, columns) = (1 + choice % 5, choice / 5 % 8, 1 + choice / 40 % 6);
    let limit = (500.0 / summed.max(1) as f64).sqrt();
    let x = garden.fitted(&x, &[2, rows, summed]).tamed(limit);
    let y = garden.fitted(&y, &[2, summed, columns]).tamed(limit);
    let made = x.tensor.matmul(&y.tensor);
    let terms = summed.max(1) as f64;
    Some(Tracked::rounded(
        made,
        terms * x.magnitude * y.magnitude,
        terms * (x.error * y.magnitude + y.error * x.magnitude),
    ))
}

fn pool(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.float(picks[0]);
    let x = garden.fitted(&x, &[1, 5, 4, 2]).tamed(50.0);
    let window = Window {
        strides: vec![1, 1 + choice % 2, 1 + choice / 2 % 3, 1],
        padding: vec![(0, 0), (1, (choice % 3) as i64 - 1), (0, 1), (0, 0)],
        ..Window::new([1, 2 + choice % 2, 2, 1])
    };
    match choice / 16 % 3 {
        0 => Some(Tracked::rounded(x.tensor.reduce_window(Reduction::Sum, window), 6.0 * x.magnitude, 6.0 * x.error)),
        1 => Some(x.moved(x.tensor.reduce_window(Reduction::Max, window))),
        _ => {
            // No two elements are equal: among equals XLA chooses in an order of its own.
            let distinct: Vec<f64> = (0..40).map(|i| (i * 7 % 41) as f64).collect();
            let chooser = garden.trace.constant(values::tensor(x.tensor.dtype(), &[1, 5, 4, 2], &distinct));
            let pooled = chooser.reduce_window(Reduction::Max, window.clone());
            let source = garden.fitted(&x, pooled.dims());
            let made = chooser.select_and_scatter(&source.tensor, window);
            Some(Tracked::rounded(made, 6.0 * x.magnitude, 6.0 * x.error))
        }
    }
}

fn convolve(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, w) = float_pair(garden, picks);
    let groups = 1 + choice % 2;
    let x = garden.fitted(&x, &[2, 5, 4, 2]).tamed(4.0);
    let w = garden.fitted(&w, &[3, 2, 2 / groups, 4]).tamed(4.0);
    let conv = Convolution {
        strides: vec![1 + choice / 2 % 2, 1 + choice / 4 % 2],
        padding: vec![(1, 1), ((choice / 8 % 3) as i64 - 1, 1)],
        input_dilation: vec![1 + choice / 24 % 2, 1],
        kernel_dilation: vec![1, 1 + choice / 48 % 2],
        reversed: choice / 96 % 2 == 1,
        feature_groups: groups,
        ..Convolution::nhwc(2, x.tensor.dtype())
    };
    let made = x.tensor.convolution(&w.tensor, conv);
    Some(Tracked::rounded(
        made,
        12.0 * x.magnitude * w.magnitude,
        12.0 * (x.error * w.magnitude + w.error * x.magnitude),
    ))
}

/// Sorting and choosing the greatest, on exact values only.
fn order(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |value| value.is_exact() && value.tensor.rank() > 0);
    let axis = chosen_axis(x.tensor.shape(), choice)?;
    let payload = garden.fitted(&garden.pick(picks[1], |_| true), x.tensor.dims());
    match choice / 8 % 3 {
        0 => {
            let sorted = Tensor::sort(&[x.tensor, payload.tensor.clone()], axis, choice / 32 % 2 == 0);
            Some(payload.moved(sorted[1].clone()))
        }
        _ if x.tensor.dims()[axis] == 0 => None,
        1 => Some(Tracked::exact(x.tensor.arg_max(axis).1)),
        _ => Some(x.moved(x.tensor.arg_min(axis).0)),
    }
}

/// Rows taken and rows added, at places known only at run time.
fn rows(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |value| value.tensor.dtype().is_float() && value.tensor.rank() > 0);
    let indices = garden.pick(picks[1], |value| value.tensor.dtype() == DType::I32);
    let indices = garden.fitted(&indices, &[3]).tensor;
    if x.tensor.dims()[0] == 0 {
        return None;
    }
    let taken = x.tensor.take(&indices);
    if choice % 2 == 0 {
        return Some(x.moved(taken));
    }
    let x = x.tamed(50.0);
    let scatter = Scatter {
        update_window_axes: (1..x.tensor.rank()).collect(),
        inserted_window_axes: vec![0],
        scatter_axes: vec![0],
        index_vector_axis: 1,
        kind: ScatterKind::Add,
    };
    let updates = x.tensor.take(&indices);
    let made = x.tensor.scatter(&indices, &updates, scatter);
    Some(Tracked::rounded(made, 4.0 * x.magnitude, 4.0 * x.error))
}

/// A window read or written at a place known only at run time.
fn window(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = garden.pick(picks[0], |value| value.tensor.rank() > 0);
    let start = garden.pick(picks[1], |value| value.tensor.dtype() == DType::I32);
    let start = garden.fitted(&start, &[]).tensor;
    let starts = vec![start; x.tensor.rank()];
    let sizes: Vec<usize> = x.tensor.dims().iter().map(|dim| dim - dim / 2).collect();
    let read = x.tensor.dynamic_slice(&starts, &sizes);
    match choice % 2 {
        0 => Some(x.moved(read)),
        _ => {
            let written = x.tensor.dynamic_update_slice(
                &read.reverse(&[0]),
                &vec![x.tensor.trace().scalar(DType::I32, 1.0); sizes.len()],
            );
            Some(x.moved(written))
        }
    }
}

fn control(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(garden, picks);
    let (x, y) = (x.tamed(10.0), y.tamed(10.0));
    let trace = garden.trace.clone();
    let both = x.magnitude + y.magnitude;
    match choice % 4 {
        0 => {
            let rounds = 1 + choice / 4 % 4;
            let last = trace.scalar(DType::I32, rounds as f64);
            let carried = [trace.scalar(DType::I32, 0.0), x.tensor];
            let made = trace.while_loop(
                &carried,
                Some(rounds),
                |c| c[0].less(&last),
                |c| vec![&c[0] + 1.0, &c[1] * 0.5 + &y.tensor],
            );
            Some(Tracked::rounded(made[1].clone(), 2.0 * both, 2.0 * (x.error + y.error)))
        }
        1 => {
            let condition = garden.pick(picks[1], |value| value.tensor.dtype() == DType::Bool);
            let condition = garden.fitted(&condition, &[]).tensor;
            let made = trace.cond(&condition, || vec![&x.tensor + &y.tensor], || vec![x.tensor.tanh()]);
            Some(Tracked::rounded(made[0].clone(), both.max(1.0), x.error + y.error))
        }
        2 => {
            let made = trace.call(&[x.tensor], choice / 4 % 2 == 1, |inner| vec![&inner[0] - &y.tensor]);
            Some(Tracked::rounded(made[0].clone(), both, x.error + y.error))
        }
        _ => {
            let held = trace.barrier(&[x.tensor.clone(), y.tensor]);
            Some(x.moved(held[0].clone()))
        }
    }
}

fn integers(garden: &mut Garden, picks: [u8; 2], choice: usize) -> Option<Tracked> {
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
    let x = garden.pick(picks[0], |value| value.tensor.dtype() == DType::I32);
    let y = garden.pick(picks[1], |value| value.tensor.dtype() == DType::I32);
    let y = garden.fitted(&y, x.tensor.dims());
    match choice % 15 {
        12 => Some(Tracked::exact(garden.trace.iota(Shape::new(DType::I32, [1 + choice / 15 % 5, 2]), choice % 2))),
        13 => {
            let key = garden.trace.constant(values::between(0.0, 9.0, DType::U32, &[2]));
            Some(Tracked::exact(key.random_bits(&[1 + choice / 15 % 7]).bitcast(DType::I32)))
        }
        14 => {
            // A remainder is small enough for every float type to hold.
            let small = &x.tensor % 4.0;
            Some(Tracked::exact(small.convert(garden.float)))
        }
        kind => Some(Tracked::exact(x.tensor.binary(KINDS[kind], &y.tensor))),
    }
}
