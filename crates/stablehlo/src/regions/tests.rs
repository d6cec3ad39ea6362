#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod values;

use super::coordinates::{behind, coordinates, index, reduced};
use crate::function::Named;
use crate::step::{Action, Step};
use crate::{Options, lower};
use octant_graph::{Convolution, DType, Graph, Shape, Tensor, Trace};
use octant_runtime::Program;

const OPTIONS: Options = Options {
    precision: crate::Precision::Fast,
    without_locations: false,
    pointwise_as_products: false,
    tiles_by_comparing: false,
    places_in_steps: true,
    small_products_as_sums: true,
    sums_with_own_operands: false,
    cuda_kernels: true,
};

fn text(graph: Graph) -> String {
    lower(&Program::new("small", graph), &OPTIONS).unwrap()
}

fn input(trace: &Trace, name: &str, dims: &[usize]) -> Tensor {
    trace.input(name, Shape::new(DType::F32, dims))
}

fn calls(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("@octant.small")).map(str::trim).collect()
}

/// Names of what a line reads and makes, and of everything that must stand before it.
fn every_value_is_defined_before_it_is_read(text: &str) {
    let mut defined: Vec<&str> = Vec::new();
    for line in text.lines() {
        let (made, read) = line.split_once(" = ").unwrap_or(("", line));
        let read = read.split(" {api_version").next().unwrap();
        for name in read.split(|c: char| !c.is_ascii_alphanumeric() && c != '%').filter(|name| name.len() > 1) {
            let is_known = !name.starts_with('%') || name.starts_with("%arg") || defined.contains(&name);
            assert!(is_known, "{name} in {line}\n{text}");
        }
        defined.extend(made.trim().split(", ").map(|name| name.split(':').next().unwrap()));
    }
}

/// Coefficients of a norm from sums that large operations have made.
fn coefficients(sums: &Tensor, squares: &Tensor) -> [Tensor; 2] {
    let [mean, square] = [sums, squares].map(|sums| sums.sum(&[0]) / 1000.0);
    let factor = (&square - &mean.square() + 1e-5).rsqrt();
    [-&mean * &factor, factor]
}

fn convolved(trace: &Trace, x: &Tensor, name: &str) -> Tensor {
    let kernel = input(trace, name, &[3, 3, x.channels(), x.channels()]);
    x.convolution(&kernel, Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) })
}

/// A convolution, whose norm is divided between large operations and a small region, and another one.
fn two_norms() -> Graph {
    let trace = Trace::new();
    let mut x = input(&trace, "x", &[4, 64, 64, 8]);
    for kernel in ["first", "second"] {
        let y = convolved(&trace, &x, kernel);
        let [offset, factor] = coefficients(&y.sum(&[1, 2]), &y.square().sum(&[1, 2]));
        x = (&y * &factor + &offset).relu();
    }
    trace.finish(&[x]).unwrap()
}

#[test]
fn regions_on_both_sides_of_a_large_operation_are_two_calls() {
    let text = text(two_norms());
    let calls = calls(&text);
    assert_eq!(calls.len(), 2, "{text}");
    every_value_is_defined_before_it_is_read(&text);
    let body = |call: &str| call.split("body = ").nth(1).unwrap().split('"').nth(1).unwrap().to_string();
    assert_eq!(body(calls[0]), body(calls[1]), "equal regions are compiled once");
}

#[test]
fn programs_for_other_devices_and_large_operations_stay_as_they_are() {
    let program = Program::new("small", two_norms());
    let plain = lower(&program, &Options { cuda_kernels: false, ..OPTIONS }).unwrap();
    assert!(calls(&plain).is_empty());

    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64, 64, 16]);
    let graph = trace.finish(&[(&x * 2.0).sum(&[3]), x.relu()]).unwrap();
    let large = Program::new("large", graph);
    let plain = lower(&large, &Options { cuda_kernels: false, ..OPTIONS }).unwrap();
    assert_eq!(lower(&large, &OPTIONS).unwrap(), plain);
}

#[test]
fn one_reduction_is_left_to_the_compiler() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let text = text(trace.finish(&[x.sum(&[0]).sqrt() * 2.0]).unwrap());
    assert!(calls(&text).is_empty(), "{text}");
}

#[test]
fn what_others_read_too_is_a_result_and_what_only_moves_stays_for_them() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let large = input(&trace, "large", &[64, 128, 64]);
    let mean = x.mean(&[0]);
    let variance = (&x - &mean).square().mean(&[0]);
    let moved = mean.broadcast_to(&[64, 128, 64]);
    let text = text(trace.finish(&[&large + &moved, variance]).unwrap());
    let calls = calls(&text);
    assert_eq!(calls.len(), 1, "{text}");
    assert!(calls[0].contains("-> (tensor<64xf32>, tensor<64xf32>)"), "{text}");
    let broadcasts = text.lines().filter(|line| line.contains("broadcast_in_dim"));
    assert_eq!(broadcasts.count(), 1, "the one for the large array\n{text}");
    assert!(!text.contains("stablehlo.reduce"), "{text}");
    every_value_is_defined_before_it_is_read(&text);
}

#[test]
fn a_call_comes_after_all_that_it_reads_and_before_all_that_reads_it() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let large = input(&trace, "large", &[64, 128, 64]);
    // In the order of writing: a member, its large reader, what the other member needs, and the other member.
    let first = x.sum(&[0]);
    let read = &large * &first;
    let needed = convolved(&trace, &input(&trace, "images", &[4, 64, 64, 64]), "kernel").sum(&[1, 2]);
    let other = (&first * 2.0 + needed.sum(&[0])).sum_all();
    let more = first.square().sum_all();
    let text = text(trace.finish(&[read, other, more]).unwrap());
    assert!(!calls(&text).is_empty(), "{text}");
    every_value_is_defined_before_it_is_read(&text);
}

#[test]
fn results_that_take_over_memory_are_written_in_place_where_nobody_else_reads_it() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let [running, other] = ["running", "other"].map(|name| input(&trace, name, &[64]));
    let mean = x.mean(&[0]);
    let next = &running * 0.9 + &mean * 0.1;
    let variance = (&x - &other).square().mean(&[0]);
    let changed = &other * 0.9 + &variance * &mean.sum_all();
    let mut program = Program::new("small", trace.finish(&[next, changed]).unwrap());
    program.donated = vec![(1, 0), (2, 1)];
    let text = lower(&program, &OPTIONS).unwrap();
    let alias =
        "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = ";
    assert_eq!(calls(&text).len(), 1, "{text}");
    assert_eq!(text.matches("stablehlo.output_operand_alias<").count(), 1, "{text}");
    assert!(text.contains(alias), "{text}");
    program.donated.clear();
    assert!(lower(&program, &OPTIONS).unwrap().contains("output_operand_aliases = []"));
}

#[test]
fn what_is_read_only_in_a_later_region_is_made_there() {
    let trace = Trace::new();
    let y = convolved(&trace, &input(&trace, "x", &[4, 64, 64, 8]), "kernel");
    let running = input(&trace, "running", &[8]) * 0.9;
    let [offset, factor] = coefficients(&y.sum(&[1, 2]), &y.square().sum(&[1, 2]));
    let text = text(trace.finish(&[offset + &running, factor]).unwrap());
    assert_eq!(calls(&text).len(), 1, "{text}");
    assert!(!text.contains("stablehlo.multiply %arg"), "{text}");
}

#[test]
fn large_sums_leave_parts_for_a_region() {
    let lowered = |dims: &[usize], axes: &[usize]| {
        let trace = Trace::new();
        let x = input(&trace, "x", dims);
        text(trace.finish(&[x.sum(axes).sqrt() + x.square().sum(axes)]).unwrap())
    };
    let sums = lowered(&[32, 64, 64, 64], &[0, 1, 2]);
    assert!(sums.contains("tensor<256x512x64xf32>"), "{sums}");
    assert_eq!(calls(&sums).len(), 1, "{sums}");
    let of_images = lowered(&[32, 64, 64, 64], &[1, 2]);
    assert!(calls(&of_images).is_empty(), "XLA makes more parts: {of_images}");
    let uneven = lowered(&[63, 65, 67, 64], &[0, 1, 2]);
    assert!(calls(&uneven).is_empty(), "{uneven}");
    let nothing = lowered(&[0, 64, 64, 8], &[1, 2]);
    assert!(calls(&nothing).is_empty(), "{nothing}");
}

#[test]
fn operations_with_regions_of_their_own_stay_whole() {
    let trace = Trace::new();
    let x = input(&trace, "x", &[32, 64]);
    let mean = x.mean(&[0]);
    let variance = (&x - &mean).square().mean(&[0]);
    let (greatest, place) = variance.arg_max(0);
    let sorted = Tensor::sort(&[variance.clone(), mean], 0, true);
    let text = text(trace.finish(&[greatest, place, sorted[0].clone(), sorted[1].clone()]).unwrap());
    assert_eq!(calls(&text).len(), 1, "{text}");
    assert!(text.contains("\"stablehlo.sort\"") && text.contains("\"stablehlo.reduce\""), "{text}");
}

#[test]
fn moved_elements_are_found() {
    let named = |dims: &[usize]| Named { name: "%x".to_string(), shape: Shape::new(DType::F32, dims) };
    let check = |action: Action, from: &[usize], to: &[usize], at: &[usize], expected: &[usize]| {
        let step = Step { action, operands: vec![named(from)], result: named(to) };
        assert_eq!(behind(&step, at), expected, "{step:?}");
    };
    check(Action::Reshape, &[6, 1, 4], &[2, 3, 4], &[1, 2, 3], &[5, 0, 3]);
    check(Action::Reshape, &[4, 6], &[8, 3], &[5, 1], &[2, 4]);
    check(Action::Reshape, &[], &[1, 1], &[0, 0], &[]);
    check(Action::Broadcast { axes: vec![0, 2] }, &[1, 4], &[2, 3, 4], &[1, 2, 3], &[0, 3]);
    check(Action::Transpose { permutation: vec![2, 0, 1] }, &[2, 3, 4], &[4, 2, 3], &[3, 1, 2], &[1, 2, 3]);
    check(Action::Slice { starts: vec![1, 0], strides: vec![2, 3] }, &[6, 7], &[2, 3], &[1, 2], &[3, 6]);
    assert_eq!(reduced(&[2, 3, 4], &[1], &[1, 3], &[2]), [1, 2, 3]);
    assert_eq!(
        (0..24).map(|i| index(&coordinates(i, &[2, 3, 4]), &[2, 3, 4])).collect::<Vec<_>>(),
        Vec::from_iter(0..24)
    );
    let words = coordinates("i".to_string(), &[2, 1, 4]);
    assert_eq!(words, ["i / 4", "0", "i % 4"]);
    assert_eq!(index(&words, &[2, 1, 4]), "(i / 4) * 4 + i % 4");
}
