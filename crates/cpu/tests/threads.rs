//! Results do not depend on the number of threads, bit for bit.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_graph::{Convolution, DType, HostTensor, Shape, Tensor, Trace};
use octant_runtime::{Backend, CompileOptions, Mesh, Program, Sharding};

/// A step with everything that sums over many elements: convolutions and their gradients, norms, products, pooling.
fn step() -> Program {
    let trace = Trace::new();
    let images = trace.input("images", Shape::new(DType::F32, [6, 40, 37, 3]));
    let kernels = [[3, 3, 3, 24], [3, 3, 24, 33]].map(|dims| trace.input("kernel", Shape::new(DType::F32, dims)));
    let dense = trace.input("dense", Shape::new(DType::F32, [33, 10]));
    let mut x = images;
    for kernel in &kernels {
        let mut conv = Convolution::nhwc(2, DType::F32);
        (conv.strides, conv.padding) = (vec![2, 1], vec![(1, 1), (1, 1)]);
        x = x.convolution(kernel, conv);
        let mean = x.mean(&[0, 1, 2]);
        let centered = &x - &mean;
        let variance = (&centered * &centered).mean(&[0, 1, 2]);
        let normal = centered * (variance + 1e-5).rsqrt();
        x = normal.max(&normal.zeros_like());
    }
    let logits = x.mean(&[1, 2]).matmul(&dense);
    let loss = logits.exp().sum_all().log();
    let parameters: Vec<Tensor> = kernels.iter().cloned().chain([dense]).collect();
    let gradients = trace.gradients(&loss, &parameters);
    Program::new("step", trace.finish(&[vec![loss], gradients].concat()).unwrap())
}

fn run(threads: usize) -> Vec<HostTensor> {
    let backend = CpuBackend::with_threads(threads).unwrap();
    let program = step();
    let inputs: Vec<_> = program
        .graph
        .input_shapes()
        .into_iter()
        .map(|shape| {
            let values: Vec<f64> =
                (0..shape.elements()).map(|i| ((i * 7919 % 1000) as f64 / 1000.0 - 0.5) * 0.3).collect();
            let tensor = HostTensor::from_f64s(shape, &values).unwrap();
            backend.upload(&tensor, &Mesh::single(), &Sharding::REPLICATED).unwrap()
        })
        .collect();
    let executable = backend.compile(&program, &CompileOptions::default()).unwrap();
    let outputs = executable.execute(&inputs).unwrap();
    outputs.iter().map(|output| output.to_host().unwrap()).collect()
}

#[test]
fn one_two_and_seven_threads_give_the_same_bits() {
    let expected = run(1);
    assert!(expected.iter().all(|tensor| tensor.to_f64s().iter().any(|&value| value != 0.0)));
    for threads in [2, 7] {
        assert_eq!(run(threads), expected, "with {threads} threads");
    }
}
