//! The lowered text: what dumps show and what plugins rely on.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use octant_cuda::{GpuAttention, GpuFacts, GpuTarget};
use octant_graph::{AttentionOptions, DType, KernelHint, Shape, Tensor, Trace};
use octant_runtime::{Axis, Mesh, Program, Sharding};
use octant_stablehlo::{LowerError, LoweringOptions, lower};
use std::sync::Arc;

fn text(program: &Program) -> String {
    lower(program, &LoweringOptions::default()).unwrap()
}

fn lines_with<'a>(text: &'a str, part: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(part)).collect()
}

/// `blocks` times the same layer, each with its own weight and path.
fn repeated_blocks(blocks: usize) -> Program {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [2, 4]));
    let weights: Vec<Tensor> =
        (0..blocks).map(|i| trace.input(&format!("w{i}"), Shape::new(DType::F32, [4, 4]))).collect();
    let block = |x: Tensor, (i, weight): (usize, &Tensor)| {
        let _scope = trace.scope(format!("layer1.{i}"));
        trace.call(&[x, weight.clone()], false, |x| vec![x[0].matmul(&x[1]).tanh()]).remove(0)
    };
    let y = weights.iter().enumerate().fold(x, block);
    Program::new("repeated blocks", trace.finish(&[y]).unwrap())
}

#[test]
fn equal_bodies_become_one_function() {
    let text = text(&repeated_blocks(5));
    assert_eq!(lines_with(&text, "func.func private").len(), 1, "{text}");
    assert_eq!(lines_with(&text, "call @layer1.0(").len(), 5, "{text}");
    assert_eq!(lines_with(&text, "stablehlo.dot_general").len(), 1, "{text}");
}

#[test]
fn lines_carry_the_paths_of_their_layers() {
    let text = text(&repeated_blocks(2));
    assert!(text.contains("#loc0 = loc(\"layer1.0\")") && text.contains("#loc1 = loc(\"layer1.1\")"), "{text}");
    let bare =
        lower(&repeated_blocks(2), &LoweringOptions { without_locations: true, ..LoweringOptions::default() }).unwrap();
    assert!(!bare.contains("loc("), "{bare}");
}

#[test]
fn the_text_is_the_same_every_time() {
    assert_eq!(text(&repeated_blocks(3)), text(&repeated_blocks(3)));
}

#[test]
fn donation_and_sharding_are_attributes_of_main() {
    let trace = Trace::new();
    let weight = trace.input("w", Shape::new(DType::F32, [4]));
    let images = trace.input("x", Shape::new(DType::F32, [16, 4]));
    let outputs = [&weight + &images.sum(&[0]), &images * &weight];
    let mut program = Program::new("step", trace.finish(&outputs).unwrap());
    program.donated = vec![(0, 0)];
    program.mesh = Mesh::new(8);
    program.inputs[1] = Sharding::split(0, [Axis::Data]);
    program.outputs[1] = Sharding::split(0, [Axis::Data]);
    let text = text(&program);
    assert!(text.starts_with("module @step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {"));
    assert_eq!(lines_with(&text, "sdy.mesh"), ["  sdy.mesh @mesh = <[\"data\"=8]>"]);
    let main = lines_with(&text, "@main")[0];
    assert!(
        main.contains("%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32, sdy.sharding = #sdy.sharding<@mesh, [{}]>}"),
        "{main}"
    );
    assert!(main.contains("%arg1: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>}"), "{main}");
    assert!(main.contains("tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>}) {"), "{main}");
}

#[test]
fn impossible_promises_are_refused() {
    let program = |change: fn(&mut Program)| {
        let mut program = repeated_blocks(1);
        change(&mut program);
        lower(&program, &LoweringOptions::default()).unwrap_err()
    };
    let differ = program(|program| program.donated = vec![(1, 0)]);
    assert!(matches!(differ, LowerError::Donation { reason: "their shapes differ", .. }), "{differ}");
    let twice = program(|program| program.donated = vec![(0, 0), (0, 0)]);
    assert!(matches!(twice, LowerError::Donation { .. }), "{twice}");
    let uneven = program(|program| {
        program.mesh = Mesh::new(3);
        program.inputs[0] = Sharding::split(0, [Axis::Data]);
    });
    assert_eq!(
        uneven.to_string(),
        "input 0: f32[2,4] cannot be split along axis 0 over 3 devices: they must divide its length; pad it to a multiple"
    );
    let count = program(|program| program.inputs.clear());
    assert_eq!(count.to_string(), "the program describes 0 inputs but its graph has 2");
}

#[test]
fn random_bits_need_no_generator_of_the_device() {
    let trace = Trace::new();
    let key = trace.input("key", Shape::new(DType::U32, [2]));
    let bits = [key.random_bits(&[8, 3]), key.random_bits(&[8, 3])];
    let text = text(&Program::new("bits", trace.finish(&bits).unwrap()));
    assert!(!text.contains("rng") && lines_with(&text, "func.func private @threefry").len() == 1, "{text}");
}

/// A call with a hint, on two arrays that one output is written over.
fn hinted() -> Program {
    let trace = Trace::new();
    let [x, y] = ["x", "y"].map(|name| trace.input(name, Shape::new(DType::F32, [2, 4])));
    let hint = KernelHint {
        source: Some("say \"x\";".into()),
        in_place: vec![(1, 0)],
        ..KernelHint::new("octant.test", vec![3, -1])
    };
    let made = trace.call_kernel(&[x, y], false, Some(Arc::new(hint)), |x| vec![x[0].sum(&[1]), &x[0] * &x[1]]);
    Program::new("hinted", trace.finish(&made).unwrap())
}

#[test]
fn a_call_with_a_known_kernel_is_a_custom_call_with_layouts() {
    let known = LoweringOptions { kernels: &["octant.test"], without_locations: true, ..LoweringOptions::default() };
    let text = lower(&hinted(), &known).unwrap();
    let expected = "    %0:2 = stablehlo.custom_call @octant.test(%arg0, %arg1) {api_version = 4 : i32, backend_config = \
         {integers = array<i64: 3, -1>, source = \"say \\22x\\22;\"}, \
         operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>], \
         output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 0, \
         operand_tuple_indices = []>], \
         result_layouts = [dense<[0]> : tensor<1xindex>, dense<[1, 0]> : tensor<2xindex>]} : \
         (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2x4xf32>)";
    assert_eq!(lines_with(&text, "custom_call"), [expected]);
    assert!(!text.contains("func.func private"), "{text}");
}

#[test]
fn any_other_call_is_a_function() {
    let unknown = text(&hinted());
    assert!(!unknown.contains("custom_call") && unknown.contains("func.func private"), "{unknown}");
    let mut on_two = hinted();
    on_two.mesh = Mesh::new(2);
    let known = LoweringOptions { kernels: &["octant.test"], ..LoweringOptions::default() };
    let text = lower(&on_two, &known).unwrap();
    assert!(!text.contains("custom_call"), "XLA cannot partition a call: {text}");
}

#[test]
fn a_max_with_its_position_is_one_reduction() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [3, 2, 5, 2]));
    let hint = KernelHint::new(KernelHint::ARG_MAX, vec![1, 3]);
    let made = trace.call_kernel(&[x], false, Some(Arc::new(hint)), |x| {
        let (max, index) = x[0].transpose(&[0, 2, 1, 3]).reshape(&[3, 5, 4]).arg_max(2);
        vec![max, index.convert(DType::U8)]
    });
    let text = text(&Program::new("pool", trace.finish(&made).unwrap()));
    assert!(text.contains("dense<[[0, 1], [2, 3]]> : tensor<2x2xui8>"), "{text}");
    assert_eq!(lines_with(&text, "\"stablehlo.reduce\"(").len(), 1, "{text}");
    assert!(!text.contains("func.func private"), "{text}");
}

/// Self-attention with its gradient in bf16, prepared for a GPU with cuDNN.
fn attention_by_cudnn() -> Program {
    let trace = Trace::new();
    let joint = trace.input("x", Shape::new(DType::BF16, [2, 197, 3, 12, 64]));
    let [result, _] = joint.self_attention(&AttentionOptions::default());
    let loss = result.convert(DType::F32).square().sum_all();
    let gradients = trace.gradients(&loss, &[joint]);
    let graph = trace.finish(&gradients).unwrap();
    let attention = GpuAttention::CuDnn { gradient: true };
    let target = GpuTarget { kernels: Some(GpuFacts::H200), fast_products: true, attention };
    Program::new("attention", octant_cuda::prepare(&graph, &target))
}

#[test]
fn cudnn_is_called_in_the_words_of_xla() {
    let known = LoweringOptions { kernels: octant_cuda::CALLED_NAMES, ..LoweringOptions::default() };
    let text = lower(&attention_by_cudnn(), &known).unwrap();
    let calls = lines_with(&text, "custom_call @__cudnn$fmha");
    assert_eq!(calls.len(), 2, "{text}");
    let expected = [
        "(tensor<2x197x12x64xbf16>, tensor<2x197x12x64xbf16>, tensor<2x197x12x64xbf16>) -> \
         (tensor<2x12x197x64xbf16>, tensor<2x12x197xf32>, tensor<0xui8>)",
        "(tensor<2x197x12x64xbf16>, tensor<2x197x12x64xbf16>, tensor<2x197x12x64xbf16>, tensor<2x12x197xf32>, \
         tensor<2x197x12x64xbf16>, tensor<2x197x12x64xbf16>) -> (tensor<2x12x197x64xbf16>, tensor<2x12x197x64xbf16>, \
         tensor<2x12x197x64xbf16>, tensor<0xui8>)",
    ];
    for (call, signature) in calls.iter().zip(expected) {
        assert!(call.contains("api_version = 2 : i32") && call.contains(signature), "{call}");
        assert!(call.contains("result_layouts = [dense<[3, 1, 2, 0]> : tensor<4xindex>"), "{call}");
        let config = call.split_once("backend_config = \"").unwrap().1.split_once('"').unwrap().0.replace("\\22", "\"");
        let config: serde_json::Value = serde_json::from_str(&config).unwrap();
        let attention = &config["cudnn_fmha_backend_config"];
        assert_eq!(attention["fmha_scale"], 0.125);
        assert_eq!(attention["intermediate_tensor_shape"]["dimensions"], serde_json::json!(["2", "12", "197", "197"]));
        assert_eq!(attention["mask_type"], "NO_MASK");
    }
    assert!(calls[1].contains("bmm2_grad_gemm2"), "{}", calls[1]);
}
