//! Fusion: which values are stored, and which exist only in registers of loops.
//!
//! Memory is slow and arithmetic is cheap: writing and reading one f32 costs as much as dozens of vector operations.
//! So element-wise values and movements are computed again in every loop that needs them, unless that would cost much arithmetic or
//! would read more than the stored value itself.

mod joins;
mod traffic;

pub(crate) use joins::through_merge;

use octant_graph::{DType, Graph, HostTensor, Op, OpClass, ValueId};
use std::collections::{BTreeSet, HashSet};

/// A value whose arithmetic costs more than this is stored once rather than computed in several loops.
const EXPENSIVE: u32 = 40;
/// A loop with more instructions than this would no longer keep its registers in the first-level cache.
const LONGEST: u32 = 120;

/// How an operation takes part in loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Computed in loops.
    Fusible,
    /// Ends a loop: its result is stored, its operand need not be.
    Reduction,
    /// The same memory under another shape, when its operand is stored.
    Alias,
    /// A kernel of its own over stored operands.
    Kernel,
}

pub(crate) fn role(op: &Op) -> Role {
    match op.class() {
        OpClass::Source => {
            let is_immediate = matches!(op, Op::Constant(tensor) if is_immediate(tensor));
            if is_immediate || matches!(op, Op::Iota { .. }) { Role::Fusible } else { Role::Kernel }
        }
        OpClass::Elementwise if matches!(op, Op::Bitcast(_)) => Role::Alias,
        OpClass::Elementwise | OpClass::View => Role::Fusible,
        // Joins write several loops into one result; their operands need not be stored.
        OpClass::Reduction | OpClass::Join => Role::Reduction,
        OpClass::Barrier => Role::Alias,
        OpClass::Whole | OpClass::Control => Role::Kernel,
    }
}

/// Whether a constant is a scalar that a double holds exactly, so that it can be part of a loop.
pub(crate) fn is_immediate(tensor: &HostTensor) -> bool {
    let wide = matches!(tensor.dtype(), DType::I64 | DType::U64);
    tensor.shape().rank() == 0 && (!wide || tensor.to_f64s()[0].abs() < 9e15)
}

fn own_cost(op: &Op) -> u32 {
    if let Op::Unary(unary) = op {
        unary.cost()
    } else if let Op::Binary(binary) = op {
        binary.cost()
    } else {
        let moves = matches!(op, Op::Broadcast { .. } | Op::Reshape { .. } | Op::Transpose { .. });
        if moves || matches!(op, Op::Constant(_) | Op::Iota { .. }) { 0 } else { 1 }
    }
}

/// The set of values that are stored. `forced` ones are stored whatever the cost says.
pub(crate) fn stored_values(graph: &Graph, forced: &HashSet<ValueId>) -> HashSet<ValueId> {
    let mut stored = forced.clone();
    stored.extend(graph.outputs().iter().copied());
    let placed = joins::placed(graph, &stored);
    for node in graph.nodes() {
        match role(&node.op) {
            Role::Kernel => stored.extend(node.inputs.iter().chain(&node.outputs).copied()),
            Role::Alias => stored.extend(node.inputs.iter().chain(&node.outputs).copied()),
            Role::Reduction => stored.extend(node.outputs.iter().copied().filter(|output| !placed.contains(output))),
            Role::Fusible => {}
        }
        // A loop over the larger value would compute the smaller one again and again.
        let repeats = matches!(node.op, Op::Broadcast { .. })
            && graph.shape(node.outputs[0]).elements() > graph.shape(node.inputs[0]).elements();
        if repeats && is_computed(graph, node.inputs[0]) {
            stored.insert(node.inputs[0]);
        }
    }
    let needed = stored.clone();
    let costs = costs(graph, &stored);
    store_expensive_values(graph, &costs, &mut stored);
    traffic::drop_needless(graph, &needed, &mut stored);
    // A reshape of stored memory is the same memory.
    for node in graph.nodes() {
        if matches!(node.op, Op::Reshape { .. }) && stored.contains(&node.inputs[0]) {
            stored.insert(node.outputs[0]);
        }
    }
    stored
}

/// Whether a value takes arithmetic, rather than being memory, a movement of memory or a constant.
fn is_computed(graph: &Graph, value: ValueId) -> bool {
    let node = graph.producer(value);
    match &node.op {
        Op::Broadcast { .. } | Op::Reshape { .. } | Op::Transpose { .. } | Op::Slice { .. } | Op::Reverse { .. } => {
            is_computed(graph, node.inputs[0])
        }
        Op::Constant(_) | Op::Iota { .. } | Op::Parameter { .. } => false,
        other => role(other) == Role::Fusible,
    }
}

/// What computing a value inside of a loop takes: arithmetic, and the stored values that are read.
struct Cost {
    arithmetic: u32,
    reads: BTreeSet<ValueId>,
}

fn costs(graph: &Graph, stored: &HashSet<ValueId>) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::with_capacity(graph.values().len());
    for node in graph.nodes() {
        let mut arithmetic = own_cost(&node.op);
        let mut reads = BTreeSet::new();
        for &input in &node.inputs {
            if stored.contains(&input) {
                reads.insert(input);
            } else {
                arithmetic = arithmetic.saturating_add(costs[input.index()].arithmetic);
                reads.extend(costs[input.index()].reads.iter().copied().take(16));
            }
        }
        for _ in &node.outputs {
            costs.push(Cost { arithmetic, reads: reads.clone() });
        }
    }
    costs
}

/// Visits nodes in reverse order, so that it is known in how many loops a value would be computed.
fn store_expensive_values(graph: &Graph, costs: &[Cost], stored: &mut HashSet<ValueId>) {
    let mut loops: Vec<BTreeSet<ValueId>> = vec![BTreeSet::new(); graph.values().len()];
    for node in graph.nodes().iter().rev() {
        let Some(&output) = node.outputs.first() else { continue };
        if role(&node.op) == Role::Fusible && !stored.contains(&output) {
            let cost = &costs[output.index()];
            let size = graph.shape(output).bytes();
            let large_reads = cost.reads.iter().filter(|&&read| graph.shape(read).bytes() * 2 > size).count();
            let is_expensive = cost.arithmetic > EXPENSIVE || large_reads > 1;
            if (loops[output.index()].len() > 1 && is_expensive) || cost.arithmetic > LONGEST || large_reads > 10 {
                stored.insert(output);
            }
        }
        let own: BTreeSet<ValueId> = match role(&node.op) {
            Role::Fusible if !stored.contains(&output) => loops[output.index()].clone(),
            _ => BTreeSet::from([output]),
        };
        for &input in &node.inputs {
            loops[input.index()].extend(own.iter().copied().take(4));
        }
    }
}
