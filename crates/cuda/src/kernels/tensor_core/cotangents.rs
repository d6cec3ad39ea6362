//! Cotangents of fused norm + ReLU. The call that makes one also makes it zero where the norm was not positive, and takes the
//! sums along from which the norm's own gradient follows: of the cotangent, and of its products with what was normalized.

use super::affine::ChannelAffine;
use super::choose::{choose_fused, sum_parts};
use super::norm_relu::{NormRelus, is_zero};
use super::pairs::Pairs;
use crate::kernels::conv::task::{ConvTask, GpuProfile};
use octant_graph::{Binary, Comparison, Graph, NodeId, Op, Reduction, Uses, ValueId};
use std::collections::{BTreeMap, HashSet};

/// A cotangent that a call makes, by the convolution that makes it without its ReLU.
#[derive(Debug, Clone)]
pub struct Cotangent {
    pub conv: NodeId,
    /// The norm before its ReLU, and what was normalized, shifted to its center.
    pub norm: ChannelAffine,
    pub centered: ChannelAffine,
    /// In how many parts of every image the sums come.
    pub parts: usize,
    /// The values that are zero where the norm was not positive.
    pub chosen: Vec<ValueId>,
    /// The sums that the call takes along, and whether they are of products.
    pub sums: Vec<(ValueId, bool)>,
}

/// A sum that a call could take along.
struct Candidate {
    sum: NodeId,
    choice: NodeId,
    /// What the cotangent is multiplied by.
    factor: Option<ValueId>,
}

/// All such cotangents of a graph.
pub fn find(graph: &Graph, uses: &Uses, device: &GpuProfile, pairs: &Pairs, norms: &NormRelus) -> Vec<Cotangent> {
    let mut found = Vec::new();
    for (cotangent, candidates) in candidates(graph) {
        let conv = graph.values()[cotangent.index()].producer;
        let node = &graph.nodes()[conv];
        let task = ConvTask::of(graph, node).filter(|task| !task.is_gradient && choose_fused(task, device).is_some());
        let is_free = pairs.of(conv).is_none() && node.inputs.first().is_some_and(|&input| norms.of(input).is_none());
        let Some(task) = task.filter(|_| is_free) else { continue };
        let consumers = uses.only_consumers(cotangent);
        let Some((norm, centered)) = norm(graph, conv, consumers, &candidates) else { continue };
        let output = |node: NodeId| graph.nodes()[node].outputs[0];
        let chosen = consumers.iter().map(|&consumer| output(consumer)).collect();
        let sums = candidates.iter().map(|sum| (output(sum.sum), sum.factor.is_some())).collect();
        found.push(Cotangent { conv, norm, centered, parts: sum_parts(&task), chosen, sums });
    }
    found
}

/// By cotangent: the sums over pixels of it where a norm was positive, or of its products.
fn candidates(graph: &Graph) -> BTreeMap<ValueId, Vec<Candidate>> {
    let producer = |value: ValueId| graph.values()[value.index()].producer;
    let mut candidates: BTreeMap<ValueId, Vec<Candidate>> = BTreeMap::new();
    for (sum, reduction) in graph.nodes().iter().enumerate() {
        let Op::Reduce { kind: Reduction::Sum, axes } = &reduction.op else { continue };
        if axes[..] != [0, 1, 2] {
            continue;
        }
        let operand = producer(reduction.inputs[0]);
        let factors = match graph.nodes()[operand].inputs[..] {
            [left, right] if graph.nodes()[operand].op == Op::Binary(Binary::Mul) => vec![(left, right), (right, left)],
            _ => vec![],
        };
        let of_product = |&(choice, factor): &(ValueId, ValueId)| {
            Some((choose(graph, producer(choice))?, producer(choice), Some(factor)))
        };
        let whole = || choose(graph, operand).map(|choice| (choice, operand, None));
        let found = factors.iter().find_map(of_product).or_else(whole);
        if let Some(([_, cotangent], choice, factor)) = found {
            candidates.entry(cotangent).or_default().push(Candidate { sum, choice, factor });
        }
    }
    candidates
}

/// The norm and the cotangent of a node that chooses: `norm <= 0 ? 0 : cotangent`.
fn choose(graph: &Graph, node: NodeId) -> Option<[ValueId; 2]> {
    let node = &graph.nodes()[node];
    let (Op::Select, &[condition, zero, cotangent]) = (&node.op, &node.inputs[..]) else { return None };
    let condition = graph.producer(condition);
    let below = matches!(condition.op, Op::Compare(Comparison::LessEqual)) && is_zero(graph, condition.inputs[1]);
    (below && is_zero(graph, zero)).then_some([condition.inputs[0], cotangent])
}

/// The one norm by which all consumers of a cotangent choose, if it does not depend on the convolution that makes it.
fn norm(
    graph: &Graph,
    conv: NodeId,
    consumers: &[NodeId],
    candidates: &[Candidate],
) -> Option<(ChannelAffine, ChannelAffine)> {
    let choices: Option<Vec<[ValueId; 2]>> = consumers.iter().map(|&consumer| choose(graph, consumer)).collect();
    let is_made = |choice: &[ValueId; 2]| graph.values()[choice[1].index()].producer == conv;
    let choices = choices.filter(|choices| choices.iter().all(is_made))?;
    let known = |values: &[ValueId], wanted: &[Binary]| {
        let &first = values.first()?;
        let affine = ChannelAffine::of(graph, first, wanted);
        let mut equal = HashSet::new();
        let are_copies = values.iter().all(|&value| is_copy(graph, value, first, &mut equal));
        (are_copies && !affine.steps.is_empty() && !depends(graph, first, conv)).then_some(affine)
    };
    let values: Vec<ValueId> = choices.iter().map(|choice| choice[0]).collect();
    let centers: Vec<ValueId> = candidates.iter().filter_map(|candidate| candidate.factor).collect();
    let norm = known(&values, &[Binary::Add, Binary::Sub, Binary::Mul])?;
    let centered = known(&centers, &[Binary::Add, Binary::Sub])?;
    let fits = centered.x == norm.x && candidates.iter().all(|candidate| consumers.contains(&candidate.choice));
    fits.then_some((norm, centered))
}

/// Whether a value depends on a node.
fn depends(graph: &Graph, value: ValueId, node: NodeId) -> bool {
    let (mut open, mut seen) = (vec![value], HashSet::new());
    while let Some(producer) = open.pop().map(|value| graph.values()[value.index()].producer) {
        if producer == node {
            return true;
        }
        // Nodes come after what they need.
        if producer > node && seen.insert(producer) {
            open.extend(&graph.nodes()[producer].inputs);
        }
    }
    false
}

/// Whether two values are made alike from the same values, no matter which barriers are in between.
fn is_copy(graph: &Graph, left: ValueId, right: ValueId, equal: &mut HashSet<[ValueId; 2]>) -> bool {
    let both = [left, right].map(|value| behind_barriers(graph, value));
    let [a, b] = both.map(|value| graph.producer(value));
    if both[0] == both[1] || equal.contains(&both) {
        return true;
    }
    let alike = a.op == b.op && a.inputs.len() == b.inputs.len() && [a.outputs.len(), b.outputs.len()] == [1, 1];
    let is_parameter = matches!(a.op, Op::Parameter { .. });
    let is_copy = alike && !is_parameter && a.inputs.iter().zip(&b.inputs).all(|(&a, &b)| is_copy(graph, a, b, equal));
    is_copy && equal.insert(both)
}

fn behind_barriers(graph: &Graph, value: ValueId) -> ValueId {
    let node = graph.producer(value);
    if node.op == Op::Barrier && node.inputs.len() == 1 { behind_barriers(graph, node.inputs[0]) } else { value }
}
