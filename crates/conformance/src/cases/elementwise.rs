//! Operations on one element at a time.

use crate::{Case, Tolerance, values};
use octant_graph::op::Accuracy;
use octant_graph::{Binary, Comparison, DType, HostTensor, Op, Tensor, Unary};

pub fn unary() -> Vec<Case> {
    let all = Unary::ALL.into_iter().flat_map(|unary| DType::ALL.map(|dtype| (unary, dtype)));
    all.filter_map(|(unary, dtype)| unary_case(unary, dtype)).collect()
}

/// None where the operation is not defined for the type.
fn unary_case(unary: Unary, dtype: DType) -> Option<Case> {
    let mut inputs = vec![notable_for(unary, dtype)];
    inputs.extend(values::SHAPES.iter().map(|dims| values::ordinary(dtype, dims)));
    inputs.push(values::between(0.0, 40.0, dtype, &[5, 33]));
    let name = format!("unary/{}/{dtype}", unary.name());
    let case = Case::if_typed(name, inputs, unary_tolerance(unary, dtype), |trace, x| {
        let apply = |x: &Tensor| trace.emit_one(Op::Unary(unary), &[x]);
        let (last, rest) = x.split_last().expect("there are several inputs");
        // Once more on values that do not lie in row-major order.
        rest.iter().map(apply).chain([apply(last), apply(&last.transpose(&[1, 0]))]).collect()
    });
    case.ok()
}

fn unary_tolerance(unary: Unary, dtype: DType) -> Tolerance {
    match unary.accuracy() {
        Accuracy::Exact => Tolerance::EXACT,
        Accuracy::Rounded => Tolerance::chain(1.0, 0.0),
        // Near a multiple of π the argument's own rounding decides, so these are measured against 1.
        Accuracy::Periodic => Tolerance::chain(8.0, 1.0),
        // Device libraries are made for f32; XLA's f64 logarithm near 1 has two digits less than it could have.
        Accuracy::Function if dtype == DType::F64 => Tolerance::chain(256.0, 0.0),
        Accuracy::Function => Tolerance::ELEMENTWISE,
    }
}

fn notable_for(unary: Unary, dtype: DType) -> HostTensor {
    // Backends differ in the sign of the infinity that one over the root of -0 is.
    let keep = |value: &f64| !(unary == Unary::Rsqrt && *value == 0.0 && value.is_sign_negative());
    let notable: Vec<f64> = values::notable(dtype).into_iter().filter(keep).collect();
    values::tensor(dtype, &[notable.len()], &notable)
}

pub fn binary() -> Vec<Case> {
    let all = Binary::ALL.into_iter().flat_map(|binary| DType::ALL.map(|dtype| (binary, dtype)));
    all.filter_map(|(binary, dtype)| binary_case(binary, dtype)).collect()
}

/// Inputs in pairs: every pair of notable values, then ordinary ones of every shape, twice the first of each transposed.
fn paired_inputs(dtype: DType, notable: &[f64], shapes: &[&[usize]]) -> Vec<HostTensor> {
    let (firsts, seconds) = values::pairs(notable);
    let mut inputs =
        vec![values::tensor(dtype, &[firsts.len()], &firsts), values::tensor(dtype, &[seconds.len()], &seconds)];
    for dims in shapes {
        inputs.push(values::ordinary(dtype, dims));
        inputs.push(values::between(1.0, 5.0, dtype, dims));
    }
    inputs.push(values::ordinary(dtype, &[33, 5]));
    inputs.push(values::between(1.0, 6.0, dtype, &[5, 33]));
    inputs
}

fn apply_to_pairs(x: &[Tensor], apply: impl Fn(&Tensor, &Tensor) -> Tensor) -> Vec<Tensor> {
    let (rest, last) = x.split_last_chunk::<2>().expect("there are several pairs");
    let transposed = apply(&last[0].transpose(&[1, 0]), &last[1]);
    rest.chunks(2).map(|pair| apply(&pair[0], &pair[1])).chain([transposed]).collect()
}

fn binary_case(binary: Binary, dtype: DType) -> Option<Case> {
    let tolerance = match binary.accuracy() {
        Accuracy::Function | Accuracy::Periodic => Tolerance::chain(16.0, 0.0),
        Accuracy::Rounded => Tolerance::chain(1.0, 0.0),
        Accuracy::Exact => Tolerance::EXACT,
    };
    let mut notable = values::notable(dtype);
    if binary == Binary::Pow && dtype.is_float() {
        // Powers of NaN, infinities and zero follow C's rules on some backends only.
        notable.retain(|value| value.is_finite() && *value != 0.0 && value.abs() < 60.0);
    } else if binary == Binary::Pow {
        // XLA looks at six bits of an integer exponent only.
        notable.retain(|value| value.abs() < 64.0);
    }
    Case::if_typed(
        format!("binary/{}/{dtype}", binary.name()),
        paired_inputs(dtype, &notable, &values::SHAPES),
        tolerance,
        |trace, x| apply_to_pairs(x, |left, right| trace.emit_one(Op::Binary(binary), &[left, right])),
    )
    .ok()
}

pub fn compare() -> Vec<Case> {
    let case = |dtype: DType| {
        // Few shapes: all six comparisons are in one graph.
        let inputs = paired_inputs(dtype, &values::notable(dtype), &[&[], &[0, 3], &[9, 1031]]);
        Case::new(format!("compare/all/{dtype}"), inputs, Tolerance::EXACT, |_, x| {
            let all = |comparison| apply_to_pairs(x, |left, right| left.compare(comparison, right));
            Comparison::ALL.into_iter().flat_map(all).collect()
        })
    };
    DType::ALL.into_iter().map(case).collect()
}

/// Select and clamp.
pub fn choice() -> Vec<Case> {
    DType::ALL.into_iter().flat_map(|dtype| [select(dtype), clamp(dtype)]).collect()
}

fn select(dtype: DType) -> Case {
    let shapes = values::SHAPES.iter();
    let triples = shapes.flat_map(|dims| {
        [values::ordinary(DType::Bool, dims), values::ordinary(dtype, dims), values::between(6.0, 9.0, dtype, dims)]
    });
    Case::new(format!("choice/select/{dtype}"), triples.collect(), Tolerance::EXACT, |_, x| {
        x.chunks(3).map(|triple| triple[0].select(&triple[1], &triple[2])).collect()
    })
}

fn clamp(dtype: DType) -> Case {
    let notable = values::notable(dtype);
    let mut inputs = vec![values::tensor(dtype, &[notable.len()], &notable)];
    inputs.extend(values::SHAPES.iter().map(|dims| values::ordinary(dtype, dims)));
    Case::new(format!("choice/clamp/{dtype}"), inputs, Tolerance::EXACT, |_, x| {
        x.iter().map(|x| x.clamp(&x.scalar_like(1.0), &x.scalar_like(3.0))).collect()
    })
}

pub fn convert() -> Vec<Case> {
    let mut cases: Vec<Case> = DType::ALL.into_iter().map(conversions).collect();
    cases.extend(DType::ALL.into_iter().map(bitcasts));
    cases
}

fn conversions(from: DType) -> Case {
    let notable = values::notable(from);
    let mut inputs = vec![values::tensor(from, &[notable.len()], &notable)];
    // Few shapes: there are 169 pairs of types, and each is compiled.
    inputs.extend([
        values::ordinary(from, &[]),
        values::ordinary(from, &[0, 3]),
        values::between(0.0, 300.0, from, &[1003]),
    ]);
    let count = inputs.len();
    if from == DType::F64 {
        inputs.extend(inputs.clone().iter().map(of_f32));
    }
    Case::new(format!("convert/from/{from}"), inputs, Tolerance::EXACT, |trace, x| {
        let (any, of_f32) = x.split_at(count);
        let to = |dtype: DType| {
            let inputs = if (from, dtype) == (DType::F64, DType::F16) { of_f32 } else { any };
            inputs.iter().map(move |x| trace.emit_one(Op::Convert(dtype), &[x]))
        };
        DType::ALL.into_iter().flat_map(to).collect()
    })
}

/// The same numbers, as f32 has them. On processors without instructions for f16, XLA converts f64 to it through f32 and so
/// rounds twice, and numbers of f32 come through that unharmed; that backends of our own round once is a test of theirs. They
/// are rounded here, not in the graph: on GPUs XLA removes conversions from f64 to f32 and back.
fn of_f32(tensor: &HostTensor) -> HostTensor {
    let rounded: Vec<f64> = tensor.to_f64s().into_iter().map(|value| f64::from(value as f32)).collect();
    values::tensor(tensor.dtype(), tensor.dims(), &rounded)
}

fn bitcasts(from: DType) -> Case {
    // Patterns that are numbers in either type: a NaN's payload need not survive a float type.
    let inputs = vec![values::ordinary(from, &[]), values::ordinary(from, &[0, 3]), values::ordinary(from, &[7, 9])];
    Case::new(format!("convert/bitcast/{from}"), inputs, Tolerance::EXACT, |_, x| {
        let same_width = DType::ALL.into_iter().filter(|to| to.size() == from.size() && *to != DType::Bool);
        same_width.flat_map(|to| x.iter().map(move |x| x.bitcast(to))).collect()
    })
}
