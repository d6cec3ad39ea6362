//! From one element type to another.

use crate::{Case, Tolerance, values};
use octant_graph::{DType, Op, Tensor};

pub fn cases() -> Vec<Case> {
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
    Case::new(format!("convert/from/{from}"), inputs, Tolerance::EXACT, |trace, x| {
        let to = |dtype: DType| x.iter().map(move |x| trace.emit_one(Op::Convert(dtype), &[&halfway(x, dtype)]));
        DType::ALL.into_iter().flat_map(to).collect()
    })
}

/// On processors without instructions for f16, XLA converts f64 to it by way of f32 and so rounds twice. Numbers of f32 come
/// through that unharmed; that backends of our own round once is a test of theirs.
fn halfway(x: &Tensor, to: DType) -> Tensor {
    let convert = |x: &Tensor, dtype| x.trace().emit_one(Op::Convert(dtype), &[x]);
    match (x.dtype(), to) {
        (DType::F64, DType::F16) => convert(&convert(x, DType::F32), DType::F64),
        _ => x.clone(),
    }
}

fn bitcasts(from: DType) -> Case {
    // Patterns that are numbers in either type: a NaN's payload need not survive a float type.
    let inputs = vec![values::ordinary(from, &[]), values::ordinary(from, &[0, 3]), values::ordinary(from, &[7, 9])];
    Case::new(format!("convert/bitcast/{from}"), inputs, Tolerance::EXACT, |_, x| {
        let same_width = DType::ALL.into_iter().filter(|to| to.size() == from.size() && *to != DType::Bool);
        same_width.flat_map(|to| x.iter().map(move |x| x.bitcast(to))).collect()
    })
}
