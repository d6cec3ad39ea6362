//! Blocks compiled by the machine's C compiler and run with as many threads as the block has, beside the evaluator.

use super::*;
use octant_graph::HostTensor;
use octant_graph::evaluate::evaluate;
use std::process::Command;

/// The elements of the outputs of a block, one output after the other.
fn computed(descriptor: &BlockDescriptor, body: &Graph, inputs: &[HostTensor]) -> Vec<Vec<f64>> {
    let mut arrays = String::new();
    let mut buffers = Vec::new();
    for tensor in inputs {
        let elements: Vec<String> = tensor.to_f64s().iter().map(|x| format!("{x:?}")).collect();
        let c_type = crate::c::c_type(tensor.dtype()).unwrap();
        arrays += &format!("static {c_type} in{}[] = {{{}}};\n", buffers.len(), elements.join(", "));
        buffers.push(format!("in{}", buffers.len()));
    }
    let mut prints = String::new();
    let shapes = body.output_shapes();
    for (number, shape) in shapes.iter().enumerate() {
        let (elements, c_type) = (shape.elements(), crate::c::c_type(shape.dtype()).unwrap());
        arrays += &format!("static {c_type} out{number}[{elements}];\n");
        prints += &format!("for (int i = 0; i < {elements}; i++) printf(\"%.9g\\n\", (double)out{number}[i]);\n");
        buffers.push(format!("out{number}"));
    }
    assert_eq!(descriptor.buffers, buffers.len());
    let program = format!(
        "#include <math.h>\n#include <pthread.h>\n#include <stdbool.h>\n#include <stdio.h>\n#define UNROLL\n\
         #define FETCH(to, buffer, count) for (unsigned i = thread; i < count; i += {threads}) \
         shared[to + i] = ((const float *)buffers[buffer])[i];\n#define FETCHED\n\
         #define barrier pthread_barrier_wait(&meeting)\nstatic pthread_barrier_t meeting;\n\
         {arrays}static float shared[{shared} / 4 + 1];\nstatic void *buffers[] = {{{buffers}}};\n\
         static void *work(void *argument) {{\nconst unsigned thread = (unsigned)(size_t)argument;\n{text}\nreturn 0;\n}}\n\
         int main(void) {{\npthread_t threads[{threads}];\npthread_attr_t small;\npthread_attr_init(&small);\n\
         pthread_attr_setstacksize(&small, 1 << 16);\npthread_barrier_init(&meeting, 0, {threads});\n\
         for (size_t i = 0; i < {threads}; i++) if (pthread_create(threads + i, &small, work, (void *)i)) return 1;\n\
         for (size_t i = 0; i < {threads}; i++) pthread_join(threads[i], 0);\n{prints}}}\n",
        threads = descriptor.threads,
        shared = descriptor.shared,
        buffers = buffers.join(", "),
        text = descriptor.body.replace("; ", ";\n"),
    );
    let folder = tempfile::tempdir().unwrap();
    let [source, binary] = ["block.c", "block"].map(|name| folder.path().join(name));
    std::fs::write(&source, &program).unwrap();
    let built = Command::new("cc").arg("-O1").arg(&source).arg("-o").arg(&binary).args(["-lm", "-lpthread"]).output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}\n{program}", String::from_utf8_lossy(&built.stderr));
    let printed = Command::new(&binary).output().unwrap();
    assert!(printed.status.success(), "{:?}", printed.status);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let mut numbers = printed.lines().map(|line| line.parse::<f64>().unwrap());
    shapes.iter().map(|shape| (&mut numbers).take(shape.elements()).collect()).collect()
}

/// That what `write` does to inputs of these shapes becomes blocks, and that these compute what their bodies say.
fn check(name: &str, inputs: &[&[usize]], write: impl Fn(&Trace, &[Tensor]) -> Vec<Tensor>) {
    let trace = Trace::new();
    let tensors: Vec<Tensor> =
        inputs.iter().enumerate().map(|(i, dims)| input(&trace, &format!("x{i}"), dims)).collect();
    let outputs = write(&trace, &tensors);
    let made = prepared(&trace.finish(&outputs).unwrap());
    let left = made.nodes().iter().filter(|node| matches!(node.op, Op::Reduce { .. } | Op::Unary(_))).count();
    assert_eq!(left, 0, "{name}: blocks compute everything\n{made}");
    for (hint, body) in blocks(&made) {
        let value = |input: usize, i: usize| ((i * 37 + input * 11) % 41) as f64 / 20.0 - 1.01;
        let values = |(input, shape): (usize, Shape)| {
            let values: Vec<f64> = (0..shape.elements()).map(|i| value(input, i)).collect();
            HostTensor::from_f64s(shape, &values).unwrap()
        };
        let inputs: Vec<HostTensor> = body.input_shapes().into_iter().enumerate().map(values).collect();
        let descriptor = BlockKernel::decode(&Encoded::of_hint(&hint)).unwrap();
        let (expected, actual) = (evaluate(&body, &inputs).unwrap(), computed(&descriptor, &body, &inputs));
        for (output, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
            let expected = expected.to_f64s();
            assert_eq!(actual.len(), expected.len(), "{name}");
            for (element, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
                let close = (actual - expected).abs() <= 2e-5 * (1.0 + expected.abs());
                let same = close || actual == expected || actual.is_nan() && expected.is_nan();
                assert!(same, "{name} {output} {element}: {actual} instead of {expected}\n{body}");
            }
        }
    }
}

#[test]
fn coefficients_of_norms_are_right() {
    for dims in [[512, 32], [1024, 16], [7, 5], [32, 300], [3, 1500], [2, 8], [32, 256], [1000, 1]] {
        check(&format!("norm {dims:?}"), &[&dims, &dims], |_, x| {
            let [offset, factor] = coefficients(&x[0], &x[1].square());
            vec![offset, factor]
        });
    }
}

#[test]
fn reductions_over_all_axes_are_right() {
    for dims in [[8, 16, 64], [5, 7, 11], [32, 2, 32], [2, 300, 3]] {
        for axes in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]] {
            check(&format!("{dims:?} over {axes:?}"), &[&dims], |_, x| {
                let largest = x[0].max_keep(axes);
                vec![(&x[0] - &largest).exp().sum(axes), largest.sum_all() + x[0].sum(axes).square()]
            });
        }
    }
}

#[test]
fn everything_that_moves_is_followed() {
    check("moves", &[&[6, 10], &[10, 6], &[4]], |_, x| {
        let transposed = x[0].transpose(&[1, 0]) * &x[1];
        let every_other = x[0].slice(&[1, 0], &[6, 9], &[2, 3]) * 3.0;
        let corners = every_other.reshape(&[9]).sum_all();
        let rows = transposed.reshape(&[5, 2, 3, 2]).sum(&[1, 2]);
        let spread = x[2].broadcast_in_dim(&[10, 4, 6], &[1]) + transposed.broadcast_in_dim(&[10, 4, 6], &[0, 2]);
        vec![spread.sum(&[0]) + &corners, rows + 1.0, corners.tanh()]
    });
}

#[test]
fn comparisons_and_choices_are_right() {
    check("choices", &[&[16, 32], &[16, 32]], |_, x| {
        let mean = x[0].mean_keep(&[1]).broadcast_to(&[16, 32]);
        let above = x[0].greater(&mean).and(&x[1].less_equal(&x[1].scalar_like(0.3)));
        let chosen = above.select(&x[0].logistic(), &(&x[1] * &mean));
        let counted = above.convert(DType::F32).sum(&[0]);
        vec![above.not(), chosen.clone(), counted / 16.0, chosen.reduce_max(&[1]) + &chosen.sum(&[1])]
    });
}

#[test]
fn attention_over_channels_and_its_gradients_are_right() {
    for [images, channels, hidden] in [[32, 64, 4], [3, 16, 1], [32, 32, 2]] {
        let shapes: [&[usize]; 5] =
            [&[images, channels], &[images, channels], &[channels, hidden], &[hidden, channels], &[images, channels]];
        check(&format!("attention of {channels}"), &shapes, |trace, x| {
            let dense = |pooled: &Tensor| pooled.matmul(&x[2]).relu().matmul(&x[3]);
            let attention = (dense(&x[0]) + dense(&x[1])).logistic();
            let mut made = trace.vjp(std::slice::from_ref(&attention), &x[4..], &x[..4]);
            made.push(attention);
            made.iter().map(|tensor| tensor * 2.0).collect()
        });
    }
}
