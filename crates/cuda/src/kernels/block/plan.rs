//! Which values of a region are made in which order, and where they are kept.

use super::step::{Step, Steps};
use octant_graph::ValueId;
use std::collections::{BTreeMap, HashMap};

/// The most elements of a value that a block computes, and of one that it only sums.
pub const MOST_ELEMENTS: usize = 1 << 13;
pub const MOST_ADDED: usize = 1 << 14;

/// A value that is made by a loop of its own: a reduction, an output, or one that several of these read.
#[derive(Debug)]
pub struct Root<'s> {
    pub step: &'s Step,
    /// It reads what earlier phases have made.
    pub phase: usize,
    /// Its offset among the floats that threads share, if others read it.
    pub kept: Option<usize>,
    /// The offset of the threads' parts of a reduction.
    pub parts: Option<usize>,
    /// Which output it is.
    pub output: Option<usize>,
}

/// The roots of a region, and how many floats they share.
pub struct Plan<'s> {
    pub roots: Vec<Root<'s>>,
    pub floats: usize,
}

/// Into how many parts a reduction is divided, so that all threads have work: a power of two.
pub fn lanes(steps: &Steps, step: &Step, threads: usize) -> usize {
    let outputs = steps.elements(step.result);
    let each = step.operands.first().map_or(1, |&operand| steps.elements(operand) / outputs);
    let most = (threads / outputs).min(each).max(1);
    1 << most.ilog2()
}

/// The stride between the parts of so many outputs, so that threads write to different banks in either order.
pub fn stride(outputs: usize) -> usize {
    outputs | 1
}

impl<'s> Plan<'s> {
    /// For these computed steps, in order.
    pub fn of(steps: &'s Steps, members: &[&'s Step], outputs: &[ValueId], threads: usize) -> Plan<'s> {
        let number: HashMap<ValueId, usize> =
            members.iter().enumerate().map(|(number, step)| (step.result, number)).collect();
        // By member: the roots that read it, perhaps through other members that are no roots, and whether they read it
        // anywhere else than at the position that they make.
        let mut readers: Vec<BTreeMap<usize, bool>> = vec![BTreeMap::new(); members.len()];
        let mut is_root = vec![false; members.len()];
        for (member, &step) in members.iter().enumerate().rev() {
            let is_small = steps.elements(step.result) <= MOST_ELEMENTS;
            let is_output = outputs.contains(&step.result);
            is_root[member] = step.is_reduction() || is_output || (is_small && readers[member].len() > 1);
            let mut behind = if is_root[member] && is_small { BTreeMap::new() } else { readers[member].clone() };
            behind.extend(is_root[member].then_some((member, step.is_reduction())));
            for &operand in &step.operands {
                let Some(base) = steps.base(operand) else { continue };
                let Some(&source) = number.get(&base) else { continue };
                for (&reader, &elsewhere) in &behind {
                    *readers[source].entry(reader).or_default() |= elsewhere || base != operand;
                }
            }
        }

        let mut phases = vec![0; members.len()];
        let mut roots = Vec::new();
        for (member, &step) in members.iter().enumerate().filter(|(member, _)| is_root[*member]) {
            // Threads wait for each other, but not for themselves.
            for (&reader, &elsewhere) in &readers[member] {
                phases[reader] = phases[reader].max(phases[member] + usize::from(elsewhere || step.is_reduction()));
            }
            let output = outputs.iter().position(|&output| output == step.result);
            roots.push((member, Root { step, phase: phases[member], kept: None, parts: None, output }));
        }
        roots.sort_by_key(|(member, root)| (root.phase, *member));
        let mut memory = SharedMemory::default();
        for (member, root) in &mut roots {
            let (elements, lanes) = (steps.elements(root.step.result), lanes(steps, root.step, threads));
            let is_divided = root.step.is_reduction() && lanes > 1;
            root.parts = is_divided.then(|| memory.take(lanes * stride(elements), root.phase, root.phase));
            let last = readers[*member].keys().map(|&reader| phases[reader]).max();
            let last = last.filter(|&last| last > root.phase && elements <= MOST_ELEMENTS);
            root.kept = last.map(|last| memory.take(elements, root.phase, last));
        }
        Plan { roots: roots.into_iter().map(|(_, root)| root).collect(), floats: memory.floats }
    }
}

/// Shared memory, reused when it is no longer read.
#[derive(Default)]
struct SharedMemory {
    /// Where each slot begins and ends, and the last phase that reads it.
    taken: Vec<([usize; 2], usize)>,
    floats: usize,
}

impl SharedMemory {
    /// The offset of so many floats from one phase to another. Phases come in their order.
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
