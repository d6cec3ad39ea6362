//! Functions such as the error function, computed again in the backward pass instead of kept for it.
//!
//! XLA's GPU compiler fuses cheap operations into every kernel that needs them, but computes an exponential or an error
//! function only once: what the backward pass needs of a GELU is then written to memory beside the GELU itself and kept. From
//! the array that the chain begins with, which is kept anyway, the same values cost a few instructions and no memory.

use octant_graph::{Graph, GraphBuilder, Node, Op, Unary, Uses, ValueId};
use std::collections::HashMap;

/// What is smaller than this many bytes is left to the compiler.
const MIN_BYTES: usize = 1 << 20;

/// The same graph, where element-wise operations that come after later products have functions computed again from the array
/// in memory that these follow from.
pub fn recompute_functions(graph: &Graph) -> Graph {
    let chains = Chains::of(graph);
    let mut again =
        Again { graph, chains: &chains, builder: GraphBuilder::new(), made: HashMap::new(), copies: HashMap::new() };
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        let made = again.builder.input(name, graph.shape(input).clone());
        again.made.insert(input, made);
    }
    for (index, node) in graph.nodes().iter().enumerate() {
        if matches!(node.op, Op::Parameter { .. }) {
            continue;
        }
        let operand = |&input: &ValueId| match chains.is_read_late(graph, index, input) {
            true => again.copy(input),
            false => again.made[&input],
        };
        let operands = node.inputs.iter().map(operand).collect();
        let results = again.builder.copy(graph, node, operands);
        again.made.extend(node.outputs.iter().copied().zip(results));
    }
    let outputs = graph.outputs().iter().map(|output| again.made[output]).collect();
    again.builder.finish(outputs)
}

/// What every value follows from.
struct Chains {
    /// By node: how many products lie on the longest path to it.
    depths: Vec<usize>,
    /// By value: the only large array that it follows from by element-wise operations; itself if there are several, and none
    /// if it follows from small ones alone.
    roots: Vec<Option<ValueId>>,
    /// By value: whether a function lies between its root and it.
    functions: Vec<bool>,
    /// By value: whether something that is not element-wise reads it after later products.
    kept: Vec<bool>,
}

impl Chains {
    fn of(graph: &Graph) -> Chains {
        let values = graph.values().len();
        let (roots, flags) = (vec![None; values], vec![false; values]);
        let mut chains = Chains { depths: Vec::new(), roots, functions: flags.clone(), kept: flags };
        for node in graph.nodes() {
            let before = node.inputs.iter().map(|&input| chains.depth(graph, input)).max().unwrap_or(0);
            chains.depths.push(before + is_product(&node.op) as usize);
            for &output in &node.outputs {
                chains.add(graph, node, output);
            }
        }
        let uses = Uses::of(graph);
        for &id in graph.nodes().iter().flat_map(|node| &node.outputs) {
            let reads_late = |&consumer: &usize| {
                !is_elementwise(&graph.nodes()[consumer].op) && chains.depths[consumer] > chains.depth(graph, id) + 1
            };
            chains.kept[id.index()] = uses.is_output(id) || uses.consumers(id).iter().any(reads_late);
        }
        chains
    }

    fn add(&mut self, graph: &Graph, node: &Node, output: ValueId) {
        let is_large = graph.shape(output).bytes() >= MIN_BYTES;
        if !is_elementwise(&node.op) {
            self.roots[output.index()] = is_large.then_some(output);
            return;
        }
        let mut roots = node.inputs.iter().filter_map(|input| self.roots[input.index()]);
        let first = roots.next();
        let is_only = roots.all(|root| Some(root) == first);
        self.roots[output.index()] = if is_only { first } else { Some(output) };
        let has_function = node.inputs.iter().any(|input| self.functions[input.index()]);
        self.functions[output.index()] = is_only && first.is_some() && (has_function || is_function(&node.op));
    }

    fn depth(&self, graph: &Graph, value: ValueId) -> usize {
        self.depths[graph.values()[value.index()].producer]
    }

    /// Whether a node reads a value after products that come later than it, and the value is worth computing again.
    fn is_read_late(&self, graph: &Graph, node: usize, value: ValueId) -> bool {
        let index = value.index();
        is_elementwise(&graph.nodes()[node].op)
            && self.functions[index]
            && !self.kept[index]
            && self.depths[node] > self.depth(graph, value)
    }
}

/// The new graph.
struct Again<'g> {
    graph: &'g Graph,
    chains: &'g Chains,
    builder: GraphBuilder,
    /// From the old values to the new.
    made: HashMap<ValueId, ValueId>,
    /// From the old values to those computed again.
    copies: HashMap<ValueId, ValueId>,
}

impl Again<'_> {
    /// A value computed again. The barrier keeps the compiler from recognizing it.
    fn copy(&mut self, value: ValueId) -> ValueId {
        if let Some(&copy) = self.copies.get(&value) {
            return copy;
        }
        let graph = self.graph;
        let root = self.chains.roots[value.index()];
        let node = graph.producer(value);
        let copy = if root.is_none() {
            self.made[&value]
        } else if root == Some(value) {
            let held = self.builder.push(Op::Barrier, vec![self.made[&value]], node.path.clone());
            held.expect("a barrier takes any value")[0]
        } else {
            let operands = node.inputs.iter().map(|&input| self.copy(input)).collect();
            self.builder.copy(graph, node, operands)[0]
        };
        self.copies.insert(value, copy);
        copy
    }
}

/// What reads whole arrays, so that values cannot wait in registers until it is done.
fn is_product(op: &Op) -> bool {
    matches!(op, Op::Dot(_) | Op::Convolution(_) | Op::Call { .. } | Op::While { .. } | Op::If { .. })
}

/// What takes many instructions.
fn is_function(op: &Op) -> bool {
    use Unary::{Cos, Erf, Exp, Expm1, Log, Log1p, Logistic, Sin, Tanh};
    matches!(op, Op::Unary(Cos | Erf | Exp | Expm1 | Log | Log1p | Logistic | Sin | Tanh))
}

fn is_elementwise(op: &Op) -> bool {
    let moves_nothing = matches!(op, Op::Broadcast { .. } | Op::Reshape { .. });
    moves_nothing
        || matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp | Op::Convert(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::tests::assert_same;
    use octant_graph::{DType, Shape, Tensor, Trace, Unary};

    /// Two products with an activation in between, and the gradients of both weights.
    fn network(activation: impl Fn(&Tensor) -> Tensor) -> Graph {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [512, 8]));
        let weights =
            [trace.input("a", Shape::new(DType::F32, [8, 768])), trace.input("b", Shape::new(DType::F32, [768, 4]))];
        let hidden = activation(&x.matmul(&weights[0]));
        let loss = hidden.matmul(&weights[1]).square().mean_all();
        let gradients = trace.gradients(&loss, &weights);
        trace.finish(&gradients).unwrap()
    }

    fn count(graph: &Graph, is: impl Fn(&Op) -> bool) -> usize {
        graph.nodes().iter().filter(|node| is(&node.op)).count()
    }

    #[test]
    fn the_error_function_of_a_gelu_is_computed_again_for_its_gradient() {
        let graph = octant_graph::passes::optimize(network(Tensor::gelu));
        let made = recompute_functions(&graph);
        let erf = |op: &Op| *op == Op::Unary(Unary::Erf);
        assert_eq!([count(&graph, erf), count(&made, erf)], [1, 2]);
        assert_eq!(count(&made, |op| *op == Op::Barrier), 1);
        assert_same(&graph, &made);
    }

    #[test]
    fn what_is_cheap_is_left_to_the_compiler() {
        let graph = octant_graph::passes::optimize(network(Tensor::relu));
        assert_eq!(recompute_functions(&graph), graph);
    }
}
