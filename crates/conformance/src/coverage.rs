//! Which kinds of operations the cases contain. A new primitive does not compile until it is listed here, and the test
//! below fails until it has a case.

use crate::Case;
use octant_graph::{Binary, Comparison, Graph, Op, Reduction, ScatterKind, Unary};
use std::collections::BTreeSet;

/// One list makes both the exhaustive match and the list of what must appear.
macro_rules! listed {
    ($function:ident, $all:ident, $type:ty, $($pattern:pat => $name:literal),* $(,)?) => {
        fn $function(item: &$type) -> &'static str {
            match item { $($pattern => $name),* }
        }
        const $all: &[&str] = &[$($name),*];
    };
}

listed!(op_name, OPS, Op,
    Op::Parameter { .. } => "parameter", Op::Constant(_) => "constant", Op::Iota { .. } => "iota",
    Op::Unary(_) => "unary", Op::Binary(_) => "binary", Op::Compare(_) => "compare", Op::Select => "select",
    Op::Clamp => "clamp", Op::Convert(_) => "convert", Op::Bitcast(_) => "bitcast", Op::Broadcast { .. } => "broadcast",
    Op::Reshape { .. } => "reshape", Op::Transpose { .. } => "transpose", Op::Reverse { .. } => "reverse",
    Op::Slice { .. } => "slice", Op::DynamicSlice { .. } => "dynamic_slice",
    Op::DynamicUpdateSlice => "dynamic_update_slice", Op::Pad { .. } => "pad", Op::Concatenate { .. } => "concatenate",
    Op::Reduce { .. } => "reduce", Op::ArgReduce { .. } => "arg_reduce", Op::ReduceWindow { .. } => "reduce_window",
    Op::SelectAndScatter { .. } => "select_and_scatter", Op::Dot(_) => "dot", Op::Convolution(_) => "convolution",
    Op::Gather(_) => "gather", Op::Scatter(_) => "scatter", Op::Sort { .. } => "sort", Op::While { .. } => "while",
    Op::If { .. } => "if", Op::Call { .. } => "call", Op::Barrier => "barrier", Op::RandomBits { .. } => "random_bits",
);

listed!(reduction_name, REDUCTIONS, Reduction,
    Reduction::Sum => "sum", Reduction::Product => "product", Reduction::Max => "max", Reduction::Min => "min",
    Reduction::And => "and", Reduction::Or => "or",
);

listed!(scatter_name, SCATTERS, ScatterKind,
    ScatterKind::Set => "set", ScatterKind::Add => "add", ScatterKind::Multiply => "multiply", ScatterKind::Min => "min",
    ScatterKind::Max => "max",
);

/// The kinds of operations in some cases, bodies included, such as `unary exp` or `reduce sum`.
pub fn kinds_in(cases: &[Case]) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    cases.iter().for_each(|case| collect(&case.graph, &mut kinds));
    kinds
}

fn collect(graph: &Graph, kinds: &mut BTreeSet<String>) {
    for node in graph.nodes() {
        let name = op_name(&node.op);
        kinds.insert(name.to_string());
        let variant = match &node.op {
            Op::Unary(unary) => unary.name().to_string(),
            Op::Binary(binary) => binary.name().to_string(),
            Op::Compare(comparison) => format!("{comparison:?}"),
            Op::Reduce { kind, .. } | Op::ReduceWindow { kind, .. } => reduction_name(kind).to_string(),
            Op::Scatter(scatter) => scatter_name(&scatter.kind).to_string(),
            _ => String::new(),
        };
        kinds.insert(format!("{name} {variant}").trim_end().to_string());
        match &node.op {
            Op::While { condition, body, .. } => [condition, body].into_iter().for_each(|body| collect(body, kinds)),
            Op::If { then, otherwise } => [then, otherwise].into_iter().for_each(|body| collect(body, kinds)),
            Op::Call { body, .. } => collect(body, kinds),
            _ => {}
        }
    }
}

/// Every kind that must have a case.
pub fn all_kinds() -> BTreeSet<String> {
    let ops = OPS.iter().map(|name| name.to_string());
    let unary = Unary::ALL.iter().map(|unary| format!("unary {}", unary.name()));
    let binary = Binary::ALL.iter().map(|binary| format!("binary {}", binary.name()));
    let comparisons = Comparison::ALL.iter().map(|comparison| format!("compare {comparison:?}"));
    let reductions = REDUCTIONS.iter().flat_map(|name| [format!("reduce {name}"), format!("reduce_window {name}")]);
    let scatters = SCATTERS.iter().map(|name| format!("scatter {name}"));
    ops.chain(unary).chain(binary).chain(comparisons).chain(reductions).chain(scatters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    #[test]
    fn every_kind_of_operation_has_a_case() {
        let present = kinds_in(&cases::all());
        let missing: Vec<String> = all_kinds().into_iter().filter(|kind| !present.contains(kind)).collect();
        assert!(missing.is_empty(), "no case contains {missing:?}");
    }

    #[test]
    fn names_are_unique_and_begin_with_their_group() {
        let mut names = BTreeSet::new();
        for (group, make) in cases::GROUPS {
            for case in make() {
                assert_eq!(case.group(), *group, "{}", case.name);
                assert!(names.insert(case.name.clone()), "{} appears twice", case.name);
            }
        }
    }
}
