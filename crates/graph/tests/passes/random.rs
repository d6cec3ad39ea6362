//! Random graphs compute the same before and after every pass.

use octant_graph::evaluate::evaluate;
use octant_graph::passes::{self, PASSES};
use octant_graph::verify::verify;
use octant_graph::{DType, Graph, HostTensor, KernelHint, Op, Shape, Tensor, Trace, Uses, ValueId};
use proptest::prelude::*;

/// One line of a random program: what to do with which of the values made so far, and a small number.
type Line = (u8, usize, usize, usize);

fn program() -> impl Strategy<Value = Vec<Line>> {
    prop::collection::vec((0u8..32, any::<usize>(), any::<usize>(), 0usize..5), 1..25)
}

fn trace_program(lines: &[Line]) -> Graph {
    let trace = Trace::new();
    let mut values = vec![
        trace.input("matrix", Shape::new(DType::F64, [3, 4])),
        trace.input("row", Shape::new(DType::F64, [4])),
        trace.input("column", Shape::new(DType::F64, [3, 1])),
    ];
    for line in lines {
        let (x, y) = (values[line.1 % values.len()].clone(), values[line.2 % values.len()].clone());
        values.push(perform(&trace, line, &x, &y));
    }
    let outputs: Vec<Tensor> = values.iter().rev().step_by(3).cloned().collect();
    trace.finish(&outputs).unwrap()
}

/// Numbers that rewrites look for.
fn number(choice: usize) -> f64 {
    [0.0, 1.0, -1.0, 2.0, 0.5][choice]
}

/// Whether two values can be combined by broadcasting.
fn compatible(x: &Tensor, y: &Tensor) -> bool {
    let aligned = x.dims().iter().rev().zip(y.dims().iter().rev());
    aligned.into_iter().all(|(a, b)| a == b || *a == 1 || *b == 1)
}

fn perform(trace: &Trace, &(what, _, _, choice): &Line, x: &Tensor, y: &Tensor) -> Tensor {
    let rank = x.rank();
    let axis = choice % rank.max(1);
    let last_first: Vec<usize> = (0..rank).map(|axis| (axis + 1) % rank).collect();
    match what {
        0..=5 if !compatible(x, y) => x.sin(),
        0 => x + y,
        1 => x - y,
        2 => x * y,
        3 => x.max(y),
        4 => x.less(y).select(x, y),
        5 => x / (y * y + 1.0),
        6 => x + number(choice),
        7 => number(choice) * x,
        8 => x / [1.0, 2.0, 0.25, 3.0, 8.0][choice],
        9 => (x.abs() + 0.5).pow(&x.scalar_like([0.0, 1.0, 2.0, 0.5, -0.5][choice])),
        10 => -x,
        11 => x.tanh(),
        12 => x.abs(),
        13 => x.transpose(&last_first),
        14 => x.reshape(&[x.shape().elements()]),
        15 => x.reshape(&[&[1], x.dims()].concat()),
        16 if rank > 0 => x.reverse(&[axis]),
        17 if rank > 0 => x.slice_axis(axis, choice.min(x.dims()[axis]) / 2, x.dims()[axis]),
        18 => x.pad(
            &x.scalar_like(number(choice)),
            &vec![choice as i64 % 3 - 1; rank],
            &vec![1; rank],
            &vec![choice % 2; rank],
        ),
        19 if rank > 0 => Tensor::concatenate(&[x.clone(), x.reverse(&[axis])], axis),
        20 if rank > 0 => x.sum(&[axis]),
        21 if rank > 0 => x.reduce_max(&[axis]).clamp(&x.scalar_like(-9.0), &x.scalar_like(9.0)),
        22 => x.broadcast_to(&[&[2], x.dims()].concat()),
        23 => x.stop_gradient(),
        24 => x.convert(if choice == 0 { DType::I32 } else { DType::F32 }).convert(DType::F64),
        25 => trace.full(x.shape(), number(choice)),
        26 => trace.call(std::slice::from_ref(x), choice == 0, |inside| vec![&inside[0] * 1.0 + y.sum_all()]).remove(0),
        27 => {
            let condition = trace.scalar(DType::F64, number(choice)).greater(&trace.scalar(DType::F64, 0.5));
            trace.cond(&condition, || vec![x + 0.0], || vec![x * y.sum_all()]).remove(0)
        }
        28 => {
            let start = [trace.scalar(DType::I32, 0.0), x.clone()];
            let rounds = |carried: &[Tensor]| carried[0].less(&carried[0].scalar_like(choice as f64));
            trace.while_loop(&start, Some(5), rounds, |c| vec![&c[0] + 1.0, (&c[1] + y.mean_all()).sin()]).remove(1)
        }
        29 => trace.barrier(&[x.clone(), y.clone()]).remove(0),
        30 => x.greater(&x.scalar_like(number(choice))).not().convert(DType::F64),
        _ => x.exp().min(&x.scalar_like(5.0)),
    }
}

fn inputs() -> Vec<HostTensor> {
    let fill = |dims: &[usize], scale: f64| {
        let shape = Shape::new(DType::F64, dims);
        let values: Vec<f64> = (0..shape.elements()).map(|i| (i as f64 * 1.7 + 0.3).sin() * scale).collect();
        HostTensor::from_f64s(shape, &values).unwrap()
    };
    vec![fill(&[3, 4], 1.0), fill(&[4], 2.0), fill(&[3, 1], 0.5)]
}

fn same(left: &[HostTensor], right: &[HostTensor]) -> bool {
    let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 1e-9 * b.abs() || (a.is_nan() && b.is_nan());
    let equal =
        |(a, b): (&HostTensor, &HostTensor)| a.shape() == b.shape() && a.to_f64s().iter().zip(&b.to_f64s()).all(close);
    left.len() == right.len() && left.iter().zip(right).all(equal)
}

/// The graph with some of its nodes outlined as a call, if nothing else leaves and enters them.
fn outlined(graph: &Graph, inside: impl Fn(usize) -> bool) -> Result<Graph, passes::ReplaceError> {
    let uses = Uses::of(graph);
    let members = graph.nodes().iter().enumerate();
    let members = members.filter(|(index, node)| inside(*index) && !matches!(node.op, Op::Parameter { .. }));
    let is_read_outside =
        |value: &ValueId| uses.is_output(*value) || uses.consumers(*value).iter().any(|&consumer| !inside(consumer));
    let outputs: Vec<ValueId> = members.flat_map(|(_, node)| node.outputs.clone()).filter(is_read_outside).collect();
    if outputs.is_empty() {
        return Ok(graph.clone());
    }
    let hint = |_: &Graph, _: &[ValueId]| Some(KernelHint::new("region", vec![]));
    passes::replace(graph, &[passes::outline(graph, &outputs, &inside, hint).unwrap()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn outlined_regions_keep_the_results(lines in program(), first in 0usize..40, length in 1usize..20, mask: u64) {
        let graph = trace_program(&lines);
        let expected = evaluate(&graph, &inputs()).unwrap();
        // Neighbors in the order of the graph can always be outlined, any others only if they are convex.
        let neighbors = outlined(&graph, |node| (first..first + length).contains(&node));
        prop_assert!(neighbors.is_ok(), "{:?}", neighbors);
        for made in [neighbors, outlined(&graph, |node| mask >> (node % 64) & 1 == 1)].into_iter().flatten() {
            prop_assert_eq!(verify(&made), Ok(()));
            prop_assert!(same(&evaluate(&made, &inputs()).unwrap(), &expected), "{}\n{}", graph, made);
            let inlined = passes::inline_calls(&made);
            prop_assert!(same(&evaluate(&inlined, &inputs()).unwrap(), &expected), "{}\n{}", graph, inlined);
        }
    }

    #[test]
    fn every_pass_keeps_the_results(lines in program()) {
        let graph = trace_program(&lines);
        verify(&graph).unwrap();
        let expected = evaluate(&graph, &inputs()).unwrap();
        for (name, pass) in PASSES.into_iter().chain([("inline_calls", passes::inline_calls as passes::Pass)]) {
            let rewritten = passes::apply(pass, &graph);
            prop_assert_eq!(verify(&rewritten), Ok(()), "after {}", name);
            prop_assert!(same(&evaluate(&rewritten, &inputs()).unwrap(), &expected), "{}:\n{}\n{}", name, graph, rewritten);
        }
        let optimized = passes::optimize(graph.clone());
        prop_assert!(same(&evaluate(&optimized, &inputs()).unwrap(), &expected), "{}\n{}", graph, optimized);
        prop_assert_eq!(&passes::optimize(optimized.clone()), &optimized);
    }
}
