//! Packing of narrow images: the same results, gradients included, and only where it helps.

use octant_graph::composites::{PaddingCounts, Pool};
use octant_graph::evaluate::evaluate;
use octant_graph::passes::{optimize, pack_narrow_images};
use octant_graph::verify::verify;
use octant_graph::{Convolution, DType, Graph, HostTensor, Op, Shape, Tensor, Trace};
use proptest::prelude::*;

const CHANNELS: usize = 6;

fn fill(shape: &Shape, seed: usize) -> HostTensor {
    let value = |index: usize| ((index * 7 + seed * 13) as f64 * 0.37 + 0.2).sin();
    HostTensor::from_f64s(shape.clone(), &(0..shape.elements()).map(value).collect::<Vec<_>>()).unwrap()
}

/// Inputs, synthesized from their shapes.
fn inputs(graph: &Graph) -> Vec<HostTensor> {
    graph.input_shapes().iter().enumerate().map(|(seed, shape)| fill(shape, seed)).collect()
}

/// Channels of the images that convolutions read.
fn convolved_channels(graph: &Graph) -> Vec<usize> {
    let convolutions = graph.nodes().iter().filter(|node| matches!(node.op, Op::Convolution(_)));
    convolutions.map(|node| *graph.shape(node.inputs[0]).dims().last().unwrap()).collect()
}

/// Packs a graph and compares the results; returns the packed one.
fn packed(graph: &Graph) -> Graph {
    let packed = pack_narrow_images(graph);
    verify(&packed).unwrap();
    let inputs = inputs(graph);
    let (expected, given) = (evaluate(graph, &inputs).unwrap(), evaluate(&packed, &inputs).unwrap());
    for (index, (expected, given)) in expected.iter().zip(&given).enumerate() {
        assert_eq!(expected.shape(), given.shape(), "output {index}");
        let (expected, given) = (expected.to_f64s(), given.to_f64s());
        // Norms compute in f32, so sums in another order differ that much.
        let allowed = 3e-5 * expected.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
        for (position, (a, b)) in expected.into_iter().zip(given).enumerate() {
            let near = (a - b).abs() <= allowed || (a.is_nan() && b.is_nan());
            assert!(near, "output {index} at {position}: {a} became {b}\n{graph}\n{packed}");
        }
    }
    packed
}

/// A network under construction, with a new kernel for every convolution.
struct Network {
    trace: Trace,
    kernels: Vec<Tensor>,
}

impl Network {
    fn conv(&mut self, x: &Tensor, channels: usize, size: usize, stride: usize) -> Tensor {
        let shape = Shape::new(DType::F64, [size, size, x.channels(), channels]);
        let kernel = self.trace.input(&format!("kernel{}", self.kernels.len()), shape);
        let low = (size as i64 - 1) / 2;
        // As PyTorch pads; an even kernel has its additional row and column at the end.
        let padding = vec![(low, size as i64 - 1 - low); 2];
        let conv = Convolution { strides: vec![stride; 2], padding, ..Convolution::nhwc(2, DType::F64) };
        self.kernels.push(kernel.clone());
        x.convolution(&kernel, conv)
    }
}

/// The results of a network, and the gradients of their squares with respect to kernels and images.
fn with_gradients(size: [usize; 2], network: impl FnOnce(&mut Network, &Tensor) -> Tensor) -> Graph {
    let trace = Trace::new();
    let images = trace.input("images", Shape::new(DType::F64, [2, size[0], size[1], CHANNELS]));
    let mut made = Network { trace: trace.clone(), kernels: vec![] };
    let result = network(&mut made, &images);
    let loss = result.square().sum_all();
    let wanted = [&made.kernels[..], &[images]].concat();
    let gradients = trace.gradients(&loss, &wanted);
    optimize(trace.finish(&[&[result, loss], &gradients[..]].concat()).unwrap())
}

/// One network per kind of operation between two convolutions, which make packing worth while.
#[test]
fn every_packed_operation_computes_the_same() {
    type Middle = fn(&mut Network, Tensor) -> Tensor;
    let middles: [(&str, Middle); 18] = [
        ("relu", |_, x| x.relu()),
        ("norm over the batch", |_, x| x.standardize(&[0, 1, 2], 1e-3)),
        ("weights per image and channel", |_, x| &x * x.mean_keep(&[1, 2]).logistic()),
        ("mean over channels", |_, x| &x * x.mean_keep(&[3])),
        ("max over channels", |_, x| &x - x.max_keep(&[3])),
        ("softmax over channels", |_, x| x.log_softmax(3)),
        ("groups of the batch", |_, x| {
            let dims = [&[2, 1], &x.dims()[1..]].concat();
            x.reshape(&dims).standardize(&[1, 2, 3], 1e-3).reshape(x.dims())
        }),
        ("one pixel", |_, x| &x - x.slice(&[0, 3, 2, 0], &[1, 4, 3, CHANNELS], &[1; 4])),
        ("some channels", |_, x| x.slice_axis(3, 1, 4)),
        ("one image of two", |_, x| x.slice_axis(0, 1, 2)),
        ("concatenated channels", |_, x| Tensor::concatenate(&[x.clone(), x.tanh(), x.slice_axis(3, 0, 1)], 3)),
        ("more channels of zeros", |_, x| x.pad(&x.scalar_like(0.5), &[0, 0, 0, 1], &[0, 0, 0, 2], &[0; 4])),
        ("a barrier", |_, x| x.trace().barrier(&[x.clone(), x.sum_keep(&[3])]).remove(0)),
        ("a choice", |_, x| x.greater(&x.scalar_like(0.1)).select(&x, &(&x * 0.1))),
        ("another type", |_, x| (x.convert(DType::F32) * 0.5).convert(DType::F64)),
        ("what has no packed form", |_, x| x.reverse(&[1]).transpose(&[0, 2, 1, 3])),
        ("one map per image", |n, x| n.conv(&x, 1, 7, 1).logistic() * x),
        ("a recomputed block", |_, x| {
            x.trace().call(std::slice::from_ref(&x), true, |x| vec![x[0].tanh() * 2.0]).remove(0)
        }),
    ];
    for (name, middle) in middles {
        let graph = with_gradients([8, 8], |network, images| {
            let x = network.conv(images, CHANNELS, 3, 1);
            let x = network.conv(&x, CHANNELS, 3, 1);
            let x = middle(network, x);
            let x = network.conv(&x, CHANNELS, 3, 1);
            network.conv(&x, 5, 3, 1)
        });
        let given = packed(&graph);
        assert!(convolved_channels(&given).contains(&(4 * CHANNELS)), "{name} is not packed\n{given}");
    }
}

#[test]
fn convolutions_of_all_sizes_are_packed() {
    for (size, stride) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (7, 1), (2, 2), (3, 2), (4, 2), (5, 2), (7, 2)] {
        let graph = with_gradients([12, 8], |network, images| {
            let x = network.conv(images, CHANNELS, 3, 1);
            network.conv(&x, 5, size, stride)
        });
        let given = packed(&graph);
        let channels = convolved_channels(&given);
        let plain = channels.iter().filter(|&&channels| channels == CHANNELS).count();
        assert_eq!(plain, 0, "size {size}, stride {stride}: {channels:?}");
    }
}

#[test]
fn poolings_of_blocks_and_their_gradients_are_packed() {
    let pools: [fn(&Tensor) -> Tensor; 3] = [
        |x| x.max_pool(Pool::square(2, 2)),
        |x| x.avg_pool(Pool::square(2, 2), PaddingCounts::Yes),
        // Equal pixels: the first of them takes the gradient.
        |x| x.relu().max_pool(Pool::square(2, 2)),
    ];
    for pool in pools {
        let graph = with_gradients([8, 12], |network, images| {
            let x = network.conv(images, CHANNELS, 3, 1);
            let x = network.conv(&x, CHANNELS, 3, 1);
            let x = pool(&network.conv(&x, CHANNELS, 3, 1));
            network.conv(&x, 5, 3, 1)
        });
        assert!(convolved_channels(&packed(&graph)).contains(&(4 * CHANNELS)));
    }
}

#[test]
fn wide_images_and_odd_sizes_stay_as_they_are() {
    let network = |channels: usize, size: usize| {
        with_gradients([size, size], |network, images| {
            let x = network.conv(images, channels, 3, 1);
            network.conv(&x, channels, 3, 1)
        })
    };
    let odd = network(CHANNELS, 9);
    assert_eq!(pack_narrow_images(&odd), odd);
    let wide = network(128, 8);
    let given = convolved_channels(&pack_narrow_images(&wide));
    assert!(given.iter().all(|&channels| channels <= 128), "{given:?}");
}

/// A convolution between operations that cannot be packed: converting costs more than it saves.
#[test]
fn one_convolution_is_not_worth_two_conversions() {
    let graph = with_gradients([8, 8], |network, images| {
        let x = network.conv(&images.reverse(&[1]), CHANNELS, 1, 1);
        x.reverse(&[2]).transpose(&[0, 2, 1, 3])
    });
    assert_eq!(pack_narrow_images(&graph), graph);
}

/// One line of a random network.
type Line = (u8, usize, usize);

fn perform(network: &mut Network, &(what, _, choice): &Line, x: &Tensor, y: &Tensor) -> Tensor {
    let alike = x.dims() == y.dims();
    match what {
        0 => network.conv(x, 4 + choice, 3, 1),
        1 => network.conv(x, CHANNELS, 1, 1),
        2 => network.conv(x, CHANNELS, 1 + choice, 1),
        3 if x.dim(1).is_multiple_of(4) => network.conv(x, CHANNELS, 2 + choice, 2),
        4 if x.dim(1).is_multiple_of(4) => x.max_pool(Pool::square(2, 2)),
        5 => x.standardize(&[0, 1, 2], 1e-2),
        6 => x * x.mean_keep(&[3]).logistic(),
        7 => x * x.max_keep(&[1, 2]).tanh(),
        8 if alike => x + y,
        // An enlarged image is compared with itself, enlarged otherwise: their equal pixels must not be near the jump.
        9 if alike => x.less(&(y * 0.7 + 0.01)).select(x, &(y * 0.5)),
        10 if x.dims()[..3] == y.dims()[..3] && x.channels() < 20 => Tensor::concatenate(&[x.clone(), y.clone()], 3),
        11 => x.slice_axis(3, choice % x.channels(), x.channels()),
        12 => x.reverse(&[1 + choice % 2]),
        13 if x.dim(1) < 16 => x.upsample_nearest(2),
        14 if x.dim(1) < 16 => x.resize_bilinear(x.dim(1) * 2, x.dim(2) * 2, true),
        _ => x.tanh(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn random_networks_compute_the_same_when_packed(lines in prop::collection::vec((0u8..16, any::<usize>(), 0usize..4), 3..12)) {
        let graph = with_gradients([8, 8], |network, images| {
            let first = network.conv(images, CHANNELS, 3, 1);
            let mut values = vec![network.conv(&first, CHANNELS, 3, 1)];
            for line in &lines {
                // Mostly the latest value, sometimes one before.
                let x = values[values.len() - 1 - (line.1 % 4 / 3).min(values.len() - 1)].clone();
                let y = values[line.1 % values.len()].clone();
                values.push(perform(network, line, &x, &y));
            }
            let sums: Vec<Tensor> = values.iter().map(|value| value.mean(&[1, 2, 3])).collect();
            sums.into_iter().reduce(|sum, value| sum + value).unwrap()
        });
        packed(&graph);
    }
}
