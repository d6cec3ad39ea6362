//! Graphs as text: one line per node, bodies indented, the same text for the same graph.
//!
//! ```text
//! %2 f32[8,26,26,64] = convolution(%0, %1) {b01f_01io->b01f strides=[1,1]}  # features.0
//! ```

use crate::op::{Convolution, DotGeneral, ImageAxes, KernelAxes, Window};
use crate::{Graph, HostTensor, Node, Op};
use std::fmt::{self, Debug, Display, Formatter, Write};

/// How many elements of a constant are shown.
const SHOWN: usize = 8;

impl Display for Graph {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write_graph(f, self, 0)
    }
}

fn write_graph(f: &mut Formatter, graph: &Graph, depth: usize) -> fmt::Result {
    for node in graph.nodes() {
        indent(f, depth)?;
        write_node(f, graph, node)?;
        for (name, body) in node.op.bodies() {
            indent(f, depth + 1)?;
            writeln!(f, "{name}:")?;
            write_graph(f, body, depth + 2)?;
        }
    }
    indent(f, depth)?;
    let outputs: Vec<String> = graph.outputs().iter().map(|output| format!("%{}", output.index())).collect();
    writeln!(f, "return {}", outputs.join(", "))
}

fn indent(f: &mut Formatter, depth: usize) -> fmt::Result {
    (0..depth).try_for_each(|_| f.write_str("  "))
}

fn write_node(f: &mut Formatter, graph: &Graph, node: &Node) -> fmt::Result {
    let results = node.outputs.iter().map(|&output| format!("%{} {}", output.index(), graph.shape(output)));
    let operands = node.inputs.iter().map(|input| format!("%{}", input.index()));
    write!(f, "{} = {}", results.collect::<Vec<_>>().join(", "), node.op.name())?;
    write!(f, "({})", operands.collect::<Vec<_>>().join(", "))?;
    let attributes = match &node.op {
        Op::Parameter { index } => format!("{index} \"{}\"", graph.input_names()[*index]),
        op => attributes(op),
    };
    if !attributes.is_empty() {
        write!(f, " {{{attributes}}}")?;
    }
    if !node.path.is_empty() {
        write!(f, "  # {}", node.path)?;
    }
    writeln!(f)
}

/// The attributes of an operation in a line. What is as usual (strides of 1, no padding …) is left out.
fn attributes(op: &Op) -> String {
    match op {
        Op::Parameter { index } => index.to_string(),
        Op::Constant(tensor) => constant(tensor),
        Op::Iota { axis, .. } | Op::Concatenate { axis } => format!("axis={axis}"),
        Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Clamp | Op::DynamicUpdateSlice | Op::Barrier => String::new(),
        Op::Compare(comparison) => format!("{comparison:?}"),
        Op::Convert(dtype) | Op::Bitcast(dtype) => dtype.to_string(),
        Op::Broadcast { axes, .. } => format!("axes={axes:?}"),
        Op::Reshape { .. } | Op::RandomBits { .. } => String::new(),
        Op::Transpose { permutation } => format!("{permutation:?}"),
        Op::Reverse { axes } => format!("axes={axes:?}"),
        Op::Slice { starts, limits, strides } => {
            format!("{starts:?} to {limits:?}{}", unless_all(" strides", strides, &1))
        }
        Op::DynamicSlice { sizes } => format!("sizes={sizes:?}"),
        Op::Pad { low, high, interior } => {
            format!("low={low:?} high={high:?}{}", unless_all(" interior", interior, &0))
        }
        Op::Reduce { kind, axes } => format!("{kind:?} axes={axes:?}"),
        Op::ArgReduce { largest, axis } => format!("{} axis={axis}", if *largest { "max" } else { "min" }),
        Op::ReduceWindow { kind, window } => format!("{kind:?} {}", window_attributes(window)),
        Op::SelectAndScatter { window } => window_attributes(window),
        Op::Dot(dot) => dot_attributes(dot),
        Op::Convolution(conv) => convolution_attributes(conv),
        Op::Gather(gather) => format!(
            "offset={:?} collapsed={:?} map={:?} vectors={} sizes={:?}",
            gather.offset_axes,
            gather.collapsed_axes,
            gather.start_index_map,
            gather.index_vector_axis,
            gather.slice_sizes
        ),
        Op::Scatter(scatter) => format!(
            "{:?} window={:?} inserted={:?} map={:?} vectors={}",
            scatter.kind,
            scatter.update_window_axes,
            scatter.inserted_window_axes,
            scatter.scatter_axes,
            scatter.index_vector_axis
        ),
        Op::While { bound, .. } => bound.map_or(String::new(), |bound| format!("bound={bound}")),
        Op::If { .. } => String::new(),
        Op::Call { recompute, kernel, .. } => {
            let kernel = kernel.as_ref().map(|kernel| format!("kernel={} {:?}", kernel.name, kernel.integers));
            let words = recompute.then(|| "recompute".to_string()).into_iter().chain(kernel);
            words.collect::<Vec<_>>().join(" ")
        }
        op => fields(op),
    }
}

/// `axis: 1, descending: false`: the fields of an operation that has no shorter form.
fn fields(op: &Op) -> String {
    let text = format!("{op:?}");
    let inner = text.split_once(['{', '(']).map_or("", |(_, rest)| rest);
    inner.trim().trim_end_matches(['}', ')']).trim().to_string()
}

fn constant(tensor: &HostTensor) -> String {
    let values = tensor.to_f64s();
    let shown: Vec<String> = values.iter().take(SHOWN).map(|value| value.to_string()).collect();
    match values.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{}, … {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// ` name=values`, or nothing when all are the usual value.
fn unless_all<T: Debug + PartialEq>(name: &str, values: &[T], usual: &T) -> String {
    if values.iter().all(|value| value == usual) { String::new() } else { format!("{name}={values:?}") }
}

fn window_attributes(window: &Window) -> String {
    format!(
        "size={:?}{}{}{}{}",
        window.size,
        unless_all(" strides", &window.strides, &1),
        unless_all(" padding", &window.padding, &(0, 0)),
        unless_all(" base_dilation", &window.base_dilation, &1),
        unless_all(" window_dilation", &window.window_dilation, &1),
    )
}

fn dot_attributes(dot: &DotGeneral) -> String {
    let DotGeneral { left_batch, right_batch, left_contract, right_contract, .. } = dot;
    let batch = if left_batch.is_empty() { String::new() } else { format!("batch={left_batch:?}x{right_batch:?} ") };
    format!("{batch}contract={left_contract:?}x{right_contract:?}")
}

fn convolution_attributes(conv: &Convolution) -> String {
    let mut text = format!("{}_{}->{}", image_axes(&conv.input), kernel_axes(&conv.kernel), image_axes(&conv.output));
    text += &unless_all(" strides", &conv.strides, &1);
    text += &unless_all(" padding", &conv.padding, &(0, 0));
    text += &unless_all(" input_dilation", &conv.input_dilation, &1);
    text += &unless_all(" kernel_dilation", &conv.kernel_dilation, &1);
    text += &unless_all(" feature_groups", &[conv.feature_groups], &1);
    text += &unless_all(" batch_groups", &[conv.batch_groups], &1);
    text + if conv.reversed { " reversed" } else { "" }
}

/// Axes as letters in their order: `b01f` is batch, two spatial axes, features.
fn image_axes(axes: &ImageAxes) -> String {
    axis_letters((axes.batch, 'b'), (axes.feature, 'f'), &axes.spatial)
}

/// Axes as letters in their order: `01io` is two spatial axes, input features, output features.
fn kernel_axes(axes: &KernelAxes) -> String {
    axis_letters((axes.input, 'i'), (axes.output, 'o'), &axes.spatial)
}

fn axis_letters(first: (usize, char), second: (usize, char), spatial: &[usize]) -> String {
    (0..spatial.len() + 2).fold(String::new(), |mut text, axis| {
        let position = spatial.iter().position(|&own| own == axis);
        let written = match position {
            Some(position) => write!(text, "{position}"),
            None => write!(text, "{}", if axis == first.0 { first.1 } else { second.1 }),
        };
        written.expect("writing to a string does not fail");
        text
    })
}
