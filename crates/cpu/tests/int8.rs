//! Networks in 8 bits: products of integers instead of rounded f32 numbers, with the same result.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_graph::evaluate::evaluate;
use octant_graph::passes::{Int8Ranges, contractions, quantized};
use octant_graph::{Convolution, DType, Graph, HostTensor, Reduction, Shape, Tensor, Trace, Window};
use octant_runtime::{Backend, CompileOptions, Executable, Mesh, Program, Sharding};

fn numbers(dims: &[usize], seed: usize) -> HostTensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i + seed * 31) * 7919 % 1013) as f32 / 1013.0 - 0.45).collect();
    HostTensor::new(dims.to_vec(), &values).unwrap()
}

/// Inputs in the order in which they are declared.
struct Inputs {
    trace: Trace,
    values: Vec<HostTensor>,
}

impl Inputs {
    fn tensor(&mut self, dims: &[usize]) -> Tensor {
        self.values.push(numbers(dims, self.values.len()));
        self.trace.input("input", Shape::new(DType::F32, dims.to_vec()))
    }

    fn conv(&mut self, x: &Tensor, outputs: usize, kernel: usize, stride: usize) -> Tensor {
        self.grouped(x, outputs, kernel, stride, 1)
    }

    /// A convolution and the affine map of a norm.
    fn grouped(&mut self, x: &Tensor, outputs: usize, kernel: usize, stride: usize, groups: usize) -> Tensor {
        let inputs = x.dims()[3] / groups;
        let weights = self.tensor(&[kernel, kernel, inputs, outputs]);
        let (scale, offset) = (self.tensor(&[outputs]), self.tensor(&[outputs]));
        let _scope = self.trace.scope(format!("conv{}", self.values.len()));
        let padding = (kernel / 2) as i64;
        let conv = Convolution {
            strides: vec![stride; 2],
            padding: vec![(padding, padding); 2],
            feature_groups: groups,
            ..Convolution::nhwc(2, DType::F32)
        };
        x.convolution(&weights, conv) * &(scale + 0.7) + &offset
    }
}

/// A network with what int8 kernels and their epilogues meet: a stem with three channels and a pooling, residuals, depthwise
/// convolutions, hard swish, squeeze and excite, groups, a linear layer of weights in the other order.
fn network() -> (Graph, Vec<HostTensor>) {
    let mut inputs = Inputs { trace: Trace::new(), values: Vec::new() };
    let x = inputs.tensor(&[2, 30, 26, 3]);
    let x = inputs.conv(&x, 24, 7, 2).relu();
    let window = Window {
        size: vec![1, 3, 3, 1],
        strides: vec![1, 2, 2, 1],
        padding: vec![(0, 0), (1, 1), (1, 1), (0, 0)],
        base_dilation: vec![1; 4],
        window_dilation: vec![1; 4],
    };
    let x = x.reduce_window(Reduction::Max, window);
    let y = inputs.conv(&x, 40, 1, 1).relu();
    let y = inputs.conv(&y, 40, 3, 1).relu();
    let y = inputs.conv(&y, 24, 1, 1);
    let x = (&x + y).relu();
    let y = inputs.conv(&x, 48, 1, 1).hard_swish();
    let y = inputs.grouped(&y, 48, 5, 2, 48).hard_swish();
    let pooled = y.mean(&[1, 2]).reshape(&[2, 1, 1, 48]);
    let excited = inputs.conv(&pooled, 48, 1, 1).logistic();
    let y = inputs.conv(&(&y * &excited.broadcast_to(y.dims())), 32, 1, 1);
    let y = inputs.grouped(&y, 32, 3, 1, 4).relu();
    let (matrix, bias) = (inputs.tensor(&[10, 32]), inputs.tensor(&[10]));
    let _scope = inputs.trace.scope("head");
    let y = y.mean(&[1, 2]).matmul(&matrix.transpose(&[1, 0])) + &bias;
    drop(_scope);
    (inputs.trace.finish(&[y]).unwrap(), inputs.values)
}

/// All layers in 8 bits, between what they read and make of these inputs.
fn in_8_bits(graph: &Graph, inputs: &[HostTensor]) -> Graph {
    let layers = contractions(graph, &graph.inputs()[..1]);
    let range = |value| {
        let found = evaluate(&graph.clone().with_outputs(vec![value]), inputs).unwrap()[0].to_f64s();
        [found.iter().copied().fold(0.0, f64::min) as f32, found.iter().copied().fold(0.0, f64::max) as f32]
    };
    let outputs = graph.outputs();
    let of_layer = |layer: &octant_graph::passes::Contraction| {
        let result = layer.result.filter(|result| !outputs.contains(result));
        (layer.name.clone(), (range(layer.input), result.map(range)))
    };
    let ranges: Int8Ranges = layers.iter().map(of_layer).collect();
    assert!(ranges.len() > 9, "{}", ranges.len());
    quantized(graph, &[0], &ranges).unwrap()
}

fn compiled(backend: &CpuBackend, graph: &Graph, profile: bool) -> Box<dyn Executable> {
    let options = CompileOptions { profile, ..CompileOptions::default() };
    backend.compile(&Program::new("int8", graph.clone()), &options).unwrap()
}

fn run(backend: &CpuBackend, executable: &dyn Executable, inputs: &[HostTensor]) -> Vec<f64> {
    let upload = |tensor| backend.upload(tensor, &Mesh::single(), &Sharding::REPLICATED).unwrap();
    let inputs: Vec<_> = inputs.iter().map(upload).collect();
    // The second run finds its weights packed.
    let first = executable.execute(&inputs).unwrap()[0].to_host().unwrap().to_f64s();
    let second = executable.execute(&inputs).unwrap()[0].to_host().unwrap().to_f64s();
    assert_eq!(first, second, "weights that are kept are the same");
    first
}

#[test]
fn networks_in_8_bits_predict_what_their_graph_says() {
    let (graph, inputs) = network();
    let coarse = in_8_bits(&graph, &inputs);
    let expected = evaluate(&coarse, &inputs).unwrap()[0].to_f64s();
    let exact = evaluate(&graph, &inputs).unwrap()[0].to_f64s();
    let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let distance =
        |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0f64, |most, (a, b)| most.max((a - b).abs())) / largest;
    for threads in [1, 2] {
        let backend = CpuBackend::with_threads(threads).unwrap();
        let found = run(&backend, &*compiled(&backend, &coarse, false), &inputs);
        // A number at the border of two steps may be rounded to either.
        assert!(distance(&found, &expected) < 4e-3, "{} with {threads} threads", distance(&found, &expected));
        assert!(distance(&found, &exact) > 1e-4, "nothing was rounded");
    }
}

/// What a network in 8 bits stores is 8 bits wide, sums are stored nowhere, and only groups of channels are multiplied in f32.
#[test]
fn activations_between_layers_in_8_bits_are_bytes() {
    let (graph, inputs) = network();
    let coarse = in_8_bits(&graph, &inputs);
    let backend = CpuBackend::with_threads(1).unwrap();
    let executable = compiled(&backend, &coarse, true);
    run(&backend, &*executable, &inputs);
    let steps: Vec<String> = executable.profile().into_iter().map(|part| part.what).collect();
    let named = |name: &str| steps.iter().filter(|step| step.starts_with(name)).count();
    assert_eq!((named("int8 convolution"), named("int8 dot"), named("convolution")), (8, 1, 1), "{steps:#?}");
    let pooling = steps.iter().find(|step| step.starts_with("reduce_window")).unwrap();
    assert!(pooling.contains("u8"), "{pooling}");
    let wide = executable.memory().peak();
    let narrow = compiled(&backend, &graph, false).memory().peak();
    assert!(wide < narrow, "{wide} bytes in 8 bits, {narrow} in 32");
}

/// Weights that change between runs are quantized and packed again.
#[test]
fn other_weights_are_packed_again() {
    let (graph, inputs) = network();
    let coarse = in_8_bits(&graph, &inputs);
    let backend = CpuBackend::with_threads(2).unwrap();
    let executable = compiled(&backend, &coarse, false);
    let before = run(&backend, &*executable, &inputs);
    let mut others = inputs.clone();
    others[1] = numbers(inputs[1].dims(), 77);
    let after = run(&backend, &*executable, &others);
    assert_ne!(before, after);
    assert_eq!(after, run(&backend, &*compiled(&backend, &coarse, false), &others));
    assert_eq!(before, run(&backend, &*executable, &inputs));
}
