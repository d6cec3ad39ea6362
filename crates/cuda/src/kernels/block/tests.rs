#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod values;

use super::coordinates::{behind, coordinates, index, reduced};
use super::step::{Step, Steps};
use super::*;
use crate::GpuAttention;
use crate::passes::tests::assert_same;
use crate::passes::{GpuTarget, prepare};
use crate::runtime::compiler::compiler;
use octant_graph::{Convolution, DType, Graph, Op, Shape, Tensor, Trace};

const TARGET: GpuTarget =
    GpuTarget { kernels: Some(GpuFacts::H200), fast_products: true, attention: GpuAttention::Plain };

fn input(trace: &Trace, name: &str, dims: &[usize]) -> Tensor {
    trace.input(name, Shape::new(DType::F32, dims))
}

/// The calls of blocks: their hints and bodies.
fn blocks(graph: &Graph) -> Vec<(Arc<KernelHint>, Arc<Graph>)> {
    let call = |node: &octant_graph::Node| match &node.op {
        Op::Call { body, kernel: Some(kernel), .. } if kernel.name == BlockKernel::NAME => {
            Some((kernel.clone(), body.clone()))
        }
        _ => None,
    };
    graph.nodes().iter().filter_map(call).collect()
}

/// A graph after all passes, which must mean the same.
fn prepared(graph: &Graph) -> Graph {
    let made = prepare(graph, &[], &TARGET);
    assert_same(graph, &made);
    made
}

/// Coefficients of a norm from sums that large operations have made.
fn coefficients(sums: &Tensor, squares: &Tensor) -> [Tensor; 2] {
    let [mean, square] = [sums, squares].map(|sums| sums.sum(&[0]) / 1000.0);
    let factor = (&square - &mean.square() + 1e-1).rsqrt();
    [-&mean * &factor, factor]
}

fn convolved(trace: &Trace, x: &Tensor, name: &str) -> Tensor {
    let kernel = input(trace, name, &[3, 3, x.channels(), x.channels()]);
    x.convolution(&kernel, Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) })
}

/// A convolution, whose norm is divided between large operations and a small region, and another one.
fn two_norms() -> Graph {
    let trace = Trace::new();
    let mut x = input(&trace, "x", &[4, 48, 48, 8]);
    for kernel in ["first", "second"] {
        let y = convolved(&trace, &x, kernel);
        let [offset, factor] = coefficients(&y.sum(&[1, 2]), &y.square().sum(&[1, 2]));
        x = (&y * &factor + &offset).relu();
    }
    trace.finish(&[x]).unwrap()
}

#[test]
fn regions_on_both_sides_of_a_large_operation_are_two_calls() {
    let blocks = blocks(&prepared(&two_norms()));
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].0, blocks[1].0, "equal regions are compiled once");
}

#[test]
fn graphs_without_kernels_and_large_operations_stay_as_they_are() {
    assert!(blocks(&prepare(&two_norms(), &[], &GpuTarget { kernels: None, ..TARGET })).is_empty());
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64, 64, 16]);
    let graph = trace.finish(&[(&x * 2.0).sum(&[3]), x.relu()]).unwrap();
    assert_eq!(outline_regions(&graph, &[], &GpuFacts::H200), graph);
}

#[test]
fn one_reduction_is_left_to_the_compiler() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let graph = trace.finish(&[x.sum(&[0]).exp() * 2.0]).unwrap();
    assert!(blocks(&prepared(&graph)).is_empty());
}

#[test]
fn what_others_read_too_is_an_output_and_moves_stay_for_them() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let large = input(&trace, "large", &[64, 128, 64]);
    let mean = x.mean(&[0]);
    let variance = (&x - &mean).square().mean(&[0]);
    let moved = mean.broadcast_to(&[64, 128, 64]);
    let made = prepared(&trace.finish(&[&large + &moved, variance]).unwrap());
    let blocks = blocks(&made);
    assert_eq!(blocks.len(), 1, "{made}");
    assert_eq!(blocks[0].1.output_shapes(), vec![Shape::new(DType::F32, [64]); 2]);
    let count = |is: fn(&Op) -> bool| made.nodes().iter().filter(|node| is(&node.op)).count();
    assert_eq!(count(|op| matches!(op, Op::Broadcast { .. })), 1, "the one for the large array\n{made}");
    assert_eq!(count(|op| matches!(op, Op::Reduce { .. })), 0, "{made}");
}

#[test]
fn a_call_comes_after_all_that_it_reads_and_before_all_that_reads_it() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let large = input(&trace, "large", &[64, 128, 64]);
    // In this order: a member, its large consumer, what the other member needs, and the other member.
    let first = x.sum(&[0]);
    let read = &large * &first;
    let needed = convolved(&trace, &input(&trace, "images", &[2, 24, 24, 64]), "kernel").sum(&[1, 2]);
    let other = (&first * 2.0 + needed.sum(&[0])).sum_all();
    let more = first.square().sum_all();
    assert!(!blocks(&prepared(&trace.finish(&[read, other, more]).unwrap())).is_empty());
}

#[test]
fn donated_inputs_are_overwritten_where_nothing_else_reads_them() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let [running, other] = ["running", "other"].map(|name| input(&trace, name, &[64]));
    let mean = x.mean(&[0]);
    let next = &running * 0.9 + &mean * 0.1;
    let variance = (&x - &other).square().mean(&[0]);
    let changed = &other * 0.9 + &variance * &mean.sum_all();
    let graph = trace.finish(&[next, changed]).unwrap();
    let in_place = |donated: &[(usize, usize)]| {
        let blocks = blocks(&prepare(&graph, donated, &TARGET));
        assert_eq!(blocks.len(), 1);
        let (hint, body) = &blocks[0];
        for &(output, operand) in &hint.in_place {
            assert_eq!(body.output_shapes()[output], body.input_shapes()[operand]);
        }
        hint.in_place.len()
    };
    assert_eq!(in_place(&[(1, 0), (2, 1)]), 1, "the other is read before it could be overwritten");
    assert_eq!(in_place(&[]), 0);
}

#[test]
fn what_is_read_only_in_a_later_region_is_made_there() {
    let trace = Trace::new();
    let y = convolved(&trace, &input(&trace, "x", &[4, 48, 48, 8]), "kernel");
    let running = input(&trace, "running", &[8]) * 0.9;
    let [offset, factor] = coefficients(&y.sum(&[1, 2]), &y.square().sum(&[1, 2]));
    let made = prepared(&trace.finish(&[offset + &running, factor]).unwrap());
    assert_eq!(blocks(&made).len(), 1, "{made}");
    let reads_input =
        |node: &&octant_graph::Node| matches!(node.op, Op::Binary(_)) && node.inputs.contains(&made.inputs()[2]);
    assert_eq!(made.nodes().iter().filter(reads_input).count(), 0, "{made}");
}

#[test]
fn operations_without_a_step_stay_whole() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let mean = x.mean(&[0]);
    let variance = (&x - &mean).square().mean(&[0]);
    let (largest, index) = variance.arg_max(0);
    let sorted = Tensor::sort(&[variance.clone(), mean], 0, true);
    let made = prepared(&trace.finish(&[largest, index, sorted[0].clone(), sorted[1].clone()]).unwrap());
    assert_eq!(blocks(&made).len(), 1, "{made}");
}

#[test]
fn counts_are_three_numbers_that_a_block_can_have() {
    let read = |integers: &[i64]| BlockKernel::decode(&Encoded { integers, source: Some("x;") });
    let expected = BlockDescriptor { buffers: 3, threads: 256, shared: 4096, body: "x;".into() };
    assert_eq!(read(&[3, 256, 4096]), Ok(expected));
    for wrong in [&[3, 256][..], &[0, 256, 0], &[501, 256, 0], &[3, 0, 0], &[3, 2048, 0], &[3, 256, -1]] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
    assert!(BlockKernel::decode(&Encoded { integers: &[3, 256, 0], source: None }).is_err());
}

#[test]
fn moved_elements_are_found() {
    let check = |from: &[usize], make: &dyn Fn(&Tensor) -> Tensor, at: &[usize], expected: &[usize]| {
        let trace = Trace::new();
        let made = make(&input(&trace, "x", from));
        let graph = trace.finish(&[made]).unwrap();
        let steps = Steps::of(&graph);
        let step: &Step = steps.moved(graph.outputs()[0]).unwrap();
        assert_eq!(behind(&steps, step, at), expected, "{graph}");
    };
    check(&[6, 1, 4], &|x| x.reshape(&[2, 3, 4]), &[1, 2, 3], &[5, 0, 3]);
    check(&[4, 6], &|x| x.reshape(&[8, 3]), &[5, 1], &[2, 4]);
    check(&[], &|x| x.reshape(&[1, 1]), &[0, 0], &[]);
    check(&[1, 4], &|x| x.broadcast_in_dim(&[2, 3, 4], &[0, 2]), &[1, 2, 3], &[0, 3]);
    check(&[2, 3, 4], &|x| x.transpose(&[2, 0, 1]), &[3, 1, 2], &[1, 2, 3]);
    check(&[6, 7], &|x| x.slice(&[1, 0], &[5, 7], &[2, 3]), &[1, 2], &[3, 6]);
    assert_eq!(reduced(&[2, 3, 4], &[1], &[1, 3], &[2]), [1, 2, 3]);
    let everywhere = (0..24).map(|i| index(&coordinates(i, &[2, 3, 4]), &[2, 3, 4]));
    assert_eq!(everywhere.collect::<Vec<_>>(), Vec::from_iter(0..24));
    let words = coordinates("i".to_string(), &[2, 1, 4]);
    assert_eq!(words, ["i / 4", "0", "i % 4"]);
    assert_eq!(index(&words, &[2, 1, 4]), "(i / 4) * 4 + i % 4");
}

/// Needs NVIDIA's run-time compiler, which is a pip package of its own and needs no GPU.
#[test]
fn the_blocks_of_a_norm_compile_where_there_is_a_compiler() {
    let Ok(compiler) = compiler() else {
        println!("skipped: libnvrtc is not on this machine");
        return;
    };
    for (hint, _) in blocks(&prepare(&two_norms(), &[], &TARGET)) {
        let descriptor = BlockKernel::decode(&Encoded::of_hint(&hint)).unwrap();
        let code = compiler.compile(&BlockKernel::SOURCE, 80, &BlockKernel::defines(&descriptor));
        assert!(code.as_ref().is_ok_and(|code| !code.is_empty()), "{code:?}");
    }
}
