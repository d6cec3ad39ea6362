//! The cases, one file per kind of primitive. Every type that shape inference allows for an operation is tried.

mod attention;
mod composite;
mod contract;
mod control;
mod convolution;
mod elementwise;
mod gradient;
mod index;
mod library;
mod movement;
mod reduce;
mod source;
mod window;

use crate::Case;
use octant_graph::DType;

/// The float types.
const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// A few types that stand for all where an operation only moves elements of some width.
const WIDTHS: [DType; 5] = [DType::Bool, DType::U8, DType::BF16, DType::F32, DType::I64];

/// A group of cases: its name and what makes them.
pub type CaseGroup = (&'static str, fn() -> Vec<Case>);

/// Every group. A case's name begins with its group's.
pub const GROUPS: &[CaseGroup] = &[
    ("source", source::cases),
    ("unary", elementwise::unary),
    ("binary", elementwise::binary),
    ("compare", elementwise::compare),
    ("choice", elementwise::choice),
    ("convert", elementwise::convert),
    ("movement", movement::cases),
    ("reduce", reduce::cases),
    ("window", window::cases),
    ("dot", contract::cases),
    ("convolution", convolution::cases),
    ("index", index::cases),
    ("control", control::cases),
    ("composite", || [composite::cases(), library::cases()].concat()),
    ("gradient", gradient::cases),
    ("attention", attention::cases),
];

/// All cases of all groups, except the randomly generated graphs.
pub fn all() -> Vec<Case> {
    GROUPS.iter().flat_map(|(_, make)| make()).collect()
}

/// The cases of one group.
pub fn group(name: &str) -> Vec<Case> {
    GROUPS.iter().filter(|(group, _)| *group == name).flat_map(|(_, make)| make()).collect()
}
