//! Calls in the place of regions.

use super::Region;
use super::units::Unit;
use crate::function::{Line, Named};
use crate::{module, types};
use octant_graph::Shape;
use std::collections::HashMap;

/// The lines of all units, of which the members of regions are replaced by calls. Lines stay in their order, except that
/// what a call needs comes before it and what needs a call comes after.
pub fn rewritten(units: &[Unit], makers: &HashMap<&str, usize>, regions: &[Region]) -> Vec<Line> {
    let members = regions.iter().enumerate();
    let region_of = members.flat_map(|(number, region)| region.units.iter().map(move |&unit| (unit, number))).collect();
    let done = (vec![false; units.len()], vec![false; regions.len()]);
    let mut rewriter = Rewriter { units, makers, regions, region_of, done, lines: Vec::new() };
    let stays = rewriter.stays();
    for unit in (0..units.len()).filter(|&unit| stays[unit]) {
        rewriter.put(unit);
    }
    rewriter.lines
}

struct Rewriter<'r> {
    units: &'r [Unit<'r>],
    makers: &'r HashMap<&'r str, usize>,
    regions: &'r [Region<'r>],
    /// The region of a unit.
    region_of: HashMap<usize, usize>,
    /// Units and regions that have been written.
    done: (Vec<bool>, Vec<bool>),
    lines: Vec<Line>,
}

impl Rewriter<'_> {
    /// Which units keep a line: all but members of regions, and what moves elements only for those. A region is written in the
    /// place of its last member.
    fn stays(&self) -> Vec<bool> {
        let mut is_read = vec![false; self.units.len()];
        let mut stays = vec![false; self.units.len()];
        for (number, unit) in self.units.iter().enumerate().rev() {
            let region = self.region_of.get(&number).map(|&region| &self.regions[region]);
            let only_moves = unit.step().is_some_and(|step| step.only_moves());
            stays[number] = match region {
                Some(region) => region.units.last() == Some(&number),
                None => !only_moves || is_read[number],
            };
            if region.is_none() && stays[number] {
                unit.reads.iter().for_each(|&read| is_read[read] = true);
            }
        }
        stays
    }

    fn put(&mut self, number: usize) {
        if let Some(&region) = self.region_of.get(&number) {
            return self.put_region(region);
        }
        if std::mem::replace(&mut self.done.0[number], true) {
            return;
        }
        let unit = &self.units[number];
        unit.reads.iter().for_each(|&read| self.put(read));
        self.lines.extend_from_slice(unit.lines);
    }

    fn put_region(&mut self, number: usize) {
        if std::mem::replace(&mut self.done.1[number], true) {
            return;
        }
        let region = &self.regions[number];
        for operand in &region.block.operands {
            let name = operand.name.split('#').next().unwrap_or_default();
            if let Some(&maker) = self.makers.get(name) {
                self.put(maker);
            }
        }
        let first = region.units.first().and_then(|&unit| self.units[unit].lines.first());
        let path = first.and_then(|line| line.path.clone());
        self.lines.push(Line { text: format!("    {}", call(region)), path, step: None });
    }
}

/// The line that computes a region.
fn call(region: &Region) -> String {
    let block = &region.block;
    let shapes = |values: &[&Named]| values.iter().map(|value| value.shape.clone()).collect::<Vec<Shape>>();
    let (taken, made) = (shapes(&block.operands), shapes(&region.results));
    let (taken, made): (Vec<&Shape>, Vec<&Shape>) = (taken.iter().collect(), made.iter().collect());
    let in_place = |&(result, operand): &(usize, usize)| {
        let place = if made.len() == 1 { String::new() } else { result.to_string() };
        format!(
            "#stablehlo.output_operand_alias<output_tuple_indices = [{place}], operand_index = {operand}, \
             operand_tuple_indices = []>"
        )
    };
    format!(
        "{} = stablehlo.custom_call @octant.small({}) {{api_version = 4 : i32, backend_config = {{body = {}, counts = \
         array<i64: {}, {}, {}>}}, operand_layouts = {}, output_operand_aliases = {}, result_layouts = {}}} : {} -> {}",
        types::join(&region.results),
        types::join(&block.operands),
        module::quoted(&block.text),
        taken.len() + made.len(),
        block.threads,
        block.shared,
        types::row_major(&taken),
        types::list(block.in_place.iter().map(in_place)),
        types::row_major(&made),
        types::tuple(&taken),
        types::results(&made)
    )
}
