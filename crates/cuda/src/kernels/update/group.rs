//! Calls of one body for many small variables become one call: what an optimizer does at the end of a step.

use super::UpdateDescriptor;
use super::statements::Statements;
use octant_graph::passes::{Replacement, replace_where_possible};
use octant_graph::{Graph, Node, NodeId, Op, Tensor, Trace, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// What has more elements is worth a kernel of its own, and its gradient should not wait for the others.
const MOST_ELEMENTS: usize = 1 << 16;
/// Groups of one graph. An optimizer makes a handful.
const MOST_GROUPS: usize = 64;

/// Nodes that call the same body on variables of their own and scalars that they share.
struct Group {
    members: Vec<NodeId>,
    statements: Statements,
}

/// Groups the calls of a graph that do the same to small variables of their own.
pub fn group_updates(graph: &Graph) -> Graph {
    let replacements: Vec<Replacement> = groups(graph).iter().flat_map(|group| group.replacements(graph)).collect();
    match replacements.is_empty() {
        true => graph.clone(),
        false => replace_where_possible(graph, replacements),
    }
}

fn groups(graph: &Graph) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<(Statements, Vec<ValueId>), usize> = HashMap::new();
    // By value: the groups that it depends on, a bit for each.
    let mut depends = vec![0u64; graph.values().len()];
    for (index, node) in graph.nodes().iter().enumerate() {
        let mut behind = node.inputs.iter().fold(0, |behind, input| behind | depends[input.index()]);
        if let Some((statements, scalars)) = update(graph, index) {
            let new = groups.len();
            let group = *known.entry((statements.clone(), scalars)).or_insert(new);
            if group == new && new < MOST_GROUPS {
                groups.push(Group { members: vec![], statements });
            }
            // A call that needs another one of its group stays by itself.
            if group < groups.len() && behind & (1 << group) == 0 {
                groups[group].members.push(index);
                behind |= 1 << group;
            }
        }
        node.outputs.iter().for_each(|output| depends[output.index()] = behind);
    }
    groups
}

/// What a call does to small arrays, and the scalars that it reads.
fn update(graph: &Graph, index: NodeId) -> Option<(Statements, Vec<ValueId>)> {
    let node = &graph.nodes()[index];
    let Op::Call { body, kernel: None, .. } = &node.op else { return None };
    let is_small = (1..=MOST_ELEMENTS).contains(&graph.shape(*node.outputs.first()?).elements());
    let statements = is_small.then(|| Statements::of(body)).flatten()?;
    let scalars = statements.scalars.iter().map(|&scalar| node.inputs[scalar]).collect();
    (descriptor(&statements).capacity() > 0).then_some((statements, scalars))
}

fn descriptor(statements: &Statements) -> UpdateDescriptor {
    let Statements { text, arrays, scalars, results } = statements;
    UpdateDescriptor {
        arrays: arrays.len(),
        scalars: scalars.len(),
        written: *results,
        statements: text.as_str().into(),
    }
}

impl Group {
    /// As many calls as hold all members.
    fn replacements(&self, graph: &Graph) -> Vec<Replacement> {
        let descriptor = descriptor(&self.statements);
        self.members.chunks(descriptor.capacity()).map(|members| self.call(graph, &descriptor, members)).collect()
    }

    fn call(&self, graph: &Graph, descriptor: &UpdateDescriptor, members: &[NodeId]) -> Replacement {
        let nodes: Vec<_> = members.iter().map(|&member| &graph.nodes()[member]).collect();
        let Statements { arrays, scalars, .. } = &self.statements;
        let of_all = nodes.iter().flat_map(|node| arrays.iter().map(|&array| node.inputs[array]));
        let shared = nodes.iter().take(1).flat_map(|node| scalars.iter().map(|&scalar| node.inputs[scalar]));
        let inputs: Vec<ValueId> = of_all.chain(shared).collect();
        let outputs = nodes.iter().flat_map(|node| node.outputs.clone()).collect();
        let trace = Trace::new();
        let operands: Vec<Tensor> = inputs.iter().map(|&input| trace.input("x", graph.shape(input).clone())).collect();
        let results = trace.call_kernel(&operands, false, Some(Arc::new(descriptor.hint(nodes.len()))), |operands| {
            let (own, shared) = operands.split_at(nodes.len() * arrays.len());
            let of = |(node, own): (&&Node, &[Tensor])| {
                let slot = |list: &[usize], input: usize| list.iter().position(|&listed| listed == input);
                let operand = |input: usize| match slot(arrays, input) {
                    Some(array) => &own[array],
                    None => &shared[slot(scalars, input).unwrap_or_default()],
                };
                let operands: Vec<&Tensor> = (0..node.inputs.len()).map(operand).collect();
                operands[0].trace().emit(node.op.clone(), &operands)
            };
            nodes.iter().zip(own.chunks(arrays.len())).flat_map(of).collect()
        });
        let graph = trace.finish(&results).expect("a call has the shapes of what it replaces");
        Replacement { inputs, outputs, graph }
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
