//! The graph with packed regions: every value is made in the forms that its consumers read.

use super::Form;
use super::conv::PackedConv;
use super::roles::{Roles, roles};
use super::values::Build;
use crate::{Graph, GraphBuilder, Node, Op, ValueId};
use std::collections::{HashMap, HashSet};

/// The same graph, computed on packed values for the values in `packed`.
pub(super) fn build(graph: &Graph, packed: &HashSet<(ValueId, Form)>) -> Result<Graph, String> {
    let (builder, made, path) = (GraphBuilder::new(), HashMap::new(), "".into());
    let mut build = Build { graph, builder, made, path };
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        let made = build.builder.input(name, graph.shape(input).clone());
        build.made.insert((input, None), made);
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        build.path = node.path.clone();
        let alternatives = roles(graph, node)
            .into_iter()
            .filter(|roles| roles.packed(node).iter().any(|value| packed.contains(value)));
        let roles = match node.op {
            Op::Barrier => alternatives.reduce(merged),
            _ => alternatives.into_iter().next(),
        };
        build.node(node, roles)?;
    }
    let outputs = graph.outputs().iter().map(|&output| build.value(output, None)).collect::<Result<_, _>>()?;
    Ok(build.builder.finish(outputs))
}

/// The alternatives of a barrier concern different values; the first counts where they do not.
fn merged(left: Roles, right: Roles) -> Roles {
    let either = |left: Vec<Option<Form>>, right: &[Option<Form>]| {
        left.into_iter().zip(right).map(|(left, right)| left.or(*right)).collect::<Vec<_>>()
    };
    Roles { inputs: either(left.inputs, &right.inputs), outputs: either(left.outputs, &right.outputs) }
}

impl Build<'_> {
    fn node(&mut self, node: &Node, roles: Option<Roles>) -> Result<(), String> {
        let plain = || Roles { inputs: vec![None; node.inputs.len()], outputs: vec![None; node.outputs.len()] };
        let is_packed = roles.is_some();
        let roles = roles.unwrap_or_else(plain);
        let operands = node.inputs.iter().zip(&roles.inputs).map(|(&input, &form)| self.value(input, form));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        let results = match &node.op {
            _ if !is_packed => self.builder.copy(self.graph, node, operands),
            Op::Barrier => self.builder.push(Op::Barrier, operands, self.path.clone())?,
            Op::Convolution(conv) => {
                let packed = PackedConv::of(conv, self.graph, node).ok_or("a convolution without packed form")?;
                let kernel = if packed.is_gradient() { node.outputs[0] } else { node.inputs[1] };
                let shape = self.graph.shape(kernel).clone();
                vec![packed.emit(conv, [operands[0], operands[1]], &shape, self)?]
            }
            _ => vec![self.packed(node, &roles, &operands)?],
        };
        for ((&output, form), result) in node.outputs.iter().zip(roles.outputs).zip(results) {
            self.made.insert((output, form), result);
        }
        Ok(())
    }
}
