//! Attributes of operations in MLIR's syntax.

use crate::operation::{Kind, Operation};
use crate::types::{array, join, list, pairs};
use crate::{MatmulPrecision, constant};
use octant_graph::{Convolution, DotGeneral, Gather, HostTensor, Scatter, Shape, Window};

/// A constant of that shape; a scalar stands for one element everywhere.
pub fn literal(tensor: &HostTensor, shape: &Shape) -> String {
    if shape.elements() == 0 { "dense<>".to_string() } else { constant::dense(tensor) }
}

/// ` [0:4, 1:8:2]`.
pub fn ranges(starts: &[usize], limits: &[usize], strides: &[usize]) -> String {
    let range = |((start, limit), stride): ((&usize, &usize), &usize)| match stride {
        1 => format!("{start}:{limit}"),
        stride => format!("{start}:{limit}:{stride}"),
    };
    format!(" {}", list(starts.iter().zip(limits).zip(strides).map(range)))
}

/// The name of the operation of a region that has only one.
pub fn combining(body: &[Operation]) -> &'static str {
    match body {
        [Operation { kind: Kind::Elementwise(name), .. }, Operation { kind: Kind::Return, .. }] => name,
        _ => unreachable!("a reduction of one operand combines by one operation"),
    }
}

fn precision_name(precision: MatmulPrecision) -> &'static str {
    match precision {
        MatmulPrecision::Fast => "DEFAULT",
        MatmulPrecision::High => "HIGH",
        MatmulPrecision::Highest => "HIGHEST",
    }
}

pub fn dot(dot: &DotGeneral, precision: MatmulPrecision) -> String {
    let batching = match dot.left_batch.is_empty() {
        true => String::new(),
        false => format!(", batching_dims = {} x {}", list(&dot.left_batch), list(&dot.right_batch)),
    };
    let contracting = format!(", contracting_dims = {} x {}", list(&dot.left_contract), list(&dot.right_contract));
    let precision = precision_name(precision);
    format!("{batching}{contracting}, precision = [{precision}, {precision}]")
}

/// Names of axes in the order in which they lie: `[b, 0, 1, f]`.
fn layout(rank: usize, named: [(usize, &str); 2], spatial: &[usize]) -> String {
    let mut names = vec![String::new(); rank];
    named.into_iter().for_each(|(axis, name)| names[axis] = name.to_string());
    spatial.iter().enumerate().for_each(|(i, &axis)| names[axis] = i.to_string());
    list(names)
}

pub fn convolution(conv: &Convolution, precision: MatmulPrecision, rank: usize) -> String {
    let axes = format!(
        "{}x{}->{}",
        layout(rank, [(conv.input.batch, "b"), (conv.input.feature, "f")], &conv.input.spatial),
        layout(rank, [(conv.kernel.input, "i"), (conv.kernel.output, "o")], &conv.kernel.spatial),
        layout(rank, [(conv.output.batch, "b"), (conv.output.feature, "f")], &conv.output.spatial),
    );
    let padding = join(conv.padding.iter().map(|(low, high)| format!("[{low}, {high}]")));
    let window = format!(
        "{{stride = {}, pad = [{padding}], lhs_dilate = {}, rhs_dilate = {}}}",
        list(&conv.strides),
        list(&conv.input_dilation),
        list(&conv.kernel_dilation),
    );
    let precision = precision_name(precision);
    format!(
        "dim_numbers = {axes}, window = {window} {{batch_group_count = {} : i64, feature_group_count = {} : i64, \
         precision_config = [#stablehlo<precision {precision}>, #stablehlo<precision {precision}>]}}",
        conv.batch_groups, conv.feature_groups,
    )
}

pub fn window(window: &Window) -> String {
    format!(
        "base_dilations = {}, padding = {}, window_dilations = {}, window_dimensions = {}, window_strides = {}",
        array(&window.base_dilation),
        pairs(&window.padding),
        array(&window.window_dilation),
        array(&window.size),
        array(&window.strides),
    )
}

/// A window without dilations.
pub fn plain_window(window: &Window) -> String {
    format!(
        "padding = {}, window_dimensions = {}, window_strides = {}",
        pairs(&window.padding),
        array(&window.size),
        array(&window.strides),
    )
}

/// Attributes of dimension numbers; empty lists are left out.
fn numbers(lists: &[(&str, &[usize])], index_vector_axis: usize) -> String {
    let given =
        lists.iter().filter(|(_, axes)| !axes.is_empty()).map(|(name, axes)| format!("{name} = {}", list(*axes)));
    join(given.chain([format!("index_vector_dim = {index_vector_axis}")]))
}

pub fn gather(gather: &Gather) -> String {
    let lists: [(&str, &[usize]); 3] = [
        ("offset_dims", &gather.offset_axes),
        ("collapsed_slice_dims", &gather.collapsed_axes),
        ("start_index_map", &gather.start_index_map),
    ];
    let numbers = numbers(&lists, gather.index_vector_axis);
    let sizes = array(&gather.slice_sizes);
    format!("dimension_numbers = #stablehlo.gather<{numbers}>, indices_are_sorted = false, slice_sizes = {sizes}")
}

pub fn scatter(scatter: &Scatter) -> String {
    let lists: [(&str, &[usize]); 3] = [
        ("update_window_dims", &scatter.update_window_axes),
        ("inserted_window_dims", &scatter.inserted_window_axes),
        ("scatter_dims_to_operand_dims", &scatter.scatter_axes),
    ];
    let numbers = numbers(&lists, scatter.index_vector_axis);
    format!(
        "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, unique_indices = false"
    )
}
