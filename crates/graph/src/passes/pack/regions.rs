//! Which values are packed: connected regions that gain more than the conversions at their edges cost.

use super::conv::PackedConv;
use super::roles::{Roles, roles};
use super::{BLOCK, Form, SIDE, tiled_bytes};
use crate::{Convolution, Graph, Node, Op, ValueId};
use std::collections::{HashMap, HashSet};

/// Multiplications (of a padded matrix unit) that take as long as moving one byte; near 70 on all TPUs up to v5e.
const PRODUCTS_PER_BYTE: f64 = 70.0;

/// The values that are to be packed, with their forms.
pub(super) fn packed_values(graph: &Graph) -> HashSet<(ValueId, Form)> {
    let alternatives: Vec<Vec<Roles>> = graph.nodes().iter().map(|node| roles(graph, node)).collect();
    let nodes = || graph.nodes().iter().zip(&alternatives);
    let mut regions = Regions::new(graph);
    nodes().for_each(|(node, alternatives)| alternatives.iter().for_each(|roles| regions.join(&roles.packed(node))));
    // What convolutions gain; a region without any is laid out well by the compiler itself.
    let mut gains: HashMap<usize, f64> = HashMap::new();
    for (node, alternatives) in nodes() {
        if let (Op::Convolution(conv), [roles]) = (&node.op, &alternatives[..]) {
            let values = roles.packed(node);
            let bytes: f64 = values.iter().map(|&value| saved_bytes(graph, value)).sum();
            let gain = bytes + saved_products(conv, graph, node) / PRODUCTS_PER_BYTE;
            *gains.entry(regions.of(values[0])).or_default() += gain;
        }
    }
    // The cost of conversions at its edges: a value is converted once however often it is read.
    let converted: HashSet<(ValueId, Form)> =
        nodes().flat_map(|(node, alternatives)| plain_in(node, alternatives)).collect();
    let outputs = graph.outputs().iter().flat_map(|&output| Form::ALL.map(|form| (output, form)));
    for value in converted.into_iter().chain(outputs) {
        if let Some(gain) = gains.get_mut(&regions.of(value)) {
            *gain -= conversion_bytes(graph, value);
        }
    }
    let gains_something = |value: &(ValueId, Form)| gains.get(&regions.of(*value)).is_some_and(|&gain| gain > 0.0);
    let all = nodes().flat_map(|(node, alternatives)| alternatives.iter().flat_map(|roles| roles.packed(node)));
    all.filter(gains_something).collect()
}

/// The forms that a node neither reads nor makes of its values.
fn plain_in(node: &Node, alternatives: &[Roles]) -> Vec<(ValueId, Form)> {
    /// The forms of one side of a node.
    type Forms = fn(&Roles) -> &[Option<Form>];
    let sides: [(&[ValueId], Forms); 2] =
        [(&node.inputs, |roles| &roles.inputs), (&node.outputs, |roles| &roles.outputs)];
    let mut plain = Vec::new();
    for (values, forms) in sides {
        for (index, &value) in values.iter().enumerate() {
            let missing = |form: &Form| !alternatives.iter().any(|roles| forms(roles)[index] == Some(*form));
            plain.extend(Form::ALL.into_iter().filter(missing).map(|form| (value, form)));
        }
    }
    plain
}

/// Bytes of a value as it is and packed.
fn bytes(graph: &Graph, (value, form): (ValueId, Form)) -> Option<[f64; 2]> {
    let shape = graph.shape(value);
    let (_, [_, width, channels]) = form.split(shape.dims())?;
    form.packed(shape.dims())?;
    Some([tiled_bytes(shape, [width, channels]), tiled_bytes(shape, [width / SIDE, BLOCK * channels])])
}

fn saved_bytes(graph: &Graph, value: (ValueId, Form)) -> f64 {
    bytes(graph, value).map_or(0.0, |[plain, packed]| plain - packed)
}

/// Multiplications of the matrix unit that packing saves.
fn saved_products(conv: &Convolution, graph: &Graph, node: &Node) -> f64 {
    let products = PackedConv::of(conv, graph, node).map(|packed| packed.products(conv, graph, node));
    products.map_or(0.0, |[plain, packed]| plain - packed)
}

/// A conversion reads one form and writes the other, and is read again. A constant is converted while compiling, and what
/// repeats one number needs none.
fn conversion_bytes(graph: &Graph, (value, form): (ValueId, Form)) -> f64 {
    match &graph.producer(value).op {
        Op::Constant(_) | Op::Iota { .. } => 0.0,
        _ => bytes(graph, (value, form)).map_or(0.0, |[plain, packed]| plain + 2.0 * packed),
    }
}

/// Sets of values that are packed together or not at all.
struct Regions {
    /// A value and form that is nearer to the set's representative, or itself.
    parents: Vec<usize>,
}

impl Regions {
    fn new(graph: &Graph) -> Regions {
        Regions { parents: (0..graph.values().len() * Form::ALL.len()).collect() }
    }

    fn of(&self, value: (ValueId, Form)) -> usize {
        let mut slot = slot(value);
        while self.parents[slot] != slot {
            slot = self.parents[slot];
        }
        slot
    }

    fn join(&mut self, values: &[(ValueId, Form)]) {
        let roots: Vec<usize> = values.iter().map(|&value| self.of(value)).collect();
        let Some(&first) = roots.iter().min() else { return };
        roots.into_iter().for_each(|root| self.parents[root] = first);
        // Later look-ups take one step.
        values.iter().for_each(|&value| self.parents[slot(value)] = first);
    }
}

fn slot((value, form): (ValueId, Form)) -> usize {
    value.index() * Form::ALL.len() + form as usize
}
