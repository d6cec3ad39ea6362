//! Gather and scatter.

use crate::function::{Function, Named};
use crate::types::{self, array, join, list};
use octant_graph::{Gather, Scatter, ScatterKind, Shape};

/// Attributes of dimension numbers; empty lists are left out.
fn numbers(lists: &[(&str, &[usize])], index_vector_axis: usize) -> String {
    let given =
        lists.iter().filter(|(_, axes)| !axes.is_empty()).map(|(name, axes)| format!("{name} = {}", list(*axes)));
    join(given.chain([format!("index_vector_dim = {index_vector_axis}")]))
}

pub fn gather(f: &mut Function, x: &Named, indices: &Named, gather: &Gather, shape: &Shape) -> Named {
    let lists: [(&str, &[usize]); 3] = [
        ("offset_dims", &gather.offset_axes),
        ("collapsed_slice_dims", &gather.collapsed_axes),
        ("start_index_map", &gather.start_index_map),
    ];
    let numbers = numbers(&lists, gather.index_vector_axis);
    let sizes = array(&gather.slice_sizes);
    let signature = types::tuple(&[&x.shape, &indices.shape]);
    let attributes =
        format!("dimension_numbers = #stablehlo.gather<{numbers}>, indices_are_sorted = false, slice_sizes = {sizes}");
    f.op(
        shape,
        format!("\"stablehlo.gather\"({x}, {indices}) <{{{attributes}}}> : {signature} -> {}", types::tensor(shape)),
    )
}

pub fn scatter(f: &mut Function, x: &Named, indices: &Named, updates: &Named, scatter: &Scatter) -> Named {
    let lists: [(&str, &[usize]); 3] = [
        ("update_window_dims", &scatter.update_window_axes),
        ("inserted_window_dims", &scatter.inserted_window_axes),
        ("scatter_dims_to_operand_dims", &scatter.scatter_axes),
    ];
    let numbers = numbers(&lists, scatter.index_vector_axis);
    let signature = types::tuple(&[&x.shape, &indices.shape, &updates.shape]);
    let attributes = format!(
        "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, unique_indices = false"
    );
    let named = f.several(&[&x.shape], |f, head| {
        f.open(format!("{head} = \"stablehlo.scatter\"({x}, {indices}, {updates}) <{{{attributes}}}> ({{"));
        f.indented(|f| update(f, scatter.kind, x));
        f.line(format!("}}) : {signature} -> {}", x.ty()));
    });
    named[0].clone()
}

/// What happens where an update meets the operand.
fn update(f: &mut Function, kind: ScatterKind, x: &Named) {
    let name = match kind {
        ScatterKind::Set => {
            let arguments = f.arguments(&[Shape::scalar(x.dtype()), Shape::scalar(x.dtype())]);
            f.block_head(&arguments);
            return f.region_return(&arguments[1..]);
        }
        ScatterKind::Add => "add",
        ScatterKind::Multiply => "multiply",
        ScatterKind::Min => "minimum",
        ScatterKind::Max => "maximum",
    };
    super::window::combine(f, name, x.dtype());
}
