//! Calls with a hint that the compiled program understands.

use super::reduce;
use crate::function::Function;
use crate::operation::{Kind, Value};
use crate::types::{self, join, quoted};
use octant_graph::{DType, HostTensor, KernelHint, Shape};

/// A call by its hint: StableHLO's own form for it, or a custom call. None if the program does not know the kernel.
pub fn known(f: &mut Function, hint: &KernelHint, operands: &[&Value], shapes: &[&Shape]) -> Option<Vec<Value>> {
    if hint.name == KernelHint::ARG_MAX {
        return arg_max(f, hint, operands.first()?, shapes);
    }
    let is_known = f.module.options.kernels.contains(&hint.name.as_str());
    match is_known && hint.name.starts_with(LIBRARY) {
        true => library_call(f, hint, operands, shapes),
        false => is_known.then(|| custom_call(f, hint, operands, shapes)),
    }
}

/// How names of kernels begin that are no functions of ours but libraries' that XLA knows.
const LIBRARY: &str = "__";

/// A call that XLA's own compiler understands: the hint's source is its configuration, and its integers are the layouts of
/// the results, the number of axes before the axes from the fastest to the slowest. One more result is memory to work in, for
/// whose size XLA gets from the library.
fn library_call(f: &mut Function, hint: &KernelHint, operands: &[&Value], made: &[&Shape]) -> Option<Vec<Value>> {
    let config = quoted(hint.source.as_deref()?);
    let mut layouts = hint.integers.as_slice();
    let mut written = Vec::new();
    for _ in made {
        let (&rank, behind) = layouts.split_first()?;
        let (axes, behind) = behind.split_at_checked(usize::try_from(rank).ok()?)?;
        written.push(format!("dense<{}> : tensor<{rank}xindex>", types::list(axes)));
        layouts = behind;
    }
    written.push("dense<0> : tensor<1xindex>".to_string());
    let taken: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
    let workspace = Shape::new(DType::U8, [0]);
    let all: Vec<&Shape> = made.iter().copied().chain([&workspace]).collect();
    let attributes = format!(
        "api_version = 2 : i32, backend_config = {config}, operand_layouts = {}, result_layouts = {}",
        types::row_major(&taken),
        types::list(written)
    );
    let kind = Kind::CustomCall { target: hint.name.clone(), attributes };
    let mut results = f.push(kind, &owned(operands), vec![], &all);
    results.truncate(made.len());
    Some(results)
}

/// One reduction of pairs of elements and their positions.
fn arg_max(f: &mut Function, hint: &KernelHint, x: &Value, shapes: &[&Shape]) -> Option<Vec<Value>> {
    let axes: Vec<usize> = hint.integers.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?;
    let &[_, found] = shapes else { return None };
    let dims: Vec<usize> = axes.iter().map(|&axis| x.shape.dims().get(axis).copied()).collect::<Option<_>>()?;
    let numbers: Vec<f64> = (0..dims.iter().product()).map(|position: usize| position as f64).collect();
    let positions = f.constant(&HostTensor::from_f64s(Shape::new(found.dtype(), dims), &numbers).ok()?);
    let positions = super::movement::broadcast(f, &positions, &axes, &x.shape.with_dtype(found.dtype()));
    Some(reduce::best(f, x, &positions, true, &axes, shapes))
}

/// The call with its descriptor and the layouts that kernels rely on.
fn custom_call(f: &mut Function, hint: &KernelHint, operands: &[&Value], made: &[&Shape]) -> Vec<Value> {
    let taken: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
    let integers = match hint.integers.is_empty() {
        true => "array<i64>".to_string(),
        false => format!("array<i64: {}>", join(&hint.integers)),
    };
    let source = hint.source.as_deref().map(|source| format!(", source = {}", quoted(source))).unwrap_or_default();
    let in_place = |&(output, operand): &(usize, usize)| {
        let index = if made.len() == 1 { String::new() } else { output.to_string() };
        format!(
            "#stablehlo.output_operand_alias<output_tuple_indices = [{index}], operand_index = {operand}, \
             operand_tuple_indices = []>"
        )
    };
    let aliases = types::list(hint.in_place.iter().map(in_place));
    let attributes = format!(
        "api_version = 4 : i32, backend_config = {{integers = {integers}{source}}}, operand_layouts = {}, \
         output_operand_aliases = {aliases}, result_layouts = {}",
        types::row_major(&taken),
        types::row_major(made),
    );
    f.push(Kind::CustomCall { target: hint.name.clone(), attributes }, &owned(operands), vec![], made)
}

fn owned(operands: &[&Value]) -> Vec<Value> {
    operands.iter().map(|&operand| operand.clone()).collect()
}
