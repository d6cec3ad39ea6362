//! What inference programs do differently: norms run inside of convolutions, and what is made from parameters is kept from run
//! to run.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_graph::{Convolution, DType, HostTensor, Shape, Tensor, Trace};
use octant_runtime::{Backend, Buffer, CompileOptions, Executable, Mesh, Program, Sharding};

const CHANNELS: usize = 40;

fn upload(backend: &CpuBackend, shape: Shape, seed: usize) -> Buffer {
    let value = |i: usize| (((i + 13 * seed) * 7919 % 1009) as f64 / 1009.0 - 0.45) * 0.3;
    let values: Vec<f64> = (0..shape.elements()).map(value).collect();
    let tensor = HostTensor::from_f64s(shape, &values).unwrap();
    backend.upload(&tensor, &Mesh::single(), &Sharding::REPLICATED).unwrap()
}

fn compile(backend: &CpuBackend, program: &Program) -> Box<dyn Executable> {
    backend.compile(program, &CompileOptions::default()).unwrap()
}

fn bytes(buffer: &Buffer) -> Vec<u8> {
    buffer.to_host().unwrap().bytes().to_vec()
}

/// A convolution of f32 parameters that are rounded first.
fn convolution(x: &Tensor, kernel: &Tensor) -> Tensor {
    let mut conv = Convolution::nhwc(2, x.dtype());
    conv.padding = vec![(1, 1), (1, 1)];
    x.convolution(&kernel.convert(x.dtype()), conv)
}

/// What follows the norm of a convolution.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    Rectifier,
    SumWithInput,
    SumWithNorm,
    ProductWithInput,
}

/// A convolution and what follows; with its own result as a further output nothing can run inside of it.
fn block(dtype: DType, then: Then, hands_out: bool) -> Program {
    let trace = Trace::new();
    let image = trace.input("x", Shape::new(DType::F32, [2, 9, 7, CHANNELS])).convert(dtype);
    let kernel = trace.input("kernel", Shape::new(DType::F32, [3, 3, CHANNELS, CHANNELS]));
    let vectors: [Tensor; 4] = [0; 4].map(|_| trace.input("vector", Shape::new(DType::F32, [CHANNELS])));
    let [mean, spread, scale, shift] = &vectors;
    let variance = spread * spread;
    let result = convolution(&image, &kernel);
    let normed = result.batch_norm(mean, &variance, scale, shift, 1e-3);
    let last = match then {
        Then::Nothing => normed,
        Then::Rectifier => normed.relu(),
        Then::SumWithInput => (normed + image).relu(),
        Then::SumWithNorm => (image.batch_norm(shift, &variance, scale, mean, 1e-3) + normed).relu(),
        Then::ProductWithInput => normed * image,
    };
    // The last value is read again, so that it is not returned itself.
    let mut outputs = vec![convolution(&last, &kernel)];
    outputs.extend(hands_out.then_some(result));
    Program::new("block", trace.finish(&outputs).unwrap())
}

#[test]
fn norms_inside_of_convolutions_are_the_same_as_after_them() {
    let backend = CpuBackend::with_threads(2).unwrap();
    for dtype in [DType::BF16, DType::F32] {
        for then in [Then::Nothing, Then::Rectifier, Then::SumWithInput, Then::SumWithNorm, Then::ProductWithInput] {
            let results = [false, true].map(|hands_out| {
                let program = block(dtype, then, hands_out);
                let shapes = program.graph.input_shapes().into_iter().enumerate();
                let inputs: Vec<Buffer> = shapes.map(|(seed, shape)| upload(&backend, shape, seed)).collect();
                bytes(&compile(&backend, &program).execute(&inputs).unwrap()[0])
            });
            assert!(results[0] == results[1], "{dtype} {then:?}");
        }
    }
}

/// What layers compute in, and channels of the image: convolutions of bf16 and f32 images, in f32 by two algorithms.
const NETWORKS: [(DType, usize); 3] = [(DType::BF16, 16), (DType::F32, 16), (DType::F32, 32)];

/// Two layers; the parameters are `kernels` and a matrix.
fn network((dtype, channels): (DType, usize)) -> Program {
    let trace = Trace::new();
    let image = trace.input("x", Shape::new(DType::F32, [2, 6, 6, channels])).convert(dtype);
    let kernel = trace.input("kernel", Shape::new(DType::F32, [3, 3, channels, 48]));
    let matrix = trace.input("matrix", Shape::new(DType::F32, [48, 20]));
    let pooled = convolution(&image, &kernel).relu().convert(DType::F32).mean(&[1, 2]).convert(dtype);
    let logits = pooled.matmul(&matrix.convert(dtype));
    Program::new("network", trace.finish(&[logits]).unwrap())
}

/// A linear layer with a bias that is looked up in a table, scaled, and used twice: as windows of Swin do. The parameters are the
/// table and a matrix.
fn lookup(dtype: DType) -> Program {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [30, 24])).convert(dtype);
    let table = trace.input("table", Shape::new(DType::F32, [7, 20]));
    let matrix = trace.input("matrix", Shape::new(DType::F32, [24, 20]));
    let index: Vec<i32> = (0..30).map(|row| row * row % 7).collect();
    let bias = table.take(&trace.constant(HostTensor::new([30], &index).unwrap()));
    let added = (&bias * 3.0).convert(dtype);
    let hidden = (x.matmul(&matrix.convert(dtype)) + &added).relu();
    let logits = hidden.matmul(&hidden.transpose(&[1, 0])) + added.sum(&[1]);
    Program::new("lookup", trace.finish(&[logits]).unwrap())
}

fn programs() -> impl Iterator<Item = Program> {
    NETWORKS.map(network).into_iter().chain([DType::BF16, DType::F32].map(lookup))
}

/// What a program that has kept nothing gives.
fn fresh(backend: &CpuBackend, program: &Program, inputs: &[Buffer]) -> Vec<u8> {
    bytes(&compile(backend, program).execute(inputs).unwrap()[0])
}

#[test]
fn kept_values_are_those_of_the_buffers_that_are_given() {
    programs().for_each(|program| keeps_values_of_its_buffers(&program));
}

fn keeps_values_of_its_buffers(program: &Program) {
    let backend = CpuBackend::with_threads(2).unwrap();
    let executable = compile(&backend, program);
    let shapes = program.graph.input_shapes();
    let given = |seeds: [usize; 3]| -> Vec<Buffer> {
        shapes.iter().zip(seeds).map(|(shape, seed)| upload(&backend, shape.clone(), seed)).collect()
    };
    let [first, second] = [[1, 2, 3], [4, 5, 6]].map(given);
    let one_changed = vec![first[0].clone(), first[1].clone(), second[2].clone()];
    let image_changed = vec![second[0].clone(), first[1].clone(), first[2].clone()];
    for inputs in [&first, &first, &image_changed, &second, &first, &one_changed, &one_changed, &first] {
        assert!(bytes(&executable.execute(inputs).unwrap()[0]) == fresh(&backend, program, inputs));
    }
}

#[test]
fn parameters_that_a_training_step_changes_in_place_are_noticed() {
    programs().for_each(|program| notices_changed_parameters(&program));
}

fn notices_changed_parameters(program: &Program) {
    let backend = CpuBackend::with_threads(2).unwrap();
    let executable = compile(&backend, program);
    let shapes = program.graph.input_shapes();
    let update = {
        let trace = Trace::new();
        let kernel = trace.input("kernel", shapes[1].clone());
        let outputs = [&kernel * 0.5 + 0.01];
        Program { donated: vec![(0, 0)], ..Program::new("update", trace.finish(&outputs).unwrap()) }
    };
    let update = compile(&backend, &update);
    let mut inputs: Vec<Buffer> =
        shapes.iter().enumerate().map(|(seed, shape)| upload(&backend, shape.clone(), seed)).collect();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let result = bytes(&executable.execute(&inputs).unwrap()[0]);
        assert!(result == fresh(&backend, program, &inputs));
        assert!(!seen.contains(&result), "every update changes the result");
        seen.push(result);
        // The new parameters lie where the old ones did: only their buffer is another.
        inputs[1] = update.execute(&inputs[1..2]).unwrap().remove(0);
    }
}

/// What a detector predicts at every scale is concatenated twice: by kind, then over the scales with rows and columns as one
/// axis. The same numbers come out when the inner results are outputs too, and so need memory of their own.
#[test]
fn concatenations_inside_of_others_are_written_in_place() {
    let program = |hands_out: bool| {
        let trace = Trace::new();
        let mut scales = Vec::new();
        let mut outputs = Vec::new();
        for side in [6, 3] {
            let part = |channels| trace.input("x", Shape::new(DType::F32, [2, side, side, channels]));
            let (boxes, scores) = (part(5).relu(), part(3) * 0.5);
            let joined = Tensor::concatenate(&[boxes, scores], 3);
            scales.push(joined.reshape(&[2, side * side, 8]));
            outputs.extend(hands_out.then_some(joined));
        }
        outputs.insert(0, Tensor::concatenate(&scales, 1));
        Program::new("detector", trace.finish(&outputs).unwrap())
    };
    let backend = CpuBackend::with_threads(2).unwrap();
    let run = |program: &Program| {
        let shapes = program.graph.input_shapes().into_iter().enumerate();
        let inputs: Vec<Buffer> = shapes.map(|(seed, shape)| upload(&backend, shape, seed)).collect();
        fresh(&backend, program, &inputs)
    };
    assert_eq!(run(&program(false)), run(&program(true)));
}
