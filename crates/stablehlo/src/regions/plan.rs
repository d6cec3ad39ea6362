//! Which values of a region are made in which order, and where they are kept.

use super::MOST_ELEMENTS;
use crate::function::Named;
use crate::step::{Action, Step};
use std::collections::{BTreeMap, HashMap};

/// A value that is made by a loop of its own: a reduction, a result, or one that several of these read.
#[derive(Debug)]
pub struct Root<'l> {
    pub step: &'l Step,
    /// It reads what earlier phases have made.
    pub phase: usize,
    /// Where it lies among the floats that threads share, if others read it.
    pub kept: Option<usize>,
    /// Where the threads leave their parts of a reduction.
    pub parts: Option<usize>,
    /// Which result it is.
    pub result: Option<usize>,
}

/// The roots of a region, and how many floats they share.
pub struct Plan<'l> {
    pub roots: Vec<Root<'l>>,
    pub floats: usize,
}

/// The value that shows through steps that only move; none for constants.
pub fn base<'a>(mut value: &'a Named, moves: &HashMap<&str, &'a Step>) -> Option<&'a Named> {
    while let Some(step) = moves.get(value.name.as_str()) {
        value = step.operands.first()?;
    }
    Some(value)
}

/// Into how many parts a reduction is divided, so that all threads have work: a power of two.
pub fn lanes(step: &Step, threads: usize) -> usize {
    let outputs = step.result.shape.elements();
    let each = step.operands.first().map_or(1, |operand| operand.shape.elements() / outputs);
    let most = (threads / outputs).min(each).max(1);
    1 << most.ilog2()
}

/// How far the parts of so many outputs lie from each other: threads write side by side, whichever way they are counted.
pub fn stride(outputs: usize) -> usize {
    outputs | 1
}

impl<'l> Plan<'l> {
    pub fn of(members: &[&'l Step], results: &[&Named], moves: &HashMap<&str, &'l Step>, threads: usize) -> Plan<'l> {
        let number: HashMap<&str, usize> =
            members.iter().enumerate().map(|(number, step)| (step.result.name.as_str(), number)).collect();
        // By member: the roots that read it, perhaps through other members that are no roots, and whether they read it
        // anywhere else than in the place that they make.
        let mut readers: Vec<BTreeMap<usize, bool>> = vec![BTreeMap::new(); members.len()];
        let mut is_root = vec![false; members.len()];
        for (member, &step) in members.iter().enumerate().rev() {
            let is_small = step.result.shape.elements() <= MOST_ELEMENTS;
            let is_result = results.iter().any(|result| result.name == step.result.name);
            let is_reduction = matches!(step.action, Action::Reduce { .. });
            is_root[member] = is_reduction || is_result || (is_small && readers[member].len() > 1);
            let mut behind = if is_root[member] && is_small { BTreeMap::new() } else { readers[member].clone() };
            behind.extend(is_root[member].then_some((member, is_reduction)));
            for operand in &step.operands {
                let Some(base) = base(operand, moves) else { continue };
                let Some(&source) = number.get(base.name.as_str()) else { continue };
                for (&reader, &elsewhere) in &behind {
                    *readers[source].entry(reader).or_default() |= elsewhere || base.name != operand.name;
                }
            }
        }

        let mut phases = vec![0; members.len()];
        let mut roots = Vec::new();
        for (member, &step) in members.iter().enumerate().filter(|(member, _)| is_root[*member]) {
            // Threads wait for each other, but not for themselves.
            let is_divided = matches!(step.action, Action::Reduce { .. });
            for (&reader, &elsewhere) in &readers[member] {
                phases[reader] = phases[reader].max(phases[member] + usize::from(elsewhere || is_divided));
            }
            let result = results.iter().position(|result| result.name == step.result.name);
            roots.push((member, Root { step, phase: phases[member], kept: None, parts: None, result }));
        }
        roots.sort_by_key(|(member, root)| (root.phase, *member));
        let mut rooms = Rooms::default();
        for (member, root) in &mut roots {
            let (elements, lanes) = (root.step.result.shape.elements(), lanes(root.step, threads));
            let is_divided = matches!(root.step.action, Action::Reduce { .. }) && lanes > 1;
            root.parts = is_divided.then(|| rooms.take(lanes * stride(elements), root.phase, root.phase));
            let last = readers[*member].keys().map(|&reader| phases[reader]).max();
            let last = last.filter(|&last| last > root.phase && elements <= MOST_ELEMENTS);
            root.kept = last.map(|last| rooms.take(elements, root.phase, last));
        }
        Plan { roots: roots.into_iter().map(|(_, root)| root).collect(), floats: rooms.floats }
    }
}

/// Memory that is given again when it is no longer read.
#[derive(Default)]
struct Rooms {
    /// Where each begins and ends, and the last phase that reads it.
    taken: Vec<([usize; 2], usize)>,
    floats: usize,
}

impl Rooms {
    /// So many floats from one phase to another. Phases come in their order.
    fn take(&mut self, floats: usize, from: usize, to: usize) -> usize {
        self.taken.retain(|&(_, last)| last >= from);
        self.taken.sort_unstable();
        let mut start = 0;
        for &([first, end], _) in &self.taken {
            if first >= start + floats {
                break;
            }
            start = start.max(end);
        }
        self.taken.push(([start, start + floats], to));
        self.floats = self.floats.max(start + floats);
        start
    }
}
