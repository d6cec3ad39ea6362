//! One program over eight devices means the same as on one.

use crate::client::{self, Run};
use octant_conformance::{Tolerance, values};
use octant_graph::{Convolution, DType, Graph, HostTensor, Reduction, Shape, Tensor, Trace, Window};
use octant_process::{Border, Filter, GaussianBlur, Method, Semantics, composites};
use octant_runtime::{Axis, Mesh, Program, Sharding};

/// A training step of a small convolutional network: forward, loss, gradients, momentum, statistics.
/// Inputs: two parameters, their momenta, images, labels, key. Outputs: parameters, momenta, loss, correct predictions.
fn training_step(batch: usize) -> Graph {
    let trace = Trace::new();
    let shapes = [vec![3, 3, 3, 8], vec![8, 5]];
    let input = |name: &str, dims: &[usize]| trace.input(name, Shape::new(DType::F32, dims));
    let parameters: Vec<Tensor> = shapes.iter().map(|dims| input("parameter", dims)).collect();
    let momenta: Vec<Tensor> = shapes.iter().map(|dims| input("momentum", dims)).collect();
    let images = trace.input("images", Shape::new(DType::U8, [batch, 8, 8, 3]));
    let labels = trace.input("labels", Shape::new(DType::I32, [batch]));
    let key = trace.input("key", Shape::new(DType::U32, [2]));
    let logits = network(&images, &parameters, &key);
    let right = labels.one_hot(5, DType::F32);
    let loss = -(&logits.log_softmax(1) * &right).sum_all() / batch as f64;
    let correct = logits.arg_max(1).1.equal(&labels).convert(DType::I32).sum_all();
    let gradients = trace.gradients(&loss, &parameters);
    let moved: Vec<Tensor> =
        momenta.iter().zip(&gradients).map(|(momentum, gradient)| momentum * 0.9 + gradient).collect();
    let updated = parameters.iter().zip(&moved).map(|(parameter, moved)| parameter - &(moved * 0.1));
    let outputs: Vec<Tensor> = updated.chain(moved.clone()).chain([loss, correct]).collect();
    trace.finish(&outputs).unwrap()
}

fn network(images: &Tensor, parameters: &[Tensor], key: &Tensor) -> Tensor {
    let trace = images.trace();
    let _scope = trace.scope("stem");
    let x = images.convert(DType::F32) / 9.0 - 0.5;
    let conv = Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) };
    let x = x.convolution(&parameters[0], conv);
    // Statistics over the whole batch, so that the devices must talk to each other in the forward pass too.
    let x = x.standardize(&[0, 1, 2], 1e-3).max(&x.scalar_like(0.0));
    let x = x.reduce_window(Reduction::Max, Window::new([1, 2, 2, 1]));
    let bits = key.random_bits(x.dims());
    let kept = bits.less(&bits.full_like(3e9)).convert(DType::F32);
    (&x * &kept).mean(&[1, 2]).matmul(&parameters[1])
}

fn inputs(batch: usize) -> Vec<HostTensor> {
    let small = |dims: &[usize]| values::between(-0.5, 0.5, DType::F32, dims);
    vec![
        small(&[3, 3, 3, 8]),
        small(&[8, 5]),
        HostTensor::zeros(Shape::new(DType::F32, [3, 3, 3, 8])),
        HostTensor::zeros(Shape::new(DType::F32, [8, 5])),
        values::ordinary(DType::U8, &[batch, 8, 8, 3]),
        values::between(0.0, 4.0, DType::I32, &[batch]),
        HostTensor::new([2], &[17u32, 4]).unwrap(),
    ]
}

/// Parameters and momenta are updated in place; the batch is split.
fn program(devices: usize, batch: usize) -> Program {
    let program =
        Program { donated: (0..4).map(|i| (i, i)).collect(), ..Program::new("train step", training_step(batch)) };
    let mut inputs = program.inputs.clone();
    inputs[4] = Sharding::split(0, [Axis::Data]);
    inputs[5] = Sharding::split(0, [Axis::Data]);
    Program { mesh: Mesh::new(devices), inputs, ..program }
}

#[test]
fn eight_devices_train_like_one() {
    let Some(python) = client::python() else { return };
    let batch = 32;
    let expected = octant_graph::evaluate::evaluate(&training_step(batch), &inputs(batch)).unwrap();
    // The optimizer's state split as well: every device keeps one eighth of a momentum.
    let mut split_state = program(8, batch);
    split_state.inputs[2] = Sharding::split(3, [Axis::Data]);
    split_state.outputs[2] = Sharding::split(3, [Axis::Data]);
    let programs = [program(1, batch), program(2, batch), program(8, batch), split_state];
    let runs: Vec<_> = programs.into_iter().map(|program| Run::new(program, inputs(batch))).collect();
    for (outcome, Run { program, .. }) in client::run(&python, &runs).into_iter().zip(&runs) {
        let outputs = outcome.unwrap_or_else(|problem| panic!("{} devices: {problem}", program.mesh.devices()));
        for (i, (given, expected)) in outputs.iter().zip(&expected).enumerate() {
            let near = Tolerance::chain(300.0, 1.0).check(given, expected);
            assert!(near.is_ok(), "output {i} on {} devices: {near:?}", program.mesh.devices());
        }
    }
}

/// Video frames that are resized into a frame and blurred, a share of them on each device.
#[test]
fn frames_over_eight_devices_are_what_one_device_gives() {
    let Some(python) = client::python() else { return };
    let trace = Trace::new();
    let images = trace.input("images", Shape::new(DType::U8, [16, 9, 14, 3]));
    let method = Method::new(Filter::Bilinear, Semantics::Torchvision);
    let padded = composites::resize_with_pad(&images, 12, 16, method, Border::Repeat).unwrap();
    let blur = GaussianBlur { sigma: 1.0, size: 5, semantics: Semantics::Torchvision };
    let graph = trace.finish(&[composites::blur(&padded, blur).unwrap()]).unwrap();
    let inputs = vec![values::ordinary(DType::U8, &[16, 9, 14, 3])];
    let expected = octant_graph::evaluate::evaluate(&graph, &inputs).unwrap();
    let over = |devices: usize| {
        let mut program = Program { mesh: Mesh::new(devices), ..Program::new("image", graph.clone()) };
        program.inputs.fill(Sharding::split(0, [Axis::Data]));
        program.outputs.fill(Sharding::split(0, [Axis::Data]));
        Run::new(program, inputs.clone())
    };
    let runs = [over(1), over(2), over(8)];
    for (outcome, Run { program, .. }) in client::run(&python, &runs).into_iter().zip(&runs) {
        let outputs = outcome.unwrap_or_else(|problem| panic!("{} devices: {problem}", program.mesh.devices()));
        let pairs = outputs[0].to_f64s().into_iter().zip(expected[0].to_f64s());
        let largest = pairs.map(|(given, expected)| (given - expected).abs()).fold(0.0, f64::max);
        // Sums in another order may round the other way.
        assert!(largest <= 1.0, "{} devices: {largest} levels", program.mesh.devices());
    }
}
