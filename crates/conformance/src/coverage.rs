//! Which kinds of operations the cases contain. The test below fails until a new primitive has a case.

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
        let kind = node.op.kind();
        kinds.insert(kind.to_string());
        if let Op::Unary(_) | Op::Binary(_) = node.op {
            kinds.insert(format!("{kind} {}", node.op.name()));
        } else if let Op::Compare(comparison) = node.op {
            kinds.insert(format!("{kind} {}", comparison.name()));
        } else if let Op::Reduce { kind: how, .. } | Op::ReduceWindow { kind: how, .. } = &node.op {
            kinds.insert(format!("{kind} {}", reduction_name(how)));
        } else if let Op::Scatter(scatter) = &node.op {
            kinds.insert(format!("{kind} {}", scatter_name(&scatter.kind)));
        }
        node.op.bodies().into_iter().for_each(|(_, body)| collect(body, kinds));
    }
}

/// Every kind that must have a case.
pub fn all_kinds() -> BTreeSet<String> {
    let ops = Op::KINDS.iter().map(|name| name.to_string());
    let unary = Unary::ALL.iter().map(|unary| format!("unary {}", unary.name()));
    let binary = Binary::ALL.iter().map(|binary| format!("binary {}", binary.name()));
    let comparisons = Comparison::ALL.iter().map(|comparison| format!("compare {}", comparison.name()));
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
