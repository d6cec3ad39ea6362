//! Estimates for NVIDIA GPUs.
//!
//! The graph is the one that XLA is given, after our passes for GPUs. Every operation that ends a fusion takes as long as its
//! bytes take at a share of the memory's bandwidth, or its products at a share of the peak, whichever is longer, and large ones
//! the time of a launch besides. The shares were chosen by the steps of eleven networks on an H200 (`docs/benchmarks.md` has the
//! table): times are within 30 % of all of them, memory within 10 % of eight. They are taken to be the same on other GPUs.

use super::{Estimate, Stored};
use crate::gpus::Gpu;
use octant_cuda::{CALLED_NAMES, CUDNN_NAMES, GpuAttention, GpuFacts, GpuTarget, prepare};
use octant_graph::passes::inline_unless;
use octant_graph::{DType, Graph, Op, Shape};
use octant_runtime::Program;

/// The share of the published bandwidth that fusions reach.
const BANDWIDTH_SHARE: f64 = 0.7;
/// The share of the published arithmetic that products and convolutions reach.
const PRODUCT_SHARE: f64 = 0.6;
/// Seconds between two kernels.
const LAUNCH: f64 = 2e-6;
/// Smaller operations are grouped, or recorded into graphs where a launch costs next to nothing.
const LAUNCHED: f64 = 1e6;

/// Estimates a program for one GPU.
pub fn estimate_gpu(program: &Program, gpu: &Gpu) -> Estimate {
    let graph = prepared(program, gpu);
    let stored = Stored::of(&graph);
    let bytes = |shape: &Shape| shape.bytes() as f64;
    let arguments: f64 = graph.input_shapes().iter().map(bytes).sum();
    let peak = (arguments + Stored::at_least(&graph).peak(&graph, bytes)) as u64;
    let mut total = Estimate { bytes: peak, flops: 0.0, traffic: 0.0, seconds: 0.0 };
    for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| stored.ends_fusion[*index]) {
        if matches!(node.op, Op::Parameter { .. } | Op::Constant(_)) {
            continue;
        }
        let written: f64 = node.outputs.iter().map(|&output| bytes(graph.shape(output))).sum();
        let read: f64 = stored.reads[index].iter().map(|&value| bytes(graph.shape(value))).sum();
        let shapes: Vec<&Shape> = node.inputs.iter().map(|&input| graph.shape(input)).collect();
        let flops = node.outputs.first().map_or(0.0, |&output| node.op.flops(&shapes, graph.shape(output)));
        let dtype = shapes.first().map_or(DType::F32, |shape| shape.dtype());
        let moving = (written + read) / (gpu.bandwidth * BANDWIDTH_SHARE);
        let computing = flops / (gpu.products(dtype) * PRODUCT_SHARE);
        let launch = if written + read > LAUNCHED { LAUNCH } else { 0.0 };
        total.flops += flops;
        total.traffic += written + read;
        total.seconds += moving.max(computing) + launch;
    }
    total
}

/// The graph that XLA would be given for that GPU.
fn prepared(program: &Program, gpu: &Gpu) -> Graph {
    // cuDNN's gradient of attention is left out where results are to be repeatable, as they are by default.
    let attention = if gpu.has_kernels { GpuAttention::CuDnn { gradient: false } } else { GpuAttention::Plain };
    let kernels = gpu.has_kernels.then_some(GpuFacts::H200);
    let target = GpuTarget { kernels, fast_products: true, attention };
    let graph = prepare(&program.graph, &target);
    let stays = |name: &str| CALLED_NAMES.contains(&name) || CUDNN_NAMES.contains(&name);
    inline_unless(&graph, |hint| stays(&hint.name))
}
