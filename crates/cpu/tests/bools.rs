//! Bools that loops read from working memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Shape, Trace};
use octant_runtime::{Backend, CompileOptions, Mesh, Program, Sharding};

/// With AVX-512, sixteen results were written over the bools of the 48 numbers behind them: what is chosen by a repeated mask and
/// padded was wrong from the seventeenth element on.
#[test]
fn bools_were_overwritten_by_the_results_before_them() {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [6, 4, 6]));
    let mask = trace.input("mask", Shape::new(DType::Bool, [24]));
    let repeated = mask.reshape(&[1, 24]).broadcast_to(&[6, 24]).reshape(&[6, 4, 6]);
    let sum = repeated.select(&x, &(&x * 2.0)) + &x;
    let padded = sum.pad(&sum.scalar_like(1.0), &[0, 0, 1], &[0; 3], &[0; 3]);
    let graph = trace.finish(&[padded]).unwrap();
    let numbers: Vec<f32> = (0..144).map(|number| (number as f32 * 0.37).sin() + 3.0).collect();
    let bools: Vec<f64> = (0..24).map(|number| f64::from(u8::from(number % 3 == 1))).collect();
    let inputs = [
        HostTensor::new([6, 4, 6], &numbers).unwrap(),
        HostTensor::from_f64s(Shape::new(DType::Bool, [24]), &bools).unwrap(),
    ];
    let expected = evaluate(&graph, &inputs).unwrap()[0].to_f64s();
    let backend = CpuBackend::with_threads(1).unwrap();
    let executable = backend.compile(&Program::new("padded", graph), &CompileOptions::default()).unwrap();
    let upload = |input: &HostTensor| backend.upload(input, &Mesh::single(), &Sharding::REPLICATED).unwrap();
    let buffers: Vec<_> = inputs.iter().map(upload).collect();
    assert_eq!(executable.execute(&buffers).unwrap()[0].to_host().unwrap().to_f64s(), expected);
}
