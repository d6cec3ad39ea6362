//! Nodes as steps of a thread block: functions of elements, reductions, and moves.

use crate::c;
use octant_graph::{DType, Graph, Node, Op, OpClass, Reduction, ValueId};

/// What a node computes from its operands.
#[derive(Debug, Clone)]
pub struct Step {
    pub action: Action,
    pub operands: Vec<ValueId>,
    pub result: ValueId,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// One value everywhere.
    Constant(f64),
    /// A function of the operands' elements at the same position.
    Map(Op),
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
    /// The step of a node, if a thread block knows how to compute it.
    pub fn of(graph: &Graph, node: &Node) -> Option<Step> {
        let &[result] = &node.outputs[..] else { return None };
        let shape = graph.shape(result);
        let action = match &node.op {
            Op::Constant(tensor) => Action::Constant(c::uniform(tensor)?),
            op @ (Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp | Op::Convert(_)) => {
                Action::Map(op.clone())
            }
            // Axes of length 1 only disappear.
            Op::Reduce { .. } if graph.shape(node.inputs[0]).elements() == shape.elements() => Action::Reshape,
            Op::Reduce { kind, axes } => Action::Reduce { kind: *kind, axes: axes.clone() },
            Op::Reshape { .. } => Action::Reshape,
            // A call cannot be fused with what it reads, so it needs no barrier.
            Op::Barrier if node.inputs.len() == 1 => Action::Reshape,
            Op::Broadcast { axes, .. } => Action::Broadcast { axes: axes.clone() },
            Op::Transpose { permutation } => Action::Transpose { permutation: permutation.clone() },
            Op::Slice { starts, strides, .. } => Action::Slice { starts: starts.clone(), strides: strides.clone() },
            // A thread block has no rule for it.
            op => match op.class() {
                OpClass::Source | OpClass::Elementwise | OpClass::View | OpClass::Join => return None,
                OpClass::Reduction | OpClass::Whole | OpClass::Control | OpClass::Barrier => return None,
            },
        };
        let step = Step { action, operands: node.inputs.clone(), result };
        step.is_known(graph).then_some(step)
    }

    /// Whether the C text of a block has a word for it.
    fn is_known(&self, graph: &Graph) -> bool {
        let dtype = |value: ValueId| graph.shape(value).dtype();
        let known_types = self.operands.iter().chain([&self.result]).all(|&value| c::c_type(dtype(value)).is_some());
        let known_action = match &self.action {
            Action::Map(op) => {
                let operands = vec!["x"; self.operands.len()];
                self.operands.first().is_some_and(|&first| c::expression(op, &operands, dtype(first)).is_some())
            }
            Action::Reduce { kind, .. } => {
                matches!(kind, Reduction::Sum | Reduction::Max) && dtype(self.result) == DType::F32
            }
            Action::Constant(value) => c::literal(*value, dtype(self.result)).is_some(),
            Action::Reshape | Action::Broadcast { .. } | Action::Transpose { .. } | Action::Slice { .. } => {
                graph.shape(self.result).elements() > 0
            }
        };
        known_types && known_action
    }

    /// Whether it computes nothing: what reads it can as well read what it is made from.
    pub fn is_move(&self) -> bool {
        !matches!(self.action, Action::Map(_) | Action::Reduce { .. })
    }

    pub fn is_reduction(&self) -> bool {
        matches!(self.action, Action::Reduce { .. })
    }
}

/// The steps of a graph, by the values that they make.
pub struct Steps<'g> {
    pub graph: &'g Graph,
    steps: Vec<Option<Step>>,
}

impl<'g> Steps<'g> {
    pub fn of(graph: &'g Graph) -> Steps<'g> {
        let mut steps = vec![None; graph.values().len()];
        for step in graph.nodes().iter().filter_map(|node| Step::of(graph, node)) {
            let result = step.result.index();
            steps[result] = Some(step);
        }
        Steps { graph, steps }
    }

    pub fn step(&self, value: ValueId) -> Option<&Step> {
        self.steps[value.index()].as_ref()
    }

    /// The step of a value that is only moved.
    pub fn moved(&self, value: ValueId) -> Option<&Step> {
        self.step(value).filter(|step| step.is_move())
    }

    /// The step of a value that is computed.
    pub fn computed(&self, value: ValueId) -> Option<&Step> {
        self.step(value).filter(|step| !step.is_move())
    }

    /// The value behind moves; none for constants.
    pub fn base(&self, mut value: ValueId) -> Option<ValueId> {
        while let Some(step) = self.moved(value) {
            value = *step.operands.first()?;
        }
        Some(value)
    }

    pub fn elements(&self, value: ValueId) -> usize {
        self.graph.shape(value).elements()
    }

    pub fn dims(&self, value: ValueId) -> &[usize] {
        self.graph.shape(value).dims()
    }
}
