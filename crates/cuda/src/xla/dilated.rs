//! Convolutions with dilated kernels as plain ones.
//!
//! The first kernel that cuDNN has for a dilated convolution can be one without tensor cores (DeepLabV3 trained at 80 images/s on an
//! H200, 92 % of it there), and for some there is none. A kernel whose taps are d pixels apart reads every d-th pixel, so the d × d
//! phases of an image are images of their own, each convolved with the same dense kernel. For the gradient of the kernel the
//! phases are summed, as the images of a batch are.

use octant_graph::passes::rewrite;
use octant_graph::{Convolution, Graph, Node, Op, Tensor, Trace};

/// The same graph, where convolutions with dilated kernels and the gradients of their kernels read phases of their images.
pub fn split_dilated(graph: &Graph) -> Graph {
    rewrite(graph, |node| {
        let (conv, split) = dilated(graph, node)?;
        let trace = Trace::new();
        let [image, window] = [("image", 0), ("window", 1)]
            .map(|(name, input)| trace.input(name, graph.shape(node.inputs[input]).clone()));
        let result = graph.shape(node.outputs[0]).dims();
        let result = match split {
            Split::Batch => by_batch(conv, &image, &window, result),
            Split::Sum => by_sum(conv, &image, &window, result),
        };
        trace.finish(&[result]).ok()
    })
}

/// How far a kernel may reach, in lengths of its image: DeepLabV3's largest rate, 36, on 256 pixels.
const FARTHEST: usize = 3;

/// The shortest side that is worth its copies. The gradients of small kernels have shorter ones: those of strided convolutions over
/// few pixels look like dilated convolutions.
const SHORTEST: usize = 8;

/// Where the phases of the image go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    /// Each is an image of its own: the kernel is dilated.
    Batch,
    /// They are summed: the result is the gradient of a dilated kernel.
    Sum,
}

fn dilated<'g>(graph: &'g Graph, node: &'g Node) -> Option<(&'g Convolution, Split)> {
    let Op::Convolution(conv) = &node.op else { return None };
    let [image, window] = [0, 1].map(|input| graph.shape(node.inputs[input]).dims());
    let result = graph.shape(node.outputs[0]).dims();
    let lengths = |dims: &[usize], axes: &[usize]| axes.iter().map(|&axis| dims[axis]).collect::<Vec<_>>();
    let [image, taps, outputs] = [
        lengths(image, &conv.input.spatial),
        lengths(window, &conv.kernel.spatial),
        lengths(result, &conv.output.spatial),
    ];
    let dense = |steps: &[usize]| steps.iter().all(|&step| step == 1);
    let is_empty = [&image, &taps, &outputs].iter().any(|lengths| lengths.contains(&0));
    if is_empty || !dense(&conv.input_dilation) || conv.batch_groups != 1 {
        return None;
    }
    let smaller = |a: &[usize], b: &[usize]| a.iter().zip(b).all(|(a, b)| a < b);
    // Zeros beyond the edges are copied as well; with too many of them a slow kernel costs less.
    let reaches_far = |taps: &[usize], steps: &[usize]| {
        (0..image.len()).any(|axis| (taps[axis] - 1) * steps[axis] > FARTHEST * image[axis])
    };
    let is_worth_it = |lengths: &[usize]| lengths.iter().all(|&length| length >= SHORTEST);
    if dense(&conv.strides) && !dense(&conv.kernel_dilation) && smaller(&taps, &outputs) && is_worth_it(&outputs) {
        return (!reaches_far(&taps, &conv.kernel_dilation)).then_some((conv, Split::Batch));
    }
    let is_gradient = dense(&conv.kernel_dilation) && !dense(&conv.strides) && smaller(&outputs, &taps);
    let is_plain = is_gradient && is_worth_it(&taps) && conv.feature_groups == 1 && !conv.reversed;
    (is_plain && !reaches_far(&outputs, &conv.strides)).then_some((conv, Split::Sum))
}

/// `y[q·d + r] = Σ_t x[(q + t)·d + r - p] · k[t]`, for every phase r.
fn by_batch(conv: &Convolution, image: &Tensor, window: &Tensor, result: &[usize]) -> Tensor {
    let (axes, steps) = (&conv.input.spatial, &conv.kernel_dilation);
    let outputs: Vec<usize> = conv.output.spatial.iter().map(|&axis| result[axis]).collect();
    let whole: Vec<usize> = outputs.iter().zip(steps).map(|(output, &step)| output.next_multiple_of(step)).collect();
    let lengths: Vec<usize> = (0..axes.len())
        .map(|axis| whole[axis] + (window.dims()[conv.kernel.spatial[axis]] - 1) * steps[axis])
        .collect();
    let image = resized(image, axes, &lows(conv), &lengths);
    let image = phases(&image, axes, steps, conv.input.batch);
    let phases = image.convolution(window, plain(conv));
    let joined = joined(&phases, &conv.output.spatial, steps, conv.output.batch);
    resized(&joined, &conv.output.spatial, &vec![0; axes.len()], &outputs)
}

/// `y[t] = Σ_o x[t·d + o - p] · w[o]`, with `o = q·d + r` summed over every phase r as well.
fn by_sum(conv: &Convolution, image: &Tensor, window: &Tensor, result: &[usize]) -> Tensor {
    let (axes, steps) = (&conv.input.spatial, &conv.strides);
    let taps: Vec<usize> = conv
        .kernel
        .spatial
        .iter()
        .zip(steps)
        .map(|(&axis, &step)| window.dims()[axis].next_multiple_of(step))
        .collect();
    let lengths: Vec<usize> =
        (0..axes.len()).map(|axis| taps[axis] + (result[conv.output.spatial[axis]] - 1) * steps[axis]).collect();
    let image = phases(&resized(image, axes, &lows(conv), &lengths), axes, steps, conv.input.feature);
    let window = resized(window, &conv.kernel.spatial, &vec![0; axes.len()], &taps);
    image.convolution(&phases(&window, &conv.kernel.spatial, steps, conv.kernel.input), plain(conv))
}

fn lows(conv: &Convolution) -> Vec<i64> {
    conv.padding.iter().map(|&(low, _)| low).collect()
}

fn plain(conv: &Convolution) -> Convolution {
    let ones = vec![1; conv.strides.len()];
    let padding = vec![(0, 0); conv.strides.len()];
    Convolution { strides: ones.clone(), kernel_dilation: ones, padding, ..conv.clone() }
}

/// These axes with `low` zeros in front, and zeros behind or cut off, so that they have these lengths.
fn resized(value: &Tensor, axes: &[usize], low: &[i64], lengths: &[usize]) -> Tensor {
    let mut edges = [vec![0; value.rank()], vec![0; value.rank()]];
    for ((&axis, &low), &length) in axes.iter().zip(low).zip(lengths) {
        edges[0][axis] = low;
        edges[1][axis] = length as i64 - value.dims()[axis] as i64 - low;
    }
    match edges.iter().flatten().all(|&edge| edge == 0) {
        true => value.clone(),
        false => value.pad(&value.trace().scalar(value.dtype(), 0.0), &edges[0], &edges[1], &vec![0; value.rank()]),
    }
}

/// Every axis of `axes` split into its steps and the phase between two of them; the phases are moved behind the axis `to`, and
/// become its inner part, so that a batch which is divided between devices stays divided.
fn phases(value: &Tensor, axes: &[usize], steps: &[usize], to: usize) -> Tensor {
    let (mut split, mut merged, mut places) = (Vec::new(), value.dims().to_vec(), Vec::new());
    let mut between = Vec::new();
    for axis in 0..value.rank() {
        places.push(split.len());
        match axes.iter().position(|&other| other == axis) {
            Some(index) => {
                split.extend([value.dims()[axis] / steps[index], steps[index]]);
                between.push(split.len() - 1);
                merged[axis] /= steps[index];
                merged[to] *= steps[index];
            }
            None => split.push(value.dims()[axis]),
        }
    }
    let order: Vec<usize> = (0..value.rank())
        .flat_map(|axis| if axis == to { [&[places[axis]], &between[..]].concat() } else { vec![places[axis]] })
        .collect();
    value.reshape(&split).transpose(&order).reshape(&merged)
}

/// The reverse of [`phases`].
fn joined(value: &Tensor, axes: &[usize], steps: &[usize], from: usize) -> Tensor {
    let (mut split, mut merged, mut places) = (Vec::new(), value.dims().to_vec(), Vec::new());
    let mut sorted: Vec<(usize, usize)> = axes.iter().copied().zip(steps.iter().copied()).collect();
    sorted.sort_unstable();
    let count: usize = steps.iter().product();
    let mut between = 0;
    for axis in 0..value.rank() {
        places.push(split.len());
        if axis == from {
            merged[axis] /= count;
            between = split.len() + 1;
        }
        split.push(merged[axis]);
        if axis == from {
            split.extend(sorted.iter().map(|&(_, step)| step));
        }
    }
    let order: Vec<usize> = (0..value.rank())
        .flat_map(|axis| match sorted.iter().position(|&(other, _)| other == axis) {
            Some(index) => vec![places[axis], between + index],
            None => vec![places[axis]],
        })
        .collect();
    sorted.iter().for_each(|&(axis, step)| merged[axis] *= step);
    value.reshape(&split).transpose(&order).reshape(&merged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use super::*;
    use crate::passes::tests::assert_same;
    use octant_graph::op::{ImageAxes, KernelAxes};
    use octant_graph::{DType, Shape};

    /// A convolution of a 3 × 2 kernel whose taps are that far apart, and its gradients.
    fn graph(steps: [usize; 2], strides: usize, padding: (i64, i64), groups: usize) -> Graph {
        let trace = Trace::new();
        let x = trace.input("x", Shape::new(DType::F32, [2, 13, 10, 4]));
        let kernel = trace.input("kernel", Shape::new(DType::F32, [3, 2, 4 / groups, 6]));
        let conv = Convolution {
            input: ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] },
            kernel: KernelAxes { input: 2, output: 3, spatial: vec![0, 1] },
            output: ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] },
            strides: vec![strides; 2],
            padding: vec![padding; 2],
            input_dilation: vec![1; 2],
            kernel_dilation: steps.to_vec(),
            reversed: false,
            feature_groups: groups,
            batch_groups: 1,
            dtype: DType::F32,
        };
        let y = x.convolution(&kernel, conv);
        let gradients = trace.gradients(&(&y * &y).sum_all(), &[x, kernel]);
        trace.finish(&[&[y][..], &gradients].concat()).unwrap()
    }

    fn dilated_ones(graph: &Graph) -> Vec<Split> {
        graph.nodes().iter().filter_map(|node| Some(dilated(graph, node)?.1)).collect()
    }

    #[test]
    fn dilated_convolutions_and_their_gradients_read_phases() {
        for (steps, padding) in [
            ([2, 2], (2, 2)),
            ([2, 3], (0, 1)),
            ([3, 1], (3, 2)),
            ([4, 4], (3, 4)),
            ([2, 2], (-1, 3)),
            ([9, 7], (9, 7)),
        ] {
            let graph = graph(steps, 1, padding, 1);
            assert_eq!(dilated_ones(&graph), [Split::Batch, Split::Batch, Split::Sum], "{steps:?}");
            let made = split_dilated(&graph);
            assert_eq!(dilated_ones(&made), []);
            assert_same(&graph, &made);
        }
    }

    #[test]
    fn groups_share_their_phases_and_keep_the_gradient_of_their_kernel() {
        let graph = graph([2, 2], 1, (2, 2), 2);
        assert_eq!(dilated_ones(&graph), [Split::Batch, Split::Batch]);
        assert_same(&graph, &split_dilated(&graph));
    }

    #[test]
    fn what_is_not_dilated_or_reaches_far_beyond_the_edges_stays() {
        for graph in [graph([1, 1], 1, (1, 1), 1), graph([1, 1], 2, (1, 1), 1), graph([40, 40], 1, (40, 40), 1)] {
            assert_eq!(split_dilated(&graph).to_string(), graph.to_string());
        }
    }
}
