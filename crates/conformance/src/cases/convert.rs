//! From one element type to another.

use crate::{Case, Tolerance, values};
use octant_graph::{DType, HostTensor, Op};

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = DType::ALL.into_iter().map(conversions).collect();
    cases.extend(DType::ALL.into_iter().map(bitcasts));
    cases
}

fn conversions(from: DType) -> Case {
    let notable = values::notable(from);
    let mut inputs = vec![values::tensor(from, &[notable.len()], &notable)];
    // Few shapes: there are 169 pairs of types, and each is compiled.
    inputs.extend([values::ordinary(from, &[]), values::ordinary(from, &[0, 3]), many(from)]);
    Case::new(format!("convert/from/{from}"), inputs, Tolerance::EXACT, |trace, x| {
        let to = |dtype: DType| x.iter().map(move |x| trace.emit_one(Op::Convert(dtype), &[x]));
        DType::ALL.into_iter().flat_map(to).collect()
    })
}

/// Numbers all over a range. Those of f64 are exact in f32: on processors without instructions for f16, XLA converts f64 to
/// it by way of f32 and so rounds twice.
fn many(dtype: DType) -> HostTensor {
    let exact = if dtype == DType::F64 { DType::F32 } else { dtype };
    let numbers = values::between(0.0, 300.0, exact, &[1003]);
    values::tensor(dtype, numbers.shape().dims(), &numbers.to_f64s())
}

fn bitcasts(from: DType) -> Case {
    // Patterns that are numbers in either type: a NaN's payload need not survive a float type.
    let inputs = vec![values::ordinary(from, &[]), values::ordinary(from, &[0, 3]), values::ordinary(from, &[7, 9])];
    Case::new(format!("convert/bitcast/{from}"), inputs, Tolerance::EXACT, |_, x| {
        let same_width = DType::ALL.into_iter().filter(|to| to.size() == from.size() && *to != DType::Bool);
        same_width.flat_map(|to| x.iter().map(move |x| x.bitcast(to))).collect()
    })
}
