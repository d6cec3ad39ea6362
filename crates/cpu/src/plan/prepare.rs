//! Rewrites before planning: operations that the planner does not handle are expressed by others.

use super::int8::{self, Int8Call};
use super::steps::AttentionCall;
use octant_graph::{
    AssignmentKernel, Binary, DType, Graph, GraphBuilder, KernelHint, Node, Op, Reduction, ValueId, Window, passes,
};
use std::collections::HashMap;

/// The graph simplified, without calls but for those that have kernels, and with negative padding expressed as slices.
pub(crate) fn prepare(graph: &Graph) -> Graph {
    let has_kernel = |hint: &KernelHint| {
        AttentionCall::of(hint).is_some() || Int8Call::is(hint) || AssignmentKernel::decode(hint).is_some()
    };
    let stays = |hint: &KernelHint| has_kernel(hint) || int8::is_quantization(hint);
    let graph = passes::apply(|graph| passes::inline_unless(graph, stays), graph);
    let graph = passes::apply(int8::integer_products, &graph);
    let graph = passes::apply(|graph| passes::inline_unless(graph, has_kernel), &graph);
    passes::optimize(rewritten(&graph))
}

/// * Negative padding becomes slices.
/// * Reductions of a few long rows become sums of them.
/// * Sums of a pooling's input gradient become sums of its output gradient.
/// * A per-channel bias before a max pooling is added after it: that is less work, and the largest element
///   stays the largest.
/// * Numbers become 8-bit ones without a clamp before it: a conversion saturates, too.
fn rewritten(graph: &Graph) -> Graph {
    let users = users(graph);
    let mut builder = GraphBuilder::new();
    let mut renamed: HashMap<ValueId, ValueId> = HashMap::new();
    for node in graph.nodes() {
        let inputs: Vec<ValueId> = node.inputs.iter().map(|input| renamed[input]).collect();
        let rewritten = if let Op::Parameter { index } = node.op {
            Some(vec![builder.input(&graph.input_names()[index], graph.shape(node.outputs[0]).clone())])
        } else {
            rewrite(graph, &users, &mut builder, node, &inputs, &renamed)
        };
        let made = rewritten.unwrap_or_else(|| builder.copy(graph, node, inputs));
        renamed.extend(node.outputs.iter().copied().zip(made));
    }
    let outputs = graph.outputs().iter().map(|output| renamed[output]).collect();
    builder.finish(outputs)
}

/// The replacement of a node, if it has one.
fn rewrite(
    graph: &Graph,
    users: &[Vec<usize>],
    builder: &mut GraphBuilder,
    node: &Node,
    inputs: &[ValueId],
    renamed: &HashMap<ValueId, ValueId>,
) -> Option<Vec<ValueId>> {
    if let Op::Pad { low, high, interior } = &node.op {
        let cuts = low.iter().chain(high).any(|&edge| edge < 0);
        return cuts.then(|| vec![pad_and_slice(builder, node, inputs.to_vec(), low, high, interior)]);
    }
    if let Op::Convert(dtype) = node.op {
        let value = clamped_to(graph, node.inputs[0], dtype)?;
        return Some(
            builder.push(node.op.clone(), vec![renamed[&value]], node.path.clone()).expect("a clamp keeps shapes"),
        );
    }
    if let Op::Reduce { kind, axes } = &node.op {
        if is_short(graph, node, axes) {
            return Some(vec![combined_slices(builder, node, inputs[0], *kind, axes[0])]);
        }
        let source = scattered_source(graph, node.inputs[0], axes).filter(|_| *kind == Reduction::Sum)?;
        let made = builder.push(node.op.clone(), vec![renamed[&source]], node.path.clone());
        return Some(made.expect("a scatter and its source have the same axes"));
    }
    if let Op::ReduceWindow { kind: Reduction::Max, window } = &node.op {
        let [operand, added] = added_to_channels(graph, users, node.inputs[0], window)?;
        let operands = [renamed[&operand], renamed[&graph.producer(added).inputs[0]]];
        return Some(vec![pooled_then_added(builder, graph, node, operands, added)]);
    }
    if let Op::SelectAndScatter { window } = &node.op {
        let [operand, _] = added_to_channels(graph, users, node.inputs[0], window)?;
        return Some(builder.copy(graph, node, vec![renamed[&operand], inputs[1]]));
    }
    None
}

/// What is clamped to the numbers of an 8-bit type, or to some beyond them.
fn clamped_to(graph: &Graph, value: ValueId, dtype: DType) -> Option<ValueId> {
    let (least, largest) = match dtype {
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        _ => return None,
    };
    let clamp = graph.producer(value);
    let [low, value, high] = clamp.inputs[..] else { return None };
    let holds = clamp.op == Op::Clamp && graph.shape(value).dtype().is_float();
    let beyond = || Some(int8::constant(graph, low)? <= least && int8::constant(graph, high)? >= largest);
    (holds && beyond()?).then_some(value)
}

/// Whether a reduction is over one axis of a few elements, each of which is many elements long: then the sum of a few slices
/// is a loop with long rows, where a fold would have many short ones.
fn is_short(graph: &Graph, node: &Node, axes: &[usize]) -> bool {
    const FEW: usize = 8;
    const MANY: usize = 4096;
    let operand = graph.shape(node.inputs[0]);
    match axes {
        [axis] if axis + 1 < operand.rank() => {
            (2..=FEW).contains(&operand.dims()[*axis]) && graph.shape(node.outputs[0]).elements() >= MANY
        }
        _ => false,
    }
}

/// A reduction as slices that are combined one after the other.
fn combined_slices(builder: &mut GraphBuilder, node: &Node, operand: ValueId, kind: Reduction, axis: usize) -> ValueId {
    let combine = kind.combining();
    let dims = builder.shape(operand).dims().to_vec();
    let mut reduced = dims.clone();
    reduced.remove(axis);
    let mut push = |op, inputs| builder.push(op, inputs, node.path.clone()).expect("the slices of a value fit")[0];
    let mut slice = |at: usize| {
        let (mut starts, mut limits) = (vec![0; dims.len()], dims.clone());
        (starts[axis], limits[axis]) = (at, at + 1);
        let slice = push(Op::Slice { starts, limits, strides: vec![1; dims.len()] }, vec![operand]);
        push(Op::Reshape { dims: reduced.clone() }, vec![slice])
    };
    let slices: Vec<ValueId> = (0..dims[axis]).map(&mut slice).collect();
    let combined = slices.into_iter().reduce(|all, slice| push(Op::Binary(combine), vec![all, slice]));
    combined.expect("a short axis has at least two elements")
}

/// The nodes that read every value; outputs of the graph are read by one that does not exist.
fn users(graph: &Graph) -> Vec<Vec<usize>> {
    let mut users = vec![Vec::new(); graph.values().len()];
    for (at, node) in graph.nodes().iter().enumerate() {
        node.inputs.iter().for_each(|input| users[input.index()].push(at));
    }
    graph.outputs().iter().for_each(|output| users[output.index()].push(usize::MAX));
    users
}

/// The two operands of `value` if it is a sum whose second operand is the same all over each window of `window`, and only
/// maximum poolings and their gradients read it.
fn added_to_channels(graph: &Graph, users: &[Vec<usize>], value: ValueId, window: &Window) -> Option<[ValueId; 2]> {
    let node = graph.producer(value);
    let Op::Binary(Binary::Add) = &node.op else { return None };
    let only_pooled = users[value.index()].iter().all(|&user| match graph.nodes().get(user) {
        Some(user) => {
            if let Op::ReduceWindow { kind: Reduction::Max, window: other } = &user.op {
                other == window
            } else {
                let scatters = matches!(&user.op, Op::SelectAndScatter { window: other } if other == window);
                scatters && user.inputs[1] != value
            }
        }
        None => false,
    });
    let is_still = |axis: usize| window.size[axis] == 1 && window.strides[axis] == 1 && window.padding[axis] == (0, 0);
    let added = graph.producer(node.inputs[1]);
    let Op::Broadcast { axes, .. } = &added.op else { return None };
    let lengths = graph.shape(added.inputs[0]).dims();
    let same = axes.iter().zip(lengths).all(|(&axis, &length)| is_still(axis) || length == 1);
    (only_pooled && same && graph.shape(value).dtype().is_float()).then(|| [node.inputs[0], node.inputs[1]])
}

/// The pooling `node` of the first operand, and then the second one added: what `added` spreads over the channels.
fn pooled_then_added(
    builder: &mut GraphBuilder,
    graph: &Graph,
    node: &Node,
    [operand, bias]: [ValueId; 2],
    added: ValueId,
) -> ValueId {
    let Op::Broadcast { axes, .. } = &graph.producer(added).op else {
        unreachable!("what is added was seen to spread")
    };
    let broadcast = Op::Broadcast { dims: graph.shape(node.outputs[0]).dims().to_vec(), axes: axes.clone() };
    let mut push =
        |op, inputs| builder.push(op, inputs, node.path.clone()).expect("no axis of what is added is pooled")[0];
    let pooled = push(node.op.clone(), vec![operand]);
    let bias = push(broadcast, vec![bias]);
    push(Op::Binary(Binary::Add), vec![pooled, bias])
}

/// The source of a select-and-scatter, if summing its result over `axes` sums every source element exactly once: all
/// axes along which windows move are summed over, and every window selects something.
fn scattered_source(graph: &Graph, value: ValueId, axes: &[usize]) -> Option<ValueId> {
    let node = graph.producer(value);
    let Op::SelectAndScatter { window } = &node.op else { return None };
    let moves = |axis: usize| window.size[axis] != 1 || window.strides[axis] != 1 || window.padding[axis] != (0, 0);
    let covered = (0..window.size.len()).all(|axis| !moves(axis) || axes.contains(&axis));
    let never_empty = window.padding.iter().zip(&window.size).all(|(&(low, high), &size)| {
        let reach = size as i64;
        (0..reach).contains(&low) && (0..reach).contains(&high)
    });
    (covered && never_empty).then(|| node.inputs[1])
}

fn pad_and_slice(
    builder: &mut GraphBuilder,
    node: &Node,
    inputs: Vec<ValueId>,
    low: &[i64],
    high: &[i64],
    interior: &[usize],
) -> ValueId {
    let added = |edges: &[i64]| edges.iter().map(|&edge| edge.max(0)).collect::<Vec<_>>();
    let removed = |edges: &[i64]| edges.iter().map(|&edge| edge.min(0).unsigned_abs() as usize).collect::<Vec<_>>();
    let pad = Op::Pad { low: added(low), high: added(high), interior: interior.to_vec() };
    let mut push =
        |op, inputs| builder.push(op, inputs, node.path.clone()).expect("the parts of a valid padding are valid")[0];
    let padded = push(pad, inputs);
    let dims = builder.shape(padded).dims().to_vec();
    let limits = dims.iter().zip(removed(high)).map(|(&dim, cut)| dim - cut).collect();
    let slice = Op::Slice { starts: removed(low), limits, strides: vec![1; dims.len()] };
    builder.push(slice, vec![padded], node.path.clone()).expect("the parts of a valid padding are valid")[0]
}
