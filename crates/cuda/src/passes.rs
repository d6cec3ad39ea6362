//! All passes for one GPU, in order.

mod convolutions;

use crate::GpuFacts;
use crate::attention::{GpuAttention, attend_by_cudnn};
use crate::kernels::CALLED_NAMES;
use crate::kernels::conv::task::GpuProfile;
use crate::kernels::layer_norm::normalize_by_kernels;
use crate::kernels::update::group_updates;
use crate::xla;
use convolutions::fuse_convolutions;
use octant_graph::passes::{apply, rewrite, unpool_by_gathering};
use octant_graph::verify::verify;
use octant_graph::{AttentionKernel, Graph, LayerNormKernel, Node, Op};

/// What a graph is prepared for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuTarget {
    /// The GPU that our kernels divide their work for; none where the program may not call them. Only programs for one
    /// device may: the compiler cannot partition a call that it knows nothing about.
    pub kernels: Option<GpuFacts>,
    /// Whether products of f32 may be rounded to 11 bits.
    pub fast_products: bool,
    /// How attention is computed. cuDNN's kernels are calls, too: only programs for one device have them.
    pub attention: GpuAttention,
}

/// The graph in the form that XLA compiles best for an NVIDIA GPU, with calls of our kernels where the target has them. Inputs
/// and outputs keep their number and order.
pub fn prepare(graph: &Graph, target: &GpuTarget) -> Graph {
    let GpuTarget { kernels, fast_products, attention } = *target;
    let graph = &checked("inline_gradients", inline_gradients(graph));
    let graph = &match attention {
        GpuAttention::Plain => graph.clone(),
        GpuAttention::CuDnn { gradient } => checked("attend_by_cudnn", attend_by_cudnn(graph, gradient)),
    };
    let graph = &checked("recompute_functions", xla::recompute_functions(graph));
    let device = kernels.map(|gpu| GpuProfile { gpu, fast_products });
    apply(|graph| prepare_level(graph, device.as_ref()), graph)
}

/// The gradient of a call with a kernel is a call around the kernel's gradient. Inlined, the inner one shows which cotangents
/// are zero, and sums stand next to those that they may be fused with.
pub fn inline_gradients(graph: &Graph) -> Graph {
    const GRADIENTS: [&str; 2] = [AttentionKernel::BACKWARD, LayerNormKernel::BACKWARD];
    let is_gradient = |node: &Node| matches!(&node.op, Op::Call { kernel: Some(hint), .. } if GRADIENTS.contains(&hint.name.as_str()));
    let inline = |graph: &Graph| {
        rewrite(graph, |node| match &node.op {
            Op::Call { body, kernel: None, .. } if body.nodes().iter().any(is_gradient) => Some((**body).clone()),
            _ => None,
        })
    };
    apply(inline, graph)
}

/// The kernels that a program for an H200 calls, in the order of its graph.
pub fn called_kernels(graph: &Graph) -> Vec<String> {
    fn called(graph: &Graph, found: &mut Vec<String>) {
        for node in graph.nodes() {
            let Op::Call { body, kernel, .. } = &node.op else { continue };
            match kernel.as_ref().filter(|kernel| CALLED_NAMES.contains(&kernel.name.as_str())) {
                Some(kernel) => found.push(kernel.name.clone()),
                None => called(body, found),
            }
        }
    }
    let attention = GpuAttention::CuDnn { gradient: true };
    let target = GpuTarget { kernels: Some(GpuFacts::H200), fast_products: true, attention };
    let mut found = Vec::new();
    called(&prepare(graph, &target), &mut found);
    found
}

/// One graph, whose bodies have been prepared already, with calls of our kernels on a device that has them.
fn prepare_level(graph: &Graph, device: Option<&GpuProfile>) -> Graph {
    let mut graph = checked("exchange_dilated", xla::exchange_dilated(graph));
    if let Some(device) = device {
        graph = checked("normalize_by_kernels", normalize_by_kernels(&graph, &device.gpu));
        graph = checked("fuse_convolutions", fuse_convolutions(&graph, device));
        graph = checked("group_updates", group_updates(&graph));
    }
    graph = checked("split_dilated", xla::split_dilated(&graph));
    graph = checked("convolutions_as_products", xla::convolutions_as_products(&graph));
    graph = checked("small_products_as_sums", xla::small_products_as_sums(&graph));
    graph = checked("small_tables_as_sums", xla::small_tables_as_sums(&graph));
    graph = checked("unpool_by_comparing", xla::unpool_by_comparing(&graph));
    graph = checked("unpool_by_gathering", unpool_by_gathering(&graph));
    checked("divide_reductions", xla::divide_reductions(&graph))
}

/// The graph that a pass has made; it is verified where assertions are on.
fn checked(pass: &str, graph: Graph) -> Graph {
    if cfg!(debug_assertions)
        && let Err(error) = verify(&graph)
    {
        panic!("after {pass}: {error}");
    }
    graph
}

#[cfg(test)]
pub mod tests;
