//! What single lines compute, for those who compute it in another way.

use crate::function::Named;
use octant_graph::Reduction;

/// A line as an operation on values.
#[derive(Debug, Clone)]
pub struct Step {
    pub action: Action,
    pub operands: Vec<Named>,
    pub result: Named,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// One value everywhere.
    Constant(f64),
    /// A function of elements in the same place, by its name in StableHLO or, for comparisons, by their direction.
    Map(String),
    Reduce {
        kind: Reduction,
        axes: Vec<usize>,
    },
    /// The elements in their order, perhaps in another shape.
    Reshape,
    Broadcast {
        axes: Vec<usize>,
    },
    Transpose {
        permutation: Vec<usize>,
    },
    Slice {
        starts: Vec<usize>,
        strides: Vec<usize>,
    },
}

impl Step {
    /// Whether it computes nothing: whoever reads it can as well read what it is made from.
    pub fn only_moves(&self) -> bool {
        !matches!(self.action, Action::Map(_) | Action::Reduce { .. })
    }
}
