//! Lines that belong together, and which of them read what others define.

use crate::function::Line;
use crate::step::Step;
use std::collections::HashMap;

/// An operation: mostly one line, and all lines of one that has regions.
pub struct Unit<'l> {
    pub lines: &'l [Line],
    /// The units that define what it reads, each once; arguments of the function have none.
    pub reads: Vec<usize>,
}

impl<'l> Unit<'l> {
    /// What it computes, if that is known.
    pub fn step(&self) -> Option<&'l Step> {
        match self.lines {
            [line] => line.step.as_ref(),
            _ => None,
        }
    }
}

/// The units of a function in their order, and which of them defines a name.
pub fn units(lines: &[Line]) -> (Vec<Unit<'_>>, HashMap<&str, usize>) {
    let mut units: Vec<Unit> = Vec::new();
    let mut makers: HashMap<&str, usize> = HashMap::new();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        // Lines that open a region have no layer; the one that closes the outermost has, and stands as far left as the first.
        let depth = indentation(first);
        let closes = |line: &Line| line.path.is_some() && indentation(line) == depth;
        let length = rest.iter().position(closes).map_or(rest.len(), |last| last + 1);
        let (own, behind) = rest.split_at(length);
        let mut reads: Vec<usize> =
            own.iter().flat_map(|line| names(&line.text)).filter_map(|name| makers.get(name).copied()).collect();
        reads.sort_unstable();
        reads.dedup();
        if let Some((defined, _)) = first.text.split_once(" = ") {
            makers.extend(names(defined).map(|name| (name, units.len())));
        }
        units.push(Unit { lines: own, reads });
        rest = behind;
    }
    (units, makers)
}

fn indentation(line: &Line) -> usize {
    line.text.len() - line.text.trim_start().len()
}

/// The values that a text names, without the numbers of results.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('%').map(|(start, _)| {
        let tail = &text[start + 1..];
        let length = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
        &text[start..start + 1 + length]
    })
}
