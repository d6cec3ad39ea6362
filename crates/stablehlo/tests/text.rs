//! The text itself: what people read in a dump and what plugins rely on.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use octant_graph::composites::Pool;
use octant_graph::{Convolution, DType, Shape, Tensor, Trace};
use octant_runtime::{Mesh, Program, Sharding};
use octant_stablehlo::{LowerError, Options, Precision, lower};

fn text(program: &Program) -> String {
    lower(program, &Options::default()).unwrap()
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
    let bare = lower(&repeated_blocks(2), &Options { without_locations: true, ..Options::default() }).unwrap();
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
    program.inputs[1] = Sharding::Split { axis: 0 };
    program.outputs[1] = Sharding::Split { axis: 0 };
    let text = text(&program);
    assert!(text.starts_with("module @step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {"));
    assert_eq!(lines_with(&text, "sdy.mesh"), ["  sdy.mesh @mesh = <[\"batch\"=8]>"]);
    let main = lines_with(&text, "@main")[0];
    assert!(
        main.contains("%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32, sdy.sharding = #sdy.sharding<@mesh, [{}]>}"),
        "{main}"
    );
    assert!(
        main.contains("%arg1: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"batch\"}, {}]>}"),
        "{main}"
    );
    assert!(main.contains("tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"batch\"}, {}]>}) {"), "{main}");
}

#[test]
fn impossible_promises_are_refused() {
    let program = |change: fn(&mut Program)| {
        let mut program = repeated_blocks(1);
        change(&mut program);
        lower(&program, &Options::default()).unwrap_err()
    };
    let differ = program(|program| program.donated = vec![(1, 0)]);
    assert!(matches!(differ, LowerError::Donation { reason: "their shapes differ", .. }), "{differ}");
    let twice = program(|program| program.donated = vec![(0, 0), (0, 0)]);
    assert!(matches!(twice, LowerError::Donation { .. }), "{twice}");
    let uneven = program(|program| {
        program.mesh = Mesh::new(3);
        program.inputs[0] = Sharding::Split { axis: 0 };
    });
    assert_eq!(
        uneven.to_string(),
        "input 0 is f32[2,4], which cannot be split along axis 0 over 3 devices; pad it to a multiple"
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

/// A 3×3 convolution, or one of 7×7 for few channels, with its gradients with respect to both operands.
fn convolution_gradients(dtype: DType, x: [usize; 4], kernel: [usize; 4], groups: usize, devices: usize) -> Program {
    let trace = Trace::new();
    let padding = vec![(kernel[0] as i64 / 2, kernel[0] as i64 / 2); 2];
    let x = trace.input("x", Shape::new(dtype, x));
    let kernel = trace.input("k", Shape::new(dtype, kernel));
    let conv = Convolution { feature_groups: groups, padding, ..Convolution::nhwc(2, dtype) };
    let loss = x.convolution(&kernel, conv).convert(DType::F32).square().sum(&[0, 1, 2, 3]);
    let gradients = trace.gradients(&loss, &[x, kernel]);
    let mut program = Program::new("gradients", trace.finish(&gradients).unwrap());
    program.mesh = Mesh::new(devices);
    program
}

/// How often a program calls the kernel of that name, and how often it calls any.
fn kernel_calls(program: &Program, name: &str, options: &Options) -> (usize, usize) {
    let text = lower(program, options).unwrap();
    let calls = lines_with(&text, "custom_call");
    let named = format!("@octant.{name}(");
    (calls.iter().filter(|line| line.contains(&named)).count(), calls.len())
}

/// The calls that convolve, each with what it does beside its convolution.
fn extras(program: &Program) -> Vec<String> {
    let text = lower(program, &KERNELS).unwrap();
    let calls = text.lines().filter_map(|line| line.split_once("custom_call @octant.")).map(|(_, call)| call);
    let described = calls.filter(|call| call.contains("{window = ")).map(|call| {
        let window = call.split_once("array<i64: ").unwrap().1.split_once('>').unwrap().0;
        let numbers: Vec<&str> = window.split(", ").collect();
        let names = ["split", "joined", "rectified", "moments", "cotangent"];
        let names = names.into_iter().zip(&numbers[numbers.len() - 1 - names.len()..]);
        let extras = names.filter(|(_, number)| **number == "1").map(|(name, _)| format!(" {name}"));
        let apart = if numbers[numbers.len() - 1] == numbers[2] { "" } else { " apart" };
        format!("{}{}{apart}", call.split_once('(').unwrap().0, extras.collect::<String>())
    });
    described.collect()
}

const KERNELS: Options = Options {
    precision: Precision::Fast,
    without_locations: false,
    pointwise_as_products: false,
    tiles_by_comparing: false,
    places_in_steps: false,
    small_products_as_sums: false,
    sums_with_own_operands: false,
    pack_narrow_images: false,
    cuda_kernels: true,
};

#[test]
fn unpooling_scatters_only_where_windows_overlap() {
    let scatters = |size: usize, stride: usize, side: usize| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [2, side, side, 3]));
        let gradients = trace.gradients(&x.max_pool(Pool::square(size, stride)).square().sum(&[0, 1, 2, 3]), &[x]);
        let program = Program::new("unpool", trace.finish(&gradients).unwrap());
        let options = Options { tiles_by_comparing: true, ..Options::default() };
        lower(&program, &options).unwrap().contains("select_and_scatter")
    };
    assert_eq!([scatters(2, 2, 8), scatters(3, 2, 9), scatters(2, 2, 9)], [false, true, true]);
}

#[test]
fn a_pooling_keeps_the_places_that_its_gradient_asks_for() {
    let options = Options { tiles_by_comparing: true, ..Options::default() };
    // Poolings, reductions that tell places in bytes, and in wider integers.
    let forms = |size: usize, trained: bool| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [2, 4 * size, 4 * size, 3]));
        let loss = x.max_pool(Pool::square(size, size)).square().sum(&[0, 1, 2, 3]);
        let gradients = if trained { trace.gradients(&loss, &[x]) } else { vec![] };
        let program = Program::new("pool", trace.finish(&[vec![loss], gradients].concat()).unwrap());
        let text = lower(&program, &options).unwrap();
        let telling =
            |places: &str| lines_with(&text, &format!("(tensor<2x4x4x3xf32>, tensor<2x4x4x3x{places}>)")).len();
        [lines_with(&text, "stablehlo.reduce_window").len(), telling("ui8"), telling("i32")]
    };
    assert_eq!(forms(2, true), [0, 1, 0]);
    assert_eq!(forms(17, true), [0, 0, 1], "289 places do not fit a byte");
    assert_eq!(forms(2, false), [1, 0, 0], "nothing asks");
}

#[test]
fn places_are_reduced_in_two_steps_where_xla_would_take_one() {
    let reductions = |dims: [usize; 4], axes: &[usize]| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::BF16, dims));
        let program = Program::new("sum", trace.finish(&[x.sum(axes)]).unwrap());
        let text = lower(&program, &Options { places_in_steps: true, ..Options::default() }).unwrap();
        // In between sums stay as exact as they are inside of one reduction.
        let rows = format!(": tensor<{}x{}x{}xf32>", dims[0], dims[1], dims[3]);
        let barriers = lines_with(&text, "optimization_barrier");
        (lines_with(&text, "stablehlo.reduce").len(), barriers.iter().any(|line| line.contains(&rows)))
    };
    assert_eq!(reductions([2, 64, 64, 3], &[1, 2]), (2, true));
    assert_eq!(reductions([2, 64, 65, 3], &[1, 2]), (1, false), "XLA divides it");
    assert_eq!(reductions([64, 14, 14, 256], &[1, 2]), (1, false), "there are many results");
    assert_eq!(reductions([2, 64, 64, 3], &[2]), (1, false), "there is one axis");
    assert_eq!(reductions([2, 64, 64, 3], &[0, 1, 2]), (1, false), "the batch is not kept");
    assert_eq!(reductions([2, 64, 64, 3], &[1, 2, 3]), (1, false), "channels are not kept");
}

#[test]
fn small_products_are_sums_where_the_backend_asks_for_it() {
    let products = |rows: usize, options: Options| {
        let trace = Trace::new();
        let [x, y] = ["x", "y"].map(|name| trace.input(name, Shape::new(DType::F32, [rows, 64])));
        let program = Program::new("product", trace.finish(&[x.transpose(&[1, 0]).matmul(&y)]).unwrap());
        lower(&program, &options).unwrap().contains("dot_general")
    };
    let options = Options { small_products_as_sums: true, ..Options::default() };
    assert_eq!([products(32, options), products(33, options)], [false, true], "131,072 products and more");
    assert!(products(32, Options::default()));
}

/// Variables of these sizes, each of which is moved by a call of its own.
fn updates(sizes: &[usize], seen: bool) -> Program {
    let trace = Trace::new();
    let rate = trace.input("rate", Shape::scalar(DType::F32));
    let mut results = Vec::new();
    for &size in sizes {
        let [value, change] = ["value", "change"].map(|name| trace.input(name, Shape::new(DType::F32, [size])));
        let arguments = [value, change, rate.clone()];
        let moved = trace.call(&arguments, false, |x| vec![&x[0] - &x[2] * x[1].sqrt()]).swap_remove(0);
        results.extend(seen.then(|| moved.sum_all()));
        results.push(moved);
    }
    Program::new("update", trace.finish(&results).unwrap())
}

#[test]
fn what_is_done_to_many_small_variables_is_one_call() {
    let calls = |program: &Program, options: &Options| {
        let text = lower(program, options).unwrap();
        let of = |what: &str| lines_with(&text, what).len();
        (of("custom_call @octant.update"), of(" call @"), text)
    };
    let (together, alone, text) = calls(&updates(&[3, 500, 1 << 17, 0, 4], false), &KERNELS);
    assert_eq!((together, alone), (1, 2), "the largest stays alone, and so does nothing");
    assert!(text.contains("counts = array<i64: 2, 1, 1>"), "{text}");
    let statements = "const float v0 = arrays[0][i]; const float v1 = arrays[1][i]; const float v2 = *(const float *)scalars[0]; \
                      const float v3 = sqrtf(v1); const float v5 = v2 * v3; const float v6 = v0 - v5; arrays[0][i] = v6;";
    assert!(text.contains(statements), "{text}");
    assert!(text.contains("output_tuple_indices = [2], operand_index = 4"), "in place: {text}");

    let many = calls(&updates(&[8; 400], false), &KERNELS);
    assert_eq!((many.0, many.1), (3, 0), "a call holds 166 of them");
    let seen = calls(&updates(&[8; 4], true), &KERNELS);
    assert_eq!((seen.0, seen.1), (1, 3), "what is needed earlier does not wait");
    let plain = calls(&updates(&[8; 4], false), &Options::default());
    assert_eq!((plain.0, plain.1), (0, 4));
}

#[test]
fn depthwise_convolutions_call_our_kernels_on_one_gpu() {
    let program = |devices| convolution_gradients(DType::BF16, [8, 14, 14, 64], [3, 3, 1, 64], 64, devices);
    // Forward and the input's gradient by one kernel, the kernel's gradient by another.
    assert_eq!(kernel_calls(&program(1), "depthwise", &KERNELS), (2, 3));
    assert_eq!(kernel_calls(&program(8), "depthwise", &KERNELS), (0, 0), "XLA cannot partition calls");
    assert!(!text(&program(1)).contains("custom_call"), "only where the backend asks for it");
}

#[test]
fn few_channels_call_kernels_that_are_exact() {
    let program = convolution_gradients(DType::F32, [2, 50, 40, 2], [7, 7, 2, 1], 1, 1);
    let exact = Options { precision: Precision::Highest, ..KERNELS };
    assert_eq!(kernel_calls(&program, "few_channels", &exact), (2, 3));
    let program = convolution_gradients(DType::F32, [2, 50, 40, 3], [7, 7, 3, 1], 1, 1);
    assert_eq!(kernel_calls(&program, "few_channels", &KERNELS), (0, 0), "too many weights for registers");
}

#[test]
fn a_pointwise_layer_beside_another_one_is_computed_with_it() {
    let program = |side: usize, inputs: usize, outputs: usize, padding: i64| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [4, side, side, inputs]));
        let kernels = [3, 1].map(|side| trace.input("w", Shape::new(DType::F32, [side, side, inputs, outputs])));
        let layer = |kernel: &Tensor, padding: i64| {
            let conv = Convolution { padding: vec![(padding, padding); 2], ..Convolution::nhwc(2, DType::F32) };
            x.convolution(kernel, conv).sin().sum(&[0, 1, 2, 3])
        };
        let loss = layer(&kernels[0], padding) + layer(&kernels[1], 0);
        let gradients = trace.gradients(&loss, &[std::slice::from_ref(&x), &kernels[..]].concat());
        Program::new("block", trace.finish(&gradients).unwrap())
    };
    assert_eq!(
        extras(&program(256, 48, 16, 1)),
        ["convolution split", "convolution_gradient split", "convolution joined"]
    );
    assert_eq!(
        extras(&program(256, 16, 16, 1)),
        ["convolution split", "convolution_gradient", "convolution joined"],
        "warps that share pixels have no room"
    );
    let apart = ["convolution", "convolution", "convolution_gradient"];
    assert_eq!(extras(&program(256, 48, 16, 0)), apart, "the middle tap is another pixel's");
    assert!(extras(&program(64, 48, 16, 1)).is_empty(), "too few pixels");
}

#[test]
fn a_rectified_norm_that_only_calls_look_at_is_not_written() {
    let program = |inputs: usize, outputs: usize, seen: bool| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [4, 256, 256, inputs]));
        let [mean, factor] = ["mean", "factor"].map(|name| trace.input(name, Shape::new(DType::F32, [inputs])));
        let kernel = trace.input("w", Shape::new(DType::F32, [3, 3, inputs, outputs]));
        let normed = ((&x - &mean) * &factor + 1.0).relu();
        let conv = Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) };
        let loss = normed.convolution(&kernel, conv).sin().sum(&[0, 1, 2, 3]);
        let gradients = trace.gradients(&loss, &[x, kernel]);
        let outputs = [gradients, if seen { vec![normed] } else { vec![] }].concat();
        Program::new("block", trace.finish(&outputs).unwrap())
    };
    let rectified = ["convolution rectified", "convolution_gradient rectified"];
    assert_eq!(extras(&program(32, 32, false)), [&rectified[..1], &["convolution"], &rectified[1..]].concat());
    assert_eq!(extras(&program(64, 64, false)), rectified, "worth it though cuDNN is as fast");
    let plain = ["convolution", "convolution", "convolution_gradient"];
    assert_eq!(extras(&program(32, 32, true)), plain, "it is written anyway");
    assert_eq!(extras(&program(128, 128, false)), ["convolution_gradient"], "cuDNN needs it written");
}

#[test]
fn calls_that_make_the_cotangent_of_a_rectified_norm_take_its_sums_along() {
    #[derive(Clone, Copy, PartialEq)]
    enum Change {
        Nothing,
        Copies,
        Seen,
        Unsummed,
        Another,
        Later,
    }
    let program = |channels: usize, change: Change| {
        let trace = Trace::new();
        let vector = |name: &str| trace.input(name, Shape::new(DType::F32, [channels]));
        let x = trace.input("x", Shape::new(DType::F32, [4, 256, 256, channels]));
        let [mean, factor, offset] = ["mean", "factor", "offset"].map(vector);
        let kernel = trace.input("w", Shape::new(DType::F32, [3, 3, channels, channels]));
        let conv = Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) };
        let moved = &x - &mean;
        let cotangent = (&x * 2.0).convolution(&kernel, conv);
        let chosen = |cotangent: &Tensor, factor: &Tensor| {
            let zero = cotangent.scalar_like(0.0);
            (&moved * factor + &offset).less_equal(&zero).select(&zero, cotangent)
        };
        let [first, second] = match change {
            Change::Copies => [(); 2].map(|()| chosen(&cotangent, &trace.barrier(std::slice::from_ref(&factor))[0])),
            Change::Another => [&factor, &mean].map(|factor| chosen(&cotangent, factor)),
            _ => [chosen(&cotangent, &factor), chosen(&cotangent, &factor)],
        };
        let summed = change != Change::Unsummed;
        let sum = first.sum(&[0, 1, 2]);
        let center = if change == Change::Later { &x - &sum } else { moved.clone() };
        let sums = if summed { vec![sum, (&second * center).sum(&[0, 1, 2])] } else { vec![] };
        let seen = if change == Change::Seen { vec![cotangent] } else { vec![] };
        Program::new("block", trace.finish(&[sums, seen, vec![second * 3.0]].concat()).unwrap())
    };
    let together = ["convolution cotangent"];
    assert_eq!(extras(&program(32, Change::Nothing)), together);
    assert_eq!(extras(&program(32, Change::Copies)), together, "barriers do not make another norm");
    assert_eq!(extras(&program(64, Change::Nothing)), together, "worth it though cuDNN is as fast");
    let text = lower(&program(32, Change::Nothing), &KERNELS).unwrap();
    assert!(text.contains("tensor<4x128x2x32xf32>"), "a part for every band of every column");
    assert_eq!(extras(&program(32, Change::Seen)), ["convolution"], "it is wanted as it is");
    assert_eq!(extras(&program(32, Change::Unsummed)), ["convolution"], "nothing is spared");
    assert_eq!(extras(&program(32, Change::Another)), ["convolution"], "there are two norms");
    assert_eq!(extras(&program(32, Change::Later)), ["convolution"], "the center is made from it");
    assert!(extras(&program(128, Change::Nothing)).is_empty(), "there is no call");
}

#[test]
fn joined_maps_that_only_calls_look_at_are_read_where_they_lie() {
    let program = |channels: [usize; 2], pointwise: bool, seen: bool| {
        let trace = Trace::new();
        let maps = channels.map(|channels| trace.input("x", Shape::new(DType::F32, [4, 256, 256, channels])));
        let all = channels[0] + channels[1];
        let kernels = [3, 1].map(|side| trace.input("w", Shape::new(DType::F32, [side, side, all, 16])));
        let joined = Tensor::concatenate(&maps, 3);
        let conv = |padding| Convolution { padding: vec![(padding, padding); 2], ..Convolution::nhwc(2, DType::F32) };
        let beside = |kernel: &Tensor, padding| joined.convolution(kernel, conv(padding)).sin().sum_all();
        let loss = beside(&kernels[0], 1);
        let loss = if pointwise { loss + beside(&kernels[1], 0) } else { loss };
        let gradients = trace.gradients(&loss, &kernels[..1 + usize::from(pointwise)]);
        let outputs = [gradients, if seen { vec![joined] } else { vec![] }].concat();
        Program::new("join", trace.finish(&outputs).unwrap())
    };
    let apart = ["convolution apart", "convolution_gradient apart"];
    assert_eq!(extras(&program([16, 32], false, false)), apart);
    let pairs = ["convolution split apart", "convolution_gradient split apart"];
    assert_eq!(extras(&program([16, 32], true, false)), pairs);
    assert_eq!(extras(&program([32, 64], true, false)), pairs);
    let whole = ["convolution", "convolution_gradient"];
    assert_eq!(extras(&program([16, 32], false, true)), whole, "they are joined anyway");
    assert_eq!(extras(&program([24, 24], false, false)), whole, "a block of channels lies in both");
}

#[test]
fn calls_take_the_moments_of_what_they_make_along() {
    let program = |outputs: usize, axes: &[usize], turn: bool| {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [4, 256, 256, 32]));
        let kernel = trace.input("w", Shape::new(DType::F32, [3, 3, 32, outputs]));
        let shift = trace.input("shift", Shape::new(DType::F32, [outputs]));
        let conv = Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) };
        let y = x.convolution(&kernel, conv);
        let distance = if turn { shift - y } else { y - shift };
        let sums = [distance.sum(axes), distance.square().sum(axes)];
        Program::new("moments", trace.finish(&sums).unwrap())
    };
    assert_eq!(extras(&program(32, &[0, 1, 2], false)), ["convolution moments"]);
    assert_eq!(extras(&program(32, &[1, 2], false)), ["convolution moments"]);
    let text = lower(&program(32, &[1, 2], false), &KERNELS).unwrap();
    assert!(text.contains("tensor<4x128x4x32xf32>"), "a part for every band of every column");
    assert_eq!(extras(&program(32, &[2], false)), ["convolution"], "rows are not taken along");
    assert_eq!(extras(&program(32, &[0, 1, 2], true)), ["convolution"], "only what is moved follows");
    assert!(extras(&program(128, &[0, 1, 2], false)).is_empty(), "there is no call");
}

#[test]
fn narrow_layers_of_large_images_call_kernels_that_round() {
    let program = |side, inputs, outputs| {
        convolution_gradients(DType::F32, [4, side, side, inputs], [3, 3, inputs, outputs], 1, 1)
    };
    assert_eq!(kernel_calls(&program(256, 16, 48), "convolution", &KERNELS), (2, 3));
    assert_eq!(kernel_calls(&program(256, 32, 32), "convolution", &KERNELS), (2, 3));
    assert_eq!(kernel_calls(&program(256, 96, 32), "convolution", &KERNELS), (2, 3));
    assert_eq!(kernel_calls(&program(256, 96, 64), "convolution", &KERNELS), (0, 1), "cuDNN's are as good");
    assert_eq!(kernel_calls(&program(64, 128, 128), "convolution_gradient", &KERNELS), (1, 1));
    assert_eq!(kernel_calls(&program(64, 16, 16), "convolution", &KERNELS), (0, 0), "too few pixels");
    let exact = Options { precision: Precision::Highest, ..KERNELS };
    assert_eq!(kernel_calls(&program(256, 16, 16), "convolution", &exact), (0, 0));
}
