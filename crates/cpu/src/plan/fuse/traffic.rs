//! Stored values that cost more memory traffic than they save.
//!
//! Whether a value is worth storing depends on what else is stored. So first everything is stored that is read by several
//! loops and takes several operands; then, with that known, each of those values is looked at again: loops often have its
//! operands at hand anyway. The gradient of an activation is the typical one: the norm below it reads the same operands
//! twice, first for its sums and then for its result.

use super::{EXPENSIVE, LONGEST, Role, own_cost, role};
use octant_graph::{Graph, Op, ValueId};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Takes out of `stored` what is not `needed` and does not save traffic.
pub(super) fn drop_needless(graph: &Graph, needed: &HashSet<ValueId>, stored: &mut HashSet<ValueId>) {
    let mut users: Vec<Vec<ValueId>> = vec![Vec::new(); graph.values().len()];
    for node in graph.nodes() {
        for &input in &node.inputs {
            users[input.index()].extend(node.outputs.first());
        }
    }
    for node in graph.nodes().iter().rev() {
        let Some(&value) = node.outputs.first() else { continue };
        let optional = stored.contains(&value) && !needed.contains(&value) && role(&node.op) == Role::Fusible;
        if optional && is_needless(graph, stored, &users, value) {
            stored.remove(&value);
        }
    }
}

fn is_needless(graph: &Graph, stored: &mut HashSet<ValueId>, users: &[Vec<ValueId>], value: ValueId) -> bool {
    if Work::of(graph, stored, &[value]).arithmetic > EXPENSIVE {
        return false;
    }
    let loops = loops_of(graph, stored, users, value);
    let kept: Vec<Work> = loops.iter().map(|goals| Work::of(graph, stored, goals)).collect();
    stored.remove(&value);
    let inlined: Vec<Work> = loops.iter().map(|goals| Work::of(graph, stored, goals)).collect();
    stored.insert(value);
    let bytes = |work: &[Work]| work.iter().map(|work| work.bytes).sum::<usize>();
    let size = graph.shape(value).bytes();
    // Memory is read before it is written, so a store costs twice its size; a little more for what is small.
    let saved = bytes(&inlined).saturating_sub(bytes(&kept));
    saved <= 2 * size + size / 4 && inlined.iter().all(|work| work.arithmetic <= LONGEST && work.reads <= 10)
}

/// The loops that read a value, each as the stored values it computes. Reductions of one shape over the same axes are
/// one loop.
fn loops_of(graph: &Graph, stored: &HashSet<ValueId>, users: &[Vec<ValueId>], value: ValueId) -> Vec<Vec<ValueId>> {
    let mut seen = BTreeSet::new();
    let mut open = users[value.index()].clone();
    let mut loops: Vec<Vec<ValueId>> = Vec::new();
    let mut sums: BTreeMap<(Vec<usize>, Vec<usize>), Vec<ValueId>> = BTreeMap::new();
    while let Some(user) = open.pop() {
        if !seen.insert(user) {
            continue;
        }
        let node = graph.producer(user);
        if let Op::Reduce { axes, .. } = &node.op {
            let dims = graph.shape(node.inputs[0]).dims().to_vec();
            sums.entry((dims, axes.clone())).or_default().push(user);
        } else if stored.contains(&user) {
            loops.push(vec![user]);
        } else {
            open.extend(users[user.index()].iter().copied());
        }
    }
    loops.extend(sums.into_values());
    loops
}

/// What a loop takes.
struct Work {
    arithmetic: u32,
    /// Stored values that it reads, and their bytes.
    reads: usize,
    bytes: usize,
}

impl Work {
    /// Of the loop that computes `goals` from stored values.
    fn of(graph: &Graph, stored: &HashSet<ValueId>, goals: &[ValueId]) -> Work {
        let mut work = Work { arithmetic: 0, reads: 0, bytes: 0 };
        let mut seen = HashSet::new();
        let mut open: Vec<ValueId> = goals.iter().flat_map(|&goal| graph.producer(goal).inputs.clone()).collect();
        work.arithmetic += goals.iter().map(|&goal| own_cost(&graph.producer(goal).op)).sum::<u32>();
        let largest = open.iter().map(|&operand| graph.shape(operand).bytes()).max().unwrap_or(0);
        while let Some(operand) = open.pop() {
            if !seen.insert(operand) {
                continue;
            }
            if stored.contains(&operand) {
                let bytes = graph.shape(operand).bytes();
                work.reads += usize::from(bytes * 2 > largest);
                work.bytes += bytes;
                continue;
            }
            let node = graph.producer(operand);
            work.arithmetic = work.arithmetic.saturating_add(own_cost(&node.op));
            open.extend(node.inputs.iter().copied());
        }
        work
    }
}
