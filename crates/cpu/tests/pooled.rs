//! A convolution that is only pooled gives what the operations one by one give, forward and backward.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_graph::composites::Pool;
use octant_graph::evaluate::evaluate;
use octant_graph::{Convolution, DType, Graph, HostTensor, Shape, Trace};
use octant_runtime::{Backend, CompileOptions, Mesh, Program, Sharding};

/// Convolution, bias and maximum pooling; the loss, the pooled values and the gradients of kernels and bias. With a second
/// convolution before it, the gradient of the pooling is wanted by more than one.
fn network(dtype: DType, size: [usize; 2], deep: bool) -> Graph {
    let trace = Trace::new();
    let mut x = trace.input("images", Shape::new(dtype, [3, size[0], size[1], 2]));
    let mut parameters = Vec::new();
    let mut convolve = |x: &octant_graph::Tensor, outputs: usize| {
        let kernel = trace.input("kernel", Shape::new(dtype, [3, 3, x.channels(), outputs]));
        let mut conv = Convolution::nhwc(2, dtype);
        conv.padding = vec![(1, 1), (0, 0)];
        let y = x.convolution(&kernel, conv);
        parameters.push(kernel);
        y
    };
    if deep {
        x = convolve(&x, 18).relu();
    }
    let y = convolve(&x, 35);
    let bias = trace.input("bias", Shape::new(dtype, [35]));
    let pooled = (y + &bias).max_pool(Pool::square(2, 2));
    parameters.push(bias);
    let loss = (&pooled * &pooled).convert(DType::F32).sum_all();
    let gradients = trace.gradients(&loss, &parameters);
    trace.finish(&[vec![loss, pooled], gradients].concat()).unwrap()
}

fn inputs(graph: &Graph) -> Vec<HostTensor> {
    let tensor = |(seed, shape): (usize, Shape)| {
        // Sums of a few small integers are exact in bf16: no two elements of a window are equal by rounding alone.
        let value = |i: usize| ((i * i + i / 5 + seed * 3) % 7 % 4) as f64 - 1.0;
        let values: Vec<f64> = (0..shape.elements()).map(value).collect();
        HostTensor::from_f64s(shape, &values).unwrap()
    };
    graph.input_shapes().into_iter().enumerate().map(tensor).collect()
}

fn check(dtype: DType, size: [usize; 2], deep: bool, tolerance: f64) {
    let graph = network(dtype, size, deep);
    let inputs = inputs(&graph);
    let expected = evaluate(&graph, &inputs).unwrap();
    let backend = CpuBackend::with_threads(2).unwrap();
    let upload = |tensor| backend.upload(tensor, &Mesh::single(), &Sharding::REPLICATED).unwrap();
    let buffers: Vec<_> = inputs.iter().map(upload).collect();
    let executable = backend.compile(&Program::new("step", graph), &CompileOptions::default()).unwrap();
    let outputs = executable.execute(&buffers).unwrap();
    for (index, (output, expected)) in outputs.iter().zip(&expected).enumerate() {
        let (actual, expected) = (output.to_host().unwrap().to_f64s(), expected.to_f64s());
        let scale = expected.iter().fold(1.0f64, |scale, value| scale.max(value.abs()));
        let error = actual.iter().zip(&expected).map(|(a, e)| (a - e).abs()).fold(0.0, f64::max);
        assert!(error <= tolerance * scale, "{dtype:?} {size:?} deep: {deep}: output {index} is {error} off {scale}");
    }
}

#[test]
fn joined_steps_give_what_single_operations_give() {
    for size in [[12, 14], [13, 11]] {
        check(DType::F32, size, false, 1e-5);
        check(DType::F32, size, true, 1e-5);
        check(DType::BF16, size, false, 2e-2);
    }
}
