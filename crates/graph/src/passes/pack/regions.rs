//! Which values are packed: connected regions that gain more than their borders cost.

use super::conv::PackedConv;
use super::roles::{Roles, roles};
use super::{BLOCK, Form, SIDE, tiled_bytes};
use crate::{Graph, Node, Op, ValueId};
use std::collections::{HashMap, HashSet};

/// Multiplications (of a padded matrix unit) that take as long as moving one byte; near 70 on all TPUs up to v5e.
const PRODUCTS_PER_BYTE: f64 = 70.0;

/// The values that are to be packed, with their forms.
pub(super) fn packed_values(graph: &Graph) -> HashSet<(ValueId, Form)> {
    let ways: Vec<Vec<Roles>> = graph.nodes().iter().map(|node| roles(graph, node)).collect();
    let mut regions = Regions::new(graph);
    for (node, ways) in graph.nodes().iter().zip(&ways) {
        ways.iter().for_each(|way| regions.join(&packed_in(node, way)));
    }
    let mut gains: HashMap<usize, f64> = HashMap::new();
    let mut borders: HashSet<(ValueId, Form)> = HashSet::new();
    for (node, ways) in graph.nodes().iter().zip(&ways) {
        if let (Op::Convolution(conv), [way]) = (&node.op, &ways[..])
            && let Some(packed) = PackedConv::of(conv, graph, node)
        {
            let values = packed_in(node, way);
            let region = regions.of(values[0]);
            let bytes: f64 = values.iter().map(|&value| saved_bytes(graph, value)).sum();
            let products = packed.products(conv, graph, node);
            *gains.entry(region).or_default() += bytes + (products[0] - products[1]) / PRODUCTS_PER_BYTE;
        }
        // A value that some node makes or reads as it is must be converted, once.
        let covered = |values: &[ValueId], of: fn(&Roles) -> &Vec<Option<Form>>| -> Vec<(ValueId, Form)> {
            let plain = |index: usize, form: Form| !ways.iter().any(|way| of(way)[index] == Some(form));
            let pairs =
                values.iter().enumerate().flat_map(|(index, &value)| Form::ALL.map(|form| (index, value, form)));
            pairs.filter(|&(index, _, form)| plain(index, form)).map(|(_, value, form)| (value, form)).collect()
        };
        borders.extend(covered(&node.inputs, |way| &way.inputs));
        borders.extend(covered(&node.outputs, |way| &way.outputs));
    }
    borders.extend(graph.outputs().iter().flat_map(|&output| Form::ALL.map(|form| (output, form))));
    for &(value, form) in &borders {
        if let Some(gain) = gains.get_mut(&regions.of((value, form))) {
            *gain -= conversion_bytes(graph, (value, form));
        }
    }
    let chosen = |pair: &(ValueId, Form)| gains.get(&regions.of(*pair)).is_some_and(|&gain| gain > 0.0);
    let all = ways.iter().zip(graph.nodes()).flat_map(|(ways, node)| ways.iter().flat_map(|way| packed_in(node, way)));
    all.filter(chosen).collect()
}

/// The values that are packed when a node is computed in that way.
fn packed_in(node: &Node, way: &Roles) -> Vec<(ValueId, Form)> {
    let values = node.inputs.iter().zip(&way.inputs).chain(node.outputs.iter().zip(&way.outputs));
    values.filter_map(|(&value, form)| Some((value, (*form)?))).collect()
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
        let mut place = place(value);
        while self.parents[place] != place {
            place = self.parents[place];
        }
        place
    }

    fn join(&mut self, values: &[(ValueId, Form)]) {
        let roots: Vec<usize> = values.iter().map(|&value| self.of(value)).collect();
        let Some(&least) = roots.iter().min() else { return };
        roots.into_iter().for_each(|root| self.parents[root] = least);
        // Short ways for later questions.
        values.iter().for_each(|&value| self.parents[place(value)] = least);
    }
}

fn place((value, form): (ValueId, Form)) -> usize {
    value.index() * Form::ALL.len() + form as usize
}
