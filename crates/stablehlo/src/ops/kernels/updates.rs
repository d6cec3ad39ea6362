//! Calls of one body for many small variables, which one kernel computes: what an optimizer does at the end of a step.

use super::statements::Statements;
use crate::element::WORDS;
use crate::function::{Function, Named};
use crate::{module, types};
use octant_graph::{Graph, Op, Shape, ValueId};
use std::collections::HashMap;

/// What has more elements is worth a kernel of its own, and its gradient should not wait for the others.
const MOST_ELEMENTS: usize = 1 << 16;

/// The updates of a graph.
#[derive(Default)]
pub struct Updates {
    groups: Vec<Group>,
    /// The group of a node.
    of: HashMap<usize, usize>,
}

/// Nodes that call the same body on variables of their own and scalars that they share.
#[derive(Debug, Clone)]
pub struct Group {
    pub members: Vec<usize>,
    statements: Statements,
}

impl Updates {
    pub fn find(graph: &Graph) -> Updates {
        let mut found = Updates::default();
        let mut known: HashMap<(Statements, Vec<ValueId>), usize> = HashMap::new();
        for (index, node) in graph.nodes().iter().enumerate() {
            let Op::Call { body, .. } = &node.op else { continue };
            let is_small = (1..=MOST_ELEMENTS).contains(&graph.shape(node.outputs[0]).elements());
            let statements = is_small.then(|| Statements::of(body)).flatten();
            let Some(statements) = statements.filter(|statements| room(statements) > 0) else { continue };
            let scalars = statements.scalars.iter().map(|&scalar| node.inputs[scalar]).collect();
            let group = *known.entry((statements.clone(), scalars)).or_insert_with(|| {
                found.groups.push(Group { members: vec![], statements });
                found.groups.len() - 1
            });
            found.groups[group].members.push(index);
            found.of.insert(index, group);
        }
        found
    }

    /// The group that a node belongs to.
    pub fn of(&self, node: usize) -> Option<&Group> {
        self.of.get(&node).map(|&group| &self.groups[group])
    }
}

impl Group {
    /// Whether all operands of all members have been made when a node is reached.
    pub fn is_last(&self, node: usize) -> bool {
        self.members.last() == Some(&node)
    }

    /// Writes the calls for some members with their operands. Returns what they make.
    pub fn write(&self, f: &mut Function, graph: &Graph, members: &[(usize, Vec<Named>)]) -> Vec<(ValueId, Named)> {
        members.chunks(room(&self.statements)).flat_map(|members| self.call(f, graph, members)).collect()
    }

    fn call(&self, f: &mut Function, graph: &Graph, members: &[(usize, Vec<Named>)]) -> Vec<(ValueId, Named)> {
        let Statements { text, arrays, scalars, results } = &self.statements;
        let of_all = members.iter().flat_map(|(_, operands)| arrays.iter().map(|&array| &operands[array]));
        let shared = members.iter().take(1).flat_map(|(_, operands)| scalars.iter().map(|&scalar| &operands[scalar]));
        let operands: Vec<&Named> = of_all.chain(shared).collect();
        let made: Vec<ValueId> = members.iter().flat_map(|&(node, _)| graph.nodes()[node].outputs.clone()).collect();
        let shapes: Vec<&Shape> = made.iter().map(|&value| graph.shape(value)).collect();
        let taken: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
        // Results take the places of the first arrays of their variable.
        let in_place = |result: usize| {
            let operand = result / results * arrays.len() + result % results;
            let place = if made.len() == 1 { String::new() } else { result.to_string() };
            format!(
                "#stablehlo.output_operand_alias<output_tuple_indices = [{place}], operand_index = {operand}, \
                 operand_tuple_indices = []>"
            )
        };
        let text = format!(
            "stablehlo.custom_call @octant.update({}) {{api_version = 4 : i32, backend_config = {{counts = array<i64: \
             {}, {}, {results}>, statements = {}}}, operand_layouts = {}, output_operand_aliases = [{}], \
             result_layouts = {}}} : {} -> {}",
            types::join(&operands),
            arrays.len(),
            scalars.len(),
            module::quoted(text),
            types::row_major(&taken),
            types::join((0..made.len()).map(in_place)),
            types::row_major(&shapes),
            types::tuple(&taken),
            types::results(&shapes)
        );
        let values = f.several(&shapes, |f, head| f.line(format!("{head} = {text}")));
        made.into_iter().zip(values).collect()
    }
}

/// How many variables one call can take.
fn room(statements: &Statements) -> usize {
    WORDS.saturating_sub(statements.scalars.len()) / (statements.arrays.len() + 1)
}
