//! Sums over pixels that compute their operands themselves.
//!
//! The sums of a norm's backward pass and the gradient that it passes on read the same cotangent, which often is cheap to
//! compute: a few maps of attention, a comparison and an array in memory. XLA's GPU compiler shares it all the same: it writes
//! the cotangent, or the bools in it, to memory once and reads them in every kernel. A copy for every reduction, which the
//! compiler takes for something else, is fused into its kernel, and nothing is written.
//!
//! Start reading at [`sums_with_own_operands`].

#[cfg(test)]
#[path = "sums_tests.rs"]
mod tests;

use octant_graph::{DType, Graph, GraphBuilder, Node, Op, Shape, Unary, Uses, ValueId};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// What is smaller than this many bytes is left to the compiler.
const MIN_BYTES: usize = 1 << 20;

/// Reductions of one layer over operands of one shape, which become one kernel and read what they need once.
type Layer = (Arc<str>, Vec<usize>);

/// The same graph, where reductions over pixels have copies of what they reduce if these make less to read and write.
/// Bodies of loops and calls stay as they are.
pub fn sums_with_own_operands(graph: &Graph) -> Graph {
    let traffic = Traffic::new(graph);
    let mut layers: HashMap<Layer, Vec<ValueId>> = HashMap::new();
    for node in graph.nodes() {
        if let Some(layer) = traffic.layer_of_sum(node) {
            layers.entry(layer).or_default().push(node.inputs[0]);
        }
    }
    let plans: HashMap<Layer, BTreeSet<ValueId>> =
        layers.into_iter().filter_map(|(layer, operands)| Some((layer, traffic.read_instead(&operands)?))).collect();

    let mut copies = Copies { graph, builder: GraphBuilder::new(), made: HashMap::new(), held: HashMap::new() };
    for (&input, name) in graph.inputs().iter().zip(graph.input_names()) {
        let made = copies.builder.input(name, graph.shape(input).clone());
        copies.made.insert(input, made);
    }
    for node in graph.nodes().iter().filter(|node| !matches!(node.op, Op::Parameter { .. })) {
        let operands = match traffic.layer_of_sum(node).and_then(|layer| plans.get(&layer)) {
            Some(leaves) => vec![copies.make_again(node.inputs[0], leaves, &mut HashMap::new())],
            None => node.inputs.iter().map(|input| copies.made[input]).collect(),
        };
        let results = copies.builder.copy(graph, node, operands);
        copies.made.extend(node.outputs.iter().copied().zip(results));
    }
    let outputs = graph.outputs().iter().map(|output| copies.made[output]).collect();
    copies.builder.finish(outputs)
}

/// Which values are in memory, and who reads them there.
struct Traffic<'g> {
    graph: &'g Graph,
    uses: Uses,
    /// By value: whether it is in memory whatever is fused.
    stored: Vec<bool>,
}

impl<'g> Traffic<'g> {
    fn new(graph: &'g Graph) -> Traffic<'g> {
        let mut traffic = Traffic { graph, uses: Uses::of(graph), stored: vec![false; graph.values().len()] };
        for &value in graph.nodes().iter().flat_map(|node| &node.outputs) {
            let made_in_memory = !is_elementwise(&graph.producer(value).op);
            traffic.stored[value.index()] =
                made_in_memory || traffic.uses.is_output(value) || traffic.is_read_from_memory(value);
        }
        traffic
    }

    /// The layer of a reduction that keeps channels and whose large operand only its fused loop needs.
    fn layer_of_sum(&self, node: &Node) -> Option<Layer> {
        let Op::Reduce { axes, .. } = &node.op else { return None };
        let shape = self.graph.shape(node.inputs[0]);
        let keeps_channels = axes.iter().all(|axis| axis + 1 < shape.rank());
        let fits = keeps_channels && shape.bytes() >= MIN_BYTES && !self.is_stored(node.inputs[0]);
        fits.then(|| (node.path.clone(), shape.dims().to_vec()))
    }

    /// What is read when `operands` are made again; none if nothing would be spared by that.
    fn read_instead(&self, operands: &[ValueId]) -> Option<BTreeSet<ValueId>> {
        let whole = self.graph.shape(operands[0]);
        let mut leaves: BTreeSet<ValueId> = operands.iter().copied().collect();
        let mut spares = false;
        loop {
            let better = leaves.iter().find_map(|&leaf| Some((leaf, self.worth_making_again(leaf, &leaves)?)));
            let Some((leaf, behind)) = better else { break };
            spares |= self.is_shared_in_vain(leaf, &behind, whole);
            leaves.remove(&leaf);
            leaves.extend(behind);
        }
        (spares && !self.takes_functions(operands, &leaves, whole)).then_some(leaves)
    }

    /// Whether making `operands` from `leaves` takes a function such as the logistic one for every element. Fewer bytes do not
    /// pay for that: EfficientNetV2-L at batch 256 moved 11 % fewer and was 5 % slower.
    fn takes_functions(&self, operands: &[ValueId], leaves: &BTreeSet<ValueId>, whole: &Shape) -> bool {
        let (mut open, mut seen) = (operands.to_vec(), BTreeSet::new());
        while let Some(value) = open.pop() {
            if leaves.contains(&value) || !seen.insert(value) {
                continue;
            }
            let node = self.graph.producer(value);
            if is_function(&node.op) && self.graph.shape(value).elements() == whole.elements() {
                return true;
            }
            open.extend(&node.inputs);
        }
        false
    }

    /// What a value is made from, if reading that beside `leaves` moves fewer bytes than writing the value and reading it.
    fn worth_making_again(&self, value: ValueId, leaves: &BTreeSet<ValueId>) -> Option<BTreeSet<ValueId>> {
        if self.is_stored(value) {
            return None;
        }
        let cost = |behind: &BTreeSet<ValueId>| -> usize {
            behind.iter().filter(|leaf| !leaves.contains(leaf)).map(|&leaf| self.bytes(leaf)).sum()
        };
        let near = self.behind(value, |value| self.kernels(value) == 1 || self.is_from_smaller(value));
        let far = self.behind(value, |_| true);
        let behind = if cost(&far) < cost(&near) { far } else { near };
        let kernels = self.kernels(value);
        // Kept: one kernel writes it, all read it. Made again: all read what it is made from, instead of one.
        let worth = self.is_from_smaller(value) || cost(&behind) * (kernels - 1) <= self.bytes(value) * (kernels + 1);
        worth.then_some(behind)
    }

    /// The values that one is made from, back to those in memory and those that are not to be gone `through`.
    fn behind(&self, value: ValueId, through: impl Fn(ValueId) -> bool) -> BTreeSet<ValueId> {
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = self.graph.producer(value).inputs.clone();
        while let Some(value) = open.pop() {
            if !seen.insert(value) {
                continue;
            }
            match self.is_stored(value) || !through(value) {
                true => drop(found.insert(value)),
                false => open.extend(&self.graph.producer(value).inputs),
            }
        }
        found
    }

    /// Whether the compiler would keep a value for several kernels although it had better not: bools, and what is
    /// made from several arrays. All else it makes again by itself.
    fn is_shared_in_vain(&self, value: ValueId, behind: &BTreeSet<ValueId>, whole: &Shape) -> bool {
        let shape = self.graph.shape(value);
        let arrays = behind.iter().filter(|&&leaf| 4 * self.bytes(leaf) >= shape.bytes()).count();
        let shared = self.kernels(value) > 1 && shape.elements() == whole.elements();
        shared && !self.is_from_smaller(value) && (shape.dtype() == DType::Bool || arrays > 1)
    }

    /// Bytes that a kernel reads for a value; constants are part of its code.
    fn bytes(&self, value: ValueId) -> usize {
        let is_code = matches!(self.graph.producer(value).op, Op::Constant(_) | Op::Iota { .. });
        if is_code { 0 } else { self.graph.shape(value).bytes() }
    }

    fn is_stored(&self, value: ValueId) -> bool {
        self.stored[value.index()]
    }

    /// Whether something reads a value that is not fused with its operands.
    fn is_read_from_memory(&self, value: ValueId) -> bool {
        self.uses.consumers(value).iter().map(|&consumer| &self.graph.nodes()[consumer]).any(|consumer| match &consumer
            .op
        {
            Op::Reshape { .. } => self.is_read_from_memory(consumer.outputs[0]),
            Op::Reduce { .. } | Op::ReduceWindow { .. } | Op::Slice { .. } | Op::Pad { .. } => false,
            op => !is_elementwise(op),
        })
    }

    /// How many operations read a value, not counting those that only repeat or widen it.
    fn kernels(&self, value: ValueId) -> usize {
        let consumers = self.uses.consumers(value).iter().map(|&consumer| &self.graph.nodes()[consumer]);
        let counted = consumers.map(|consumer| match consumer.outputs[..] {
            [result] if self.is_from_smaller(result) => self.kernels(result),
            _ => 1,
        });
        counted.sum::<usize>().max(1)
    }

    /// Whether a value is its operand repeated, reshaped or widened, so that it never needs to be in memory.
    fn is_from_smaller(&self, value: ValueId) -> bool {
        let node = self.graph.producer(value);
        let widens = |dtype: DType| self.graph.shape(node.inputs[0]).dtype().size() <= dtype.size();
        matches!(node.op, Op::Broadcast { .. } | Op::Reshape { .. }) || matches!(node.op, Op::Convert(to) if widens(to))
    }
}

/// What takes many instructions.
pub(super) fn is_function(op: &Op) -> bool {
    use Unary::{Cos, Erf, Exp, Expm1, Log, Log1p, Logistic, Sin, Tanh};
    matches!(op, Op::Unary(Cos | Erf | Exp | Expm1 | Log | Log1p | Logistic | Sin | Tanh))
}

pub(super) fn is_elementwise(op: &Op) -> bool {
    let moves_nothing = matches!(op, Op::Broadcast { .. } | Op::Reshape { .. });
    moves_nothing
        || matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp | Op::Convert(_))
}

/// The new graph.
struct Copies<'g> {
    graph: &'g Graph,
    builder: GraphBuilder,
    /// From the old values to the new.
    made: HashMap<ValueId, ValueId>,
    /// Parameters behind a barrier.
    held: HashMap<ValueId, ValueId>,
}

impl Copies<'_> {
    /// One more copy of a value, made from `leaves`; `own` are the copies made for the same reduction.
    fn make_again(
        &mut self,
        value: ValueId,
        leaves: &BTreeSet<ValueId>,
        own: &mut HashMap<ValueId, ValueId>,
    ) -> ValueId {
        if let Some(&made) = own.get(&value) {
            return made;
        }
        let graph = self.graph;
        let node = graph.producer(value);
        let is_parameter = matches!(node.op, Op::Parameter { .. });
        let made = if is_parameter && graph.shape(value).bytes() < MIN_BYTES {
            self.hold(value)
        } else if leaves.contains(&value) {
            self.made[&value]
        } else {
            let operands = node.inputs.iter().map(|&input| self.make_again(input, leaves, own)).collect();
            self.builder.copy(graph, node, operands)[0]
        };
        own.insert(value, made);
        made
    }

    /// A parameter that no other copy reads, without which the compiler would recognize the copies as equal. It sees through
    /// two barriers around one value, so every barrier is put around the one before.
    fn hold(&mut self, parameter: ValueId) -> ValueId {
        let before = self.held.get(&parameter).copied().unwrap_or(self.made[&parameter]);
        let held = self.builder.push(Op::Barrier, vec![before], "".into()).expect("a barrier takes any value")[0];
        self.held.insert(parameter, held);
        held
    }
}
