//! Which calls the passes write.

use crate::kernels::accepts;
use crate::kernels::conv::descriptor::{ConvDescriptor, Pointwise};
use crate::passes::tests::{assert_same_on, inputs};
use crate::passes::{GpuTarget, prepare};
use crate::{GpuAttention, GpuFacts};
use octant_graph::{Convolution, DType, Graph, HostTensor, KernelHint, Op, Shape, Tensor, Trace};
use std::sync::Arc;

pub const TARGET: GpuTarget =
    GpuTarget { kernels: Some(GpuFacts::H200), fast_products: true, attention: GpuAttention::CuDnn { gradient: true } };
/// A GPU that small layers fill, so that what they become can be evaluated here.
pub const SMALL: GpuTarget = GpuTarget { kernels: Some(GpuFacts { multiprocessors: 1, ..GpuFacts::H200 }), ..TARGET };

/// The hints of all calls of a graph and its bodies, each checked against the launch.
pub fn hints(graph: &Graph) -> Vec<Arc<KernelHint>> {
    let mut found = Vec::new();
    for node in graph.nodes() {
        let Op::Call { body, kernel, .. } = &node.op else { continue };
        match kernel {
            // Kernels of other backends, whose bodies run here.
            Some(kernel) if !crate::NAMES.contains(&kernel.name.as_str()) => {}
            Some(kernel) => {
                let accepted = accepts(kernel, &body.input_shapes(), &body.output_shapes(), &GpuFacts::H200);
                assert_eq!(accepted, Ok(()), "{}: {:?}", kernel.name, kernel.integers);
                found.push(kernel.clone());
            }
            None => found.extend(hints(body)),
        }
    }
    found
}

/// The convolution calls, each with what is fused into it.
fn fused(graph: &Graph) -> Vec<String> {
    fused_for(graph, &TARGET)
}

fn fused_for(graph: &Graph, target: &GpuTarget) -> Vec<String> {
    let convolutions = hints(&prepare(graph, target)).into_iter().filter(|hint| hint.name != "octant.update");
    let describe = |hint: Arc<KernelHint>| {
        let descriptor = ConvDescriptor::decode(&hint.integers).unwrap();
        let parts = [
            (descriptor.pointwise == Pointwise::Beside, " beside"),
            (descriptor.pointwise == Pointwise::Added, " added"),
            (descriptor.norm_relu, " norm_relu"),
            (descriptor.moments, " moments"),
            (descriptor.cotangent, " cotangent"),
        ];
        let parts: String = parts.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        hint.name.trim_start_matches("octant.").to_string() + &parts
    };
    let mut described: Vec<String> = convolutions.map(describe).collect();
    described.sort();
    described
}

fn conv(padding: i64) -> Convolution {
    Convolution { padding: vec![(padding, padding); 2], ..Convolution::nhwc(2, DType::F32) }
}

/// A convolution with its gradients with respect to both operands.
fn convolution_gradients(dtype: DType, x: [usize; 4], kernel: [usize; 4], groups: usize) -> Graph {
    let trace = Trace::new();
    let padding = vec![(kernel[0] as i64 / 2, kernel[0] as i64 / 2); 2];
    let x = trace.input("x", Shape::new(dtype, x));
    let kernel = trace.input("k", Shape::new(dtype, kernel));
    let conv = Convolution { feature_groups: groups, padding, ..Convolution::nhwc(2, dtype) };
    let loss = x.convolution(&kernel, conv).convert(DType::F32).square().sum(&[0, 1, 2, 3]);
    let gradients = trace.gradients(&loss, &[x, kernel]);
    trace.finish(&gradients).unwrap()
}

#[test]
fn depthwise_convolutions_call_our_kernels_on_one_gpu() {
    let graph = convolution_gradients(DType::BF16, [8, 14, 14, 64], [3, 3, 1, 64], 64);
    // Forward and the input's gradient by one kernel, the kernel's gradient by another.
    assert_eq!(fused(&graph), ["depthwise", "depthwise", "depthwise_gradient"]);
    assert!(hints(&prepare(&graph, &GpuTarget { kernels: None, ..TARGET })).is_empty());
}

#[test]
fn few_channels_call_kernels_that_are_exact() {
    let graph = convolution_gradients(DType::F32, [2, 50, 40, 2], [7, 7, 2, 1], 1);
    let exact = prepare(&graph, &GpuTarget { fast_products: false, ..TARGET });
    assert_eq!(hints(&exact).iter().filter(|hint| hint.name.starts_with("octant.few_channels")).count(), 3);
    let wide = convolution_gradients(DType::F32, [2, 50, 40, 3], [7, 7, 3, 1], 1);
    assert!(fused(&wide).is_empty(), "too many weights for registers");
}

#[test]
fn narrow_layers_of_large_images_call_kernels_that_round() {
    let graph =
        |side, inputs, outputs| convolution_gradients(DType::F32, [4, side, side, inputs], [3, 3, inputs, outputs], 1);
    let all = ["convolution", "convolution", "convolution_gradient"];
    assert_eq!(fused(&graph(256, 16, 48)), all);
    assert_eq!(fused(&graph(256, 32, 32)), all);
    assert_eq!(fused(&graph(256, 96, 32)), all);
    assert_eq!(fused(&graph(256, 96, 64)), ["convolution_gradient"], "cuDNN's are as good");
    assert_eq!(fused(&graph(64, 128, 128)), ["convolution_gradient"]);
    assert!(fused(&graph(64, 16, 16)).is_empty(), "too few pixels");
    let exact = GpuTarget { fast_products: false, ..TARGET };
    assert!(hints(&prepare(&graph(256, 16, 16), &exact)).iter().all(|hint| !hint.name.contains("convolution")));
}

#[test]
fn a_pointwise_layer_beside_another_one_is_computed_with_it() {
    let graph = |side: usize, inputs: usize, outputs: usize, padding: i64| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [4, side, side, inputs]));
        let kernels = [3, 1].map(|side| trace.input("w", Shape::new(DType::F32, [side, side, inputs, outputs])));
        let layer = |kernel: &Tensor, padding: i64| x.convolution(kernel, conv(padding)).sin().sum(&[0, 1, 2, 3]);
        let loss = layer(&kernels[0], padding) + layer(&kernels[1], 0);
        let gradients = trace.gradients(&loss, &[std::slice::from_ref(&x), &kernels[..]].concat());
        trace.finish(&gradients).unwrap()
    };
    assert_eq!(
        fused(&graph(256, 48, 16, 1)),
        ["convolution added", "convolution beside", "convolution_gradient beside"]
    );
    assert_eq!(
        fused(&graph(256, 16, 16, 1)),
        ["convolution added", "convolution beside", "convolution_gradient"],
        "warps that share pixels have no room"
    );
    let alone = ["convolution", "convolution", "convolution_gradient"];
    assert_eq!(fused(&graph(256, 48, 16, 0)), alone, "the middle tap is another pixel's");
    assert!(fused(&graph(64, 48, 16, 1)).is_empty(), "too few pixels");
}

#[test]
fn a_norm_with_relu_that_only_calls_read_is_not_written() {
    let graph = |inputs: usize, outputs: usize, seen: bool| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [4, 256, 256, inputs]));
        let [mean, factor] = ["mean", "factor"].map(|name| trace.input(name, Shape::new(DType::F32, [inputs])));
        let kernel = trace.input("w", Shape::new(DType::F32, [3, 3, inputs, outputs]));
        let normed = ((&x - &mean) * &factor + 1.0).relu();
        let loss = normed.convolution(&kernel, conv(1)).sin().sum(&[0, 1, 2, 3]);
        let gradients = trace.gradients(&loss, &[x, kernel]);
        trace.finish(&[gradients, if seen { vec![normed] } else { vec![] }].concat()).unwrap()
    };
    let both = ["convolution norm_relu", "convolution_gradient norm_relu"];
    assert_eq!(fused(&graph(32, 32, false)), [&["convolution"], &both[..]].concat());
    assert_eq!(fused(&graph(64, 64, false)), both, "worth it though cuDNN is as fast");
    let plain = ["convolution", "convolution", "convolution_gradient"];
    assert_eq!(fused(&graph(32, 32, true)), plain, "it is written anyway");
    assert_eq!(fused(&graph(128, 128, false)), ["convolution_gradient"], "cuDNN needs it written");
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    Copies,
    Seen,
    Unsummed,
    Another,
    Later,
}

/// The cotangent of a norm + ReLU with its sums.
fn cotangent(side: usize, channels: usize, change: Change) -> Graph {
    let trace = Trace::new();
    let vector = |name: &str| trace.input(name, Shape::new(DType::F32, [channels]));
    let x = trace.input("x", Shape::new(DType::F32, [4, side, side, channels]));
    let [mean, factor, offset] = ["mean", "factor", "offset"].map(vector);
    let kernel = trace.input("w", Shape::new(DType::F32, [3, 3, channels, channels]));
    let moved = &x - &mean;
    let cotangent = (&x * 2.0).convolution(&kernel, conv(1));
    let chosen = |cotangent: &Tensor, factor: &Tensor| {
        let zero = cotangent.scalar_like(0.0);
        (&moved * factor + &offset).less_equal(&zero).select(&zero, cotangent)
    };
    let [first, second] = match change {
        Change::Copies => [(); 2].map(|()| chosen(&cotangent, &trace.barrier(std::slice::from_ref(&factor))[0])),
        Change::Another => [&factor, &mean].map(|factor| chosen(&cotangent, factor)),
        Change::Nothing | Change::Seen | Change::Unsummed | Change::Later => {
            [chosen(&cotangent, &factor), chosen(&cotangent, &factor)]
        }
    };
    let sum = first.sum(&[0, 1, 2]);
    let center = if change == Change::Later { &x - &sum } else { moved.clone() };
    let summed = change != Change::Unsummed;
    let sums = if summed { vec![sum, (&second * center).sum(&[0, 1, 2])] } else { vec![] };
    let seen = if change == Change::Seen { vec![cotangent] } else { vec![] };
    trace.finish(&[sums, seen, vec![second * 3.0]].concat()).unwrap()
}

#[test]
fn calls_that_make_the_cotangent_of_a_norm_take_its_sums_along() {
    let graph = |channels: usize, change: Change| cotangent(256, channels, change);
    let together = ["convolution cotangent"];
    assert_eq!(fused(&graph(32, Change::Nothing)), together);
    assert_eq!(fused(&graph(32, Change::Copies)), together, "barriers do not make another norm");
    assert_eq!(fused(&graph(64, Change::Nothing)), together, "worth it though cuDNN is as fast");
    assert_eq!(fused(&graph(32, Change::Seen)), ["convolution"], "it is wanted as it is");
    assert_eq!(fused(&graph(32, Change::Unsummed)), ["convolution"], "nothing is spared");
    assert_eq!(fused(&graph(32, Change::Another)), ["convolution"], "there are two norms");
    assert_eq!(fused(&graph(32, Change::Later)), ["convolution"], "the center is made from it");
    assert!(fused(&graph(128, Change::Nothing)).is_empty(), "there is no call");
}

fn moments(side: usize, outputs: usize, axes: &[usize], reversed: bool) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [4, side, side, 32]));
    let kernel = trace.input("w", Shape::new(DType::F32, [3, 3, 32, outputs]));
    let shift = trace.input("shift", Shape::new(DType::F32, [outputs]));
    let y = x.convolution(&kernel, conv(1));
    let distance = if reversed { shift - y } else { y - shift };
    trace.finish(&[distance.sum(axes), distance.square().sum(axes)]).unwrap()
}

#[test]
fn calls_take_the_moments_of_what_they_make_along() {
    assert_eq!(fused(&moments(256, 32, &[0, 1, 2], false)), ["convolution moments"]);
    assert_eq!(fused(&moments(256, 32, &[1, 2], false)), ["convolution moments"]);
    assert_eq!(fused(&moments(256, 32, &[2], false)), ["convolution"], "rows are not taken along");
    assert_eq!(fused(&moments(256, 32, &[0, 1, 2], true)), ["convolution"], "only shifted values follow");
    assert!(fused(&moments(256, 128, &[0, 1, 2], false)).is_empty(), "there is no call");
}

/// On inputs that sum without much rounding and make no norm zero.
#[test]
fn fused_convolutions_mean_the_same() {
    let side = 16;
    let eighths = |graph: &Graph| -> Vec<HostTensor> {
        let round = |tensor: HostTensor| {
            let values = tensor.to_f64s().into_iter().map(|value| (value * 8.0).round() / 8.0 + 1.0 / 512.0);
            HostTensor::from_f64s(tensor.shape().clone(), &values.collect::<Vec<_>>()).unwrap()
        };
        inputs(graph).into_iter().map(round).collect()
    };
    let surrounded = |channels: usize| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [4, side, side, channels]));
        let [mean, factor] = ["mean", "factor"].map(|name| trace.input(name, Shape::new(DType::F32, [channels])));
        let kernels = [3, 1].map(|side| trace.input("w", Shape::new(DType::F32, [side, side, channels, channels])));
        let normed = ((&x - &mean) * &factor + 1.0).relu();
        let layers = [(&kernels[0], 1), (&kernels[1], 0)];
        let [plain, pointwise] = layers.map(|(kernel, by)| x.convolution(kernel, conv(by)));
        let behind = normed.convolution(&kernels[0], conv(1));
        let loss = (&plain * &pointwise).sum_all() + behind.square().sum_all();
        let gradients = trace.gradients(&loss, &[x, kernels[0].clone(), kernels[1].clone(), mean, factor]);
        let sums = vec![plain.square().sum(&[0, 1, 2]), (&pointwise - 0.5).sum(&[1, 2]), behind.sum(&[1, 2])];
        trace.finish(&[gradients, sums, vec![pointwise, plain]].concat()).unwrap()
    };
    let around = [
        "convolution added",
        "convolution beside moments",
        "convolution cotangent",
        "convolution norm_relu moments",
        "convolution_gradient",
        "convolution_gradient norm_relu",
    ];
    for (graph, expected) in [
        (cotangent(side, 16, Change::Nothing), vec!["convolution cotangent"]),
        (moments(side, 16, &[0, 1, 2], false), vec!["convolution moments"]),
        (surrounded(16), around.to_vec()),
    ] {
        assert_eq!(fused_for(&graph, &SMALL), expected);
        assert_same_on(&graph, &prepare(&graph, &SMALL), &eighths(&graph), 1e-4);
    }
}
