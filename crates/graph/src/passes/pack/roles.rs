//! Which operations can be computed on packed values, and which of their operands and results are packed then.

use super::conv::PackedConv;
use super::{Form, SIDE};
use crate::{Graph, Node, Op, OpClass, ValueId, Window};

/// The form of every operand and result; none for those that stay as they are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Roles {
    pub inputs: Vec<Option<Form>>,
    pub outputs: Vec<Option<Form>>,
}

impl Roles {
    fn new(inputs: impl Into<Vec<Option<Form>>>, output: Option<Form>) -> Option<Roles> {
        Some(Roles { inputs: inputs.into(), outputs: vec![output] })
    }

    fn same(node: &Node, form: Form) -> Option<Roles> {
        Roles::new(vec![Some(form); node.inputs.len()], Some(form))
    }

    /// The values that are packed, of a node that is computed with these roles.
    pub fn packed(&self, node: &Node) -> Vec<(ValueId, Form)> {
        let values = node.inputs.iter().zip(&self.inputs).chain(node.outputs.iter().zip(&self.outputs));
        values.filter_map(|(&value, form)| Some((value, (*form)?))).collect()
    }
}

/// All roles with which a node can be computed on packed values. For a barrier each concerns one of its values.
pub(super) fn roles(graph: &Graph, node: &Node) -> Vec<Roles> {
    let alternatives = match &node.op {
        Op::Barrier => barrier(node),
        Op::Convolution(conv) => {
            let packed = PackedConv::of(conv, graph, node);
            packed.iter().map(convolution).collect()
        }
        _ => Form::ALL.into_iter().filter_map(|form| of_form(graph, node, form)).collect(),
    };
    let can_be_packed = |&(value, form): &(ValueId, Form)| form.packed(graph.shape(value).dims()).is_some();
    alternatives.into_iter().filter(|roles| roles.packed(node).iter().all(can_be_packed)).collect()
}

fn convolution(packed: &PackedConv) -> Roles {
    let [input, output] = packed.forms();
    match packed.is_gradient() {
        false => Roles { inputs: vec![input, None], outputs: vec![output] },
        true => Roles { inputs: vec![input, output], outputs: vec![None] },
    }
}

fn barrier(node: &Node) -> Vec<Roles> {
    let one = |index: usize, form: Form| {
        let mut roles = vec![None; node.inputs.len()];
        roles[index] = Some(form);
        Roles { inputs: roles.clone(), outputs: roles }
    };
    (0..node.inputs.len()).flat_map(|index| Form::ALL.map(|form| one(index, form))).collect()
}

fn of_form(graph: &Graph, node: &Node, form: Form) -> Option<Roles> {
    let input = node.inputs.first().map(|&input| graph.shape(input).dims()).unwrap_or_default();
    let output = node.outputs.first().map(|&output| graph.shape(output).dims()).unwrap_or_default();
    let rows = form.rows(input.len());
    match &node.op {
        Op::Broadcast { axes, .. } => broadcast(input, output, axes, form),
        Op::Reshape { .. } => reshape(input, output, form),
        Op::Slice { starts, limits, strides } => {
            let rows = rows?;
            let whole = |axis: usize| starts[axis] == 0 && limits[axis] == input[axis] && strides[axis] == 1;
            match [rows, rows + 1].map(|axis| (whole(axis), output[axis] == 1)) {
                [(true, _), (true, _)] => Roles::same(node, form),
                [(_, true), (_, true)] if form == Form::Image => Roles::new([Some(form)], None),
                _ => None,
            }
        }
        Op::Pad { low, high, interior } => {
            let rows = rows?;
            let untouched = |axis: usize| low[axis] == 0 && high[axis] == 0 && interior[axis] == 0;
            (untouched(rows) && untouched(rows + 1)).then(|| Roles::new([Some(form), None], Some(form)))?
        }
        Op::Concatenate { axis } => {
            let rows = rows?;
            (![rows, rows + 1].contains(axis)).then(|| Roles::same(node, form))?
        }
        Op::Reduce { axes, .. } => {
            let rows = rows?;
            match [rows, rows + 1].map(|axis| axes.contains(&axis)) {
                [true, true] => Roles::new([Some(form)], None),
                [false, false] if axes.contains(&(rows + 2)) => Roles::new([Some(form)], Some(Form::Map)),
                [false, false] => Roles::same(node, form),
                _ => None,
            }
        }
        Op::ReduceWindow { window, .. } => {
            (form == Form::Image && is_block(window)).then(|| Roles::new([Some(form)], None))?
        }
        Op::SelectAndScatter { window } => {
            (form == Form::Image && is_block(window)).then(|| Roles::new([Some(form), None], Some(form)))?
        }
        // No packed form, or roles of its own: convolutions and barriers.
        op => match op.class() {
            OpClass::Source | OpClass::View | OpClass::Join | OpClass::Reduction | OpClass::Whole => None,
            OpClass::Control | OpClass::Barrier => None,
            OpClass::Elementwise => Roles::same(node, form),
        },
    }
}

/// What is repeated over all pixels stays as it is; what has a value per pixel is packed.
fn broadcast(input: &[usize], output: &[usize], axes: &[usize], form: Form) -> Option<Roles> {
    let rows = form.rows(output.len())?;
    let length = |axis: usize| axes.iter().position(|&to| to == axis).map_or(1, |from| input[from]);
    match [rows, rows + 1].map(length) {
        [1, 1] => Roles::new([None], Some(form)),
        [height, width] if height == output[rows] && width == output[rows + 1] => {
            let operand = match form {
                Form::Map => Form::Map,
                Form::Image if axes.contains(&(rows + 2)) => Form::Image,
                Form::Image => Form::Map,
            };
            Roles::new([Some(operand)], Some(form))
        }
        _ => None,
    }
}

/// Leading axes may be merged and split, and an axis of one channel may come and go.
fn reshape(input: &[usize], output: &[usize], form: Form) -> Option<Roles> {
    let (_, pixels) = form.split(output)?;
    let other = match form {
        Form::Image => Form::Map,
        Form::Map => Form::Image,
    };
    let has_these = |from: &Form| from.split(input).is_some_and(|(_, operand)| operand == pixels);
    let from = [form, other].into_iter().find(has_these)?;
    Roles::new([Some(from)], Some(form))
}

/// Whether a window is a block of pixels, and the next one the next block.
fn is_block(window: &Window) -> bool {
    let block: &[usize] = &[SIDE, SIDE, 1];
    let ones = |sizes: &[usize]| sizes.iter().all(|&size| size == 1);
    let (leading, last) = window.size.split_at(window.size.len().saturating_sub(3));
    last == block
        && ones(leading)
        && window.strides == window.size
        && window.padding.iter().all(|&edges| edges == (0, 0))
        && ones(&window.base_dilation)
        && ones(&window.window_dilation)
}
