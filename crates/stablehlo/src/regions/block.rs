//! The work of a thread block in C: loops over the elements of values, with barriers in between.
//!
//! The text knows the number of its `thread`, the addresses of operands and then results as `places`, and the floats that
//! all threads have as `shared`. Values that are read once, or only moved, are written out where they are read. Operands that
//! only later phases read are fetched while the first one works, so that these do not wait for memory, each for itself.

use super::MOST_ADDED;
use super::elements::Writer;
use super::plan::{Plan, Root};
use crate::element::{WORDS, c_type};
use crate::function::Named;
use crate::step::Step;
use octant_graph::DType;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Threads of a block, as many as a GPU allows and fewer if there is little to do.
const MOST_THREADS: usize = 1024;
const FEWEST_THREADS: usize = 128;

/// What the threads may share on every GPU that our kernels are for, in bytes.
const MOST_SHARED: usize = 96 << 10;

/// Elements of an operand that is fetched.
const MOST_FETCHED: usize = 1 << 12;

/// What a call needs to know.
#[derive(Debug)]
pub struct Block<'l> {
    pub text: String,
    pub operands: Vec<&'l Named>,
    pub threads: usize,
    /// In bytes.
    pub shared: usize,
    /// Results that are written over operands, by their numbers.
    pub in_place: Vec<(usize, usize)>,
}

impl<'l> Block<'l> {
    /// None if it does not fit.
    pub fn of(
        members: &[&'l Step],
        results: &[&'l Named],
        moves: &HashMap<&'l str, &'l Step>,
        taken_over: &[(String, String)],
    ) -> Option<Block<'l>> {
        let work = |step: &&Step| step.operands.iter().map(|operand| operand.shape.elements()).max().unwrap_or(1);
        let work = members.iter().map(work).max()?.min(MOST_ADDED);
        let threads = work.next_power_of_two().clamp(FEWEST_THREADS, MOST_THREADS);
        let plan = Plan::of(members, results, moves, threads);
        let members = members.iter().map(|&step| (step.result.name.as_str(), step)).collect();
        let kept = plan.roots.iter().filter_map(|root| Some((root.step.result.name.as_str(), root.kept?))).collect();
        let mut writer = Writer {
            members,
            moves,
            kept,
            threads,
            operands: Vec::new(),
            text: String::new(),
            loops: 0,
            reads: BTreeSet::new(),
            writes: HashMap::new(),
        };
        let phases = plan.roots.last().map_or(0, |root| root.phase + 1);
        let mut read_at_once = 0;
        for phase in 0..phases {
            let roots: Vec<&Root> = plan.roots.iter().filter(|root| root.phase == phase).collect();
            writer.text += ["", "FETCHED; barrier; ", "barrier; "][phase.min(2)];
            writer.phase(&roots)?;
            if phase == 0 {
                read_at_once = writer.operands.len();
            }
        }
        let in_place: Vec<(usize, usize)> = (0..results.len())
            .filter_map(|number| Some((number, writer.overwritten(results[number], taken_over)?)))
            .collect();
        let operands = writer.operands;
        let (mut floats, mut fetched) = (plan.floats, HashMap::new());
        for (place, operand) in operands.iter().enumerate().skip(read_at_once) {
            let elements = operand.shape.elements();
            if operand.dtype() == DType::F32 && elements <= MOST_FETCHED && 4 * (floats + elements) <= MOST_SHARED {
                fetched.insert(place, floats);
                floats += elements;
            }
        }
        let shared = 4 * floats;
        let is_overwritten = |place: usize| in_place.iter().any(|&(_, operand)| operand == place);
        let overwrites = |number: usize| in_place.iter().any(|&(result, _)| result == number);
        let alone = |is_shared: bool| if is_shared { "" } else { "restrict " };
        let mut text = String::new();
        for (place, operand) in operands.iter().enumerate() {
            if let Some(floats) = fetched.get(&place) {
                let elements = operand.shape.elements();
                write!(text, "FETCH({floats}, {place}, {elements}) const float *a{place} = shared + {floats}; ")
                    .ok()?;
                continue;
            }
            let c_type = c_type(operand.dtype())?;
            let alone = alone(is_overwritten(place));
            write!(text, "const {c_type} *{alone}a{place} = (const {c_type} *)places[{place}]; ").ok()?;
        }
        for (number, result) in results.iter().enumerate() {
            let (c_type, place) = (c_type(result.dtype())?, operands.len() + number);
            let alone = alone(overwrites(number));
            write!(text, "{c_type} *{alone}r{number} = ({c_type} *)places[{place}]; ").ok()?;
        }
        text += writer.text.trim_end();
        let fits = shared <= MOST_SHARED && operands.len() + results.len() <= WORDS;
        fits.then_some(Block { text, operands, threads, shared, in_place })
    }
}
