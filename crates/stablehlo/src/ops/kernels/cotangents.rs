//! Cotangents of rectified norms. The call that makes one also makes it zero where the norm was not positive, and takes the
//! sums along from which the norm's own gradient follows: of the cotangent, and of its products with what was normalized.

use super::rectified::is_zero;
use super::stretch::Stretch;
use super::{Pairs, Rectified, Task, makers, tensor_core, users};
use crate::Options;
use crate::function::{Function, Named};
use crate::ops::{movement, reduce};
use octant_graph::{Binary, Comparison, Graph, Node, Op, Reduction, Shape, ValueId};
use std::collections::{HashMap, HashSet};

/// The cotangents of a graph that calls make so.
#[derive(Default)]
pub struct Cotangents {
    /// By what the calls make.
    norms: HashMap<ValueId, Norm>,
    /// What calls make, by the nodes that choose zero where the norm was not positive.
    chosen: HashMap<usize, ValueId>,
    /// What calls make, by the nodes that sum, and whether they sum products.
    sums: HashMap<usize, (ValueId, bool)>,
}

/// A norm before it is rectified, and what it was made from, moved to its center.
#[derive(Debug, Clone)]
pub struct Norm {
    pub value: ValueId,
    pub stretch: Stretch,
    pub center: ValueId,
    pub moved: Stretch,
    /// In how many parts of every image the sums come.
    pub parts: usize,
}

/// A sum that a call could take along.
struct Candidate {
    node: usize,
    choice: usize,
    /// What the cotangent is multiplied with.
    factor: Option<ValueId>,
}

impl Cotangents {
    /// All such cotangents of a graph.
    pub fn find(graph: &Graph, options: &Options, pairs: &Pairs, rectified: &Rectified) -> Cotangents {
        let makers = makers(graph);
        let mut candidates: HashMap<ValueId, Vec<Candidate>> = HashMap::new();
        for (node, reduction) in graph.nodes().iter().enumerate() {
            let Op::Reduce { kind: Reduction::Sum, axes } = &reduction.op else { continue };
            let operand = makers.get(&reduction.inputs[0]).copied().filter(|_| axes[..] == [0, 1, 2]);
            let Some(operand) = operand else { continue };
            let found = match (&graph.nodes()[operand].op, &graph.nodes()[operand].inputs[..]) {
                (Op::Binary(Binary::Mul), &[left, right]) => {
                    [(left, right), (right, left)].into_iter().find_map(|(choice, factor)| {
                        Some((choose(graph, *makers.get(&choice)?)?, makers[&choice], Some(factor)))
                    })
                }
                _ => choose(graph, operand).map(|choice| (choice, operand, None)),
            };
            if let Some(([_, cotangent], choice, factor)) = found {
                candidates.entry(cotangent).or_default().push(Candidate { node, choice, factor });
            }
        }
        let mut found = Cotangents::default();
        let users = users(graph);
        for (cotangent, candidates) in candidates {
            let Some(&call) = makers.get(&cotangent) else { continue };
            let node = &graph.nodes()[call];
            let task = Task::of_node(graph, node).filter(|task| !task.is_gradient);
            let pays = |task: &Task| tensor_core::choose_rectified(task, options.precision).is_some();
            let is_free = pairs.of(call).is_none() && rectified.of(node.inputs[0]).is_none();
            let Some(task) = task.filter(|task| is_free && pays(task)) else { continue };
            let looks = users.get(&cotangent).map_or(&[][..], Vec::as_slice);
            let Some(norm) = norm(graph, &makers, call, looks, &candidates) else { continue };
            let parts = tensor_core::moment_parts(&task);
            found.norms.insert(cotangent, Norm { parts, ..norm });
            found.chosen.extend(looks.iter().map(|&look| (look, cotangent)));
            found.sums.extend(candidates.iter().map(|sum| (sum.node, (cotangent, sum.factor.is_some()))));
        }
        found
    }

    /// The norm whose cotangent a call makes.
    pub fn norm(&self, made: ValueId) -> Option<&Norm> {
        self.norms.get(&made)
    }

    /// The cotangent that a node chooses zeros in, if the call has done that.
    pub fn chosen(&self, node: usize) -> Option<ValueId> {
        self.chosen.get(&node).copied()
    }

    /// The cotangent that a node sums, if the call has done that, and whether it sums products.
    pub fn sum(&self, node: usize) -> Option<(ValueId, bool)> {
        self.sums.get(&node).copied()
    }
}

/// Writes the sums of all channels, a row of each kind, from the parts that a call took along.
pub fn sums(f: &mut Function, parts: &Named) -> Named {
    let [images, _, kinds, channels] = *parts.shape.dims() else { unreachable!("parts have four axes") };
    let of_images = parts.shape.with_dims([images, kinds, channels]);
    let of_images = reduce::reduce(f, parts, Reduction::Sum, &[1], &of_images);
    // In one step XLA would start as few threads as there are channels.
    let of_images = f.apart(&of_images);
    reduce::reduce(f, &of_images, Reduction::Sum, &[0], &parts.shape.with_dims([kinds, channels]))
}

/// One kind of these sums.
pub fn sum(f: &mut Function, sums: &Named, of_products: bool, shape: &Shape) -> Named {
    let (row, channels) = (usize::from(of_products), shape.elements());
    let slice = sums.shape.with_dims([1, channels]);
    let slice = movement::slice(f, sums, [&vec![row, 0], &vec![row + 1, channels], &vec![1; 2]], &slice);
    f.typed("reshape", &[&slice], "", shape)
}

/// The norm and the cotangent of a node that chooses: `norm <= 0 ? 0 : cotangent`.
fn choose(graph: &Graph, node: usize) -> Option<[ValueId; 2]> {
    let node = &graph.nodes()[node];
    let (Op::Select, &[condition, zero, cotangent]) = (&node.op, &node.inputs[..]) else { return None };
    let condition = graph.producer(condition);
    let below = matches!(condition.op, Op::Compare(Comparison::LessEqual)) && is_zero(graph, condition.inputs[1]);
    (below && is_zero(graph, zero)).then_some([condition.inputs[0], cotangent])
}

/// The one norm by which all who look at a cotangent choose, if the call that makes the cotangent can know it.
fn norm(
    graph: &Graph,
    makers: &HashMap<ValueId, usize>,
    call: usize,
    looks: &[usize],
    candidates: &[Candidate],
) -> Option<Norm> {
    let choices: Option<Vec<[ValueId; 2]>> = looks.iter().map(|&look| choose(graph, look)).collect();
    let choices = choices.filter(|choices| choices.iter().all(|choice| makers.get(&choice[1]) == Some(&call)))?;
    let centers: Vec<ValueId> = candidates.iter().filter_map(|candidate| candidate.factor).collect();
    let known = |values: &[ValueId], wanted: &[Binary]| {
        let &first = values.first()?;
        let stretch = Stretch::of(graph, first, wanted);
        let mut equal = HashSet::new();
        let are_copies = values.iter().all(|&value| is_copy(graph, value, first, &mut equal));
        (are_copies && !stretch.steps.is_empty() && !needs(graph, makers, first, call)).then_some((first, stretch))
    };
    let values: Vec<ValueId> = choices.iter().map(|choice| choice[0]).collect();
    let (value, stretch) = known(&values, &[Binary::Add, Binary::Sub, Binary::Mul])?;
    let (center, moved) = known(&centers, &[Binary::Add, Binary::Sub])?;
    let fits = moved.x == stretch.x && candidates.iter().all(|candidate| looks.contains(&candidate.choice));
    fits.then_some(Norm { value, stretch, center, moved, parts: 0 })
}

/// Whether a value cannot be made before a node. Nodes come after what they need.
fn needs(graph: &Graph, makers: &HashMap<ValueId, usize>, value: ValueId, node: usize) -> bool {
    let (mut open, mut seen) = (vec![value], HashSet::new());
    while let Some(&maker) = open.pop().and_then(|value| makers.get(&value)) {
        if maker == node {
            return true;
        }
        if maker > node && seen.insert(maker) {
            open.extend(&graph.nodes()[maker].inputs);
        }
    }
    false
}

/// Whether two values are made alike from the same values, no matter what stands between them to keep them apart.
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
    match graph.producer(value) {
        Node { op: Op::Barrier, inputs, .. } if inputs.len() == 1 => behind_barriers(graph, inputs[0]),
        _ => value,
    }
}
