//! Operations of StableHLO as those of VHLO 1.0: their names and attributes.

use super::attributes::Attribute;
use crate::LowerError;
use crate::operation::{Kind, Operation};
use octant_graph::Window;

/// An operation's name without the version, and its attributes.
pub type Described<'a> = (&'a str, Vec<(&'static str, Attribute<'a>)>);

/// What VHLO calls an operation. Every one that is written has been there since version 1 of its name.
pub fn described(operation: &Operation) -> Result<Described<'_>, LowerError> {
    let axes = Attribute::axes;
    Ok(match &operation.kind {
        Kind::Elementwise(name) | Kind::Typed(name) => (*name, vec![]),
        Kind::Constant(tensor) => ("constant", vec![("value", Attribute::Tensor(tensor, &operation.results[0].shape))]),
        Kind::Iota { axis } => ("iota", vec![("iota_dimension", Attribute::Integer(*axis))]),
        Kind::Broadcast { axes: along } => ("broadcast_in_dim", vec![("broadcast_dimensions", axes(along))]),
        Kind::Transpose { permutation } => ("transpose", vec![("permutation", axes(permutation))]),
        Kind::Reverse { axes: along } => ("reverse", vec![("dimensions", axes(along))]),
        Kind::Slice { starts, limits, strides } => (
            "slice",
            vec![("limit_indices", axes(limits)), ("start_indices", axes(starts)), ("strides", axes(strides))],
        ),
        Kind::DynamicSlice { sizes } => ("dynamic_slice", vec![("slice_sizes", axes(sizes))]),
        Kind::Pad { low, high, interior } => (
            "pad",
            vec![
                ("edge_padding_high", Attribute::Integers(high.clone())),
                ("edge_padding_low", Attribute::Integers(low.clone())),
                ("interior_padding", axes(interior)),
            ],
        ),
        Kind::Concatenate { axis } => ("concatenate", vec![("dimension", Attribute::Integer(*axis))]),
        Kind::Compare { direction, order } => (
            "compare",
            vec![("compare_type", Attribute::Order(*order)), ("comparison_direction", Attribute::Direction(direction))],
        ),
        Kind::Select => ("select", vec![]),
        Kind::Reduce { axes: along } => ("reduce", vec![("dimensions", axes(along))]),
        Kind::ReduceWindow(window) => {
            let mut attributes = plain_window(window);
            attributes.push(("base_dilations", axes(&window.base_dilation)));
            attributes.push(("window_dilations", axes(&window.window_dilation)));
            ("reduce_window", attributes)
        }
        Kind::SelectAndScatter(window) => ("select_and_scatter", plain_window(window)),
        Kind::Dot(dot, precision) => (
            "dot_general",
            vec![
                ("lhs_batching_dimensions", axes(&dot.left_batch)),
                ("lhs_contracting_dimensions", axes(&dot.left_contract)),
                ("precision_config", Attribute::Precision(*precision)),
                ("rhs_batching_dimensions", axes(&dot.right_batch)),
                ("rhs_contracting_dimensions", axes(&dot.right_contract)),
            ],
        ),
        Kind::Convolution(conv, precision) => (
            "convolution",
            vec![
                ("batch_group_count", Attribute::Integer(conv.batch_groups)),
                ("feature_group_count", Attribute::Integer(conv.feature_groups)),
                ("input_batch_dimension", Attribute::Integer(conv.input.batch)),
                ("input_feature_dimension", Attribute::Integer(conv.input.feature)),
                ("input_spatial_dimensions", axes(&conv.input.spatial)),
                ("kernel_input_feature_dimension", Attribute::Integer(conv.kernel.input)),
                ("kernel_output_feature_dimension", Attribute::Integer(conv.kernel.output)),
                ("kernel_spatial_dimensions", axes(&conv.kernel.spatial)),
                ("lhs_dilation", axes(&conv.input_dilation)),
                ("output_batch_dimension", Attribute::Integer(conv.output.batch)),
                ("output_feature_dimension", Attribute::Integer(conv.output.feature)),
                ("output_spatial_dimensions", axes(&conv.output.spatial)),
                ("padding", Attribute::Pairs(&conv.padding)),
                ("precision_config", Attribute::Precision(*precision)),
                ("rhs_dilation", axes(&conv.kernel_dilation)),
                // A reversed kernel is an operation of its own.
                ("window_reversal", Attribute::NoFlags(conv.kernel.spatial.len())),
                ("window_strides", axes(&conv.strides)),
            ],
        ),
        Kind::Gather(gather) => (
            "gather",
            vec![
                ("collapsed_slice_dims", axes(&gather.collapsed_axes)),
                ("index_vector_dim", Attribute::Integer(gather.index_vector_axis)),
                ("indices_are_sorted", Attribute::Bool(false)),
                ("offset_dims", axes(&gather.offset_axes)),
                ("slice_sizes", axes(&gather.slice_sizes)),
                ("start_index_map", axes(&gather.start_index_map)),
            ],
        ),
        Kind::Scatter(scatter) => (
            "scatter",
            vec![
                ("index_vector_dim", Attribute::Integer(scatter.index_vector_axis)),
                ("indices_are_sorted", Attribute::Bool(false)),
                ("inserted_window_dims", axes(&scatter.inserted_window_axes)),
                ("scatter_dims_to_operand_dims", axes(&scatter.scatter_axes)),
                ("unique_indices", Attribute::Bool(false)),
                ("update_window_dims", axes(&scatter.update_window_axes)),
            ],
        ),
        Kind::Sort { axis } => {
            ("sort", vec![("dimension", Attribute::Integer(*axis)), ("is_stable", Attribute::Bool(true))])
        }
        Kind::While => ("while", vec![]),
        Kind::If => ("if", vec![]),
        Kind::Barrier => ("optimization_barrier", vec![]),
        Kind::Call(name) => ("call", vec![("callee", Attribute::Text(name))]),
        Kind::Return | Kind::FunctionReturn => ("return", vec![]),
        Kind::CustomCall { target, .. } => {
            let reason = "a kernel of one backend is no part of a portable program";
            return Err(LowerError::NotPortable { what: target.clone(), layer: operation.path.to_string(), reason });
        }
        Kind::ExtendedErf => {
            let (what, reason) = ("the error function of f64".into(), "StableHLO has none; compute it in f32");
            return Err(LowerError::NotPortable { what, layer: operation.path.to_string(), reason });
        }
    })
}

/// A window without dilations.
fn plain_window(window: &Window) -> Vec<(&'static str, Attribute<'_>)> {
    vec![
        ("padding", Attribute::Pairs(&window.padding)),
        ("window_dimensions", Attribute::axes(&window.size)),
        ("window_strides", Attribute::axes(&window.strides)),
    ]
}
