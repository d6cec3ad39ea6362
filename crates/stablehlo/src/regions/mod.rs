//! Regions of small operations, each of which becomes one call (`octant-cuda`, `small`).
//!
//! XLA's GPU compiler never fuses across reductions, so what lies between two large operations of a network, such as the
//! coefficients of a norm or the small dense layers of attention, becomes dozens of kernels that take a microsecond and a
//! half each, whatever they do. One thread block computes all of them in a row.
//!
//! Every operation has a level, which never falls from what it reads to what it makes, and rises wherever a small operation
//! reads something that is not small. Small operations of one level that read each other are a region. What leaves a region
//! therefore never comes back into it: on the way it would pass an operation that is not small and return at a higher level,
//! or only small ones of the same level, which belong to the region themselves. For the same reason two regions never wait
//! for each other, and calls can take their places.
//!
//! Operations that only move elements belong to nobody: whoever reads one can as well read what it is made from, so regions
//! write them out, and a line of its own stays for everyone else.
//!
//! Start reading at [`gathered`], then `block` for the C text of a region.

mod block;
mod coordinates;
mod elements;
mod loops;
mod plan;
mod rewrite;
#[cfg(test)]
mod tests;
mod units;

use crate::element;
use crate::function::{Line, Named};
use crate::step::{Action, Step};
use block::Block;
use octant_graph::Reduction;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use units::{Unit, units};

/// What a block makes has so many elements at most, what it reads from elsewhere so many, and what it only adds up so many: one
/// processor makes more elements in time than it can read.
const MOST_ELEMENTS: usize = 1 << 13;
const MOST_READ: usize = 1 << 14;
const MOST_ADDED: usize = 1 << 14;

/// Fewer than so many reductions are fused by the compiler as well.
const FEWEST_REDUCTIONS: usize = 2;

/// Small operations that are computed by one call.
pub struct Region<'l> {
    /// Those of the members, in their order.
    units: Vec<usize>,
    /// What others read.
    results: Vec<&'l Named>,
    block: Block<'l>,
}

/// The lines of a function with calls in the place of regions. Some results take over the memory of arguments.
pub fn gathered(lines: Vec<Line>, taken_over: &[(String, String)]) -> Vec<Line> {
    let (units, makers) = units(&lines);
    let regions = Flow::new(&units, &makers, taken_over).regions();
    match regions.is_empty() {
        true => lines,
        false => rewrite::rewritten(&units, &makers, &regions),
    }
}

/// Units with what they are to each other.
struct Flow<'u, 'l> {
    units: &'u [Unit<'l>],
    /// The unit that defines a name.
    makers: &'u HashMap<&'l str, usize>,
    taken_over: &'u [(String, String)],
    /// By name: steps that only move.
    moves: HashMap<&'l str, &'l Step>,
    /// By unit: those that make what it reads, looking through steps that only move.
    sources: Vec<Vec<usize>>,
    /// The other way round, without steps that only move.
    readers: Vec<Vec<usize>>,
    small: Vec<bool>,
    /// Whether only small reductions read a unit, perhaps through functions of its elements.
    only_added: Vec<bool>,
}

impl<'u, 'l> Flow<'u, 'l> {
    fn new(
        units: &'u [Unit<'l>],
        makers: &'u HashMap<&'l str, usize>,
        taken_over: &'u [(String, String)],
    ) -> Flow<'u, 'l> {
        let moving: Vec<Option<&Step>> =
            units.iter().map(|unit| unit.step().filter(|step| step.only_moves() && is_known(step))).collect();
        let mut sources: Vec<Vec<usize>> = Vec::new();
        let mut readers = vec![vec![]; units.len()];
        for (number, unit) in units.iter().enumerate() {
            let through = |&read: &usize| if moving[read].is_some() { sources[read].clone() } else { vec![read] };
            let mut own: Vec<usize> = unit.reads.iter().flat_map(through).collect();
            own.sort_unstable();
            own.dedup();
            if moving[number].is_none() {
                own.iter().for_each(|&source| readers[source].push(number));
            }
            sources.push(own);
        }
        let moves = moving.into_iter().flatten().map(|step| (step.result.name.as_str(), step)).collect();
        let small = units.iter().map(|unit| unit.step().is_some_and(|step| !step.only_moves() && is_known(step)));
        let small: Vec<bool> = small.collect();
        let only_added = vec![false; units.len()];
        let mut flow = Flow { units, makers, taken_over, moves, sources, readers, small, only_added };
        // What is not small may be what makes others too large.
        while flow.leaves_out_more() {}
        flow
    }

    fn leaves_out_more(&mut self) -> bool {
        let mut any = false;
        for number in (0..self.units.len()).rev().filter(|&number| self.units[number].step().is_some()) {
            self.only_added[number] = self.is_only_added(number);
            let stays = self.small[number] && self.is_small(number);
            any |= stays != self.small[number];
            self.small[number] = stays;
        }
        any
    }

    /// Whether a block may compute a unit, given which of those that it reads and that read it are small.
    fn is_small(&self, number: usize) -> bool {
        let Some(step) = self.units[number].step() else { return false };
        let fits = |value: &Named, most| (1..=most).contains(&value.shape.elements());
        let operand_fits = |operand: &Named| {
            let Some(base) = plan::base(operand, &self.moves) else { return fits(operand, MOST_ADDED) };
            let is_made = self.makers.get(base.name.as_str()).is_some_and(|&maker| self.small[maker]);
            // What is repeated is read once.
            let read = base.shape.elements().min(operand.shape.elements());
            fits(operand, MOST_ADDED) && (is_made || read <= MOST_READ)
        };
        fits(&step.result, if self.only_added[number] { MOST_ADDED } else { MOST_ELEMENTS })
            && step.operands.iter().all(operand_fits)
    }

    fn is_only_added(&self, number: usize) -> bool {
        let readers = &self.readers[number];
        let adds = |&reader: &usize| self.small[reader] && (self.is_reduction(reader) || self.only_added[reader]);
        !self.is_reduction(number) && !readers.is_empty() && readers.iter().all(adds)
    }

    fn is_reduction(&self, number: usize) -> bool {
        self.units[number].step().is_some_and(|step| matches!(step.action, Action::Reduce { .. }))
    }

    /// The least levels that operations can have.
    fn levels(&self) -> Vec<usize> {
        let mut levels: Vec<usize> = Vec::new();
        for (number, sources) in self.sources.iter().enumerate() {
            let after = |&source: &usize| levels[source] + usize::from(self.small[number] && !self.small[source]);
            levels.push(sources.iter().map(after).max().unwrap_or(0));
        }
        levels
    }

    /// Small units that are connected on their levels.
    fn connected(&self, levels: &[usize]) -> Vec<Vec<usize>> {
        let mut first: Vec<usize> = (0..self.units.len()).collect();
        let root = |first: &[usize], mut number: usize| {
            while first[number] != number {
                number = first[number];
            }
            number
        };
        let small = || (0..self.units.len()).filter(|&number| self.small[number]);
        for number in small() {
            let sources = self.sources[number].iter();
            for &source in sources.filter(|&&source| self.small[source] && levels[source] == levels[number]) {
                let (one, other) = (root(&first, number), root(&first, source));
                first[one.max(other)] = one.min(other);
            }
        }
        let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        small().for_each(|number| found.entry(root(&first, number)).or_default().push(number));
        found.into_values().collect()
    }

    fn regions(&self) -> Vec<Region<'l>> {
        let mut levels = self.levels();
        let found = self.connected(&levels);
        // What is worth no call where it is may become part of one where it is read. So does what is only added up, which
        // would have to be written to memory otherwise.
        let idle = found.into_iter().filter(|units| !self.is_worth_a_call(units)).flatten();
        let added = (0..levels.len()).filter(|&number| self.small[number] && self.only_added[number]);
        for number in idle.chain(added).collect::<BTreeSet<usize>>().into_iter().rev() {
            let readers = self.readers[number].iter().map(|&reader| levels[reader]);
            levels[number] = readers.min().unwrap_or(levels[number]);
        }
        self.connected(&levels).into_iter().filter_map(|units| self.region(units)).collect()
    }

    fn is_worth_a_call(&self, units: &[usize]) -> bool {
        units.iter().filter(|&&unit| self.is_reduction(unit)).count() >= FEWEST_REDUCTIONS
    }

    fn region(&self, units: Vec<usize>) -> Option<Region<'l>> {
        let is_read_outside =
            |unit: &&usize| self.readers[**unit].iter().any(|reader| units.binary_search(reader).is_err());
        let step = |&unit: &usize| self.units[unit].step();
        let members: Vec<&Step> = units.iter().filter_map(step).collect();
        let results = units.iter().filter(is_read_outside).filter_map(step);
        let results: Vec<&Named> = results.map(|step| &step.result).collect();
        if !self.is_worth_a_call(&units) || results.is_empty() {
            return None;
        }
        let block = Block::of(&members, &results, &self.moves, self.taken_over)?;
        Some(Region { units, results, block })
    }
}

/// Whether the C text of a block has a word for what a step does.
fn is_known(step: &Step) -> bool {
    let mut values = step.operands.iter().chain([&step.result]);
    let known_types = values.all(|value| element::c_type(value.dtype()).is_some());
    let known_action = match &step.action {
        Action::Map(name) => {
            let operands = vec!["x"; step.operands.len()];
            step.operands.first().is_some_and(|first| element::expression(name, &operands, first.dtype()).is_some())
        }
        Action::Reduce { kind, .. } => {
            matches!(kind, Reduction::Sum | Reduction::Max) && step.result.dtype() == octant_graph::DType::F32
        }
        Action::Constant(value) => element::literal(*value, step.result.dtype()).is_some(),
        _ => step.result.shape.elements() > 0,
    };
    known_types && known_action
}
