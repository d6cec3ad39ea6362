#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::*;
use crate::passes::tests::{assert_same, assert_same_on, inputs};
use crate::runtime::compiler::compiler;
use octant_graph::Shape;

fn kernel(rows: usize, channels: usize, dtype: DType) -> LayerNormKernel {
    LayerNormKernel { rows, channels, dtype, epsilon: 1e-6 }
}

/// A layer norm with its three gradients, prepared as programs are.
fn graph(dtype: DType, dims: &[usize]) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(dtype, dims.to_vec()));
    let channels = Shape::new(DType::F32, [*dims.last().unwrap()]);
    let [scale, shift] = ["scale", "shift"].map(|name| trace.input(name, channels.clone()));
    let result = x.layer_norm(&scale, &shift, 1e-5);
    let wide = result.convert(DType::F32);
    let loss = (&wide * &wide * 0.5 + &wide * 0.3).sum_all();
    let gradients = trace.gradients(&loss, &[x, scale, shift]);
    crate::passes::inline_gradients(&trace.finish(&[vec![result], gradients].concat()).unwrap())
}

fn called(graph: &Graph) -> Vec<&str> {
    let hint = |op| if let &Op::Call { kernel: Some(ref hint), .. } = op { Some(hint.name.as_str()) } else { None };
    graph.nodes().iter().filter_map(|node| hint(&node.op)).collect()
}

#[test]
fn layer_norm_and_its_gradient_call_the_kernels_and_mean_the_same() {
    for (dtype, dims) in [(DType::F32, &[3, 5, 12][..]), (DType::BF16, &[2, 7, 64]), (DType::F16, &[600, 8])] {
        let graph = graph(dtype, dims);
        let made = normalize_by_kernels(&graph, &GpuFacts::H200);
        assert_eq!(called(&made), [LayerNormForward::NAME, LayerNormGradient::NAME]);
        match dtype {
            DType::F32 => assert_same(&graph, &made),
            _ => assert_same_on(&graph, &made, &inputs(&graph), 1e-6),
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_left_to_the_body() {
    for dims in [[2, CHANNELS + 4], [0, 8]] {
        let graph = graph(DType::F32, &dims);
        let left = called(&graph).len();
        let made = normalize_by_kernels(&graph, &GpuFacts::H200);
        assert!(left > 0 && called(&made) == called(&graph), "{dims:?}");
    }
}

#[test]
fn threads_cover_every_row_once() {
    for channels in (1..200).chain([384, 768, 1000, 1024, 1536, 2048, 3072, 4096]) {
        for (dtype, elements) in [(DType::F32, ELEMENTS), (DType::BF16, ELEMENTS), (DType::BF16, GRADIENT_ELEMENTS)] {
            let kernel = kernel(10, channels, dtype);
            let Shares { width, lanes, parts } = Shares::of(&kernel, elements);
            assert!(width * parts <= elements.max(width), "{channels}");
            assert!(channels.is_multiple_of(width) && width * dtype.size() <= 16, "{channels}");
            assert!(lanes * parts * width >= channels && lanes * (parts - 1) * width < channels, "{channels}");
            assert!(THREADS.is_multiple_of(lanes) && (lanes <= 32 || lanes.is_multiple_of(32)), "{channels}");
        }
    }
}

/// Needs NVIDIA's run-time compiler, which is a pip package of its own and needs no GPU.
#[test]
fn the_kernels_compile_where_there_is_a_compiler() {
    let Ok(compiler) = compiler() else {
        println!("skipped: libnvrtc is not on this machine");
        return;
    };
    for (channels, dtype) in
        [(768, DType::BF16), (96, DType::F32), (1536, DType::F16), (7, DType::BF16), (4096, DType::F32)]
    {
        let kernel = kernel(100, channels, dtype);
        for (source, defines) in [
            (LayerNormForward::SOURCE, LayerNormForward::defines(&kernel)),
            (LayerNormGradient::SOURCE, LayerNormGradient::defines(&kernel)),
        ] {
            let code = compiler.compile(&source, 80, &defines);
            assert!(code.as_ref().is_ok_and(|code| !code.is_empty()), "{:?} {channels}: {code:?}", source.name);
        }
    }
}
